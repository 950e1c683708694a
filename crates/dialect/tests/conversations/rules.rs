//! The documented rules of each API for a request, checked independently of the expected bodies.

use std::collections::HashSet;

use serde_json::Value;
use toolwire_dialect::{Dialect, Family};

/// Panics if the body breaks a rule of its API. Returns the number of calls in it.
#[track_caller]
pub(crate) fn check(dialect: Dialect, body: &Value) -> usize {
    let text = body.to_string();
    assert!(!text.contains("toolwire/"), "{dialect}: the body contains our own keys: {text}");
    assert!(dialect == Dialect::Mcp || !text.contains("_meta"), "{dialect}: {text}");
    assert!(
        body.get("tools").is_none_or(|tools| !tools.as_array().unwrap().is_empty()),
        "{dialect}: no tools"
    );
    let (calls, results) = match dialect.family() {
        Family::OpenAiChat | Family::Cohere => chat(dialect, body),
        Family::OpenAiResponses => responses(body),
        Family::Anthropic => blocks(dialect, body, "tool_use", "tool_result"),
        Family::Bedrock => blocks(dialect, body, "toolUse", "toolResult"),
        Family::Gemini => gemini(body),
        Family::Ollama => ollama(body),
        Family::Mcp => mcp(body),
        other => panic!("no rules for {other:?}"),
    };
    assert_eq!(calls, results, "{dialect}: calls and results in {text}");
    let ids: Vec<&String> = calls.iter().filter(|id| !id.starts_with("name:")).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "{dialect}: duplicate id in {text}");
    for id in ids {
        let is_legal = match (dialect, dialect.family()) {
            (Dialect::Mistral, _) => id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric()),
            (_, Family::OpenAiChat | Family::OpenAiResponses) => !id.is_empty() && id.chars().count() <= 64,
            (_, Family::Anthropic) => {
                !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
            }
            (_, Family::Bedrock) => {
                (1..=64).contains(&id.len())
                    && id.chars().all(|c| c.is_ascii_alphanumeric() || "_.:-".contains(c))
            }
            _ => true,
        };
        assert!(is_legal, "{dialect}: invalid id {id:?}");
    }
    calls.len()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Checks that tool messages directly follow their calls, in the same order.
fn chat(dialect: Dialect, body: &Value) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for message in list(&body["messages"]) {
        let role = message["role"].as_str().unwrap();
        let is_open = calls.len() > results.len();
        assert_eq!(role == "tool", is_open, "{dialect}: {role} in {body}");
        match role {
            "assistant" => {
                calls.extend(list(&message["tool_calls"]).iter().map(|call| text(&call["id"])));
                let has_calls = message.get("tool_calls").is_some();
                let has_content = !message["content"].is_null();
                assert!(has_calls || has_content, "{dialect}: an empty message in {body}");
                for call in list(&message["tool_calls"]) {
                    let arguments: Value =
                        serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
                    assert!(arguments.is_object(), "{dialect}: {call}");
                }
            }
            "tool" => results.push(text(&message["tool_call_id"])),
            "user" | "system" => {
                let content = &message["content"];
                let is_empty = content == "" && message.get("custom_content").is_none();
                assert!(
                    !is_empty && content != &serde_json::json!([]),
                    "{dialect}: an empty message in {body}"
                );
            }
            other => panic!("{dialect}: unknown role {other}"),
        }
    }
    (calls, results)
}

fn responses(body: &Value) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    let mut previous_type = "";
    for item in list(&body["input"]) {
        let item_type = item["type"].as_str().unwrap();
        if item_type != "function_call_output" && item_type != "function_call" {
            assert!(
                previous_type != "reasoning" || item_type != "message" || item["role"] == "assistant",
                "{body}"
            );
        }
        match item_type {
            "function_call" => calls.push(text(&item["call_id"])),
            "function_call_output" => results.push(text(&item["call_id"])),
            "reasoning" => assert!(item["encrypted_content"].is_string(), "{item}"),
            "message" => {
                let is_misplaced = item["role"] == "user" && calls.len() > results.len();
                assert!(!is_misplaced, "a user message between call and result in {body}");
                assert!(!list(&item["content"]).is_empty(), "{item}");
            }
            _ => {}
        }
        previous_type = item_type;
    }
    assert_ne!(previous_type, "reasoning", "{body}");
    (calls, results)
}

