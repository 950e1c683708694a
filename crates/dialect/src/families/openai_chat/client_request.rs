//! Reads Chat Completions requests of clients.

use serde_json::{Value, json};
use toolwire_contract::{Content, Effort, FamilyFields, Generation, ModelRequest, Tool, ToolChoice};

use crate::client::{
    ClientRequest, ConversationReader, ReadRequest, RequestFields, add_tool, expected, from_data_url,
    joined_text, native, read_audio, read_choice_mode, read_file, read_hosted_server, read_output_format,
    read_parts, read_result,
};
use crate::{Dialect, Family};

const DIALECT: Dialect = Dialect::OpenAi;

/// Fields that have no effect here: nothing is stored, and nothing is padded.
const IGNORED: [&str; 1] = ["store"];

pub(super) fn read_request(body: Value) -> ReadRequest<ClientRequest> {
    let mut body = RequestFields::new("", body)?;
    let mut client = ClientRequest { model: body.required_text("model")?, ..ClientRequest::default() };
    client.stream = body.flag("stream")?.unwrap_or(false);
    if let Some(mut options) = body.object("stream_options")? {
        client.stream_usage = options.flag("include_usage")?.unwrap_or(false);
    }
    let mut conversation = ConversationReader::new(DIALECT);
    if !body.has("messages") {
        return Err(body.missing("messages"));
    }
    for (path, message) in body.list("messages")? {
        read_message(&mut conversation, &path, message)?;
    }
    let (instructions, messages) = conversation.finish();
    let mut tools = Vec::new();
    for (path, tool) in body.list("tools")? {
        read_tool(&mut tools, &mut client, &path, tool)?;
    }
    let limits = [body.count("max_completion_tokens")?, body.count("max_tokens")?];
    let max_output_tokens = limits.into_iter().flatten().min();
    if max_output_tokens == Some(0) {
        return Err(body.invalid("max_completion_tokens", "must be at least 1"));
    }
    if body.integer("n")?.is_some_and(|n| n != 1) {
        return Err(body.unsupported("n", "only one response per request is possible"));
    }
    if let Some(format) = body.object("response_format")? {
        client.output = read_output_format(format)?;
    }
    let (tool_choice, allowed) = read_tool_choice(&mut body)?;
    if let Some(allowed) = allowed {
        tools.retain(|tool: &Tool| allowed.contains(&tool.name));
    }
    client.metadata =
        body.take("metadata").and_then(|metadata| metadata.as_object().cloned()).unwrap_or_default();
    for name in IGNORED {
        client.ignored.extend(body.take(name).map(|_| name.to_owned()));
    }
    client.request = ModelRequest {
        instructions,
        messages,
        tools: tools.into(),
        tool_choice,
        max_output_tokens,
        temperature: body.number("temperature")?,
        generation: read_generation(&mut body)?,
        ..ModelRequest::default()
    };
    let rest = body.rest();
    if !rest.is_empty() {
        let family = Family::OpenAiChat.meta_key().to_owned();
        client.request.generation.family_fields = Some(FamilyFields { family, fields: rest });
    }
    Ok(client)
}

fn read_generation(body: &mut RequestFields) -> ReadRequest<Generation> {
    let mut generation = Generation::default();
    generation.stop = match body.take("stop") {
        None => Vec::new(),
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(texts)) => {
            let text = |text: Value| text.as_str().map(str::to_owned);
            let texts: Option<Vec<String>> = texts.into_iter().map(text).collect();
            texts.ok_or_else(|| body.invalid("stop", "must contain strings only"))?
        }
        Some(other) => return Err(expected(body.path("stop"), "a string or an array", &other)),
    };
    generation.top_p = body.number("top_p")?;
    generation.top_k = body.count("top_k")?;
    generation.seed = body.integer("seed")?;
    generation.frequency_penalty = body.number("frequency_penalty")?;
    generation.presence_penalty = body.number("presence_penalty")?;
    generation.parallel_calls = body.flag("parallel_tool_calls")?;
    generation.user = body.text("user")?;
    if let Some(name) = body.text("reasoning_effort")? {
        let names: Vec<&str> = Effort::ALL.iter().map(|effort| effort.name()).collect();
        let problem =
            || body.invalid("reasoning_effort", format!("must be one of {}, not `{name}`", names.join(", ")));
        generation.effort = Some(Effort::from_name(&name).ok_or_else(problem)?);
    }
    Ok(generation)
}

