//! The responses of each API on the wire.

use aws_smithy_eventstream::frame::read_message_from;
use serde_json::{Value, json};
use toolwire_testkit::provider::{
    API_KEY, Api, FakeProvider, FinishReason, ModelOutput, Script, TokenCounts, render,
};

use crate::client::{TestRequest, bearer, chunks, rendered, send};

fn output() -> ModelOutput {
    let usage = TokenCounts { input: 12, cached: 2, written: 0, output: 5, thinking: 1 };
    ModelOutput::text("Hi").call("call_1", "get", r#"{"a":1}"#).usage(usage)
}

#[track_caller]
fn check_stream(api: Api, output: &ModelOutput, expected: &str) {
    let text = String::from_utf8(render(api, output, true).concat()).unwrap();
    assert_eq!(text, expected);
}

/// Returns the data of each event of a stream; text that is not JSON becomes a string.
fn data(api: Api, output: &ModelOutput) -> Vec<Value> {
    let events = render(api, output, true);
    events
        .iter()
        .map(|event| {
            let text = std::str::from_utf8(event).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
            serde_json::from_str(line).unwrap_or_else(|_| line.into())
        })
        .collect()
}

#[test]
fn chat_renders_a_completion() {
    let expected = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_790_000_000, "model": "scripted",
        "choices": [{"index": 0, "message": {
            "role": "assistant", "content": "Hi", "refusal": null,
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "get", "arguments": "{\"a\":1}"}}],
        }, "logprobs": null, "finish_reason": "tool_calls"}],
        "usage": {
            "prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17,
            "prompt_tokens_details": {"cached_tokens": 2, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 1, "audio_tokens": 0},
        },
    });
    assert_eq!(rendered(Api::OpenAiChat, &output()), expected);
}

#[test]
fn chat_streams_deltas_and_ends_with_done() {
    let chunk = |delta: Value, finish: Value| {
        json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": "scripted",
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}], "usage": null,
        })
    };
    let call = |call: Value| chunk(json!({"tool_calls": [call]}), Value::Null);
    let mut usage = rendered(Api::OpenAiChat, &output());
    usage["object"] = "chat.completion.chunk".into();
    usage["choices"] = json!([]);
    let expected = [
        chunk(json!({"role": "assistant", "content": ""}), Value::Null),
        chunk(json!({"content": "Hi"}), Value::Null),
        call(
            json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "get", "arguments": ""}}),
        ),
        call(json!({"index": 0, "function": {"arguments": "{\"a\":"}})),
        call(json!({"index": 0, "function": {"arguments": "1}"}})),
        chunk(json!({}), "tool_calls".into()),
        usage,
        "[DONE]".into(),
    ];
    assert_eq!(data(Api::OpenAiChat, &output()), expected);
    let events = render(Api::OpenAiChat, &output(), true);
    assert!(events.iter().all(
        |event| event.starts_with(b"data: ") && event.ends_with(b"}\n\n") || event == b"data: [DONE]\n\n"
    ));
}

#[test]
fn chat_can_interleave_calls() {
    let interleaved = ModelOutput { interleaved: true, ..output().call("call_2", "put", r#"{"b":2}"#) };
    let indexes: Vec<u64> = data(Api::OpenAiChat, &interleaved)
        .iter()
        .filter_map(|chunk| chunk.pointer("/choices/0/delta/tool_calls/0/index")?.as_u64())
        .collect();
    assert_eq!(indexes, [0, 1, 0, 1, 0, 1]);
}

#[test]
fn azure_starts_with_a_chunk_without_choices() {
    assert_eq!(data(Api::Azure, &output())[0]["choices"], json!([]));
}

#[test]
fn chat_flavours_have_thinking_in_different_fields() {
    let message =
        |api: Api| rendered(api, &ModelOutput::text("Hi").thinking("hm"))["choices"][0]["message"].clone();
    assert_eq!(message(Api::DeepSeek)["reasoning_content"], "hm");
    assert_eq!(message(Api::Groq)["reasoning"], "hm");
    let parts = json!([
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "Hi"},
    ]);
    assert_eq!(message(Api::Mistral)["content"], parts);
}

#[test]
fn responses_streams_named_and_numbered_events() {
    let events = data(Api::Responses, &output().thinking("hm"));
    let names: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(names, expected);
    for (number, (event, bytes)) in
        events.iter().zip(render(Api::Responses, &output().thinking("hm"), true)).enumerate()
    {
        assert_eq!(event["sequence_number"], number);
        assert!(bytes.starts_with(format!("event: {}\ndata: ", names[number]).as_bytes()));
    }
    assert_eq!(events.last().unwrap()["response"], rendered(Api::Responses, &output().thinking("hm")));
    let done: Vec<Value> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| event["item"].clone())
        .collect();
    assert_eq!(Value::from(done), events.last().unwrap()["response"]["output"]);
}

