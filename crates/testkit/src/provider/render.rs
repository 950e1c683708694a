//! Writing what a model says as an API does.

use serde_json::Value;

use super::json::flag;
use super::{Api, Received, Said, chat};

/// What is said in the API's own JSON: one element for a whole answer, one for each event of a stream.
///
/// # Panics
///
/// When the API has no way to say it: arguments that are no object where it carries an object.
pub fn render(api: Api, said: &Said, streamed: bool) -> Vec<Vec<u8>> {
    if streamed { chat::stream(api, said, true) } else { vec![whole(&chat::whole(api, said))] }
}

/// The content type and the events of an answer to this request.
pub(super) fn answer(api: Api, said: &Said, request: &Received) -> (&'static str, Vec<Vec<u8>>) {
    let body = &request.body;
    if !flag(body, "stream") {
        return ("application/json", render(api, said, false));
    }
    let with_usage = body.pointer("/stream_options/include_usage") == Some(&Value::Bool(true));
    ("text/event-stream; charset=utf-8", chat::stream(api, said, with_usage))
}

/// A body of JSON.
pub(super) fn whole(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// An event of a stream without names.
pub(super) fn data(value: &Value) -> Vec<u8> {
    format!("data: {value}\n\n").into_bytes()
}
