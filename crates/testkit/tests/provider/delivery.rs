//! The delivery of responses, and the record of requests.

use serde_json::{Value, json};
use toolwire_testkit::provider::{
    Api, BodySplit, Delivery, FakeProvider, Gate, ModelOutput, Script, ScriptedResponse, render,
};

use crate::client::{TestRequest, bearer, chunks, send};

fn chat_request(stream: bool) -> TestRequest {
    let body = json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hello"}]});
    TestRequest::new("/v1/chat/completions", &[("authorization", &bearer())], body)
}

fn output() -> ModelOutput {
    ModelOutput::text("A few words, then a call.").call("call_1", "get", r#"{"q":1}"#)
}

/// Returns the stream for a request without `include_usage`.
fn events() -> Vec<Vec<u8>> {
    let mut events: Vec<Vec<u8>> = render(Api::OpenAiChat, &output(), true)
        .into_iter()
        .map(|event| String::from_utf8(event).unwrap().replace(r#","usage":null"#, "").into_bytes())
        .collect();
    let usage_event = events.len() - 2;
    events.remove(usage_event);
    events
}

async fn deliver(delivery: Delivery) -> (Vec<Vec<u8>>, bool) {
    let script = Script::new([ScriptedResponse::Delivered(output(), delivery)]);
    let provider = FakeProvider::start(Api::OpenAiChat, script).await;
    chunks(send(&provider, &chat_request(true)).await.unwrap()).await
}

#[tokio::test]
async fn each_event_is_a_separate_chunk() {
    assert_eq!(deliver(Delivery::default()).await, (events(), false));
}

#[tokio::test]
async fn a_body_can_be_split_at_every_byte() {
    let (chunks, is_broken) = deliver(Delivery { split: BodySplit::EveryByte, ..Delivery::default() }).await;
    let expected: Vec<Vec<u8>> = events().concat().into_iter().map(|byte| vec![byte]).collect();
    assert_eq!((chunks, is_broken), (expected, false));
}

#[tokio::test]
async fn a_body_can_be_split_into_sizes_across_events() {
    let sizes = BodySplit::Sizes(vec![7, 300]);
    let (chunks, is_broken) = deliver(Delivery { split: sizes, ..Delivery::default() }).await;
    assert_eq!((chunks.concat(), is_broken), (events().concat(), false));
    assert_eq!(chunks[0].len(), 7);
}

#[tokio::test]
async fn a_body_can_be_cut_after_any_event() {
    for count in 0..=events().len() {
        let delivery = Delivery { cut_after_events: Some(count), ..Delivery::default() };
        assert_eq!(deliver(delivery).await, (events()[..count].to_vec(), true), "after {count}");
    }
}

#[tokio::test]
async fn a_body_can_be_cut_after_any_byte() {
    for count in [0, 1, 150, 151, 400] {
        let delivery = Delivery { cut_after_bytes: Some(count), ..Delivery::default() };
        let (chunks, is_broken) = deliver(delivery).await;
        assert_eq!(
            (chunks.concat(), is_broken),
            (events().concat()[..count].to_vec(), true),
            "after {count}"
        );
    }
}

#[tokio::test]
async fn a_response_waits_at_its_gates() {
    let (headers, third_event) = (Gate::new(), Gate::new());
    let delivery = Delivery {
        before_headers: Some(headers.clone()),
        gates: vec![(2, third_event.clone())],
        ..Delivery::default()
    };
    let script = Script::new([ScriptedResponse::Delivered(output(), delivery)]);
    let provider = FakeProvider::start(Api::OpenAiChat, script).await;
    let sending = tokio::spawn({
        let request = chat_request(true);
        let origin = provider.origin();
        async move {
            let builder = toolwire_testkit::http_client().post(format!("{origin}{}", request.path));
            builder.headers(request.headers).body(request.body.to_string()).send().await.unwrap()
        }
    });
    headers.reached().await;
    assert!(!sending.is_finished());
    headers.open();
    let mut response = sending.await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), events()[0]);
    assert_eq!(response.chunk().await.unwrap().unwrap(), events()[1]);
    third_event.reached().await;
    third_event.open();
    let (rest, is_broken) = chunks(response).await;
    assert_eq!((rest, is_broken), (events()[2..].to_vec(), false));
}

#[tokio::test]
async fn a_disconnected_client_is_detected() {
    let gate = Gate::new();
    let delivery = Delivery { gates: vec![(1, gate.clone())], ..Delivery::default() };
    let script = Script::new([ScriptedResponse::Delivered(output(), delivery), ScriptedResponse::Hang]);
    let provider = FakeProvider::start(Api::OpenAiChat, script).await;
    let response = send(&provider, &chat_request(true)).await.unwrap();
    gate.reached().await;
    drop(response);
    provider.abandoned().await;
}

#[tokio::test]
async fn a_connection_can_close_before_the_headers() {
    let provider =
        FakeProvider::start(Api::OpenAiChat, Script::new([ScriptedResponse::CloseBeforeHeaders])).await;
    assert!(send(&provider, &chat_request(false)).await.unwrap_err().is_request());
}

#[tokio::test]
async fn an_error_has_its_status_its_headers_and_its_body() {
    let error = ScriptedResponse::Error {
        status: 429,
        headers: vec![("retry-after".into(), "7".into())],
        body: json!({"error": {"message": "slow down"}}),
    };
    let provider = FakeProvider::start(Api::OpenAiChat, Script::new([error])).await;
    let response = send(&provider, &chat_request(false)).await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers()["retry-after"].to_str().unwrap()), (429, "7"));
    assert_eq!(response.json::<Value>().await.unwrap(), json!({"error": {"message": "slow down"}}));
}

