//! Requests of clients, in the APIs that the gateway serves: reading the request, and writing the response.
//!
//! It is the reverse of `request` and `response`, and depends on no family.

mod content;
mod fields;
mod hosted;
mod openai;
mod response;

use serde_json::{Map, Value};
use toolwire_contract::{ModelRequest, Tool};

pub(crate) use content::{
    ConversationReader, from_data_url, joined_text, media, native, read_parts, read_result, text_file,
};
pub(crate) use fields::{ReadRequest, RequestFields, expected};
pub use hosted::{HostedApproval, HostedServer};
pub(crate) use hosted::{read_hosted_server, read_hosted_toolsets};
pub(crate) use openai::{read_audio, read_choice_mode, read_file, read_output_format};
pub(crate) use response::ClientWriter;
pub use response::{
    ClientError, ClientEvent, ErrorKind, ResponseHead, ResponseWriter, StreamData, StreamEvent,
};

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
    pub output: OutputFormat,
    /// MCP servers that the request names.
    pub hosted_servers: Vec<HostedServer>,
    /// Parameters that the gateway knows and does not apply, such as `store`.
    pub ignored: Vec<String>,
    /// `metadata`, as the client sent it.
    pub metadata: Map<String, Value>,
}

/// The form of the final response.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum OutputFormat {
    #[default]
    Text,
    /// Any JSON.
    Json,
    /// JSON that matches a schema.
    Schema { name: String, description: Option<String>, schema: Value, strict: bool },
}

impl OutputFormat {
    /// Reads OpenAI's form: `{"name", "schema", "strict", "description"}`.
    pub(crate) fn read_schema(mut fields: RequestFields) -> ReadRequest<OutputFormat> {
        Ok(OutputFormat::Schema {
            name: fields.text("name")?.unwrap_or_else(|| "response".to_owned()),
            description: fields.text("description")?,
            schema: fields.take("schema").ok_or_else(|| fields.missing("schema"))?,
            strict: fields.flag("strict")?.unwrap_or(false),
        })
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
    WrongType { expected: &'static str, found: &'static str },
    #[error("{0}")]
    Invalid(String),
    /// The API has this, but the gateway does not.
    #[error("is not supported: {0}")]
    Unsupported(String),
}

/// Adds a tool of the client.
pub(crate) fn add_tool(tools: &mut Vec<Tool>, path: &str, tool: Tool) -> ReadRequest<()> {
    if tool.name.is_empty() {
        return Err(InvalidRequest { parameter: format!("{path}.name"), problem: Problem::Missing });
    }
    if tools.iter().any(|known| known.name == tool.name) {
        let problem = Problem::Invalid(format!("has a second tool named `{}`", tool.name));
        return Err(InvalidRequest { parameter: path.to_owned(), problem });
    }
    tools.push(tool);
    Ok(())
}
