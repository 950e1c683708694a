//! The required format of a response, bound to a dialect.
//!
//! A schema is converted like that of a tool, and the response like its arguments. The model's response
//! matches the converted schema in the request; [`BoundOutput::decode`] converts it back to the original
//! schema.

mod decode;
mod root;

use serde::Deserialize;
use serde_json::{Map, Value};
use toolwire_contract::model::{ModelRequest, OutputFormat};
use toolwire_contract::{Block, Content, Tool};

use crate::names::to_valid_tool_name;
use crate::request::verbatim_request;
use crate::request::{Choice, RequestError, RequestOptions, SetFields};
use crate::{Dialect, Family, Options, Status, Toolset};
use root::as_object;

/// The way in which the schema of a response is sent to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum OutputMethod {
    /// The API's own field for it.
    Schema,
    /// A tool whose arguments are the response.
    Tool,
    /// Only the instructions.
    Prompt,
}

/// The response formats that one API can require.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputRules {
    pub(crate) method: OutputMethod,
    /// The dialect whose tools have schemas like those of a response.
    pub(crate) schema: Dialect,
    /// Whether only a schema of the strict subset is possible.
    pub(crate) requires_strict: bool,
    /// Whether tools may be called in a request with a schema.
    pub(crate) allows_tools: bool,
    /// Whether the API can require any JSON object.
    pub(crate) has_json: bool,
    /// Whether the schema only restricts the response, and the model does not see it.
    pub(crate) hides_schema: bool,
}

impl OutputRules {
    /// The rules of an API that cannot require a response format.
    pub(crate) const fn none(dialect: Dialect) -> OutputRules {
        OutputRules {
            method: OutputMethod::Tool,
            schema: dialect,
            requires_strict: false,
            allows_tools: true,
            has_json: false,
            hides_schema: false,
        }
    }

    fn of(dialect: Dialect, options: &RequestOptions) -> OutputRules {
        let rules = (dialect.family().format().output)(dialect);
        let method = match options.output.unwrap_or(rules.method) {
            // A tool that the model may ignore is worse than a mode that ensures JSON.
            OutputMethod::Tool if !options.forced_choice && rules.has_json => OutputMethod::Prompt,
            method => method,
        };
        OutputRules { method, allows_tools: options.output_with_tools.unwrap_or(rules.allows_tools), ..rules }
    }
}

/// Whether a request in this dialect cannot have both a schema for its response and tools that may be called.
pub fn separates_output(dialect: Dialect, options: &RequestOptions) -> bool {
    let rules = OutputRules::of(dialect, options);
    rules.method == OutputMethod::Schema && !rules.allows_tools
}

/// Whether the API itself can require this response format, even while tools may be called.
pub(crate) fn has_native_output(dialect: Dialect, output: &OutputFormat, options: &RequestOptions) -> bool {
    let rules = OutputRules::of(dialect, options);
    match output {
        OutputFormat::Text => true,
        OutputFormat::Json => rules.has_json && rules.allows_tools,
        _ => rules.method == OutputMethod::Schema && rules.allows_tools,
    }
}

/// The format of one response, bound to a dialect.
#[derive(Debug)]
pub struct BoundOutput {
    rules: OutputRules,
    /// `None`: any JSON object.
    schema: Option<BoundSchema>,
}

#[derive(Debug)]
struct BoundSchema {
    method: OutputMethod,
    /// One tool, whose arguments are the response.
    tool: Toolset,
    wire: WireSchema,
    /// Whether the response is the only property of an object.
    is_wrapped: bool,
}

/// A schema as it is in the request.
#[derive(Debug)]
pub(crate) struct WireSchema {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) schema: Value,
    pub(crate) strict: bool,
}

impl WireSchema {
    /// Returns the fields in OpenAI's format.
    pub(crate) fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.set("name", self.name.as_str());
        fields.set_some("description", self.description.as_deref());
        fields.set("schema", self.schema.clone());
        fields.set("strict", self.strict);
        fields
    }
}