/// Checks that user and assistant alternate, the user starts, and results come first in the message after
/// their calls.
fn blocks(dialect: Dialect, body: &Value, call_type: &str, result_type: &str) -> (Vec<String>, Vec<String>) {
    let block_of_type = |block: &Value, name: &str| match dialect.family() {
        Family::Bedrock => block.get(name).cloned(),
        _ => (block["type"] == name).then(|| block.clone()),
    };
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    let mut tool_blocks = 0;
    for (number, message) in list(&body["messages"]).iter().enumerate() {
        let expected = if number % 2 == 0 { "user" } else { "assistant" };
        assert_eq!(message["role"], expected, "{dialect}: {body}");
        let content = list(&message["content"]);
        assert!(!content.is_empty(), "{dialect}: an empty message in {body}");
        let result_ids: Vec<String> = content
            .iter()
            .filter_map(|block| block_of_type(block, result_type))
            .map(|result| text(result.get("tool_use_id").unwrap_or(&result["toolUseId"])))
            .collect();
        assert!(
            content.iter().take(result_ids.len()).all(|block| block_of_type(block, result_type).is_some()),
            "{dialect}: {body}"
        );
        tool_blocks += result_ids.len();
        results.extend(result_ids);
        assert!(number % 2 == 1 || calls == results, "{dialect}: {body}");
        calls.extend(
            content
                .iter()
                .filter_map(|block| block_of_type(block, call_type))
                .map(|call| text(call.get("id").unwrap_or(&call["toolUseId"]))),
        );
        for block in content {
            let is_blank = block.get("text").is_some_and(|text| text.as_str().unwrap().trim().is_empty());
            assert!(!is_blank, "{dialect}: a blank text in {body}");
        }
    }
    let tools = body.get("tools").or_else(|| body.pointer("/toolConfig/tools"));
    assert!(tool_blocks == 0 || tools.is_some(), "{dialect}: calls without tools in {body}");
    (calls, results)
}

/// Checks that calls and results are paired by id, or by name and order.
fn gemini(body: &Value) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    let key = |part: &Value| match part.get("id") {
        Some(id) => text(id),
        None => format!("name:{}", text(&part["name"])),
    };
    for (number, content) in list(&body["contents"]).iter().enumerate() {
        let expected = if number % 2 == 0 { "user" } else { "model" };
        assert_eq!(content["role"], expected, "{body}");
        let parts = list(&content["parts"]);
        assert!(!parts.is_empty(), "{body}");
        results.extend(parts.iter().filter_map(|part| part.get("functionResponse")).map(key));
        assert!(number % 2 == 1 || calls == results, "{body}");
        let call_parts: Vec<&Value> =
            parts.iter().filter(|part| part.get("functionCall").is_some()).collect();
        assert!(
            call_parts.iter().take(1).all(|part| part["thoughtSignature"].is_string()),
            "unsigned: {body}"
        );
        calls.extend(call_parts.iter().map(|part| key(&part["functionCall"])));
    }
    (calls, results)
}

fn ollama(body: &Value) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for message in list(&body["messages"]) {
        let is_open = calls.len() > results.len();
        assert_eq!(message["role"] == "tool", is_open, "{body}");
        for call in list(&message["tool_calls"]) {
            let name = format!("name:{}", text(&call["function"]["name"]));
            calls.push(call.get("id").map_or(name, text));
        }
        if message["role"] == "tool" {
            let name = format!("name:{}", text(&message["tool_name"]));
            results.push(message.get("tool_call_id").map_or(name, text));
        }
    }
    (calls, results)
}

fn mcp(body: &Value) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for message in list(&body["messages"]) {
        let ids = |name: &str, key: &str| -> Vec<String> {
            let blocks = list(&message["content"]).iter().filter(|block| block["type"] == name);
            blocks.map(|block| text(&block[key])).collect()
        };
        let result_ids = ids("tool_result", "toolUseId");
        assert!(result_ids.is_empty() || result_ids.len() == list(&message["content"]).len(), "{body}");
        results.extend(result_ids);
        calls.extend(ids("tool_use", "id"));
    }
    (calls, results)
}
