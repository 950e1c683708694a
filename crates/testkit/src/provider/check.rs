//! Deciding whether the real API would accept a request.

use http::HeaderMap;
use serde_json::Value;

use super::{Api, anthropic, bedrock, chat, cohere, gemini, ollama, responses};

/// The response of an API to a request that it rejects.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rejection {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// The error in the provider's own format.
    pub body: Value,
}

impl Rejection {
    pub(super) fn new(status: u16, body: Value) -> Rejection {
        Rejection { status, headers: Vec::new(), body }
    }
}

/// Checks a request as the API does. `path` includes the query.
///
/// Only the form of a Bedrock signature is checked here; a [`super::FakeProvider`] also verifies the
/// signature.
///
/// # Errors
///
/// The API's own error for the first rule that the request breaks.
pub fn check_request(api: Api, headers: &HeaderMap, path: &str, body: &Value) -> Result<(), Rejection> {
    let request = ApiRequest { headers, target: RequestTarget::parse(path), body };
    match api {
        Api::Responses => responses::check(&request),
        Api::Anthropic => anthropic::check(&request),
        Api::Gemini => gemini::check(&request),
        Api::Bedrock => bedrock::check(&request),
        Api::Cohere => cohere::check(&request),
        Api::Ollama => ollama::check(&request),
        chat_flavour => chat::check(chat_flavour, &request),
    }
}

/// A request to check.
pub(super) struct ApiRequest<'request> {
    pub(super) headers: &'request HeaderMap,
    pub(super) target: RequestTarget<'request>,
    pub(super) body: &'request Value,
}

impl ApiRequest<'_> {
    /// Returns the value of a header, if it is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Returns the key of `Authorization: Bearer`.
    pub(super) fn bearer(&self) -> Option<&str> {
        self.header("authorization")?.strip_prefix("Bearer ")
    }

    /// Whether the content type is JSON.
    pub(super) fn is_json(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.split(';').next() == Some("application/json"))
    }
}

/// The path and the query of a request.
pub(super) struct RequestTarget<'request> {
    pub(super) path: &'request str,
    query: &'request str,
}

impl<'request> RequestTarget<'request> {
    pub(super) fn parse(target: &'request str) -> RequestTarget<'request> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        RequestTarget { path, query }
    }

    /// Returns a value of the query, still percent-encoded.
    pub(super) fn query(&self, name: &str) -> Option<&'request str> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
    }
}
