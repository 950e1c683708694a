//! Responses of Chat Completions.
//!
//! Rules in `docs/providers.md`: `openai-chat/stream`, `openai-chat/finish-reasons`, `azure/stream`,
//! `mistral/stream`, `deepseek/thinking`, `groq/stream`, `xai/stream`.

use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::provider::output::{FinishReason, OutputCall, pieces};
use crate::provider::{Api, ModelOutput, TokenCounts};

const COMPLETION_ID: &str = "chatcmpl-1";
const CREATED: u64 = 1_790_000_000;
const MODEL_NAME: &str = "scripted";

/// Renders a `chat.completion`.
pub(in crate::provider) fn complete_body(api: Api, output: &ModelOutput) -> Value {
    let mut message = json!({"role": "assistant", "content": output.text});
    if matches!(api, Api::OpenAiChat | Api::Azure) {
        message["refusal"] = json!(output.refusal);
    }
    if let (Some(thinking), Some(key)) = (&output.thinking, thinking_key(api)) {
        message[key] = json!(thinking);
    }
    if api == Api::Mistral
        && let Some(thinking) = &output.thinking
    {
        message["content"] = mistral_content(thinking, output.text.as_deref());
    }
    if !output.calls.is_empty() {
        message["tool_calls"] = output.calls.iter().map(call).collect();
    }
    let mut choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(api, output)});
    let mut completion = json!({
        "id": COMPLETION_ID, "object": "chat.completion", "created": CREATED, "model": MODEL_NAME,
    });
    if api == Api::Azure {
        choice["content_filter_results"] = filter_results();
        completion["prompt_filter_results"] =
            json!([{"prompt_index": 0, "content_filter_results": filter_results()}]);
    }
    completion["choices"] = json!([choice]);
    completion["usage"] = usage(api, output.usage);
    completion
}

/// Renders the events of a stream; the last one is `[DONE]`.
pub(in crate::provider) fn stream_events(api: Api, output: &ModelOutput, with_usage: bool) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    if api == Api::Azure {
        let mut first = chunk(json!([]));
        first["prompt_filter_results"] =
            json!([{"prompt_index": 0, "content_filter_results": filter_results()}]);
        chunks.push(first);
    }
    let mut deltas = vec![json!({"role": "assistant", "content": ""})];
    for piece in pieces(output.thinking.as_deref().unwrap_or_default()) {
        if let Some(key) = thinking_key(api) {
            deltas.push(json!({key: piece}));
        } else if api == Api::Mistral {
            deltas.push(json!({"content": mistral_content(piece, None)}));
        }
    }
    deltas.extend(
        pieces(output.text.as_deref().unwrap_or_default()).iter().map(|piece| json!({"content": piece})),
    );
    deltas.extend(
        pieces(output.refusal.as_deref().unwrap_or_default()).iter().map(|piece| json!({"refusal": piece})),
    );
    deltas.extend(call_deltas(api, output));
    chunks.extend(
        deltas.into_iter().map(|delta| {
            chunk(json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": null}]))
        }),
    );
    if let Some(error) = &output.stream_error {
        let mut events: Vec<Vec<u8>> = chunks.iter().map(data).collect();
        events.push(data(&json!({"error": {
            "message": error.message, "type": error.kind, "param": null, "code": error.kind,
        }})));
        return events;
    }
    chunks.push(chunk(
        json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": finish_reason(api, output)}]),
    ));
    match api {
        // These APIs always add the usage to the last chunk.
        Api::Mistral | Api::DeepSeek => {
            if let Some(last) = chunks.last_mut() {
                last["usage"] = usage(api, output.usage);
            }
        }
        Api::Groq => {
            if let Some(last) = chunks.last_mut() {
                last["x_groq"] = json!({"id": "req_1", "usage": usage(api, output.usage)});
            }
        }
        _ => {}
    }
    if with_usage {
        if matches!(api, Api::OpenAiChat | Api::Azure | Api::Vllm) {
            chunks.iter_mut().for_each(|chunk| chunk["usage"] = Value::Null);
        }
        let mut last = chunk(json!([]));
        last["usage"] = usage(api, output.usage);
        chunks.push(last);
    }
    let mut events: Vec<Vec<u8>> = chunks.iter().map(data).collect();
    events.push(b"data: [DONE]\n\n".to_vec());
    events
}

/// A server-sent event without a name.
fn data(value: &Value) -> Vec<u8> {
    format!("data: {value}\n\n").into_bytes()
}

fn chunk(choices: Value) -> Value {
    json!({"id": COMPLETION_ID, "object": "chat.completion.chunk", "created": CREATED, "model": MODEL_NAME, "choices": choices})
}

fn call(call: &OutputCall) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

/// The deltas of the calls: the first one of an index has the id and the name, later ones a piece of the
/// arguments.
fn call_deltas(api: Api, output: &ModelOutput) -> Vec<Value> {
    let delta = |call: Value| json!({"tool_calls": [call]});
    // These APIs send each call in one chunk.
    if matches!(api, Api::Mistral | Api::Xai) {
        return output
            .calls
            .iter()
            .enumerate()
            .map(|(index, output_call)| {
                let mut call = call(output_call);
                call["index"] = index.into();
                delta(call)
            })
            .collect();
    }
    let mut deltas_by_call: Vec<VecDeque<Value>> = output
        .calls
        .iter()
        .enumerate()
        .map(|(index, call)| {
            let function = json!({"name": call.name, "arguments": ""});
            let start = json!({"index": index, "id": call.id, "type": "function", "function": function});
            let rest = pieces(&call.arguments)
                .into_iter()
                .map(|piece| json!({"index": index, "function": {"arguments": piece}}));
            [start].into_iter().chain(rest).map(delta).collect()
        })
        .collect();
    if !output.interleaved {
        return deltas_by_call.into_iter().flatten().collect();
    }
    let mut deltas = Vec::new();
    while deltas_by_call.iter().any(|deltas| !deltas.is_empty()) {
        deltas.extend(deltas_by_call.iter_mut().filter_map(VecDeque::pop_front));
    }
    deltas
}

/// The key of the thinking text; OpenAI itself sends none.
fn thinking_key(api: Api) -> Option<&'static str> {
    match api {
        Api::DeepSeek | Api::Xai | Api::Vllm | Api::LlamaCpp => Some("reasoning_content"),
        Api::Groq => Some("reasoning"),
        _ => None,
    }
}

/// The content of Mistral, which has the thinking as a part.
fn mistral_content(thinking: &str, text: Option<&str>) -> Value {
    let mut parts = vec![json!({"type": "thinking", "thinking": [{"type": "text", "text": thinking}]})];
    parts.extend(text.map(|text| json!({"type": "text", "text": text})));
    parts.into()
}

fn finish_reason(api: Api, output: &ModelOutput) -> String {
    match output.finish_reason() {
        FinishReason::End => "stop".to_owned(),
        FinishReason::Calls => "tool_calls".to_owned(),
        FinishReason::Length => "length".to_owned(),
        FinishReason::Refusal if api != Api::Mistral => "content_filter".to_owned(),
        FinishReason::Refusal => "stop".to_owned(),
        FinishReason::Other(reason) => reason,
    }
}

fn usage(api: Api, tokens: TokenCounts) -> Value {
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
            if tokens.written > 0 {
                usage["prompt_tokens_details"]["cache_write_tokens"] = tokens.written.into();
            }
        }
    }
    usage
}

/// The content filter results of Azure.
fn filter_results() -> Value {
    let safe = json!({"filtered": false, "severity": "safe"});
    json!({"hate": safe, "self_harm": safe, "sexual": safe, "violence": safe})
}
