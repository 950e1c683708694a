//! The families of APIs. Each is a module that depends on the shared code; only the table here lists them
//! all.

mod anthropic;
mod bedrock;
mod client_fields;
mod cohere;
mod function_calls;
mod gemini;
mod mcp;
mod ollama;
mod openai_chat;
mod openai_responses;

use serde_json::{Map, Value};
use toolwire_contract::model::Usage;

use crate::client::{ClientRequest, ClientWriter, ReadRequest, ResponseHead};
use crate::output::OutputRules;
use crate::request::RequestOptions;
use crate::request::{FamilyRules, GenerationFormat, PreparedRequest};
use crate::response::ReceivedCall;
use crate::response::ResponseReader;
use crate::result::{ContentLimits, ResultTurn};
use crate::verbatim::VerbatimFormat;
use crate::{Dialect, Family};
pub(crate) use client_fields::ClientFields;

/// The JSON of one family.
#[derive(Debug)]
pub(crate) struct FamilyFormat {
    pub(crate) rules: FamilyRules,
    pub(crate) new_reader: fn() -> Box<dyn ResponseReader>,
    /// Reads the usage in the format in which the API reports it.
    pub(crate) read_usage: fn(&Value) -> Option<Usage>,
    /// Returns the content that a user message accepts.
    pub(crate) user_limits: fn(Dialect, &RequestOptions) -> ContentLimits,
    /// Returns the names of the generation parameters.
    pub(crate) generation: fn(Dialect) -> GenerationFormat,
    /// Returns the response formats that the API can require.
    pub(crate) output: fn(Dialect) -> OutputRules,
    pub(crate) write_request: fn(&PreparedRequest<'_>) -> Map<String, Value>,
    /// Writes an assistant turn with at least one call.
    pub(crate) write_calls: fn(Dialect, &[&ReceivedCall]) -> Vec<Value>,
    /// Reads a request of a client; `None` if the gateway does not serve this API.
    pub(crate) read_client_request: Option<fn(Value) -> ReadRequest<ClientRequest>>,
    /// Writes the response for a client; `None` if the gateway does not serve this API.
    pub(crate) client_writer: Option<fn(ResponseHead) -> Box<dyn ClientWriter>>,
    pub(crate) write_results: fn(&ResultTurn<'_>) -> Vec<Value>,
    /// The format of requests that are sent with the client's JSON text; `None` if the gateway does not serve
    /// this API.
    pub(crate) verbatim: Option<VerbatimFormat>,
}

impl Family {
    pub(crate) const fn format(self) -> &'static FamilyFormat {
        match self {
            Family::OpenAiChat => &openai_chat::FORMAT,
            Family::OpenAiResponses => &openai_responses::FORMAT,
            Family::Anthropic => &anthropic::FORMAT,
            Family::Gemini => &gemini::FORMAT,
            Family::Bedrock => &bedrock::FORMAT,
            Family::Cohere => &cohere::FORMAT,
            Family::Ollama => &ollama::FORMAT,
            Family::Mcp => &mcp::FORMAT,
        }
    }
}
