//! Web searches that Anthropic makes itself: their blocks, and the checks of those that a request sends back.
//!
//! Rules in `docs/providers.md`: `anthropic/server-tools`.

use serde_json::{Value, json};

use super::{reject, required};
use crate::provider::check::Rejection;
use crate::provider::json::{list, present, text};
use crate::provider::{ModelOutput, opaque_token};

const PAGE: &str = "https://example.com/page";

/// Returns the call and the result of a search.
pub(super) fn blocks(query: &str) -> [Value; 2] {
    let id = format!("srvtoolu_{}", opaque_token::digest("search", query));
    let page = json!({
        "type": "web_search_result", "url": PAGE, "title": "A page", "page_age": null,
        "encrypted_content": opaque_token::issue("search", query),
    });
    [
        json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": query}}),
        json!({"type": "web_search_tool_result", "tool_use_id": id, "content": [page]}),
    ]
}

/// Returns the counts of the provider's own calls, if there are any.
pub(super) fn usage(output: &ModelOutput) -> Option<Value> {
    let searches = output.searches.len();
    (searches > 0).then(|| json!({"web_search_requests": searches, "web_fetch_requests": 0}))
}

/// Returns the citation of the text, if it follows a search.
pub(super) fn citation(output: &ModelOutput) -> Option<Value> {
    let query = output.searches.last()?;
    Some(json!({
        "type": "web_search_result_location", "url": PAGE, "title": "A page", "cited_text": "It is so.",
        "encrypted_index": opaque_token::issue("index", query),
    }))
}

/// Checks the calls of the provider's own tools and their results, which are in the same turn of the
/// assistant. A call may lack its result only at the end, where the provider continues.
pub(super) fn check(messages: &[Value]) -> Result<(), Rejection> {
    let mut open: Vec<(&str, &str)> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        if text(message, "role") != Some("assistant") {
            check_closed(&open)?;
            continue;
        }
        for (number, block) in super::blocks(message).iter().enumerate() {
            let path = format!("messages.{index}.content.{number}");
            match text(block, "type").unwrap_or_default() {
                "server_tool_use" => open.push(check_call(&path, block)?),
                "text" => check_citations(&path, block)?,
                kind if kind.ends_with("_tool_result") && kind != "mcp_tool_result" => {
                    let id_path = format!("{path}.{kind}.tool_use_id");
                    let id = text(block, "tool_use_id").ok_or_else(|| required(&id_path))?;
                    let Some(position) = open.iter().position(|(known, _)| *known == id) else {
                        return Err(reject(&format!(
                            "{path}: unexpected `tool_use_id` found in `{kind}` blocks: {id}. Each `{kind}` block must have a \
                             corresponding `server_tool_use` block before it."
                        )));
                    };
                    open.remove(position);
                    check_pages(&format!("{path}.{kind}"), block)?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn check_closed(open: &[(&str, &str)]) -> Result<(), Rejection> {
    let Some((id, name)) = open.first() else { return Ok(()) };
    Err(reject(&format!(
        "`{name}` tool use with id `{id}` was found without a corresponding `{name}_tool_result` block"
    )))
}

/// Returns the id and the name of a call.
fn check_call<'b>(path: &str, block: &'b Value) -> Result<(&'b str, &'b str), Rejection> {
    let path = format!("{path}.server_tool_use");
    let field = |key: &str| text(block, key).ok_or_else(|| required(&format!("{path}.{key}")));
    let (id, name) = (field("id")?, field("name")?);
    if !id.starts_with("srvtoolu_") {
        return Err(reject(&format!("{path}.id: String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'")));
    }
    match block.get("input") {
        None => Err(required(&format!("{path}.input"))),
        Some(Value::Object(_)) => Ok((id, name)),
        Some(_) => Err(reject(&format!("{path}.input: Input should be a valid dictionary"))),
    }
}

fn check_pages(path: &str, block: &Value) -> Result<(), Rejection> {
    if present(block, "content").is_none() {
        return Err(required(&format!("{path}.content")));
    }
    let pages = list(block, "content").iter().enumerate();
    for (index, page) in pages.filter(|(_, page)| text(page, "type") == Some("web_search_result")) {
        check_token(&format!("{path}.content.{index}"), "encrypted_content", "search", page)?;
    }
    Ok(())
}

fn check_citations(path: &str, block: &Value) -> Result<(), Rejection> {
    let citations = list(block, "citations").iter().enumerate();
    let is_of_search = |citation: &Value| text(citation, "type") == Some("web_search_result_location");
    for (index, citation) in citations.filter(|(_, citation)| is_of_search(citation)) {
        let path = format!("{path}.text.citations.{index}.web_search_result_location");
        check_token(&path, "encrypted_index", "index", citation)?;
    }
    Ok(())
}

fn check_token(path: &str, key: &str, kind: &str, value: &Value) -> Result<(), Rejection> {
    let token = text(value, key).ok_or_else(|| required(&format!("{path}.{key}")))?;
    let is_valid = opaque_token::open(kind, token).is_some();
    if is_valid { Ok(()) } else { Err(reject(&format!("{path}: Invalid `{key}`"))) }
}
