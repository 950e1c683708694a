//! Reads Responses requests of clients.

use serde_json::{Value, json};
use toolwire_contract::model::OutputFormat;
use toolwire_contract::{Block, Content, ToolCall, ToolResult};

use super::request::is_encrypted;
use crate::client::{
    ApprovalResponse, ClientRequest, ConversationReader, ReadRequest, RequestFields, expected, from_data_url,
    joined_text, native, read_audio, read_effort, read_file, read_output_format, read_parts, read_result,
    read_tools, remote_document, remote_image, with_detail,
};
use crate::native_tools::{NativeTool, qualified_name};
use crate::{Dialect, Family};

const DIALECT: Dialect = Dialect::Responses;

/// The types of items with which the provider reports what its own tools have done.
const PROVIDER_ITEMS: [&str; 4] =
    ["web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"];

pub(super) fn read_request(body: Value) -> ReadRequest<ClientRequest> {
    let mut body = RequestFields::new("", body)?;
    let mut client = ClientRequest::begin(Family::OpenAiResponses, &mut body)?;
    let mut conversation = ConversationReader::new(DIALECT);
    conversation.add_instructions(body.text("instructions")?.unwrap_or_default());
    match body.take("input") {
        None => {}
        Some(Value::String(text)) => {
            conversation.begin_item(Some(0));
            conversation.add_user(vec![Block::Content(Content::text(text))]);
        }
        Some(Value::Array(items)) => read_items(&mut conversation, items)?,
        Some(other) => return Err(expected("input".to_owned(), "a string or an array", &other)),
    }
    client.open_approval = conversation.open_approval();
    (client.approvals, client.with_approvals) = conversation.take_approvals();
    conversation.finish(&mut client);
    if body.has("prompt") {
        return Err(body.unsupported("prompt", "prompt templates exist only at OpenAI"));
    }
    read_tools(&mut client, &mut body, false)?;
    client.request.max_output_tokens = body.count("max_output_tokens")?;
    if client.request.max_output_tokens == Some(0) {
        return Err(body.invalid("max_output_tokens", "must be at least 1"));
    }
    let max_tool_calls = body.count("max_tool_calls")?;
    client.max_tool_calls = max_tool_calls.map(|calls| u32::try_from(calls).unwrap_or(u32::MAX));
    client.request.generation.user = body.text("user")?;
    if let Some(mut reasoning) = body.object("reasoning")? {
        client.request.generation.effort = read_effort(&mut reasoning, "effort")?;
        body.put_back("reasoning", reasoning);
    }
    if let Some(mut text) = body.object("text")? {
        if let Some(format) = text.object("format")? {
            client.request.output = read_output_format(format, false)?;
            client.output_parameter = match client.request.output {
                OutputFormat::Schema { .. } => "text.format.schema",
                _ => "text.format",
            };
        }
        body.put_back("text", text);
    }
    client.finish(Family::OpenAiResponses, body)
}

/// Reads the input. Consecutive items of the assistant are one message.
fn read_items(conversation: &mut ConversationReader, items: Vec<Value>) -> ReadRequest<()> {
    let mut output: Vec<Value> = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        let path = format!("input[{index}]");
        if is_of_assistant(&item) || item.get("type").and_then(Value::as_str) == Some("mcp_call") {
            // Approvals before a response of the model were already applied.
            conversation.forget_approvals();
        }
        if is_response_to_approvals(&item) {
            conversation.forget_approval_requests();
        }
        if is_of_assistant(&item) {
            // The provider cannot find reasoning that it did not store.
            if item.get("type").and_then(Value::as_str) != Some("reasoning") || is_encrypted(&item) {
                conversation.begin_item(Some(index));
            }
            output.push(as_output_item(item));
            continue;
        }
        add_output(conversation, &path, &mut output)?;
        match item.get("type").and_then(Value::as_str) {
            Some("mcp_call") => conversation.begin_item(None),
            Some(kind) if kind.starts_with("mcp_") => {}
            _ => conversation.begin_item(Some(index)),
        }
        read_item(conversation, &path, item)?;
    }
    add_output(conversation, "input", &mut output)
}

fn add_output(conversation: &mut ConversationReader, path: &str, output: &mut Vec<Value>) -> ReadRequest<()> {
    let output = std::mem::take(output);
    if output.is_empty() {
        return Ok(());
    }
    conversation.add_assistant(path, &json!({"status": "completed", "output": output}))
}

/// Whether the model has continued after requests for approval. Calls of the client's tools can be in the
/// same response as the requests.
fn is_response_to_approvals(item: &Value) -> bool {
    match item.get("type").and_then(Value::as_str) {
        Some("mcp_call" | "reasoning") => true,
        None | Some("message") => is_of_assistant(item),
        Some(_) => false,
    }
}

fn is_of_assistant(item: &Value) -> bool {
    match item.get("type").and_then(Value::as_str) {
        None | Some("message") => item.get("role").and_then(Value::as_str) == Some("assistant"),
        Some("function_call" | "custom_tool_call" | "reasoning") => true,
        Some(kind) if PROVIDER_ITEMS.contains(&kind) => true,
        Some(_) => NativeTool::of_call(item).is_some(),
    }
}

/// Returns a message in the format of an output item: clients may leave out the type and write the content as
/// a string.
fn as_output_item(mut item: Value) -> Value {
    if let Some(fields) = item.as_object_mut() {
        fields.entry("type").or_insert_with(|| json!("message"));
        if let Some(Value::String(text)) = fields.get("content") {
            let part = json!([{"type": "output_text", "text": text, "annotations": []}]);
            fields.insert("content".to_owned(), part);
        }
    }
    item
}

