//! Requests to fake providers, and checks of the response.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use toolwire_testkit::provider::{API_KEY, Api, FakeProvider, ModelOutput, check_request, render};

/// A PNG of one pixel.
pub(crate) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
/// The beginning of a JPEG.
pub(crate) const JPEG: &str = "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBD";

/// A request that a test sends or checks.
pub(crate) struct TestRequest {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl TestRequest {
    pub(crate) fn new(path: &str, headers: &[(&str, &str)], body: Value) -> TestRequest {
        let mut request = TestRequest { path: path.to_owned(), headers: HeaderMap::new(), body };
        request.set_header("content-type", "application/json");
        headers.iter().for_each(|(name, value)| request.set_header(name, value));
        request
    }

    pub(crate) fn set_header(&mut self, name: &str, value: &str) {
        let name: HeaderName = name.parse().unwrap();
        self.headers.insert(name, HeaderValue::from_str(value).unwrap());
    }

    /// Changes the request, and checks that the API rejects it with this status and body.
    #[track_caller]
    pub(crate) fn check_rejected(
        mut self,
        api: Api,
        change: impl FnOnce(&mut TestRequest),
        status: u16,
        body: Value,
    ) {
        change(&mut self);
        let rejection = check_request(api, &self.headers, &self.path, &self.body).err();
        assert_eq!(rejection.map(|rejection| (rejection.status, rejection.body)), Some((status, body)));
    }

    /// Changes the request, and checks that the API accepts it.
    #[track_caller]
    pub(crate) fn check_accepted(mut self, api: Api, change: impl FnOnce(&mut TestRequest)) {
        change(&mut self);
        assert_eq!(check_request(api, &self.headers, &self.path, &self.body), Ok(()));
    }
}

pub(crate) fn bearer() -> String {
    format!("Bearer {API_KEY}")
}

/// Returns the error body of OpenAI and of compatible APIs.
pub(crate) fn openai_error(message: &str, parameter: Option<&str>, code: Option<&str>) -> Value {
    json!({"error": {"message": message, "type": "invalid_request_error", "param": parameter, "code": code}})
}

/// Returns the complete response of an API as JSON.
pub(crate) fn rendered(api: Api, output: &ModelOutput) -> Value {
    let rendered = render(api, output, false);
    assert_eq!(rendered.len(), 1);
    serde_json::from_slice(&rendered[0]).unwrap()
}

/// Sends a request to a running provider.
pub(crate) async fn send(
    provider: &FakeProvider,
    request: &TestRequest,
) -> reqwest::Result<reqwest::Response> {
    toolwire_testkit::http_client()
        .post(format!("{}{}", provider.origin(), request.path))
        .headers(request.headers.clone())
        .body(request.body.to_string())
        .send()
        .await
}

/// Returns the chunks of a body as they arrive, and whether the connection broke.
pub(crate) async fn chunks(mut response: reqwest::Response) -> (Vec<Vec<u8>>, bool) {
    let mut chunks = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => chunks.push(chunk.to_vec()),
            Ok(None) => return (chunks, false),
            Err(_) => return (chunks, true),
        }
    }
}
