//! Requests of clients, in the APIs that the gateway serves: reading the request, and writing the response.
//!
//! It is the reverse of `request` and `response`, and depends on no family.

mod annotations;
mod cache_marks;
mod content;
mod error;
mod fields;
mod hosted;
mod openai;
mod provider_tools;
mod response;
mod tool_forms;
mod unread;
mod verbatim;
mod written;

use std::collections::{BTreeMap, HashSet};

use serde_json::json;
use toolwire_contract::model::{Effort, FamilyFields, ModelRequest, OutputFormat};
use toolwire_contract::{Block, Tool};

pub use crate::read::read_client_request;
use crate::result::image_detail;
use crate::source::{STRICT, is_strict};
use crate::{Dialect, Family};
pub(crate) use annotations::Annotations;
pub(crate) use content::{
    ConversationReader, from_data_url, joined_text, media, native, read_parts, read_result, remote_document,
    remote_image, text_file, with_detail,
};
pub use error::{ClientError, ErrorKind};
pub(crate) use fields::{ReadRequest, RequestFields, expected};
pub use hosted::{HostedApproval, HostedServer, NamedTool, ToolFilter};
pub(crate) use hosted::{read_hosted_server, read_hosted_toolsets};
pub(crate) use openai::{read_audio, read_file, read_output_format, read_tools};
pub use provider_tools::{has_programmatic_calls, runs_at_provider};
pub use response::{ClientEvent, ResponseHead, ResponseWriter, ServerCall, StreamData, StreamEvent};
pub(crate) use response::{ClientWriter, OPENAI_TIERS, custom_input, known_tier, media_note};
pub use tool_forms::ToolForm;
pub(crate) use verbatim::{ProviderToolSource, Sources, ToolSource};
pub use written::WrittenResponse;

/// A request of a client, read from the format of its API.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ClientRequest {
    /// The name of the model, as the client wrote it.
    pub model: String,
    /// The conversation, the parameters, and the tools that the client runs itself.
    pub request: ModelRequest,
    pub stream: bool,
    /// Chat Completions: whether the stream ends with the usage.
    pub stream_usage: bool,
    /// Responses: the maximum number of calls of servers' tools in the response.
    pub max_tool_calls: Option<u32>,
    /// Chat Completions: whether the client's tools are the deprecated `functions`.
    pub has_functions: bool,
    /// The path of the response format, or of its schema, in the request; empty if there is none.
    pub output_parameter: &'static str,
    /// MCP servers that the request names.
    pub hosted_servers: Vec<HostedServer>,
    /// The client's decisions about calls that it had to approve.
    pub approvals: Vec<ApprovalResponse>,
    /// The first request for approval in the history that has no response, and after which the model has not
    /// continued.
    pub open_approval: Option<OpenApproval>,
    /// The only tools that may be called, of the client or of servers; `None`: all of them. The request's
    /// tools are already restricted to these.
    pub allowed_tools: Option<Vec<ToolReference>>,
    /// The tool of a server that must be called first, if the request names one.
    pub required_tool: Option<ToolReference>,
    /// The user's content that came together with the decisions.
    pub with_approvals: Vec<Block>,
    /// The names of fields in messages and tools that are lost when the request is converted, without
    /// indexes, such as `messages.name`; and of marks for the provider's cache, such as `cache_control`. See
    /// also [`ClientRequest::lost_fields`].
    pub ignored: Vec<String>,
    /// The names of fields that no provider gets, because the gateway itself serves what they belong to: MCP
    /// servers.
    pub unused: Vec<String>,
    /// The error for an MCP server without a toolset. Only requests with Anthropic's beta
    /// `mcp-client-2025-04-04` may have such servers.
    pub missing_toolset: Option<InvalidRequest>,
    /// The error for a tool of the client that only APIs of the same family have. A request to any other API
    /// must be rejected with it.
    pub native_tool: Option<InvalidRequest>,
    /// The client's tools whose calls are not plain function calls, by name.
    pub tool_forms: BTreeMap<String, ToolForm>,
    /// The family of the client's API.
    pub(crate) family: Option<Family>,
    /// The positions in the body that the parts of the request were read from.
    pub(crate) sources: Sources,
}