#[tokio::test]
async fn a_request_after_the_last_response_gets_an_error() {
    let provider = FakeProvider::start(Api::OpenAiChat, Script::from([output()])).await;
    assert_eq!(send(&provider, &chat_request(false)).await.unwrap().status(), 200);
    let response = send(&provider, &chat_request(false)).await.unwrap();
    assert_eq!(response.status(), 500);
    let message = "the script has no response left for request 2";
    assert_eq!(
        response.json::<Value>().await.unwrap(),
        json!({"error": {"message": message, "type": "script_ran_out"}})
    );
}

#[tokio::test]
async fn a_rejected_request_is_recorded_and_consumes_no_response() {
    let provider = FakeProvider::start(Api::OpenAiChat, Script::from([output()])).await;
    let mut invalid = chat_request(false);
    invalid.body["messages"] = json!([]);
    assert_eq!(send(&provider, &invalid).await.unwrap().status(), 400);
    assert_eq!(send(&provider, &chat_request(false)).await.unwrap().status(), 200);
    let recorded: Vec<(String, Value, bool)> = provider
        .requests()
        .into_iter()
        .map(|received| (received.path, received.body, received.rejection.is_some()))
        .collect();
    let path = "/v1/chat/completions".to_owned();
    assert_eq!(recorded, [(path.clone(), invalid.body, true), (path, chat_request(false).body, false)]);
    assert_eq!((provider.rejections().len(), provider.responses_left()), (1, 0));
}

#[tokio::test]
async fn a_script_can_compute_responses() {
    let script = Script::from_fn(|received| {
        ScriptedResponse::Output(ModelOutput::text(received.body["messages"][0]["content"].as_str().unwrap()))
    });
    let provider =
        FakeProvider::start(Api::OpenAiChat, script.starting_with([ScriptedResponse::error(503, json!({}))]))
            .await;
    assert_eq!(send(&provider, &chat_request(false)).await.unwrap().status(), 503);
    let response: Value = send(&provider, &chat_request(false)).await.unwrap().json().await.unwrap();
    assert_eq!(response["choices"][0]["message"]["content"], "hello");
}
