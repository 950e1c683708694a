//! Asking a provider, and a good request to change.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use toolwire_testkit::provider::{Api, KEY, Provider, judge};

/// A PNG of one pixel, and the beginning of a JPEG.
pub(crate) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
pub(crate) const JPEG: &str = "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBD";

/// A request as a client would send it.
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn new(path: &str, headers: &[(&str, &str)], body: Value) -> Asked {
        let mut asked = Asked { path: path.to_owned(), headers: HeaderMap::new(), body };
        asked.header("content-type", "application/json");
        headers.iter().for_each(|(name, value)| asked.header(name, value));
        asked
    }

    pub(crate) fn header(&mut self, name: &str, value: &str) {
        let name: HeaderName = name.parse().unwrap();
        self.headers.insert(name, HeaderValue::from_str(value).unwrap());
    }

    /// The status and the body of the refusal, or that there is none.
    pub(crate) fn judged(&self, api: Api) -> Option<(u16, Value)> {
        let refusal = judge(api, &self.headers, &self.path, &self.body).err()?;
        Some((refusal.status, refusal.body))
    }
}

pub(crate) fn bearer() -> String {
    format!("Bearer {KEY}")
}

/// Sends a request to a running provider.
pub(crate) async fn send(provider: &Provider, asked: &Asked) -> reqwest::Result<reqwest::Response> {
    reqwest::Client::new()
        .post(format!("{}{}", provider.origin(), asked.path))
        .headers(asked.headers.clone())
        .body(asked.body.to_string())
        .send()
        .await
}

/// The pieces of a body as they arrive, and whether it broke off.
pub(crate) async fn pieces(mut response: reqwest::Response) -> (Vec<Vec<u8>>, bool) {
    let mut pieces = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(piece)) => pieces.push(piece.to_vec()),
            Ok(None) => return (pieces, false),
            Err(_) => return (pieces, true),
        }
    }
}