/// The field of a request that requires the format of the response.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OutputField<'a> {
    Json,
    Schema(&'a WireSchema),
}

impl BoundOutput {
    /// Binds the format of a request; `None` if that is text. `tools` are the tools of the request.
    pub fn new(
        request: &ModelRequest,
        tools: &Toolset,
        options: &RequestOptions,
    ) -> Result<Option<BoundOutput>, RequestError> {
        let mut rules = OutputRules::of(tools.dialect(), options);
        if verbatim_request(tools.dialect(), request, options).is_some() {
            // The request has the client's own schema, so the response needs no conversion.
            rules.method = OutputMethod::Prompt;
        }
        let schema = match &request.output {
            OutputFormat::Schema { .. } => Some(BoundSchema::new(&request.output, tools, rules)?),
            OutputFormat::Json => None,
            _ => return Ok(None),
        };
        Ok(Some(BoundOutput { rules, schema }))
    }

    /// Adds the tool whose arguments are the response, or removes tools that must not be called.
    pub(crate) fn choose<'a>(
        &'a self,
        tools: &mut Vec<&'a Value>,
        choice: &mut Choice<'a>,
        options: &RequestOptions,
        has_named_choice: bool,
    ) -> Result<(), RequestError> {
        let is_last = tools.is_empty() || *choice == Choice::None;
        match &self.schema {
            Some(BoundSchema { method: OutputMethod::Tool, tool, wire, .. }) => {
                if is_last {
                    tools.clear();
                }
                tools.extend(tool.definitions());
                *choice = match *choice {
                    _ if !options.forced_choice => Choice::Auto,
                    _ if is_last && options.named_choice.unwrap_or(has_named_choice) => {
                        Choice::Tool(&wire.name)
                    }
                    Choice::Tool(name) if !is_last => Choice::Tool(name),
                    _ => Choice::Required,
                };
            }
            Some(BoundSchema { method: OutputMethod::Schema, .. }) if !self.rules.allows_tools => {
                if !is_last {
                    return Err(RequestError::OutputWithTools);
                }
                tools.clear();
            }
            // Without tools, the mode for any JSON object is possible.
            _ if is_last && self.rules.has_json && !self.rules.allows_tools => tools.clear(),
            _ => {}
        }
        Ok(())
    }

    /// Returns the field that requires the format, if this request has one.
    pub(crate) fn field(&self, has_tools: bool) -> Option<OutputField<'_>> {
        match &self.schema {
            Some(BoundSchema { method: OutputMethod::Schema, wire, .. }) => Some(OutputField::Schema(wire)),
            Some(BoundSchema { method: OutputMethod::Tool, .. }) => None,
            _ if self.rules.has_json && (self.rules.allows_tools || !has_tools) => Some(OutputField::Json),
            _ => None,
        }
    }

    /// Returns the instructions for the model about the format.
    pub(crate) fn instructions(&self, request: &ModelRequest, has_tools: bool) -> Option<String> {
        let Some(schema) = &self.schema else {
            // OpenAI rejects the mode for JSON if the conversation does not mention it.
            let is_known = self.field(has_tools).is_some() && mentions_json(request);
            let note = "The final response must be a JSON object, without any other text.";
            return (!is_known).then(|| note.to_owned());
        };
        match schema.method {
            OutputMethod::Tool => Some(format!(
                "Give the final response by calling `{}` once: its arguments are the response.",
                schema.wire.name
            )),
            OutputMethod::Schema if !self.rules.hides_schema => None,
            _ => Some(format!(
                "The final response must be JSON that matches this JSON Schema, without any other text:\n{}",
                schema.wire.schema
            )),
        }
    }

    /// Returns the name of the tool whose arguments are the response.
    pub(crate) fn tool_name(&self) -> Option<&str> {
        let schema = self.schema.as_ref().filter(|schema| schema.method == OutputMethod::Tool)?;
        Some(&schema.wire.name)
    }
}

