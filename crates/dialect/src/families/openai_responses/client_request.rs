//! Reads Responses requests of clients.

use serde_json::{Value, json};
use toolwire_contract::{Block, Content, Effort, FamilyFields, Generation, ModelRequest, Tool, ToolChoice};

use crate::client::{
    ClientRequest, ConversationReader, ReadRequest, RequestFields, add_tool, expected, from_data_url,
    joined_text, native, read_audio, read_choice_mode, read_file, read_hosted_server, read_output_format,
    read_parts, read_result,
};
use crate::{Dialect, Family};

const DIALECT: Dialect = Dialect::Responses;

pub(super) fn read_request(body: Value) -> ReadRequest<ClientRequest> {
    let mut body = RequestFields::new("", body)?;
    let mut client = ClientRequest { model: body.required_text("model")?, ..ClientRequest::default() };
    client.stream = body.flag("stream")?.unwrap_or(false);
    let mut conversation = ConversationReader::new(DIALECT);
    conversation.add_instructions(body.text("instructions")?.unwrap_or_default());
    match body.take("input") {
        None => {}
        Some(Value::String(text)) => conversation.add_user(vec![Block::Content(Content::text(text))]),
        Some(Value::Array(items)) => read_items(&mut conversation, items)?,
        Some(other) => return Err(expected("input".to_owned(), "a string or an array", &other)),
    }
    let (instructions, messages) = conversation.finish();
    let mut tools = Vec::new();
    for (path, tool) in body.list("tools")? {
        let mut fields = RequestFields::new(&*path, tool)?;
        match fields.required_text("type")?.as_str() {
            "function" => {
                let empty = || json!({"type": "object", "properties": {}});
                let mut tool =
                    Tool::new(fields.required_text("name")?, fields.take("parameters").unwrap_or_else(empty));
                tool.description = fields.text("description")?;
                add_tool(&mut tools, &path, tool)?;
            }
            "mcp" => client.hosted_servers.push(read_hosted_server(fields)?),
            other => {
                let problem = format!("tools of the type `{other}` run only at OpenAI");
                return Err(fields.unsupported("type", problem));
            }
        }
    }
    if body.has("prompt") {
        return Err(body.unsupported("prompt", "prompt templates exist only at OpenAI"));
    }
    let (tool_choice, allowed) = read_tool_choice(&mut body)?;
    if let Some(allowed) = allowed {
        tools.retain(|tool: &Tool| allowed.contains(&tool.name));
    }
    let mut generation = Generation::default();
    generation.top_p = body.number("top_p")?;
    generation.parallel_calls = body.flag("parallel_tool_calls")?;
    generation.user = body.text("user")?;
    if let Some(mut reasoning) = body.object("reasoning")?
        && let Some(name) = reasoning.text("effort")?
    {
        let problem = || reasoning.invalid("effort", format!("has the unknown value `{name}`"));
        generation.effort = Some(Effort::from_name(&name).ok_or_else(problem)?);
    }
    if let Some(mut text) = body.object("text")?
        && let Some(format) = text.object("format")?
    {
        client.output = read_output_format(format)?;
    }
    client.metadata =
        body.take("metadata").and_then(|metadata| metadata.as_object().cloned()).unwrap_or_default();
    client.request = ModelRequest {
        instructions,
        messages,
        tools: tools.into(),
        tool_choice,
        max_output_tokens: body.count("max_output_tokens")?,
        temperature: body.number("temperature")?,
        generation,
        ..ModelRequest::default()
    };
    let rest = body.rest();
    if !rest.is_empty() {
        let family = Family::OpenAiResponses.meta_key().to_owned();
        client.request.generation.family_fields = Some(FamilyFields { family, fields: rest });
    }
    Ok(client)
}

/// Reads the input. Consecutive items of the assistant are one message.
fn read_items(conversation: &mut ConversationReader, items: Vec<Value>) -> ReadRequest<()> {
    let mut output: Vec<Value> = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        let path = format!("input[{index}]");
        if is_of_assistant(&item) {
            output.push(as_output_item(item));
            continue;
        }
        add_output(conversation, &path, &mut output)?;
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

fn is_of_assistant(item: &Value) -> bool {
    match item.get("type").and_then(Value::as_str) {
        None | Some("message") => item.get("role").and_then(Value::as_str) == Some("assistant"),
        Some(kind) => matches!(kind, "function_call" | "custom_tool_call" | "reasoning"),
    }
}

/// Returns a message in the form of an output item: clients may leave out the type and write the content as a string.
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

fn read_item(conversation: &mut ConversationReader, path: &str, item: Value) -> ReadRequest<()> {
    let mut fields = RequestFields::new(path, item)?;
    match fields.text("type")?.as_deref() {
        None | Some("message") => match fields.required_text("role")?.as_str() {
            "user" => conversation.add_user(read_parts(&mut fields, "content", read_part)?),
            "system" | "developer" => {
                conversation.add_instructions(joined_text(read_parts(&mut fields, "content", read_part)?));
            }
            other => {
                let problem = format!("must be `user`, `assistant`, `system` or `developer`, not `{other}`");
                return Err(fields.invalid("role", problem));
            }
        },
        Some("function_call_output" | "custom_tool_call_output") => {
            let id = fields.required_text("call_id")?;
            conversation.add_result(id, read_result(&mut fields, "output", read_part)?);
        }
        // Items of tools that ran elsewhere: a model can continue without them.
        Some(_) => {}
    }
    Ok(())
}

fn read_part(path: &str, part: Value) -> ReadRequest<Option<Content>> {
    let mut fields = RequestFields::new(path, part.clone())?;
    Ok(match fields.required_text("type")?.as_str() {
        "input_text" | "output_text" | "text" => {
            Some(fields.required_text("text")?).filter(|text| !text.is_empty()).map(Content::text)
        }
        "input_image" => match fields.text("image_url")? {
            Some(url) => Some(from_data_url(&url, None).unwrap_or_else(|| native(DIALECT, part))),
            None => return Err(fields.unsupported("file_id", "send the image as a data URL in `image_url`")),
        },
        "input_file" => Some(read_file(DIALECT, &mut fields, part)?),
        "input_audio" => Some(read_audio(&mut fields)?),
        other => return Err(fields.invalid("type", format!("has the unknown value `{other}`"))),
    })
}

/// Returns the choice, and the tools that it allows if it names some.
fn read_tool_choice(body: &mut RequestFields) -> ReadRequest<(ToolChoice, Option<Vec<String>>)> {
    let choice = match body.take("tool_choice") {
        None => return Ok((ToolChoice::Auto, None)),
        Some(Value::String(name)) => {
            return Ok((read_choice_mode(body, "tool_choice", &name)?, None));
        }
        Some(choice) => choice,
    };
    let mut fields = RequestFields::new(body.path("tool_choice"), choice)?;
    match fields.required_text("type")?.as_str() {
        "function" => Ok((ToolChoice::Tool(fields.required_text("name")?), None)),
        "allowed_tools" => {
            let name = fields.text("mode")?.unwrap_or_else(|| "auto".to_owned());
            let choice = read_choice_mode(&fields, "mode", &name)?;
            let mut names = Vec::new();
            for (path, tool) in fields.list("tools")? {
                names.extend(RequestFields::new(path, tool)?.text("name")?);
            }
            Ok((choice, Some(names)))
        }
        other => Err(fields.unsupported("type", format!("the choice `{other}`"))),
    }
}
