//! Tools and choices of tools in OpenAI's two APIs.

use std::collections::HashSet;

use serde_json::{Value, json};
use toolwire_contract::Tool;
use toolwire_contract::model::ToolChoice;

use super::nested;
use crate::Family;
use crate::client::{
    ClientRequest, ClientTools, ReadRequest, RequestFields, ToolForm, ToolReference, ToolSource,
    has_programmatic_calls, read_function, read_hosted_server, runs_at_provider,
};
use crate::native_tools::{NativeTool, qualified_name};

const OPENAI: &str = "OpenAI";

/// Reads `tools` and `tool_choice`.
pub(crate) fn read_tools(
    client: &mut ClientRequest,
    body: &mut RequestFields,
    is_nested: bool,
) -> ReadRequest<()> {
    let mut reader = ToolReader { tools: ClientTools::default(), client, is_nested };
    for (position, (path, tool)) in body.list("tools")?.enumerate() {
        reader.read(path, tool, Some(position))?;
    }
    for (path, tool) in std::mem::take(&mut reader.client.sources.item_tools) {
        reader.read(path, tool, None)?;
    }
    let ToolReader { tools, client, .. } = reader;
    client.request.tool_choice = read_choice(client, body, is_nested)?;
    let mut tools = tools.into_tools();
    if let Some(allowed) = &client.allowed_tools {
        client.sources.restricts_tools = true;
        let names = allowed.iter().filter(|allowed| allowed.server.is_none());
        let names: HashSet<&str> = names.filter_map(|allowed| allowed.name.as_deref()).collect();
        tools.retain(|tool| names.contains(tool.name.as_str()));
        client.sources.provider_tools.retain(|tool| names.contains(tool.name.as_str()));
    }
    client.request.tools = tools.into();
    client.request.generation.parallel_calls = body.flag("parallel_tool_calls")?;
    Ok(())
}

struct ToolReader<'c> {
    tools: ClientTools,
    client: &'c mut ClientRequest,
    is_nested: bool,
}