impl BoundSchema {
    fn new(format: &OutputFormat, tools: &Toolset, rules: OutputRules) -> Result<BoundSchema, RequestError> {
        let OutputFormat::Schema { name, description, schema, strict } = format else {
            return Err(RequestError::OutputSchema { problem: "there is no schema".to_owned() });
        };
        let mut name = to_valid_tool_name(name, "");
        while tools.own_name(&name).is_some() || tools.wire_name(&name).is_some() {
            name.push('_');
        }
        let (schema, is_wrapped) = match rules.method {
            OutputMethod::Prompt => (schema.clone(), false),
            _ => as_object(schema),
        };
        let source = Tool { description: description.clone(), ..Tool::new(name, schema) };
        let bind = |method: OutputMethod| {
            let dialect = match method {
                OutputMethod::Schema if *strict || rules.requires_strict => strict_form(rules.schema),
                OutputMethod::Schema => rules.schema,
                OutputMethod::Tool => tools.dialect(),
                OutputMethod::Prompt => Dialect::Mcp,
            };
            BoundSchema::bind(&source, dialect, method, is_wrapped)
        };
        let bound = bind(rules.method)?;
        if rules.method == OutputMethod::Schema && rules.requires_strict && !bound.wire.strict {
            // The API could not enforce the schema.
            return bind(OutputMethod::Tool);
        }
        Ok(bound)
    }

    fn bind(
        source: &Tool,
        dialect: Dialect,
        method: OutputMethod,
        is_wrapped: bool,
    ) -> Result<BoundSchema, RequestError> {
        let tool = Toolset::new(std::slice::from_ref(source), dialect, &Options::default());
        let refused = |report: &crate::Report| {
            let reason = report.reason.as_ref().filter(|_| report.status == Status::Refused)?;
            Some(RequestError::OutputSchema { problem: reason.message.clone() })
        };
        if let Some(error) = tool.reports().iter().find_map(refused) {
            return Err(error);
        }
        let (schema, strict) = schema_of(dialect, tool.definitions().first().copied());
        let wire = WireSchema {
            name: tool.wire_name(&source.name).unwrap_or(&source.name).to_owned(),
            description: source.description.clone(),
            schema,
            strict,
        };
        Ok(BoundSchema { method, tool, wire, is_wrapped })
    }
}

fn mentions_json(request: &ModelRequest) -> bool {
    let mentions = |text: &str| text.as_bytes().windows(4).any(|word| word.eq_ignore_ascii_case(b"json"));
    let blocks = request.messages.iter().flat_map(|message| &message.content);
    request.instructions.as_deref().is_some_and(mentions)
        || blocks
            .into_iter()
            .any(|block| matches!(block, Block::Content(Content::Text { text, .. }) if mentions(text)))
}

/// Returns the dialect whose schemas the provider enforces.
fn strict_form(dialect: Dialect) -> Dialect {
    match dialect {
        Dialect::OpenAi => Dialect::OpenAiStrict,
        Dialect::Responses => Dialect::ResponsesStrict,
        Dialect::Anthropic => Dialect::AnthropicStrict,
        other => other,
    }
}

/// Returns the schema in a definition, and whether it is strict.
fn schema_of(dialect: Dialect, definition: Option<&Value>) -> (Value, bool) {
    let pointer = match (dialect.family(), dialect) {
        (Family::OpenAiResponses, _) | (_, Dialect::GeminiOpenApi) => "/parameters",
        (Family::Anthropic, _) => "/input_schema",
        (Family::Gemini, _) => "/parametersJsonSchema",
        (Family::Bedrock, _) => "/toolSpec/inputSchema/json",
        (Family::Mcp, _) => "/inputSchema",
        _ => "/function/parameters",
    };
    let found = |pointer: &str| definition.and_then(|definition| definition.pointer(pointer));
    let strict = found("/strict").or_else(|| found("/function/strict")).and_then(Value::as_bool);
    // A tool without arguments has no schema in some dialects.
    let schema = found(pointer).cloned().unwrap_or_else(|| serde_json::json!({"type": "object"}));
    (schema, strict.unwrap_or(false))
}
