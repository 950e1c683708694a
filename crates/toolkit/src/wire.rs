//! Conversions between our types and those of the MCP SDK.
//!
//! Only values that the SDK must inspect are converted. All others are sent as raw JSON
//! ([`crate::transport`]'s `raw_responses`), because the SDK's types drop unknown fields and kinds of
//! content.

#![expect(deprecated, reason = "the SDK marks what MCP 2026-07-28 deprecates; older clients still use it")]

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, LoggingLevel};
use serde_json::{Map, Value, json};
use toolwire_contract::toolbox::CallError;
use toolwire_contract::{Content, Tool, ToolResult};

use crate::client::{Form, FormReply, Level};
use crate::offers::OfferError;
use crate::schema::each;

/// A result to send: in the SDK's type if that loses nothing, else as raw JSON.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Typed(CallToolResult),
    Raw(Map<String, Value>),
}

pub(crate) fn result_out(result: ToolResult) -> Outgoing {
    let fits =
        result.extra.is_empty() && result.result_type.is_none() && result.blocks().iter().all(is_plain);
    if !fits {
        return Outgoing::Raw(raw_result(result));
    }
    let blocks = result.content.unwrap_or_default().into_iter().filter_map(typed_block).collect();
    let mut typed = CallToolResult::success(blocks);
    typed.is_error = result.is_error;
    typed.structured_content = result.structured_content;
    Outgoing::Typed(typed)
}

/// Returns the result of a task: the response that the call would have had.
pub(crate) fn result_in_task(result: ToolResult) -> Map<String, Value> {
    let mut fields = raw_result(result);
    fields.entry("resultType").or_insert_with(|| json!("complete"));
    fields
}

fn is_plain(block: &Content) -> bool {
    match block {
        Content::Text { extra, .. } | Content::Image { extra, .. } | Content::Audio { extra, .. } => {
            extra.is_empty()
        }
        Content::Resource { .. } | Content::ResourceLink(_) | Content::Other(_) => false,
    }
}

fn typed_block(block: Content) -> Option<ContentBlock> {
    match block {
        Content::Text { text, .. } => Some(ContentBlock::text(text)),
        Content::Image { data, mime_type, .. } => Some(ContentBlock::image(data, mime_type)),
        Content::Audio { data, mime_type, .. } => Some(ContentBlock::audio(data, mime_type)),
        Content::Resource { .. } | Content::ResourceLink(_) | Content::Other(_) => None,
    }
}

/// Returns a result as JSON, with the `content` that MCP requires.
fn raw_result(mut result: ToolResult) -> Map<String, Value> {
    if !result.needs_input() && !result.is_task() {
        result.content.get_or_insert_default();
    }
    match Value::from(result) {
        Value::Object(fields) => fields,
        _ => unreachable!("a result is an object"),
    }
}

/// Returns the tool that the SDK compares with the `Mcp-Param-…` headers of a call.
pub(crate) fn typed_tool(tool: &Tool) -> rmcp::model::Tool {
    let mut schema = tool.input_schema.clone().unwrap_or_default();
    // The SDK does not see secrets, so it cannot compare their headers.
    each(&mut schema, &mut |schema| {
        if let Some(fields) =
            schema.as_object_mut().filter(|fields| fields.get("writeOnly") == Some(&true.into()))
        {
            fields.shift_remove("x-mcp-header");
        }
    });
    let schema = schema.as_object().cloned();
    rmcp::model::Tool::new(tool.name.clone(), "", Arc::<JsonObject>::new(schema.unwrap_or_default()))
}

/// Returns a tool as it is listed. MCP requires an object as input schema; a toolbox may have another.
pub(crate) fn listed_tool(tool: &Tool) -> Value {
    let mut tool = tool.clone();
    if !tool.input_schema.as_ref().is_some_and(Value::is_object) {
        tool.input_schema = Some(json!({"type": "object"}));
    }
    Value::from(tool)
}

/// Converts a failed call: an unknown tool is a protocol error, all others are results for the model.
pub(crate) fn call_error(error: &CallError) -> Result<ToolResult, ErrorData> {
    match error {
        CallError::UnknownTool { tool, missing, .. } => {
            let missing: String = missing.iter().map(|missing| format!("; {missing}")).collect();
            let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
            Err(ErrorData::invalid_params(format!("unknown tool: `{tool}`{missing}{hint}"), None))
        }
        CallError::Cancelled { .. } => Err(ErrorData::internal_error(error.to_string(), None)),
        _ => Ok(error.to_result()),
    }
}