fn read_message(conversation: &mut ConversationReader, path: &str, message: Value) -> ReadRequest<()> {
    let role = message.get("role").and_then(Value::as_str).map(str::to_owned);
    if role.as_deref() == Some("assistant") {
        return conversation.add_assistant(path, &message);
    }
    let mut fields = RequestFields::new(path, message)?;
    let role = role.ok_or_else(|| fields.missing("role"))?;
    match role.as_str() {
        "system" | "developer" => {
            let text = joined_text(read_parts(&mut fields, "content", read_part)?);
            conversation.add_instructions(text);
        }
        "user" => conversation.add_user(read_parts(&mut fields, "content", read_part)?),
        "tool" => {
            let id = fields.required_text("tool_call_id")?;
            conversation.add_result(id, read_result(&mut fields, "content", read_part)?);
        }
        other => {
            let problem =
                format!("must be `system`, `developer`, `user`, `assistant` or `tool`, not `{other}`");
            return Err(fields.invalid("role", problem));
        }
    }
    Ok(())
}

fn read_part(path: &str, part: Value) -> ReadRequest<Option<Content>> {
    let mut fields = RequestFields::new(path, part.clone())?;
    let type_name = fields.required_text("type")?;
    Ok(match type_name.as_str() {
        "text" => Some(fields.required_text("text")?).filter(|text| !text.is_empty()).map(Content::text),
        "image_url" => {
            let mut image = fields.object("image_url")?.ok_or_else(|| fields.missing("image_url"))?;
            let url = image.required_text("url")?;
            Some(from_data_url(&url, None).unwrap_or_else(|| native(DIALECT, part)))
        }
        "input_audio" => Some(read_audio(&mut fields)?),
        "file" => {
            let mut file = fields.object("file")?.ok_or_else(|| fields.missing("file"))?;
            Some(read_file(DIALECT, &mut file, part)?)
        }
        other => return Err(fields.invalid("type", format!("has the unknown value `{other}`"))),
    })
}

fn read_tool(tools: &mut Vec<Tool>, client: &mut ClientRequest, path: &str, tool: Value) -> ReadRequest<()> {
    let mut fields = RequestFields::new(path, tool)?;
    match fields.text("type")?.as_deref() {
        Some("function") | None => {
            let mut function = fields.object("function")?.ok_or_else(|| fields.missing("function"))?;
            let schema =
                function.take("parameters").unwrap_or_else(|| json!({"type": "object", "properties": {}}));
            let mut tool = Tool::new(function.required_text("name")?, schema);
            tool.description = function.text("description")?;
            add_tool(tools, path, tool)
        }
        Some("mcp") => {
            client.hosted_servers.push(read_hosted_server(fields)?);
            Ok(())
        }
        Some(other) => {
            Err(fields.unsupported("type", format!("tools of the type `{other}` run only at OpenAI")))
        }
    }
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
        "function" => {
            let mut function = fields.object("function")?.ok_or_else(|| fields.missing("function"))?;
            Ok((ToolChoice::Tool(function.required_text("name")?), None))
        }
        "allowed_tools" => {
            let mut allowed =
                fields.object("allowed_tools")?.ok_or_else(|| fields.missing("allowed_tools"))?;
            let name = allowed.text("mode")?.unwrap_or_else(|| "auto".to_owned());
            let choice = read_choice_mode(&allowed, "mode", &name)?;
            let mut names = Vec::new();
            for (path, tool) in allowed.list("tools")? {
                let mut tool = RequestFields::new(path, tool)?;
                let mut function = tool.object("function")?.ok_or_else(|| tool.missing("function"))?;
                names.push(function.required_text("name")?);
            }
            Ok((choice, Some(names)))
        }
        other => Err(fields.unsupported("type", format!("the choice `{other}`"))),
    }
}