impl ToolReader<'_> {
    /// Reads a definition. Without a position, an item of the conversation contains it; such items may repeat
    /// a tool.
    fn read(&mut self, path: String, definition: Value, position: Option<usize>) -> ReadRequest<()> {
        let native = NativeTool::of_definition(&definition).filter(|_| !self.is_nested);
        let has_programs = has_programmatic_calls(&definition);
        let mut fields = RequestFields::new(&*path, definition)?;
        let type_name = fields.text("type")?;
        match (type_name.as_deref(), native) {
            (Some(kind), Some(native)) => {
                self.client.native_tool = Some(fields.native_tool(kind, "OpenAI's Responses API"));
                self.client.sources.native_tools.push(native.name.to_owned());
                let tool = Tool::new(native.name, json!({"type": "object"}));
                self.add(&path, tool, position, Some(ToolForm::Native))
            }
            (Some("namespace"), _) if !self.is_nested => self.read_namespace(fields, position),
            (Some("mcp"), _) if position.is_some() => read_hosted_server(self.client, fields),
            (Some("mcp"), _) => {
                Err(fields.unsupported("type", "an item of the conversation cannot add a server"))
            }
            (Some(kind), _) if has_programs && runs_at_provider(Family::OpenAiResponses, kind) => {
                Err(fields.provider_tool(kind, OPENAI))
            }
            (Some(kind), _) if self.is_of_provider(kind) => {
                let error = fields.provider_tool(kind, OPENAI);
                self.client.add_provider_tool(kind.to_owned(), position, error);
                Ok(())
            }
            _ => {
                let (tool, form) = self.read_named(fields, type_name.as_deref(), None)?;
                self.add(&path, tool, position, form)
            }
        }
    }

    /// Whether the provider runs tools of this type. It may have types that are not known here.
    fn is_of_provider(&self, type_name: &str) -> bool {
        !self.is_nested && !matches!(type_name, "function" | "custom" | "namespace")
    }

    /// Reads the tools of a namespace. Other APIs get them under names that contain the namespace.
    fn read_namespace(&mut self, mut fields: RequestFields, position: Option<usize>) -> ReadRequest<()> {
        let namespace = fields.required_text("name")?;
        let description = fields.text("description")?.unwrap_or_default();
        for (path, tool) in fields.required_list("tools")? {
            let mut fields = RequestFields::new(&*path, tool)?;
            let type_name = fields.text("type")?;
            let (mut tool, form) = self.read_named(fields, type_name.as_deref(), Some(&namespace))?;
            let texts = [description.as_str(), tool.description.as_deref().unwrap_or_default()];
            let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
            tool.description = (!texts.is_empty()).then(|| texts.join("\n\n"));
            self.add(&path, tool, position, form)?;
        }
        Ok(())
    }

    /// Reads a function or a free-text tool.
    fn read_named(
        &mut self,
        fields: RequestFields,
        type_name: Option<&str>,
        namespace: Option<&str>,
    ) -> ReadRequest<(Tool, Option<ToolForm>)> {
        let in_namespace = |tool: &mut Tool| {
            let namespace = namespace?;
            tool.name = qualified_name(namespace, &tool.name);
            Some(namespace.to_owned())
        };
        match type_name {
            Some("function") | None => {
                let mut tool = read_function(nested(fields, "function", self.is_nested)?, "parameters")?;
                let form = in_namespace(&mut tool).map(|namespace| ToolForm::Function { namespace });
                Ok((tool, form))
            }
            Some("custom") => {
                let mut fields = nested(fields, "custom", self.is_nested)?;
                let format = fields.object("format")?;
                let mut tool = read_function(fields, "parameters")?;
                self.describe_format(&mut tool, format)?;
                tool.input_schema = Some(json!({
                    "type": "object",
                    "properties": {"input": {"type": "string"}},
                    "required": ["input"],
                    "additionalProperties": false,
                }));
                let namespace = in_namespace(&mut tool);
                Ok((tool, Some(ToolForm::Custom { namespace })))
            }
            Some(other) => Err(fields.provider_tool(other, OPENAI)),
        }
    }

    /// Adds the format of a free-text tool to its description, because no other API enforces it.
    fn describe_format(&mut self, tool: &mut Tool, format: Option<RequestFields>) -> ReadRequest<()> {
        let Some(mut format) = format else { return Ok(()) };
        // Chat Completions nests the fields.
        let mut format = format.object("grammar")?.unwrap_or(format);
        let (syntax, definition) = (format.text("syntax")?, format.text("definition")?);
        if let (Some(syntax), Some(definition)) = (syntax, definition) {
            let text = format!("The input must match this grammar ({syntax}):\n{definition}");
            tool.description =
                Some(tool.description.take().map_or(text.clone(), |known| format!("{known}\n\n{text}")));
            self.client.ignore("tools.format");
        }
        Ok(())
    }

    fn add(
        &mut self,
        path: &str,
        tool: Tool,
        position: Option<usize>,
        form: Option<ToolForm>,
    ) -> ReadRequest<()> {
        if position.is_none() && self.tools.has(&tool.name) {
            return Ok(());
        }
        let name = tool.name.clone();
        self.tools.add(path, tool)?;
        self.client.tool_forms.extend(form.map(|form| (name.clone(), form)));
        self.client.sources.tools.push(ToolSource { name, position });
        Ok(())
    }
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
        kind @ ("function" | "custom") => Ok(ToolChoice::Tool(read_name(nested(fields, kind, is_nested)?)?)),
        kind if !is_nested && NativeTool::of_type(kind).is_some() => {
            Ok(ToolChoice::Tool(NativeTool::of_type(kind).map_or(kind, |tool| tool.name).to_owned()))
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
                    let native = NativeTool::of_type(&kind).filter(|_| !is_nested);
                    let name = match native {
                        Some(native) => native.name.to_owned(),
                        None if has_provider_tool(client, &kind) => kind,
                        None => read_name(nested(tool, &kind, is_nested)?)?,
                    };
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
        kind if has_provider_tool(client, kind) => Ok(ToolChoice::Tool(kind.to_owned())),
        other => Err(fields.unsupported("type", format!("the choice `{other}`"))),
    }
}

/// Whether the provider runs a tool of this type, which is also its name.
fn has_provider_tool(client: &ClientRequest, type_name: &str) -> bool {
    client.provider_tools().any(|name| name == type_name)
}

/// Reads `{"name", "namespace"}`.
fn read_name(mut fields: RequestFields) -> ReadRequest<String> {
    let name = fields.required_text("name")?;
    Ok(fields.text("namespace")?.map_or(name.clone(), |namespace| qualified_name(&namespace, &name)))
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