/// A tool, as a choice of tools names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct ToolReference {
    /// The label of an MCP server; `None` for any tool with this name.
    pub server: Option<String>,
    /// The name of the tool; `None` for every tool of the server.
    pub name: Option<String>,
}

/// A request for approval that has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenApproval {
    pub request_id: String,
    /// The path in the request, such as `input[1]`.
    pub parameter: String,
}

/// A client's decision about a call that it had to approve.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApprovalResponse {
    /// The path in the request, such as `input[2]`.
    pub parameter: String,
    pub request_id: String,
    pub approve: bool,
    pub reason: Option<String>,
    /// Whether the history has the request for approval too.
    pub has_request: bool,
}

impl ClientRequest {
    /// Reads the fields that have the same name in all APIs and are needed first: the model, and whether to
    /// stream.
    pub(crate) fn begin(family: Family, body: &mut RequestFields) -> ReadRequest<ClientRequest> {
        let model = body.required_text("model")?;
        let stream = body.flag("stream")?.unwrap_or(false);
        let mut ignored = cache_marks::find(body);
        ignored.extend(unread::find(family, body));
        Ok(ClientRequest { model, stream, ignored, family: Some(family), ..ClientRequest::default() })
    }

    /// Returns the names of the fields in messages and tools that are lost when the request is converted to
    /// an API.
    pub fn lost_fields(&self, dialect: Dialect) -> Vec<String> {
        let mut names = self.ignored.clone();
        if dialect.strict_variant().is_none() && self.request.tools.iter().any(is_strict) {
            names.push("tools.strict".to_owned());
        }
        let is_of_openai = matches!(dialect.family(), Family::OpenAiChat | Family::OpenAiResponses);
        let messages = self.request.messages.iter().filter(|_| !is_of_openai);
        let mut blocks = messages.flat_map(|message| &message.content);
        if blocks.any(|block| matches!(block, Block::Content(content) if image_detail(content).is_some())) {
            let is_responses = self.family == Some(Family::OpenAiResponses);
            let path =
                if is_responses { "input.content.detail" } else { "messages.content.image_url.detail" };
            names.push(path.to_owned());
        }
        names
    }

    /// Returns the position of the item of the body that a message was read from; `None` if it was read from
    /// several items, or differs from them.
    pub fn item_of(&self, message: usize) -> Option<usize> {
        match self.sources.messages.get(message)?.as_deref()? {
            [item] => Some(*item),
            _ => None,
        }
    }

    /// Returns the names of the client's tools that the provider runs itself. They are not part of the
    /// request's tools: only [`ClientRequest::verbatim`] has their definitions.
    pub fn provider_tools(&self) -> impl Iterator<Item = &str> {
        self.sources.provider_tools.iter().map(|tool| tool.name.as_str())
    }

    /// Records a tool that the provider runs. `position` is that of its definition in `tools`; `None` if an
    /// item of the conversation contains it. `error` is reported if the request must be converted.
    pub(crate) fn add_provider_tool(&mut self, name: String, position: Option<usize>, error: InvalidRequest) {
        let tools_before = self.sources.tools.len();
        self.sources.provider_tools.push(ProviderToolSource { name, position, tools_before });
        self.native_tool.get_or_insert(error);
    }

    /// Lists a field that is lost when the request is converted.
    pub(crate) fn ignore(&mut self, name: &str) {
        if !self.ignored.iter().any(|known| known == name) {
            self.ignored.push(name.to_owned());
        }
    }

