//! Reads Messages requests of clients.

use serde_json::Value;
use toolwire_contract::model::{Effort, Generation, OutputFormat, ToolChoice};
use toolwire_contract::{Block, Content, ToolCall};

use crate::client::{
    ClientRequest, ClientTools, ConversationReader, InvalidRequest, Problem, ReadRequest, RequestFields,
    ToolSource, expected, has_programmatic_calls, joined_text, media, native, read_effort, read_function,
    read_hosted_toolsets, read_parts, read_result, read_schema, remote_document, remote_image, text_file,
};
use crate::{Dialect, Family};

const DIALECT: Dialect = Dialect::Anthropic;

/// The types of tools that Anthropic defines and the client runs, without their dates.
const CLIENT_TOOLS: [&str; 4] = ["bash_", "text_editor_", "computer_", "memory_"];

pub(super) fn read_request(body: Value) -> ReadRequest<ClientRequest> {
    let mut body = RequestFields::new("", body)?;
    let mut client = ClientRequest::begin(Family::Anthropic, &mut body)?;
    let mut conversation = ConversationReader::new(DIALECT);
    conversation.add_instructions(joined_text(read_parts(&mut body, "system", read_part)?));
    for (position, (path, message)) in body.required_list("messages")?.enumerate() {
        conversation.begin_item(Some(position).filter(|_| !is_rewritten(&message)));
        read_message(&mut conversation, &path, message)?;
    }
    conversation.finish(&mut client);
    let mut tools = ClientTools::default();
    let mut toolsets = Vec::new();
    let mut has_programs = false;
    for (position, (path, tool)) in body.list("tools")?.enumerate() {
        has_programs |= has_programmatic_calls(&tool);
        let mut fields = RequestFields::new(&*path, tool)?;
        let is_native = match fields.text("type")?.as_deref() {
            None | Some("custom") => false,
            Some("mcp_toolset") => {
                toolsets.push(fields);
                continue;
            }
            Some(known) if CLIENT_TOOLS.iter().any(|start| known.starts_with(start)) => {
                client.native_tool = Some(fields.native_tool(known, "Anthropic's API"));
                true
            }
            // The provider may have types that are not known here.
            Some(other) => {
                let error = fields.provider_tool(other, "Anthropic");
                let name = fields.text("name")?.unwrap_or_else(|| other.to_owned());
                client.add_provider_tool(name, Some(position), error);
                continue;
            }
        };
        let tool = read_function(fields, "input_schema")?;
        client.sources.native_tools.extend(is_native.then(|| tool.name.clone()));
        client.sources.tools.push(ToolSource { name: tool.name.clone(), position: Some(position) });
        tools.add(&path, tool)?;
    }
    if let Some(error) = client.native_tool.take_if(|error| has_programs && is_provider_tool(error)) {
        return Err(error);
    }
    client.request.tools = tools.into_tools().into();
    read_hosted_toolsets(&mut client, &mut body, toolsets)?;
    client.request.tool_choice = read_tool_choice(&mut body, &mut client.request.generation)?;
    client.request.max_output_tokens = body.count("max_tokens")?;
    read_generation(&mut body, &mut client)?;
    client.finish(Family::Anthropic, body)
}

/// Whether a tool is refused because only the provider can run it.
fn is_provider_tool(error: &InvalidRequest) -> bool {
    matches!(error.problem, Problem::ProviderTool { .. })
}

/// Whether a message is not sent as the client wrote it. The provider would treat `mcp_tool_use` blocks as
/// calls of its own MCP servers, and it rejects thinking without a signature, which other models produce. It
/// also rejects empty text, which LangChain adds before calls.
fn is_rewritten(message: &Value) -> bool {
    // The response of a model may be empty, but the API rejects such a message in a history.
    let is_empty = |content: &Value| content.as_array().is_some_and(Vec::is_empty) || *content == "";
    let is_response = message["role"] == "assistant";
    if is_response && message.get("content").is_none_or(is_empty) {
        return true;
    }
    let blocks = message.get("content").and_then(Value::as_array).into_iter().flatten();
    blocks.into_iter().any(|block| match block.get("type").and_then(Value::as_str) {
        Some("mcp_tool_use" | "mcp_tool_result") => true,
        Some("thinking") => block.get("signature").and_then(Value::as_str).is_none_or(str::is_empty),
        Some("text") => is_response && block["text"] == "",
        _ => false,
    })
}

