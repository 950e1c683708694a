//! What a model's response contains arrives at the client: citations, images, details. Limits on calls, and
//! responses in a wrong format.

use crate::client::{CHAT, Client, MESSAGES, RESPONSES};
use crate::support::{PNG, TestGateway, content};
use serde_json::{Value, json};
use toolwire_testkit::http_client;

/// Sends a message without tools of the client. Returns the status, the headers that matter, and the body.
async fn send(
    gateway: &TestGateway,
    path: &str,
    text: &str,
    extra: &Value,
) -> (u16, [Option<String>; 2], String) {
    let messages = json!([{"role": "user", "content": text}]);
    let mut body = match path {
        RESPONSES => json!({"model": "scripted", "input": messages}),
        _ => json!({"model": "scripted", "max_tokens": 100, "messages": messages}),
    };
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let response = http_client().post(gateway.url(path)).json(&body).send().await.unwrap();
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let headers = [header("x-should-retry"), header("x-toolwire-dropped")];
    (response.status().as_u16(), headers, response.text().await.unwrap())
}

async fn whole(gateway: &TestGateway, path: &str, text: &str, extra: &Value) -> Value {
    let (status, _, body) = send(gateway, path, text, extra).await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// Returns the data of the events of a stream.
async fn stream(gateway: &TestGateway, path: &str, text: &str) -> Vec<Value> {
    let (status, _, body) = send(gateway, path, text, &json!({"stream": true})).await;
    assert_eq!(status, 200, "{body}");
    let data = body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test]
async fn citations_of_anthropic_are_passed_on_unchanged() {
    let gateway = TestGateway::start().await;
    let [document, page] = content::citations();
    let body = whole(&gateway, MESSAGES, "content-cited", &json!({})).await;
    let expected = json!([
        {"type": "text", "text": "One "},
        {"type": "text", "text": "two ", "citations": [document]},
        {"type": "text", "text": "three", "citations": [page]},
        {"type": "text", "text": "."},
    ]);
    assert_eq!(body["content"], expected);
    let events = stream(&gateway, MESSAGES, "content-cited").await;
    let deltas: Vec<Value> = events
        .iter()
        .filter(|event| event["type"] == "content_block_delta")
        .map(|event| json!([event["index"], event["delta"]]))
        .collect();
    let text = |index: u64, text: &str| json!([index, {"type": "text_delta", "text": text}]);
    let citation = |index: u64, value: &Value| json!([index, {"type": "citations_delta", "citation": value}]);
    let expected = [
        text(0, "One "),
        citation(1, &document),
        text(1, "two "),
        text(2, "three"),
        citation(2, &page),
        text(3, "."),
    ];
    assert_eq!(deltas, expected);
}

#[tokio::test]
async fn citations_with_a_url_become_annotations_and_others_are_listed() {
    let gateway = TestGateway::start().await;
    let location = json!({"start_index": 8, "end_index": 13, "url": "https://example.com/b", "title": "B"});
    let nested = json!({"type": "url_citation", "url_citation": location});
    let mut flat = location.clone();
    flat["type"] = json!("url_citation");
    let (status, [_, dropped], body) = send(&gateway, CHAT, "content-cited", &json!({})).await;
    assert_eq!((status, dropped.as_deref()), (200, Some("citations")));
    let message = &serde_json::from_str::<Value>(&body).unwrap()["choices"][0]["message"];
    assert_eq!((&message["content"], &message["annotations"]), (&json!("One two three."), &json!([nested])));
    let body = whole(&gateway, RESPONSES, "content-cited", &json!({})).await;
    assert_eq!(body["output"][0]["content"][0]["annotations"], json!([flat]));

    let events = stream(&gateway, CHAT, "content-cited").await;
    let lists: Vec<&Value> = events
        .iter()
        .map(|event| &event["choices"][0]["delta"]["annotations"])
        .filter(|list| list.is_array())
        .collect();
    let mut with_index = nested.clone();
    with_index["index"] = json!(0);
    assert_eq!(lists, [&json!([with_index])]);
    let events = stream(&gateway, RESPONSES, "content-cited").await;
    let added = events.iter().find(|event| event["type"] == "response.output_text.annotation.added").unwrap();
    assert_eq!((&added["annotation"], &added["annotation_index"]), (&flat, &json!(0)));
    assert_eq!(events.last().unwrap()["response"]["output"][0]["content"][0]["annotations"], json!([flat]));
}

/// The headers of a stream are sent before the citations are known, so a comment before the last event says
/// it.
#[tokio::test]
async fn citations_that_a_stream_leaves_out_are_in_a_comment() {
    let gateway = TestGateway::start().await;
    for (path, scenario, is_omitted) in [
        (CHAT, "content-cited", true),
        (RESPONSES, "content-cited", true),
        (MESSAGES, "content-cited", false),
        (MESSAGES, "content-annotated", true),
        (RESPONSES, "content-annotated", false),
    ] {
        let (status, [_, dropped], body) = send(&gateway, path, scenario, &json!({"stream": true})).await;
        assert_eq!((status, dropped), (200, None), "{path}: {body}");
        let comment = ": x-toolwire-dropped: citations\n\n";
        let before = body.split_once(comment).map(|(before, after)| (before, after.contains("data: ")));
        assert_eq!(
            before.is_some_and(|(_, is_followed)| is_followed),
            is_omitted,
            "{path} {scenario}: {body}"
        );
        assert!(before.is_none_or(|(before, _)| before.ends_with("\n\n")), "{body}");
        assert_eq!(body.matches(": x-toolwire-").count(), usize::from(is_omitted), "{path} {scenario}");
    }
}

#[tokio::test]
async fn a_generated_image_is_not_lost() {
    let gateway = TestGateway::start().await;
    let body = whole(&gateway, RESPONSES, "content-image", &json!({})).await;
    let item = &body["output"][0];
    assert_eq!((&item["type"], &item["status"]), (&json!("image_generation_call"), &json!("completed")));
    assert_eq!((&item["result"], &item["output_format"]), (&json!(PNG), &json!("png")));
    let events = stream(&gateway, RESPONSES, "content-image").await;
    let names: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.image_generation_call.in_progress",
        "response.image_generation_call.completed",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(names, expected);

    let body = whole(&gateway, CHAT, "content-image", &json!({})).await;
    let message = &body["choices"][0]["message"];
    let url = format!("data:image/png;base64,{PNG}");
    assert_eq!(message["images"], json!([{"type": "image_url", "image_url": {"url": url}}]));
    assert_eq!(message["content"], "[image/png: see `images`]");
    let body = whole(&gateway, MESSAGES, "content-image", &json!({})).await;
    let note = "[image/png: the model generated it; this API cannot return it]";
    assert_eq!(body["content"], json!([{"type": "text", "text": note}]));
}

#[tokio::test]
async fn the_service_tier_that_was_used_is_returned() {
    let gateway = TestGateway::start().await;
    let body = whole(&gateway, CHAT, "content-tier", &json!({"service_tier": "auto"})).await;
    assert_eq!((&body["service_tier"], &body["system_fingerprint"]), (&json!("priority"), &json!("fp_1")));
    let chunks = stream(&gateway, CHAT, "content-tier").await;
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk["service_tier"] == "priority" && chunk["system_fingerprint"] == "fp_1")
    );
    let body = whole(&gateway, RESPONSES, "content-tier", &json!({"service_tier": "auto"})).await;
    assert_eq!(body["service_tier"], "priority");
    let body = whole(&gateway, MESSAGES, "content-tier", &json!({})).await;
    assert_eq!(body["usage"]["service_tier"], "priority");
    let events = stream(&gateway, MESSAGES, "content-tier").await;
    assert_eq!(events[0]["message"]["usage"]["service_tier"], "priority");
}

