//! What each API's answers look like on the wire.

use aws_smithy_eventstream::frame::read_message_from;
use serde_json::{Value, json};
use toolwire_testkit::provider::{Api, KEY, Provider, Said, Script, Stop, Tokens, render};

use crate::client::{Asked, bearer, pieces, send};

fn said() -> Said {
    let usage = Tokens { input: 12, cached: 2, output: 5, thinking: 1 };
    Said::text("Hi").call("call_1", "get", r#"{"a":1}"#).usage(usage)
}

fn whole(api: Api, said: &Said) -> Value {
    let rendered = render(api, said, false);
    assert_eq!(rendered.len(), 1);
    serde_json::from_slice(&rendered[0]).unwrap()
}

/// The lines of a stream's text, and that each event ends as it should.
#[track_caller]
fn check_stream(api: Api, said: &Said, expected: &str) {
    let text = String::from_utf8(render(api, said, true).concat()).unwrap();
    assert_eq!(text, expected);
}

/// The data of a stream of events.
fn data(api: Api, said: &Said) -> Vec<Value> {
    let events = render(api, said, true);
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
fn a_chat_says_it_whole() {
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
    assert_eq!(whole(Api::OpenAiChat, &said()), expected);
}

#[test]
fn a_chat_streams_deltas_and_is_done() {
    let chunk = |delta: Value, finish: Value| {
        json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": "scripted",
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}], "usage": null,
        })
    };
    let call = |call: Value| chunk(json!({"tool_calls": [call]}), Value::Null);
    let mut usage = whole(Api::OpenAiChat, &said());
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
    assert_eq!(data(Api::OpenAiChat, &said()), expected);
    let events = render(Api::OpenAiChat, &said(), true);
    assert!(events.iter().all(
        |event| event.starts_with(b"data: ") && event.ends_with(b"}\n\n") || event == b"data: [DONE]\n\n"
    ));
}

#[test]
fn calls_of_a_chat_can_come_interleaved() {
    let interleaved = Said { interleaved: true, ..said().call("call_2", "put", r#"{"b":2}"#) };
    let indexes: Vec<u64> = data(Api::OpenAiChat, &interleaved)
        .iter()
        .filter_map(|chunk| chunk.pointer("/choices/0/delta/tool_calls/0/index")?.as_u64())
        .collect();
    assert_eq!(indexes, [0, 1, 0, 1, 0, 1]);
}

#[test]
fn azure_begins_with_a_chunk_without_choices() {
    assert_eq!(data(Api::Azure, &said())[0]["choices"], json!([]));
}

#[test]
fn thinking_is_where_each_of_the_family_has_it() {
    let message = |api: Api| whole(api, &Said::text("Hi").thinking("hm"))["choices"][0]["message"].clone();
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
    let events = data(Api::Responses, &said().thinking("hm"));
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
        events.iter().zip(render(Api::Responses, &said().thinking("hm"), true)).enumerate()
    {
        assert_eq!(event["sequence_number"], number);
        assert!(bytes.starts_with(format!("event: {}\ndata: ", names[number]).as_bytes()));
    }
    assert_eq!(events.last().unwrap()["response"], whole(Api::Responses, &said().thinking("hm")));
    let done: Vec<Value> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| event["item"].clone())
        .collect();
    assert_eq!(Value::from(done), events.last().unwrap()["response"]["output"]);
}

#[test]
fn responses_that_are_cut_are_incomplete() {
    let cut = whole(Api::Responses, &Said::text("Hi").stop(Stop::Length));
    assert_eq!(
        (&cut["status"], &cut["incomplete_details"]),
        (&json!("incomplete"), &json!({"reason": "max_output_tokens"}))
    );
}

#[test]
fn anthropic_says_it_whole() {
    let expected = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted",
        "content": [{"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "call_1", "name": "get", "input": {"a": 1}}],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {
            "input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 2, "output_tokens": 5,
        },
    });
    assert_eq!(whole(Api::Anthropic, &said()), expected);
}

#[test]
fn anthropic_streams_blocks() {
    let said = Said::text("Hi").call("call_1", "get", r#"{"a":1}"#).call("call_2", "get", "{}");
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
    check_stream(Api::Anthropic, &said, &expected.concat());
}

#[test]
fn anthropic_streams_thinking_and_its_signature() {
    let said = Said { hidden_thinking: true, ..Said::default().thinking("hm") };
    let content = whole(Api::Anthropic, &said)["content"].clone();
    let deltas: Vec<Value> = data(Api::Anthropic, &said)
        .into_iter()
        .filter(|event| event["index"] == 0 && event["type"] == "content_block_delta")
        .map(|event| event["delta"].clone())
        .collect();
    let signature = json!({"type": "signature_delta", "signature": content[0]["signature"]});
    assert_eq!(deltas, [json!({"type": "thinking_delta", "thinking": "hm"}), signature]);
    let redacted = data(Api::Anthropic, &said).into_iter().find(|event| event["index"] == 1).unwrap();
    assert_eq!(redacted["content_block"], content[1]);
}

#[test]
fn gemini_streams_chunks_without_names_that_end_with_both_characters() {
    let chunks = data(Api::Gemini, &said());
    let mut last = whole(Api::Gemini, &said());
    last["candidates"][0]["content"]["parts"].as_array_mut().unwrap().remove(0);
    let mut first = last.clone();
    first["candidates"][0] = json!({"index": 0, "content": {"parts": [{"text": "Hi"}], "role": "model"}});
    assert_eq!(chunks, [first, last.clone()]);
    let call = &last["candidates"][0]["content"]["parts"][0];
    assert_eq!(call["functionCall"], json!({"name": "get", "args": {"a": 1}, "id": "call_1"}));
    assert!(call["thoughtSignature"].is_string());
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    let events = render(Api::Gemini, &said(), true);
    assert!(events.iter().all(|event| event.starts_with(b"data: {") && event.ends_with(b"}\r\n\r\n")));
}

#[test]
fn bedrock_streams_frames() {
    let frames: Vec<(Vec<(String, String)>, Value)> = render(Api::Bedrock, &said(), true)
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
    let whole = whole(Api::Bedrock, &said());
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
        event("messageStop", json!({"stopReason": whole["stopReason"]})),
        event("metadata", json!({"metrics": whole["metrics"], "usage": whole["usage"]})),
    ];
    assert_eq!(frames, expected);
}