/// Reads the result of a tool that OpenAI defines. If the provider ran it, the model can continue without it.
fn read_native_output(
    conversation: &mut ConversationReader,
    path: &str,
    mut fields: RequestFields,
    item: &Value,
) -> ReadRequest<()> {
    let id = match fields.text("call_id")? {
        Some(id) => Some(id),
        None => fields.text("id")?,
    };
    let Some(id) = id.filter(|id| conversation.has_call(id)) else { return Ok(()) };
    // The tools that a search has found can be called from now on.
    conversation.add_tools(fields.list("tools")?);
    let output = fields.take("output").unwrap_or_default();
    let image = output.get("image_url").and_then(Value::as_str).and_then(|url| from_data_url(url, None));
    let content = match (image, output) {
        (Some(image), _) => image,
        (None, Value::String(text)) => Content::text(text),
        (None, Value::Null) => Content::text(item.to_string()),
        (None, output) => Content::text(output.to_string()),
    };
    let mut result = ToolResult { content: Some(vec![content]), ..ToolResult::default() };
    let meta = json!({Family::OpenAiResponses.meta_key(): item});
    result.extra.insert("_meta".to_owned(), meta);
    conversation.add_result(path, id, result)
}

fn read_item(conversation: &mut ConversationReader, path: &str, item: Value) -> ReadRequest<()> {
    let is_output = item.get("type").and_then(Value::as_str).and_then(NativeTool::of_output).is_some();
    let written = if is_output { item.clone() } else { Value::Null };
    let mut fields = RequestFields::new(path, item)?;
    match fields.text("type")?.as_deref() {
        None | Some("message") => match fields.required_text("role")?.as_str() {
            "user" => conversation.add_user_message(read_parts(&mut fields, "content", read_part)?),
            "system" | "developer" => {
                conversation.add_instructions(joined_text(read_parts(&mut fields, "content", read_part)?));
            }
            other => {
                let problem = format!("must be `user`, `assistant`, `system` or `developer`, not `{other}`");
                return Err(fields.invalid("role", problem));
            }
        },
        Some("function_call_output" | "custom_tool_call_output") => {
            let id = result_id(conversation, &mut fields)?;
            let result = read_result(&mut fields, "output", read_part)?;
            conversation.add_result(path, id, result)?;
        }
        // A call of a server's tool. It is only history: nothing in a request makes it run again.
        Some("mcp_call") => {
            let id = fields.required_text("id")?;
            let name = fields.required_text("name")?;
            let arguments = fields.text("arguments")?.and_then(|text| serde_json::from_str(&text).ok());
            let output = fields.text("output")?;
            let error = fields.take("error").filter(|error| !error.is_null());
            let result = match (output, error) {
                (Some(output), _) => ToolResult::text(output),
                (None, Some(error)) => ToolResult::error(error.to_string()),
                (None, None) => ToolResult::error("the call has no result"),
            };
            conversation.add_server_call(id, ToolCall::new(name, arguments.unwrap_or_default()), result);
        }
        Some("mcp_approval_response") => conversation.add_approval(ApprovalResponse {
            parameter: path.to_owned(),
            request_id: fields.required_text("approval_request_id")?,
            approve: fields.flag("approve")?.ok_or_else(|| fields.missing("approve"))?,
            reason: fields.text("reason")?,
            has_request: false,
        })?,
        Some("mcp_approval_request") => {
            conversation.add_approval_request(path, fields.required_text("id")?);
        }
        Some("additional_tools") => {
            conversation.add_tools(fields.required_list("tools")?);
            conversation.keep_item();
        }
        Some(kind) if NativeTool::of_output(kind).is_some() => {
            read_native_output(conversation, path, fields, &written)?;
        }
        // Items of later versions. The model can continue without them.
        Some(_) => {}
    }
    Ok(())
}

/// Returns the id of the call that a result belongs to. A result may have the name of the tool instead.
fn result_id(conversation: &mut ConversationReader, fields: &mut RequestFields) -> ReadRequest<String> {
    if let Some(id) = fields.text("call_id")? {
        return Ok(id);
    }
    let Some(name) = fields.text("name")? else { return Err(fields.missing("call_id")) };
    let name = match fields.text("namespace")? {
        Some(namespace) => qualified_name(&namespace, &name),
        None => name,
    };
    conversation.open_call_of(&name).ok_or_else(|| {
        let problem =
            format!("is required unless exactly one call of `{name}` in the last response has no result");
        fields.invalid("call_id", problem)
    })
}

fn read_part(path: &str, part: Value) -> ReadRequest<Option<Content>> {
    let mut fields = RequestFields::new(path, part.clone())?;
    Ok(match fields.required_text("type")?.as_str() {
        "input_text" | "output_text" | "text" => {
            Some(fields.required_text("text")?).filter(|text| !text.is_empty()).map(Content::text)
        }
        "input_image" => match fields.text("image_url")? {
            Some(url) => {
                let detail = fields.text("detail")?;
                let known = from_data_url(&url, None).map(|image| with_detail(image, detail.as_deref()));
                Some(known.unwrap_or_else(|| remote_image(DIALECT, part, &url, detail.as_deref())))
            }
            None => Some(native(DIALECT, part)),
        },
        "input_file" => match fields.text("file_url")? {
            Some(url) => Some(remote_document(DIALECT, part, &url)),
            None => Some(read_file(DIALECT, &mut fields, part)?),
        },
        "input_audio" => Some(read_audio(&mut fields)?),
        // Parts of later versions can only be sent to the same API.
        _ => Some(native(DIALECT, part)),
    })
}
