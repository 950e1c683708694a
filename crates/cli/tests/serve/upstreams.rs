//! Several endpoints of a model: which of them gets a request, and which request is sent again.

use futures::StreamExt as _;
use serde_json::{Value, json};
use toolwire_testkit::http_client;
use toolwire_testkit::provider::{
    API_KEY, Api, Delivery, FakeProvider, Gate, ModelOutput, Script, ScriptedResponse,
};

use crate::{Served, folder, serve, text_script};

/// The APIs of clients. The first one is that of the provider, so its requests are forwarded; the others are
/// converted.
const PATHS: [&str; 3] = ["/v1/chat/completions", "/v1/responses", "/v1/messages"];

fn body(path: &str, stream: bool) -> Value {
    match path {
        "/v1/responses" => json!({"model": "up", "stream": stream, "input": "hi"}),
        _ => {
            json!({"model": "up", "stream": stream, "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]})
        }
    }
}

/// Serves a model with two endpoints. The second one is used only if the first one cannot be.
fn gateway(name: &str, first: &FakeProvider, second: &FakeProvider, limit: Option<usize>) -> Served {
    let mut upstreams = json!([
        {"baseUrl": first.base_url(), "weight": u32::MAX}, {"baseUrl": second.base_url(), "weight": 0},
    ]);
    if let Some(limit) = limit {
        upstreams[0]["concurrentRequests"] = json!(limit);
    }
    let model =
        json!({"provider": "openai", "model": "m", "apiKey": API_KEY, "retries": 3, "upstreams": upstreams});
    let config = json!({"mcpServers": {}, "toolwire": {"model": "up", "models": {"up": model}}});
    serve(&folder(name, Some(&config)), &[])
}

/// After the first token, the client may have read a part of the response. It gets an error, and the request
/// is not sent again.
#[tokio::test]
async fn a_response_that_has_begun_is_not_requested_again() {
    for path in PATHS {
        let delivery = Delivery { cut_after_events: Some(3), ..Delivery::default() };
        let cut = ScriptedResponse::Delivered(ModelOutput::text("Hello from the provider."), delivery);
        let first = FakeProvider::start(Api::OpenAiChat, Script::from_fn(move |_| cut.clone())).await;
        let second = FakeProvider::start(Api::OpenAiChat, text_script()).await;
        let served = gateway("begun", &first, &second, None);
        let request = http_client().post(format!("{}{path}", served.url)).json(&body(path, true));
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let text = response.text().await.unwrap();
        assert!(text.contains("Hello") && !text.contains("from the provider"), "{path}: {text}");
        assert!(text.contains("error") && text.contains("interrupted"), "{path}: {text}");
        assert_eq!((first.requests().len(), second.requests().len()), (1, 0), "{path}");
    }
}

/// A request that would exceed the limit of an endpoint is sent to another one. A stream counts until its
/// end, and a request whose client has left does not count.
#[tokio::test]
async fn an_endpoint_has_a_limited_number_of_requests() {
    for path in PATHS {
        for stream in [false, true] {
            let gate = Gate::new();
            let delivery = Delivery { gates: vec![(2, gate.clone())], ..Delivery::default() };
            let held = ScriptedResponse::Delivered(ModelOutput::text("Hello from the provider."), delivery);
            let script = text_script().starting_with([held]);
            let first = FakeProvider::start(Api::OpenAiChat, script).await;
            let second = FakeProvider::start(Api::OpenAiChat, text_script()).await;
            let served = gateway("concurrent", &first, &second, Some(1));
            let url = format!("{}{path}", served.url);
            let post = |stream: bool| http_client().post(&url).json(&body(path, stream)).send();
            // With a gate inside a stream, the held response has begun.
            let sent = post(true);
            let sent = tokio::spawn(async move {
                let mut events = sent.await.unwrap().bytes_stream();
                while events.next().await.is_some() {}
            });
            gate.reached().await;
            for _ in 0..3 {
                assert_eq!(post(stream).await.unwrap().status(), 200, "{path}, stream: {stream}");
            }
            assert_eq!((first.requests().len(), second.requests().len()), (1, 3), "{path}, stream: {stream}");
            sent.abort();
            first.abandoned().await;
            let again = async {
                while first.requests().len() < 2 {
                    let response = post(stream).await.unwrap();
                    assert_eq!(response.status(), 200, "{path}, stream: {stream}");
                    response.bytes().await.unwrap();
                }
            };
            let again = tokio::time::timeout(std::time::Duration::from_secs(60), again).await;
            again.expect("the endpoint is used again");
        }
    }
}

/// If no endpoint responds, the client gets what a provider has said, not that another endpoint could not be
/// reached.
#[tokio::test]
async fn the_error_of_a_provider_is_not_lost() {
    for (status, message) in [(429, "slow down"), (404, "no such model"), (503, "busy")] {
        let error = ScriptedResponse::error(status, json!({"error": {"message": message, "type": "t"}}));
        let refusing = FakeProvider::start(Api::OpenAiChat, Script::from_fn(move |_| error.clone())).await;
        let upstreams = json!([
            {"baseUrl": refusing.base_url(), "weight": u32::MAX}, {"baseUrl": "http://127.0.0.1:1/v1", "weight": 0},
        ]);
        let model = json!({"provider": "openai", "model": "m", "apiKey": API_KEY, "retries": 0, "upstreams": upstreams});
        let config = json!({"mcpServers": {}, "toolwire": {"model": "up", "models": {"up": model}}});
        let served = serve(&folder("refused", Some(&config)), &[]);
        for path in PATHS {
            for stream in [false, true] {
                let request = http_client().post(format!("{}{path}", served.url)).json(&body(path, stream));
                let response = request.send().await.unwrap();
                let expected = match (status, path) {
                    (503, "/v1/messages") => 529,
                    _ => status,
                };
                assert_eq!(response.status(), expected, "{path}, stream: {stream}");
                let text = response.text().await.unwrap();
                assert!(text.contains(message), "{path}, stream: {stream}: {text}");
            }
        }
    }
}