#[test]
fn cohere_plans_its_calls() {
    let events = data(Api::Cohere, &said());
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
    let whole = whole(Api::Cohere, &said());
    assert_eq!(
        (&whole["message"]["tool_plan"], &whole["finish_reason"]),
        (&json!("Hi"), &json!("TOOL_CALL"))
    );
    assert_eq!(
        events.last().unwrap()["delta"],
        json!({"finish_reason": "TOOL_CALL", "usage": whole["usage"]})
    );
}

#[test]
fn ollama_streams_lines() {
    let line = |message: &str| {
        format!(r#"{{"model":"scripted","created_at":"2026-11-15T12:00:00Z","message":{message},"done":"#)
    };
    let call = r#"{"id":"call_1","function":{"index":0,"name":"get","arguments":{"a":1}}}"#;
    let call = call.replace(r#""id":"call_1","#, "").replace("}}}", r#"}},"id":"call_1"}"#);
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
    check_stream(Api::Ollama, &said(), &expected.concat());
}

#[test]
fn a_stream_can_end_with_an_error() {
    let last = |api: Api| {
        let events = render(api, &said().fault("overloaded_error", "Overloaded"), true);
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

/// A short question as each API wants it, streamed or not.
fn question(api: Api, stream: bool) -> Asked {
    let bearer = bearer();
    let key = [("authorization", bearer.as_str())];
    let chat = json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hello"}]});
    let deployment = "/openai/deployments/gpt/chat/completions?api-version=1";
    match api {
        Api::Azure | Api::Dial => Asked::new(deployment, &[("api-key", KEY)], chat),
        Api::Groq => Asked::new("/openai/v1/chat/completions", &key, chat),
        Api::Responses => {
            Asked::new("/v1/responses", &key, json!({"model": "m", "input": "hello", "stream": stream}))
        }
        Api::Anthropic => {
            let mut body = chat;
            body["max_tokens"] = 10.into();
            Asked::new("/v1/messages", &[("x-api-key", KEY), ("anthropic-version", "2023-06-01")], body)
        }
        Api::Gemini => {
            let method = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
            let body = json!({"contents": [{"role": "user", "parts": [{"text": "hello"}]}]});
            Asked::new(&format!("/v1beta/models/m:{method}"), &[("x-goog-api-key", KEY)], body)
        }
        Api::Bedrock => {
            let method = if stream { "converse-stream" } else { "converse" };
            let body = json!({"messages": [{"role": "user", "content": [{"text": "hello"}]}]});
            Asked::new(&format!("/model/m/{method}"), &key, body)
        }
        Api::Cohere => Asked::new("/v2/chat", &key, chat),
        Api::Ollama => Asked::new("/api/chat", &[], chat),
        _ => Asked::new("/v1/chat/completions", &key, chat),
    }
}

#[tokio::test]
async fn each_server_says_it_whole_or_streamed_as_it_is_asked() {
    for api in Api::ALL {
        for stream in [false, true] {
            let provider = Provider::start(api, Script::from([said()])).await;
            let response = send(&provider, &question(api, stream)).await.unwrap();
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
            let (pieces, is_broken) = pieces(response).await;
            // A chat counts its tokens in a stream when it is asked to.
            let is_chat = matches!(
                api,
                Api::OpenAiChat | Api::Azure | Api::Dial | Api::Mistral | Api::Groq | Api::DeepSeek
            ) || matches!(api, Api::Xai | Api::Vllm | Api::LlamaCpp);
            let expected = render(api, &said(), stream);
            if is_chat && stream {
                assert_eq!((pieces.len(), is_broken), (expected.len() - 1, false), "{api:?}");
            } else {
                assert_eq!((pieces, is_broken), (expected, false), "{api:?}");
            }
        }
    }
}

#[tokio::test]
async fn gemini_streams_a_list_when_nobody_asks_for_events() {
    let provider = Provider::start(Api::Gemini, Script::from([said()])).await;
    let mut asked = question(Api::Gemini, true);
    asked.path = asked.path.replace("?alt=sse", "");
    let response = send(&provider, &asked).await.unwrap();
    let list: Value = response.json().await.unwrap();
    assert_eq!(list, Value::from(data(Api::Gemini, &said())));
}
