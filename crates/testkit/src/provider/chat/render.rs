//! What a model of the chat family answers.

use serde_json::{Value, json};

use crate::provider::said::{Call, Stop, pieces};
use crate::provider::{Api, Said, Tokens};

const ID: &str = "chatcmpl-1";
const CREATED: u64 = 1_790_000_000;
const MODEL: &str = "scripted";

/// `chat.completion`.
pub(in crate::provider) fn whole(api: Api, said: &Said) -> Value {
    let mut message = json!({"role": "assistant", "content": said.text});
    if matches!(api, Api::OpenAiChat | Api::Azure) {
        message["refusal"] = json!(said.refusal);
    }
    if let (Some(thinking), Some(key)) = (&said.thinking, thinking_key(api)) {
        message[key] = json!(thinking);
    }
    if api == Api::Mistral
        && let Some(thinking) = &said.thinking
    {
        message["content"] = mistral_content(thinking, said.text.as_deref());
    }
    if !said.calls.is_empty() {
        message["tool_calls"] = said.calls.iter().map(call).collect();
    }
    let mut choice =
        json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish(api, said)});
    let mut completion = json!({
        "id": ID, "object": "chat.completion", "created": CREATED, "model": MODEL,
    });
    if api == Api::Azure {
        choice["content_filter_results"] = filter();
        completion["prompt_filter_results"] =
            json!([{"prompt_index": 0, "content_filter_results": filter()}]);
    }
    completion["choices"] = json!([choice]);
    completion["usage"] = usage(api, said.usage);
    completion
}

/// The events of a stream, the last of them `[DONE]`.
pub(in crate::provider) fn stream(api: Api, said: &Said, with_usage: bool) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    if api == Api::Azure {
        let mut first = chunk(json!([]));
        first["prompt_filter_results"] = json!([{"prompt_index": 0, "content_filter_results": filter()}]);
        chunks.push(first);
    }
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    for piece in pieces(said.thinking.as_deref().unwrap_or_default()) {
        if let Some(key) = thinking_key(api) {
            deltas.push(json!({key: piece}));
        } else if api == Api::Mistral {
            deltas.push(json!({"content": mistral_content(piece, None)}));
        }
    }
    deltas.extend(
        pieces(said.text.as_deref().unwrap_or_default()).iter().map(|piece| json!({"content": piece})),
    );
    deltas.extend(
        pieces(said.refusal.as_deref().unwrap_or_default()).iter().map(|piece| json!({"refusal": piece})),
    );
    deltas.extend(calls(api, said));
    chunks.extend(
        deltas.into_iter().map(|delta| {
            chunk(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]))
        }),
    );
    if let Some(fault) = &said.fault {
        let mut events: Vec<Vec<u8>> = chunks.iter().map(data).collect();
        events.push(data(&json!({"error": {
            "message": fault.message, "type": fault.kind, "param": null, "code": fault.kind,
        }})));
        return events;
    }
    chunks.push(chunk(
        json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": finish(api, said)}]),
    ));
    match api {
        // These put it into the last chunk, asked or not.
        Api::Mistral | Api::DeepSeek => {
            if let Some(last) = chunks.last_mut() {
                last["usage"] = usage(api, said.usage);
            }
        }
        Api::Groq => {
            if let Some(last) = chunks.last_mut() {
                last["x_groq"] = json!({"id": "req_1", "usage": usage(api, said.usage)});
            }
        }
        _ => {}
    }
    if with_usage {
        if matches!(api, Api::OpenAiChat | Api::Azure | Api::Vllm) {
            chunks.iter_mut().for_each(|chunk| chunk["usage"] = Value::Null);
        }
        let mut last = chunk(json!([]));
        last["usage"] = usage(api, said.usage);
        chunks.push(last);
    }
    let mut events: Vec<Vec<u8>> = chunks.iter().map(data).collect();
    events.push(b"data: [DONE]\n\n".to_vec());
    events
}

/// An event without a name.
fn data(value: &Value) -> Vec<u8> {
    format!("data: {value}\n\n").into_bytes()
}

fn chunk(choices: Value) -> Value {
    json!({"id": ID, "object": "chat.completion.chunk", "created": CREATED, "model": MODEL, "choices": choices})
}

fn call(call: &Call) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

/// The deltas of the calls: the first of an index has the id and the name, later ones a piece of the arguments.
fn calls(api: Api, said: &Said) -> Vec<Value> {
    let one = |value: Value| json!({"tool_calls": [value]});
    // A call comes whole: 3.7, 3.11.
    if matches!(api, Api::Mistral | Api::Xai) {
        return said
            .calls
            .iter()
            .enumerate()
            .map(|(index, said)| {
                let mut call = call(said);
                call["index"] = index.into();
                one(call)
            })
            .collect();
    }
    let mut of_each: Vec<std::collections::VecDeque<Value>> = said
        .calls
        .iter()
        .enumerate()
        .map(|(index, call)| {
            let function = json!({"name": call.name, "arguments": ""});
            let start = json!({"index": index, "id": call.id, "type": "function", "function": function});
            let rest = pieces(&call.arguments)
                .into_iter()
                .map(|piece| json!({"index": index, "function": {"arguments": piece}}));
            [start].into_iter().chain(rest).map(one).collect()
        })
        .collect();
    if !said.interleaved {
        return of_each.into_iter().flatten().collect();
    }
    let mut deltas = Vec::new();
    while of_each.iter().any(|deltas| !deltas.is_empty()) {
        deltas.extend(of_each.iter_mut().filter_map(std::collections::VecDeque::pop_front));
    }
    deltas
}

/// Where thinking is shown; OpenAI itself shows none here.
fn thinking_key(api: Api) -> Option<&'static str> {
    match api {
        Api::DeepSeek | Api::Xai | Api::Vllm | Api::LlamaCpp => Some("reasoning_content"),
        Api::Groq => Some("reasoning"),
        _ => None,
    }
}

/// Mistral's thinking is a part of the content.
fn mistral_content(thinking: &str, text: Option<&str>) -> Value {
    let mut parts = vec![json!({"type": "thinking", "thinking": [{"type": "text", "text": thinking}]})];
    parts.extend(text.map(|text| json!({"type": "text", "text": text})));
    parts.into()
}

fn finish(api: Api, said: &Said) -> String {
    match said.why() {
        Stop::End => "stop".to_owned(),
        Stop::Calls => "tool_calls".to_owned(),
        Stop::Length => "length".to_owned(),
        // A model's own refusal ends as any answer does; a filter's has its own word.
        Stop::Refusal if api != Api::Mistral => "content_filter".to_owned(),
        Stop::Refusal => "stop".to_owned(),
        Stop::Other(word) => word,
    }
}

fn usage(api: Api, tokens: Tokens) -> Value {
    let mut usage = json!({
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
    });
    match api {
        Api::Mistral | Api::LlamaCpp => {}
        Api::DeepSeek => {
            usage["prompt_cache_hit_tokens"] = tokens.cached.into();
            usage["prompt_cache_miss_tokens"] = (tokens.input - tokens.cached).into();
            usage["completion_tokens_details"] = json!({"reasoning_tokens": tokens.thinking});
        }
        _ => {
            usage["prompt_tokens_details"] = json!({"cached_tokens": tokens.cached, "audio_tokens": 0});
            usage["completion_tokens_details"] =
                json!({"reasoning_tokens": tokens.thinking, "audio_tokens": 0});
        }
    }
    usage
}

/// What Azure adds.
fn filter() -> Value {
    let safe = json!({"filtered": false, "severity": "safe"});
    json!({"hate": safe, "self_harm": safe, "sexual": safe, "violence": safe})
}
