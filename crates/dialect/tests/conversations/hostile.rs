//! Invalid histories and responses: a history produces a body that follows the rules or an error, and no
//! response causes a panic.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwire_contract::model::ModelRequest;
use toolwire_contract::{Block, Message, Role};
use toolwire_dialect::request::{RequestError, RequestOptions, write_request};
use toolwire_dialect::response::{ResponseStream, read_response};
use toolwire_dialect::{Dialect, Options, Toolset};

use crate::{rules, tools, toolset};

/// A few ids, so that some calls and results match, some repeat, and some have no counterpart.
fn id() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "functions.get:0", "", "käse", "call_123456789"])
}

fn block() -> impl Strategy<Value = Value> {
    let text = prop::sample::select(vec!["hi", "", "  ", "\0", "ü"]);
    let provider = prop::sample::select(vec![
        "openai",
        "responses",
        "anthropic",
        "gemini",
        "bedrock",
        "cohere",
        "ollama",
        "mcp",
    ]);
    let name = prop::sample::select(vec!["get_weather", "db.query", "removed", "not a tool name!"]);
    prop_oneof![
        text.prop_map(|text| json!({"type": "text", "text": text})),
        Just(json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"})),
        Just(json!({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"})),
        Just(json!({"type": "resource", "resource": {"uri": "a:b", "mimeType": "application/pdf", "blob": "JVBERi0="}})),
        Just(json!({"type": "resource_link", "uri": "a:b", "name": "n"})),
        Just(json!({"type": "later", "x": [1]})),
        Just(json!({"type": "text", "text": "secret", "annotations": {"audience": ["user"]}})),
        provider.clone().prop_map(|provider| json!({"type": "thinking", "text": "t", "_meta": {format!("toolwire/{provider}"): {"provider": provider}}})),
        provider.prop_map(|provider| json!({"type": "text", "text": "", "_meta": {format!("toolwire/{provider}"): {"thoughtSignature": "s"}}})),
        (id(), name.clone()).prop_map(|(id, name)| json!({"type": "tool_use", "id": id, "name": name, "input": {"city": 5, "$filter": "x"}})),
        (id(), name).prop_map(|(id, name)| {
            json!({"type": "tool_use", "id": id, "name": name, "_meta": {"toolwire/arguments": "{\"a", "toolwire/gemini": {"id": null}}})
        }),
        id().prop_map(|id| json!({"type": "tool_result", "toolUseId": id, "content": [{"type": "text", "text": "r"}]})),
        id().prop_map(|id| json!({"type": "tool_result", "toolUseId": id, "isError": true, "content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]})),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let role = prop_oneof![Just(Role::User), Just(Role::Assistant)];
    (role, prop::collection::vec(block(), 0..5))
        .prop_map(|(role, blocks)| Message::new(role, blocks.into_iter().map(Block::from).collect()))
}

/// Returns no tools or all tools, converted once per dialect.
fn cached_toolset(dialect: Dialect, has_tools: bool) -> &'static Arc<Toolset> {
    static TOOLSETS: LazyLock<Vec<[Arc<Toolset>; 2]>> = LazyLock::new(|| {
        let empty = |dialect| Toolset::new(&[], dialect, &Options::default());
        Dialect::all().map(|dialect| [Arc::new(empty(dialect)), Arc::new(toolset(dialect))]).collect()
    });
    let index = Dialect::all().position(|other| other == dialect).unwrap();
    &TOOLSETS[index][usize::from(has_tools)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_call_in_a_body_has_exactly_one_result(messages in prop::collection::vec(message().prop_map(Arc::new), 0..8), has_tools: bool) {
        for dialect in Dialect::all() {
            let tools = if has_tools { tools() } else { Vec::new() };
            let toolset = cached_toolset(dialect, has_tools);
            let request = ModelRequest { messages: messages.clone(), tools: tools.into(), ..ModelRequest::default() };
            match write_request(dialect, &request, toolset, &RequestOptions::default()) {
                Ok(body) => {
                    let calls = rules::check(dialect, &body);
                    let expected = messages.iter().filter(|message| message.role == Role::Assistant);
                    assert_eq!(calls, expected.map(|message| message.calls().count()).sum::<usize>(), "{dialect}");
                }
                Err(error) => assert_eq!(error, RequestError::NoMessages),
            }
        }
    }

    #[test]
    fn no_response_causes_a_panic(events in prop::collection::vec(mutated_event(), 0..6)) {
        for dialect in Dialect::all() {
            let tools = cached_toolset(dialect, true);
            let mut stream = ResponseStream::new(dialect, tools.clone());
            for event in &events {
                let _ = read_response(dialect, event, tools, "");
                let _ = stream.push(event);
            }
            let _ = stream.finish();
        }
    }
}

/// Returns events of all APIs, each with one value replaced.
fn mutated_event() -> impl Strategy<Value = Value> {
    let names = [
        "openai",
        "responses",
        "anthropic",
        "gemini",
        "bedrock",
        "cohere",
        "ollama",
        "mcp",
        "mistral",
        "dial",
    ];
    let mut events: Vec<Value> = Vec::new();
    for name in names {
        for transcript in crate::read(&format!("responses/{name}.json")).as_object().unwrap().values() {
            events.extend(transcript["events"].as_array().unwrap().clone());
            events.push(transcript["body"].clone());
        }
    }
    let replacement = prop::sample::select(vec![
        json!(null),
        json!(-1),
        json!("x"),
        json!([]),
        json!([5]),
        json!({}),
        json!({"type": 5}),
    ]);
    (prop::sample::select(events), any::<prop::sample::Index>(), replacement).prop_map(
        |(mut event, index, replacement)| {
            let count = value_count(&event);
            if let Some(target) = nth_value(&mut event, &mut index.index(count + 1)) {
                *target = replacement;
            }
            event
        },
    )
}

fn value_count(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(|item| 1 + value_count(item)).sum(),
        Value::Object(fields) => fields.values().map(|field| 1 + value_count(field)).sum(),
        _ => 0,
    }
}

fn nth_value<'v>(value: &'v mut Value, remaining: &mut usize) -> Option<&'v mut Value> {
    if *remaining == 0 {
        return Some(value);
    }
    *remaining -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth_value(item, remaining)),
        Value::Object(fields) => fields.iter_mut().find_map(|(_, field)| nth_value(field, remaining)),
        _ => None,
    }
}