pub(crate) fn offer_error(error: OfferError) -> ErrorData {
    match error {
        OfferError::Refused(message) => ErrorData::invalid_params(message, None),
        OfferError::Failed(message) => ErrorData::internal_error(message, None),
    }
}

pub(crate) const fn level_out(level: Level) -> LoggingLevel {
    match level {
        Level::Debug => LoggingLevel::Debug,
        Level::Info => LoggingLevel::Info,
        Level::Notice => LoggingLevel::Notice,
        Level::Warning => LoggingLevel::Warning,
        Level::Error => LoggingLevel::Error,
        Level::Critical => LoggingLevel::Critical,
        Level::Alert => LoggingLevel::Alert,
        Level::Emergency => LoggingLevel::Emergency,
    }
}

pub(crate) const fn level_in(level: LoggingLevel) -> Level {
    match level {
        LoggingLevel::Debug => Level::Debug,
        LoggingLevel::Info => Level::Info,
        LoggingLevel::Notice => Level::Notice,
        LoggingLevel::Warning => Level::Warning,
        LoggingLevel::Error => Level::Error,
        LoggingLevel::Critical => Level::Critical,
        LoggingLevel::Alert => Level::Alert,
        LoggingLevel::Emergency => Level::Emergency,
    }
}

/// Returns the parameters of `elicitation/create`.
pub(crate) fn form_out(form: Form) -> Value {
    match form {
        // Clients before 2025-11-25 do not know `mode`; without it the request is a form.
        Form::Fields { message, schema } => json!({"message": message, "requestedSchema": schema}),
        Form::Url { message, url, id } => {
            json!({"mode": "url", "message": message, "url": url, "elicitationId": id})
        }
    }
}

/// Parses the result of `elicitation/create`; `None` if it is invalid.
pub(crate) fn form_reply(response: &Value) -> Option<FormReply> {
    match response.get("action")?.as_str()? {
        "accept" => match response.get("content") {
            None | Some(Value::Null) => Some(FormReply::Accepted(Map::new())),
            Some(Value::Object(content)) => Some(FormReply::Accepted(content.clone())),
            Some(_) => None,
        },
        "decline" => Some(FormReply::Declined),
        "cancel" => Some(FormReply::Cancelled),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(result: Value, is_typed: bool) {
        let read = ToolResult::try_from(result.clone()).expect("the case is a result");
        match result_out(read) {
            Outgoing::Typed(typed) => {
                assert!(is_typed, "{typed:?}");
                let mut typed = serde_json::to_value(typed).expect("a result is JSON");
                typed.as_object_mut().expect("it is an object").shift_remove("resultType");
                assert_eq!(typed, result);
            }
            Outgoing::Raw(raw) => {
                assert!(!is_typed, "{raw:?}");
                assert_eq!(Value::Object(raw), result);
            }
        }
    }

    #[test]
    fn only_lossless_results_are_typed() {
        let text = json!({"type": "text", "text": "a"});
        let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
        check(json!({"content": [text, image]}), true);
        check(json!({"content": [text], "structuredContent": {"a": 1}, "isError": true}), true);
        check(json!({"content": [{"type": "video", "data": "AA=="}]}), false);
        check(json!({"content": [{"type": "text", "text": "a", "annotations": {"later": 1}}]}), false);
        check(json!({"content": [{"type": "resource_link", "uri": "a:b", "name": "n"}]}), false);
        check(json!({"content": [text], "later": 1}), false);
        check(json!({"resultType": "input_required", "inputRequests": {}}), false);
    }

    #[test]
    fn a_schema_that_is_not_an_object_is_listed_as_one() {
        let tool = Tool { name: "f".into(), input_schema: Some(json!(true)), ..Tool::default() };
        assert_eq!(listed_tool(&tool), json!({"name": "f", "inputSchema": {"type": "object"}}));
    }

    #[test]
    fn form_replies_are_parsed_or_rejected() {
        assert_eq!(form_reply(&json!({"action": "accept"})), Some(FormReply::Accepted(Map::new())));
        assert_eq!(form_reply(&json!({"action": "decline", "content": 5})), Some(FormReply::Declined));
        for wrong in [json!(12345), json!({"action": "accept", "content": 5}), json!({"action": "yes"})] {
            assert_eq!(form_reply(&wrong), None, "{wrong}");
        }
    }
}
