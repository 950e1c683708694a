//! Parts of requests that OpenAI's two APIs have in common. Some fields are in a nested object in Chat
//! Completions, and directly in the object in Responses: the function of a tool or a choice, the allowed
//! tools, and the response schema.

use std::collections::HashSet;

use serde_json::{Value, json};
use toolwire_contract::{Content, OutputFormat, ToolChoice};

use super::{
    ClientRequest, ClientTools, ReadRequest, RequestFields, ToolReference, from_data_url, media, native,
    read_function, read_hosted_server, read_schema,
};
use crate::Dialect;

/// Returns the fields of an object that one of the APIs nests.
fn nested(mut fields: RequestFields, key: &str, is_nested: bool) -> ReadRequest<RequestFields> {
    match is_nested {
        true => fields.object(key)?.ok_or_else(|| fields.missing(key)),
        false => Ok(fields),
    }
}

/// Reads `tools` and `tool_choice`.
pub(crate) fn read_tools(
    client: &mut ClientRequest,
    body: &mut RequestFields,
    is_nested: bool,
) -> ReadRequest<()> {
    let mut tools = ClientTools::default();
    for (position, (path, tool)) in body.list("tools")?.into_iter().enumerate() {
        let mut fields = RequestFields::new(&*path, tool)?;
        let tool = match fields.text("type")?.as_deref() {
            Some("function") | None => read_function(nested(fields, "function", is_nested)?, "parameters")?,
            Some("custom") => {
                client.native_tool = Some(fields.provider_tool("custom", "OpenAI"));
                let mut tool = read_function(nested(fields, "custom", is_nested)?, "parameters")?;
                let schema = json!({"type": "object", "properties": {"input": {"type": "string"}}});
                tool.input_schema = Some(schema);
                client.sources.native_tools.push(tool.name.clone());
                tool
            }
            Some("mcp") => {
                client.hosted_servers.push(read_hosted_server(fields)?);
                continue;
            }
            Some(other) => return Err(fields.provider_tool(other, "OpenAI")),
        };
        client.sources.tools.push((tool.name.clone(), position));
        tools.add(&path, tool)?;
    }
    client.request.tool_choice = read_choice(client, body, is_nested)?;
    let mut tools = tools.into_tools();
    if let Some(allowed) = &client.allowed_tools {
        client.sources.restricts_tools = true;
        let names = allowed.iter().filter(|allowed| allowed.server.is_none());
        let names: HashSet<&str> = names.filter_map(|allowed| allowed.name.as_deref()).collect();
        tools.retain(|tool| names.contains(tool.name.as_str()));
    }
    client.request.tools = tools.into();
    client.request.generation.parallel_calls = body.flag("parallel_tool_calls")?;
    Ok(())
}

/// Returns the choice, and stores the tools that it names.
fn read_choice(
    client: &mut ClientRequest,
    body: &mut RequestFields,
    is_nested: bool,
) -> ReadRequest<ToolChoice> {
    let choice = match body.take("tool_choice") {
        None => return Ok(ToolChoice::Auto),
        Some(Value::String(name)) => return read_choice_mode(body, "tool_choice", &name),
        Some(choice) => choice,
    };
    let mut fields = RequestFields::new(body.path("tool_choice"), choice)?;
    match fields.required_text("type")?.as_str() {
        kind @ ("function" | "custom") => {
            let mut function = nested(fields, kind, is_nested)?;
            Ok(ToolChoice::Tool(function.required_text("name")?))
        }
        "allowed_tools" => {
            let mut allowed = nested(fields, "allowed_tools", is_nested)?;
            let name = allowed.text("mode")?.unwrap_or_else(|| "auto".to_owned());
            let choice = read_choice_mode(&allowed, "mode", &name)?;
            let mut references = Vec::new();
            for (path, tool) in allowed.list("tools")? {
                let mut tool = RequestFields::new(path, tool)?;
                references.push(if tool.peek_text("type") == Some("mcp") {
                    read_server_tool(&mut tool)?
                } else {
                    let kind = tool.text("type")?.unwrap_or_else(|| "function".to_owned());
                    let name = nested(tool, &kind, is_nested)?.required_text("name")?;
                    ToolReference { server: None, name: Some(name) }
                });
            }
            client.allowed_tools = Some(references);
            Ok(choice)
        }
        "mcp" => {
            client.required_tool = Some(read_server_tool(&mut fields)?);
            Ok(ToolChoice::Required)
        }
        other => Err(fields.unsupported("type", format!("the choice `{other}`"))),
    }
}

/// Reads `{"server_label", "name"}`.
fn read_server_tool(fields: &mut RequestFields) -> ReadRequest<ToolReference> {
    Ok(ToolReference { server: Some(fields.required_text("server_label")?), name: fields.text("name")? })
}

/// Reads `auto`, `required` or `none`.
fn read_choice_mode(fields: &RequestFields, key: &str, name: &str) -> ReadRequest<ToolChoice> {
    Ok(match name {
        "auto" => ToolChoice::Auto,
        "required" => ToolChoice::Required,
        "none" => ToolChoice::None,
        other => {
            return Err(fields.invalid(key, format!("must be `auto`, `required` or `none`, not `{other}`")));
        }
    })
}

/// Reads the format of the response.
pub(crate) fn read_output_format(mut format: RequestFields, is_nested: bool) -> ReadRequest<OutputFormat> {
    match format.required_text("type")?.as_str() {
        "text" => Ok(OutputFormat::Text),
        "json_object" => Ok(OutputFormat::Json),
        "json_schema" => {
            let mut fields = nested(format, "json_schema", is_nested)?;
            let strict = fields.flag("strict")?.unwrap_or(false);
            read_schema(fields, strict)
        }
        other => {
            let problem = format!("must be `text`, `json_object` or `json_schema`, not `{other}`");
            Err(format.invalid("type", problem))
        }
    }
}

/// Reads `{"data", "format"}`.
pub(crate) fn read_audio(fields: &mut RequestFields) -> ReadRequest<Content> {
    let mut audio = fields.object("input_audio")?.ok_or_else(|| fields.missing("input_audio"))?;
    let media_type = match audio.required_text("format")?.as_str() {
        "wav" => "audio/wav",
        "mp3" => "audio/mpeg",
        other => return Err(audio.invalid("format", format!("must be `wav` or `mp3`, not `{other}`"))),
    };
    Ok(media(media_type, audio.required_text("data")?, None))
}

/// Reads `{"file_data", "filename"}`. A file in any other format can only be sent to the same API.
pub(crate) fn read_file(dialect: Dialect, fields: &mut RequestFields, part: Value) -> ReadRequest<Content> {
    let name = fields.text("filename")?;
    match fields.text("file_data")? {
        Some(data) => from_data_url(&data, name.as_deref())
            .ok_or_else(|| fields.invalid("file_data", "must be a data URL with base64")),
        None => Ok(native(dialect, part)),
    }
}
