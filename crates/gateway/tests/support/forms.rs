//! A provider with OpenAI's API that describes the forms that it gets in its responses.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt};
use serde_json::{Value, json};
use toolwire_contract::model::{Model, ModelError};
use toolwire_dialect::Dialect;
use toolwire_gateway::{ForwardedBody, ForwardedRequest, ForwardedResponse, ServedModel, Upstream};

/// The name of the model of this provider.
pub(crate) const FILES: &str = "files";

/// Returns the model of the provider.
pub(crate) fn served(model: Arc<dyn Model>) -> ServedModel {
    ServedModel::new(model).with_upstream(Dialect::OpenAi, Arc::new(FormProvider))
}

struct FormProvider;

impl Upstream for FormProvider {
    fn model_id(&self) -> &str {
        "real-name"
    }

    fn forward(&self, request: ForwardedRequest) -> BoxFuture<'_, Result<ForwardedResponse, ModelError>> {
        let text = describe(&request);
        let complete = |body: Value| ("application/json", ForwardedBody::Complete(body.to_string().into()));
        let (content_type, body) = if request.path.is_some_and(|path| path.starts_with("images/")) {
            complete(json!({"created": 1, "data": [{"b64_json": "AA==", "revised_prompt": text}]}))
        } else if text.contains("response_format=text") {
            ("text/plain", ForwardedBody::Parts(stream::iter([Ok(Bytes::from(text))]).boxed()))
        } else if text.contains("stream=true") {
            let events = [
                json!({"type": "transcript.text.delta", "delta": text}),
                json!({"type": "transcript.text.done", "text": text}),
            ];
            let parts = events.map(|event| Bytes::from(format!("data: {event}\n\n")));
            ("text/event-stream", ForwardedBody::Parts(stream::iter(parts).map(Ok).boxed()))
        } else {
            complete(json!({"text": text}))
        };
        let headers = vec![("content-type".to_owned(), content_type.as_bytes().to_vec())];
        Box::pin(async move { Ok(ForwardedResponse::new(200, headers, body)) })
    }

    fn redact(&self, error: Value) -> Value {
        error
    }
}

/// Lists the fields of a form: `name=value`, and the length of each file as `name:filename=length`. It shares
/// no code with the gateway.
fn describe(request: &ForwardedRequest) -> String {
    let (_, content_type) = request.headers.iter().find(|(name, _)| *name == "content-type").unwrap();
    let boundary = content_type.split_once("boundary=\"").unwrap().1.trim_end_matches('"');
    // Each byte becomes one character, so that lengths stay the same.
    let body: String = request.body.iter().copied().map(char::from).collect();
    let parts: Vec<&str> = body.split(&format!("--{boundary}")).collect();
    let described = parts[1..parts.len() - 1].iter().map(|part| {
        let (head, content) = part.split_once("\r\n\r\n").unwrap();
        let content = content.strip_suffix("\r\n").unwrap();
        let value = |key: &str| Some(head.split_once(key)?.1.split('"').next().unwrap().to_owned());
        let name = value(" name=\"").unwrap();
        match value("filename=\"") {
            Some(file) => format!("{name}:{file}={}", content.chars().count()),
            None => format!("{name}={content}"),
        }
    });
    described.collect::<Vec<_>>().join(" ")
}
