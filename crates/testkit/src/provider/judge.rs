//! Whether the real API would take a request.

use http::HeaderMap;
use serde_json::Value;

use super::{Api, anthropic, bedrock, chat, cohere, gemini, ollama, responses};

/// What an API answers to a request it does not take.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    /// In the provider's own format.
    pub body: Value,
}

impl Refusal {
    pub(super) fn new(status: u16, body: Value) -> Refusal {
        Refusal { status, headers: Vec::new(), body }
    }
}

/// Judges a request as the API does. `path` is all of it, with the query.
///
/// The signature of a request to Bedrock is looked at for its form only; a [`super::Provider`] also checks it.
pub fn judge(api: Api, headers: &HeaderMap, path: &str, body: &Value) -> Result<(), Refusal> {
    let request = Request { headers, target: Target::of(path), body };
    match api {
        Api::Responses => responses::judge(&request),
        Api::Anthropic => anthropic::judge(&request),
        Api::Gemini => gemini::judge(&request),
        Api::Bedrock => bedrock::judge(&request),
        Api::Cohere => cohere::judge(&request),
        Api::Ollama => ollama::judge(&request),
        of_the_chat_family => chat::judge(of_the_chat_family, &request),
    }
}

/// A request as it is judged.
pub(super) struct Request<'request> {
    pub(super) headers: &'request HeaderMap,
    pub(super) target: Target<'request>,
    pub(super) body: &'request Value,
}

impl Request<'_> {
    /// A header that is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The key of `Authorization: Bearer`.
    pub(super) fn bearer(&self) -> Option<&str> {
        self.header("authorization")?.strip_prefix("Bearer ")
    }

    /// Whether the body is said to be JSON.
    pub(super) fn is_json(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.split(';').next() == Some("application/json"))
    }
}

/// Where a request goes.
pub(super) struct Target<'request> {
    pub(super) path: &'request str,
    query: &'request str,
}

impl<'request> Target<'request> {
    pub(super) fn of(path: &'request str) -> Target<'request> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        Target { path, query }
    }

    /// A value of the query, as it is written there.
    pub(super) fn query(&self, name: &str) -> Option<&'request str> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
    }
}