    /// Lists the fields of a server, or of its tools, that were not read. Only some of very many are listed.
    pub(crate) fn list_unused(&mut self, place: &str, fields: RequestFields) {
        const MAX_LISTED: usize = 200;
        for (name, _) in fields.rest().iter().filter(|(_, value)| !value.is_null()) {
            if self.unused.len() >= MAX_LISTED {
                return;
            }
            let name = format!("{place}.{name}");
            if !self.unused.contains(&name) {
                self.unused.push(name);
            }
        }
    }

    /// Reads the remaining fields that have the same name in all APIs, and preserves the fields that were not
    /// read.
    pub(crate) fn finish(mut self, family: Family, mut body: RequestFields) -> ReadRequest<ClientRequest> {
        self.request.temperature = body.number("temperature")?;
        self.request.generation.top_p = body.number("top_p")?;
        let mut fields = body.rest();
        fields.retain(|_, value| !value.is_null());
        if !fields.is_empty() {
            let family = family.meta_key().to_owned();
            self.request.generation.family_fields = Some(FamilyFields { family, fields });
        }
        Ok(self)
    }
}

/// A request that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{parameter}` {problem}")]
pub struct InvalidRequest {
    /// The path of the parameter: `messages[0].role`.
    pub parameter: String,
    pub problem: Problem,
}

/// The reason why a parameter is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    #[error("is required")]
    Missing,
    #[error("must be {expected}, not {found}")]
    WrongType { expected: &'static str, found: String },
    #[error("{0}")]
    Invalid(String),
    /// The API supports this, but the gateway does not.
    #[error("is not supported: {0}")]
    Unsupported(String),
    /// A tool that only the provider can run.
    #[error("is not supported: tools of the type `{type_name}` run only at {provider}")]
    ProviderTool { type_name: String, provider: &'static str },
}

/// The tools of a client, with unique names.
#[derive(Debug, Default)]
pub(crate) struct ClientTools {
    tools: Vec<Tool>,
    names: HashSet<String>,
}

impl ClientTools {
    pub(crate) fn add(&mut self, path: &str, tool: Tool) -> ReadRequest<()> {
        if tool.name.is_empty() {
            return Err(InvalidRequest { parameter: format!("{path}.name"), problem: Problem::Missing });
        }
        if !self.names.insert(tool.name.clone()) {
            let problem = Problem::Invalid(format!("has a second tool named `{}`", tool.name));
            return Err(InvalidRequest { parameter: path.to_owned(), problem });
        }
        self.tools.push(tool);
        Ok(())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub(crate) fn into_tools(self) -> Vec<Tool> {
        self.tools
    }
}

/// Reads the name, the description and the schema of a function.
pub(crate) fn read_function(mut fields: RequestFields, schema_key: &str) -> ReadRequest<Tool> {
    let schema = fields.take(schema_key).unwrap_or_else(|| json!({"type": "object", "properties": {}}));
    let mut tool = Tool::new(fields.required_text("name")?, schema);
    tool.description = fields.text("description")?;
    if fields.flag("strict")? == Some(true) {
        tool.extra.insert("_meta".to_owned(), json!({STRICT: true}));
    }
    Ok(tool)
}

/// Reads `{"name", "schema", "description"}`.
pub(crate) fn read_schema(mut fields: RequestFields, strict: bool) -> ReadRequest<OutputFormat> {
    Ok(OutputFormat::Schema {
        name: fields.text("name")?.unwrap_or_else(|| OutputFormat::DEFAULT_NAME.to_owned()),
        description: fields.text("description")?,
        schema: fields.take("schema").ok_or_else(|| fields.missing("schema"))?,
        strict,
    })
}

/// Reads a level of effort.
pub(crate) fn read_effort(fields: &mut RequestFields, key: &str) -> ReadRequest<Option<Effort>> {
    let Some(name) = fields.text(key)? else { return Ok(None) };
    let names: Vec<&str> = Effort::ALL.iter().map(|effort| effort.name()).collect();
    let problem = || fields.invalid(key, format!("must be one of {}, not `{name}`", names.join(", ")));
    Effort::from_name(&name).ok_or_else(problem).map(Some)
}