#[tokio::test]
async fn a_refusal_has_details_and_a_full_context_has_its_own_reason() {
    let gateway = TestGateway::start().await;
    let details = json!({"type": "refusal", "category": "cyber", "explanation": null});
    let unknown = json!({"type": "refusal", "category": null, "explanation": null});
    let cases = [
        ("content-refusal", "refusal", details),
        ("refusal", "refusal", unknown),
        ("content-full", "model_context_window_exceeded", Value::Null),
        ("length", "max_tokens", Value::Null),
        ("say hi", "end_turn", Value::Null),
    ];
    for (text, reason, details) in cases {
        let body = whole(&gateway, MESSAGES, text, &json!({})).await;
        assert_eq!((&body["stop_reason"], &body["stop_details"]), (&json!(reason), &details), "{text}");
        let events = stream(&gateway, MESSAGES, text).await;
        let delta = &events.iter().find(|event| event["type"] == "message_delta").unwrap()["delta"];
        assert_eq!((&delta["stop_reason"], &delta["stop_details"]), (&json!(reason), &details), "{text}");
    }
}

#[tokio::test]
async fn a_failed_response_has_the_usage_so_far() {
    let gateway = TestGateway::start().await;
    let events = stream(&gateway, RESPONSES, "content-fail").await;
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.failed");
    let usage = &last["response"]["usage"];
    assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&json!(10), &json!(5)));
}