fn read_message(conversation: &mut ConversationReader, path: &str, message: Value) -> ReadRequest<()> {
    let role = message.get("role").and_then(Value::as_str).map(str::to_owned);
    if role.as_deref() == Some("assistant") {
        return read_assistant_message(conversation, path, message);
    }
    let mut fields = RequestFields::new(path, message)?;
    match role.ok_or_else(|| fields.missing("role"))?.as_str() {
        "system" => {
            conversation.add_instructions(joined_text(read_parts(&mut fields, "content", read_part)?))
        }
        "user" => read_user_message(conversation, &mut fields)?,
        other => {
            let problem = format!("must be `user`, `assistant` or `system`, not `{other}`");
            return Err(fields.invalid("role", problem));
        }
    }
    Ok(())
}

/// Reads an assistant message. Calls of servers' tools and their results become separate messages. They are
/// only history: nothing in a request makes them run again.
fn read_assistant_message(
    conversation: &mut ConversationReader,
    path: &str,
    mut message: Value,
) -> ReadRequest<()> {
    let is_server_block = |block: &Value| {
        matches!(block.get("type").and_then(Value::as_str), Some("mcp_tool_use" | "mcp_tool_result"))
    };
    let blocks = match message.get_mut("content") {
        Some(Value::Array(blocks)) if blocks.iter().any(is_server_block) => std::mem::take(blocks),
        _ => return conversation.add_assistant(path, &message),
    };
    let mut others = Vec::new();
    let mut calls: Vec<(String, ToolCall)> = Vec::new();
    for (index, block) in blocks.into_iter().enumerate() {
        if !is_server_block(&block) {
            others.push(block);
            continue;
        }
        if !others.is_empty() {
            message["content"] = Value::Array(std::mem::take(&mut others));
            conversation.add_assistant(path, &message)?;
        }
        let mut fields = RequestFields::new(format!("{path}.content[{index}]"), block)?;
        if fields.required_text("type")? == "mcp_tool_use" {
            let arguments =
                fields.take("input").and_then(|input| input.as_object().cloned()).unwrap_or_default();
            calls
                .push((fields.required_text("id")?, ToolCall::new(fields.required_text("name")?, arguments)));
            continue;
        }
        let id = fields.required_text("tool_use_id")?;
        let mut result = read_result(&mut fields, "content", read_part)?;
        result.is_error = fields.flag("is_error")?.filter(|is_error| *is_error);
        if let Some(position) = calls.iter().position(|(known, _)| *known == id) {
            conversation.add_server_call(id, calls.remove(position).1, result);
        }
    }
    if !others.is_empty() {
        message["content"] = Value::Array(others);
        conversation.add_assistant(path, &message)?;
    }
    Ok(())
}

fn read_user_message(conversation: &mut ConversationReader, fields: &mut RequestFields) -> ReadRequest<()> {
    if fields.peek_text("content").is_some() {
        conversation.add_user(read_parts(fields, "content", read_part)?);
        return Ok(());
    }
    for (path, block) in fields.list("content")? {
        if block.get("type").and_then(Value::as_str) != Some("tool_result") {
            conversation.add_user(read_part(&path, block)?.map(Block::Content).into_iter().collect());
            continue;
        }
        let mut fields = RequestFields::new(&*path, block)?;
        let id = fields.required_text("tool_use_id")?;
        let mut result = read_result(&mut fields, "content", read_part)?;
        result.is_error = fields.flag("is_error")?.filter(|is_error| *is_error);
        conversation.add_result(&path, id, result)?;
    }
    Ok(())
}