#[test]
fn responses_marks_a_truncated_response_as_incomplete() {
    let truncated = rendered(Api::Responses, &ModelOutput::text("Hi").finish(FinishReason::Length));
    assert_eq!(
        (&truncated["status"], &truncated["incomplete_details"]),
        (&json!("incomplete"), &json!({"reason": "max_output_tokens"}))
    );
}

#[test]
fn anthropic_renders_a_message() {
    let expected = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted",
        "content": [{"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "call_1", "name": "get", "input": {"a": 1}}],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {
            "input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 2, "output_tokens": 5,
        },
    });
    assert_eq!(rendered(Api::Anthropic, &output()), expected);
}

#[test]
fn anthropic_streams_blocks() {
    let output = ModelOutput::text("Hi").call("call_1", "get", r#"{"a":1}"#).call("call_2", "get", "{}");
    let event = |name: &str, rest: &str| format!("event: {name}\ndata: {{\"type\":\"{name}\"{rest}}}\n\n");
    let call = |id: &str| format!(r#"{{"type":"tool_use","id":"{id}","name":"get","input":{{}}}}"#);
    let usage = r#"{"input_tokens":12,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}"#;
    let expected = [
        event(
            "message_start",
            &format!(
                r#","message":{{"id":"msg_1","type":"message","role":"assistant","model":"scripted","content":[],"stop_reason":null,"stop_sequence":null,"usage":{usage}}}"#
            ),
        ),
        event("ping", ""),
        event("content_block_start", r#","index":0,"content_block":{"type":"text","text":""}"#),
        event("content_block_delta", r#","index":0,"delta":{"type":"text_delta","text":"Hi"}"#),
        event("content_block_stop", r#","index":0"#),
        event("content_block_start", &format!(r#","index":1,"content_block":{}"#, call("call_1"))),
        event(
            "content_block_delta",
            r#","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}"#,
        ),
        event("content_block_delta", r#","index":1,"delta":{"type":"input_json_delta","partial_json":"1}"}"#),
        event("content_block_stop", r#","index":1"#),
        event("content_block_start", &format!(r#","index":2,"content_block":{}"#, call("call_2"))),
        event("content_block_stop", r#","index":2"#),
        event(
            "message_delta",
            r#","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":5}"#,
        ),
        event("message_stop", ""),
    ];
    check_stream(Api::Anthropic, &output, &expected.concat());
}

#[test]
fn anthropic_streams_thinking_and_its_signature() {
    let output = ModelOutput { hidden_thinking: true, ..ModelOutput::default().thinking("hm") };
    let content = rendered(Api::Anthropic, &output)["content"].clone();
    let deltas: Vec<Value> = data(Api::Anthropic, &output)
        .into_iter()
        .filter(|event| event["index"] == 0 && event["type"] == "content_block_delta")
        .map(|event| event["delta"].clone())
        .collect();
    let signature = json!({"type": "signature_delta", "signature": content[0]["signature"]});
    assert_eq!(deltas, [json!({"type": "thinking_delta", "thinking": "hm"}), signature]);
    let redacted = data(Api::Anthropic, &output).into_iter().find(|event| event["index"] == 1).unwrap();
    assert_eq!(redacted["content_block"], content[1]);
}

#[test]
fn gemini_streams_unnamed_events_that_end_with_cr_lf() {
    let chunks = data(Api::Gemini, &output());
    let mut last = rendered(Api::Gemini, &output());
    last["candidates"][0]["content"]["parts"].as_array_mut().unwrap().remove(0);
    let mut first = last.clone();
    first["candidates"][0] = json!({"index": 0, "content": {"parts": [{"text": "Hi"}], "role": "model"}});
    assert_eq!(chunks, [first, last.clone()]);
    let call = &last["candidates"][0]["content"]["parts"][0];
    assert_eq!(call["functionCall"], json!({"name": "get", "args": {"a": 1}, "id": "call_1"}));
    assert!(call["thoughtSignature"].is_string());
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    let events = render(Api::Gemini, &output(), true);
    assert!(events.iter().all(|event| event.starts_with(b"data: {") && event.ends_with(b"}\r\n\r\n")));
}

#[test]
fn bedrock_streams_frames() {
    let frames: Vec<(Vec<(String, String)>, Value)> = render(Api::Bedrock, &output(), true)
        .iter()
        .map(|frame| {
            let message = read_message_from(frame.as_slice()).unwrap();
            let headers = message.headers().iter();
            let headers = headers
                .map(|header| {
                    let value = header.value().as_string().unwrap().as_str().to_owned();
                    (header.name().as_str().to_owned(), value)
                })
                .collect();
            let mut payload: Value = serde_json::from_slice(message.payload()).unwrap();
            payload.as_object_mut().unwrap().remove("p");
            (headers, payload)
        })
        .collect();
    let event = |kind: &str, payload: Value| {
        let headers =
            [(":event-type", kind), (":message-type", "event"), (":content-type", "application/json")];
        (headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(), payload)
    };
    let complete = rendered(Api::Bedrock, &output());
    let delta = |index: u64, delta: Value| {
        event("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta}))
    };
    let expected = [
        event("messageStart", json!({"role": "assistant"})),
        delta(0, json!({"text": "Hi"})),
        event("contentBlockStop", json!({"contentBlockIndex": 0})),
        event(
            "contentBlockStart",
            json!({"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "call_1", "name": "get"}}}),
        ),
        delta(1, json!({"toolUse": {"input": "{\"a\":"}})),
        delta(1, json!({"toolUse": {"input": "1}"}})),
        event("contentBlockStop", json!({"contentBlockIndex": 1})),
        event("messageStop", json!({"stopReason": complete["stopReason"]})),
        event("metadata", json!({"metrics": complete["metrics"], "usage": complete["usage"]})),
    ];
    assert_eq!(frames, expected);
}

#[test]
fn cohere_streams_a_tool_plan() {
    let events = data(Api::Cohere, &output());
    let names: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let expected = [
        "message-start",
        "tool-plan-delta",
        "tool-call-start",
        "tool-call-delta",
        "tool-call-delta",
        "tool-call-end",
        "message-end",
    ];
    assert_eq!(names, expected);
    let complete = rendered(Api::Cohere, &output());
    assert_eq!(
        (&complete["message"]["tool_plan"], &complete["finish_reason"]),
        (&json!("Hi"), &json!("TOOL_CALL"))
    );
    assert_eq!(
        events.last().unwrap()["delta"],
        json!({"finish_reason": "TOOL_CALL", "usage": complete["usage"]})
    );
}

#[test]
fn ollama_streams_lines() {
    let line = |message: &str| {
        format!(r#"{{"model":"scripted","created_at":"2026-11-15T12:00:00Z","message":{message},"done":"#)
    };
    let call = r#"{"function":{"index":0,"name":"get","arguments":{"a":1}},"id":"call_1"}"#;
    let expected = [
        format!("{}false}}\n", line(r#"{"role":"assistant","content":"Hi"}"#)),
        format!(
            "{}false}}\n",
            line(&format!(r#"{{"role":"assistant","content":"","tool_calls":[{call}]}}"#))
        ),
        format!(
            "{}true,\"done_reason\":\"stop\",\"total_duration\":1000000,\"prompt_eval_count\":12,\"eval_count\":5}}\n",
            line(r#"{"role":"assistant","content":""}"#)
        ),
    ];
    check_stream(Api::Ollama, &output(), &expected.concat());
}

#[test]
fn a_stream_can_end_with_an_error() {
    let last = |api: Api| {
        let events = render(api, &output().stream_error("overloaded_error", "Overloaded"), true);
        String::from_utf8_lossy(events.last().unwrap()).into_owned()
    };
    assert_eq!(
        last(Api::Anthropic),
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"
    );
    assert_eq!(
        last(Api::OpenAiChat),
        "data: {\"error\":{\"message\":\"Overloaded\",\"type\":\"overloaded_error\",\"param\":null,\"code\":\"overloaded_error\"}}\n\n"
    );
    assert_eq!(last(Api::Ollama), "{\"error\":\"Overloaded\"}\n");
    assert!(last(Api::Responses).starts_with("event: response.failed\n"));
    assert!(last(Api::Bedrock).contains("exception"));
}

/// Returns a short request in the format of an API.
fn short_request(api: Api, stream: bool) -> TestRequest {
    let bearer = bearer();
    let key = [("authorization", bearer.as_str())];
    let chat = json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hello"}]});
    let deployment = "/openai/deployments/gpt/chat/completions?api-version=1";
    match api {
        Api::Azure | Api::Dial => TestRequest::new(deployment, &[("api-key", API_KEY)], chat),
        Api::Groq => TestRequest::new("/openai/v1/chat/completions", &key, chat),
        Api::Responses => {
            TestRequest::new("/v1/responses", &key, json!({"model": "m", "input": "hello", "stream": stream}))
        }
        Api::Anthropic => {
            let mut body = chat;
            body["max_tokens"] = 10.into();
            TestRequest::new(
                "/v1/messages",
                &[("x-api-key", API_KEY), ("anthropic-version", "2023-06-01")],
                body,
            )
        }
        Api::Gemini => {
            let method = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
            let body = json!({"contents": [{"role": "user", "parts": [{"text": "hello"}]}]});
            TestRequest::new(&format!("/v1beta/models/m:{method}"), &[("x-goog-api-key", API_KEY)], body)
        }
        Api::Bedrock => {
            let method = if stream { "converse-stream" } else { "converse" };
            let body = json!({"messages": [{"role": "user", "content": [{"text": "hello"}]}]});
            TestRequest::new(&format!("/model/m/{method}"), &key, body)
        }
        Api::Cohere => TestRequest::new("/v2/chat", &key, chat),
        Api::Ollama => TestRequest::new("/api/chat", &[], chat),
        _ => TestRequest::new("/v1/chat/completions", &key, chat),
    }
}

#[tokio::test]
async fn each_provider_streams_only_if_requested() {
    for api in Api::ALL {
        for stream in [false, true] {
            let provider = FakeProvider::start(api, Script::from([output()])).await;
            let response = send(&provider, &short_request(api, stream)).await.unwrap();
            let kind = match (api, stream) {
                (_, false) => "application/json",
                (Api::Bedrock, _) => "application/vnd.amazon.eventstream",
                (Api::Ollama, _) => "application/x-ndjson",
                _ => "text/event-stream; charset=utf-8",
            };
            assert_eq!(
                (response.status().as_u16(), response.headers()["content-type"].to_str().unwrap()),
                (200, kind),
                "{api:?}"
            );
            let (chunks, is_broken) = chunks(response).await;
            // A chat stream contains the usage only when the request asks for it.
            let expected = render(api, &output(), stream);
            if Api::CHAT_FLAVOURS.contains(&api) && stream {
                assert_eq!((chunks.len(), is_broken), (expected.len() - 1, false), "{api:?}");
            } else {
                assert_eq!((chunks, is_broken), (expected, false), "{api:?}");
            }
        }
    }
}

#[tokio::test]
async fn gemini_streams_an_array_without_alt_sse() {
    let provider = FakeProvider::start(Api::Gemini, Script::from([output()])).await;
    let mut request = short_request(Api::Gemini, true);
    request.path = request.path.replace("?alt=sse", "");
    let response = send(&provider, &request).await.unwrap();
    let array: Value = response.json().await.unwrap();
    assert_eq!(array, Value::from(data(Api::Gemini, &output())));
}