#[tokio::test]
async fn an_empty_response_is_returned_and_not_requested_again() {
    let gateway = TestGateway::start().await;
    let chat = whole(&gateway, CHAT, "content-empty", &json!({})).await;
    assert_eq!(chat["choices"][0]["message"]["content"], "");
    assert_eq!(chat["choices"][0]["finish_reason"], "stop");
    let responses = whole(&gateway, RESPONSES, "content-empty", &json!({})).await;
    assert_eq!((&responses["status"], &responses["output"]), (&json!("completed"), &json!([])));
    let messages = whole(&gateway, MESSAGES, "content-empty", &json!({})).await;
    assert_eq!((&messages["stop_reason"], &messages["content"]), (&json!("end_turn"), &json!([])));
    assert_eq!(gateway.model.requests().len(), 3);
}

fn schema(path: &str) -> Value {
    let schema = json!({
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false,
    });
    match path {
        CHAT => {
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "c", "schema": schema}}})
        }
        RESPONSES => json!({"text": {"format": {"type": "json_schema", "name": "c", "schema": schema}}}),
        _ => json!({"output_config": {"format": {"type": "json_schema", "schema": schema}}}),
    }
}

#[tokio::test]
async fn a_response_in_a_wrong_format_is_an_error_that_clients_do_not_retry() {
    let gateway = TestGateway::start().await;
    for scenario in ["content-wrong", "content-empty"] {
        for path in [CHAT, RESPONSES, MESSAGES] {
            let (status, [retry, _], body) = send(&gateway, path, scenario, &schema(path)).await;
            assert_eq!((status, retry.as_deref()), (502, Some("false")), "{body}");
            let error = &serde_json::from_str::<Value>(&body).unwrap()["error"];
            let expected = if path == MESSAGES { json!(null) } else { json!("invalid_output") };
            assert_eq!(error["code"], expected, "{body}");
        }
    }
}

/// The correction may need one step more than allowed; otherwise the response would not be validated.
#[tokio::test]
async fn a_response_at_the_step_limit_is_validated() {
    let gateway = TestGateway::start().await;
    for path in [CHAT, RESPONSES, MESSAGES] {
        for scenario in ["content-late-json", "content-late-json-after-call"] {
            let mut extra = schema(path);
            extra["toolwire"] = json!({"max_steps": 1});
            let mut client = Client::new(gateway.url(path), path);
            (client.extra, client.tools) = (extra, Vec::new());
            let reply = client.say(scenario).await;
            assert_eq!(reply.text, r#"{"city":"Paris"}"#, "{path}");
            assert!(["stop", "completed", "end_turn"].contains(&&*reply.stop), "{}", reply.stop);
        }
    }
}

#[tokio::test]
async fn calls_beyond_max_tool_calls_do_not_run() {
    let gateway = TestGateway::start().await;
    for (limit, runs) in [(json!(2), 2), (json!(0), 0), (json!(100), 3), (Value::Null, 3)] {
        let before = gateway.running.calls.load(std::sync::atomic::Ordering::SeqCst);
        let body = whole(&gateway, RESPONSES, "content-parallel", &json!({"max_tool_calls": limit})).await;
        assert_eq!(body["output"][0]["content"][0]["text"], "3 results.", "{limit}: {body}");
        assert_eq!(body["max_tool_calls"], limit);
        let after = gateway.running.calls.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(after - before, runs, "{limit}");
    }
    let (status, _, body) =
        send(&gateway, RESPONSES, "content-parallel", &json!({"max_tool_calls": "two"})).await;
    assert_eq!(status, 400, "{body}");
    assert!(body.contains("`max_tool_calls` must be an integer that is not negative"), "{body}");
}

#[tokio::test]
async fn without_parallel_calls_one_call_runs_on_every_api() {
    let gateway = TestGateway::start().await;
    for (path, extra) in [
        (CHAT, json!({"model": "gemini", "parallel_tool_calls": false})),
        (RESPONSES, json!({"model": "bedrock", "parallel_tool_calls": false})),
        (
            MESSAGES,
            json!({"model": "ollama", "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
        ),
    ] {
        let before = gateway.running.calls.load(std::sync::atomic::Ordering::SeqCst);
        let (status, [_, dropped], body) = send(&gateway, path, "content-parallel", &extra).await;
        assert_eq!((status, dropped), (200, None), "{body}");
        let after = gateway.running.calls.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(after - before, 1, "{path}");
    }
}