fn read_part(path: &str, part: Value) -> ReadRequest<Option<Content>> {
    let mut fields = RequestFields::new(path, part.clone())?;
    let type_name = fields.required_text("type")?;
    match type_name.as_str() {
        "text" => Ok(Some(fields.required_text("text")?).filter(|text| !text.is_empty()).map(Content::text)),
        "image" | "document" => {
            let title = fields.text("title")?;
            let mut source = fields.object("source")?.ok_or_else(|| fields.missing("source"))?;
            Ok(Some(match source.required_text("type")?.as_str() {
                "base64" => {
                    let media_type = source.required_text("media_type")?;
                    media(&media_type, source.required_text("data")?, title.as_deref())
                }
                "text" => text_file(source.required_text("data")?, title.as_deref()),
                "url" => {
                    let url = source.required_text("url")?;
                    match type_name.as_str() {
                        "image" => remote_image(DIALECT, part, &url, None),
                        _ => remote_document(DIALECT, part, &url),
                    }
                }
                _ => native(DIALECT, part),
            }))
        }
        // Blocks of later versions, and those that only Claude understands.
        _ => Ok(Some(native(DIALECT, part))),
    }
}

fn read_tool_choice(body: &mut RequestFields, generation: &mut Generation) -> ReadRequest<ToolChoice> {
    let Some(mut choice) = body.object("tool_choice")? else { return Ok(ToolChoice::Auto) };
    generation.parallel_calls = choice.flag("disable_parallel_tool_use")?.map(|is_disabled| !is_disabled);
    Ok(match choice.required_text("type")?.as_str() {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Required,
        "none" => ToolChoice::None,
        "tool" => ToolChoice::Tool(choice.required_text("name")?),
        other => {
            let problem = format!("must be `auto`, `any`, `none` or `tool`, not `{other}`");
            return Err(choice.invalid("type", problem));
        }
    })
}

fn read_generation(body: &mut RequestFields, client: &mut ClientRequest) -> ReadRequest<()> {
    let generation = &mut client.request.generation;
    for (path, text) in body.list("stop_sequences")? {
        match text {
            Value::String(text) => generation.stop.push(text),
            other => return Err(expected(path, "a string", &other)),
        }
    }
    generation.top_k = body.count("top_k")?;
    if let Some(mut metadata) = body.object("metadata")? {
        generation.user = metadata.text("user_id")?;
        body.put_back("metadata", metadata);
    }
    if let Some(mut thinking) = body.object("thinking")? {
        match thinking.peek_text("type").ok_or_else(|| thinking.missing("type"))? {
            "disabled" => {
                generation.effort = Some(Effort::None);
                thinking.take("type");
            }
            "enabled" => {
                generation.thinking_tokens = thinking.count("budget_tokens")?;
                thinking.take("type");
            }
            // Other APIs have no such mode.
            _ => {}
        }
        body.put_back("thinking", thinking);
    }
    let mut format = None;
    if let Some(mut output) = body.object("output_config")? {
        if let Some(effort) = read_effort(&mut output, "effort")? {
            generation.effort = Some(effort);
        }
        format = output.object("format")?;
        body.put_back("output_config", output);
    }
    // The name of the field in the API's beta `structured-outputs-2025-11-13`.
    let older = body.object("output_format")?;
    if format.is_some() && older.is_some() {
        return Err(body.invalid("output_format", "must not be set together with `output_config.format`"));
    }
    client.output_parameter = match (&format, &older) {
        (Some(_), _) => "output_config.format.schema",
        (None, Some(_)) => "output_format.schema",
        (None, None) => "",
    };
    if let Some(mut format) = format.or(older) {
        client.request.output = match format.required_text("type")?.as_str() {
            // This API always enforces the schema.
            "json_schema" => read_schema(format, true)?,
            "text" => OutputFormat::Text,
            other => {
                let problem = format!("must be `text` or `json_schema`, not `{other}`");
                return Err(format.invalid("type", problem));
            }
        };
    }
    Ok(())
}
