//! Whole requests: a conversation with its tools, in an API's own JSON.

use serde_json::{Map, Value};
use toolwire_contract::ModelRequest;

use crate::{Dialect, ResultOptions, Toolset};

/// How a request is written. The default is what the API's current models take.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestOptions {
    /// The model's name at the API. Left out of the body where it stands in the URL (Gemini, Bedrock).
    pub model: String,
    /// Whether the answer is to be streamed. Left out of the body where the URL says it (Gemini, Bedrock).
    pub stream: bool,
    /// How results are written; `images` and `files` hold for the messages of the user too.
    pub results: ResultOptions,
    /// Whether the model hears. Without, each sound is a note. Gemini's models always hear.
    pub audio: bool,
    /// Chat Completions: the name of the output limit. `None`: as the dialect names it.
    pub output_limit: Option<OutputLimit>,
    /// The output limit where the request names none and the API demands one (Anthropic, MCP).
    pub default_output_tokens: u64,
    /// Chat Completions: whether a stream is asked for its usage (`stream_options`). `None`: where the dialect knows it.
    pub stream_usage: Option<bool>,
    /// Whether several calls at once are allowed; `None` leaves it unsaid. Only OpenAI's APIs and Anthropic have a word
    /// for it.
    pub parallel_calls: Option<bool>,
    /// Whether a call may be demanded. Without (thinking models of Anthropic and DeepSeek refuse it), the model is free.
    pub forced_choice: bool,
    /// Whether one tool may be demanded by its name. Without (llama.cpp), it is the only tool listed and some call is
    /// demanded. `None`: where the dialect knows it.
    pub named_choice: Option<bool>,
    /// Chat Completions: whether reasoning of earlier answers (`reasoning_content`, `reasoning`, `reasoning_details`)
    /// goes back. `None`: where the dialect wants it (DeepSeek, with calls). Other servers refuse keys they do not know.
    pub reasoning: Option<bool>,
    /// Responses: whether encrypted reasoning is asked for. Models that do not reason refuse to be asked.
    pub encrypted_reasoning: bool,
    /// Fields of the body that this crate has no name for (`reasoning_effort`, `thinking`); objects are merged key by
    /// key, and what stands here wins.
    pub extra: Map<String, Value>,
}

/// What Chat Completions call the limit of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputLimit {
    MaxTokens,
    MaxCompletionTokens,
}

/// A request that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("there is no message to answer")]
    NoMessages,
    /// `tool_choice` demands a tool that is not offered.
    #[error("the tool `{tool}` is demanded and not offered")]
    UnknownTool { tool: String, nearest: Vec<String> },
    /// A call is demanded and there is no tool.
    #[error("a call is demanded and no tool is offered")]
    NoTools,
    /// The tools were bound to another dialect.
    #[error("the tools are bound to `{bound}`, and the request is for `{dialect}`")]
    OtherDialect { dialect: Dialect, bound: Dialect },
    /// A result in the history is a question (`resultType: "input_required"`).
    #[error("the tool `{name}` asks for input before it answers call `{id}`")]
    InputRequired { name: String, id: String },
}

/// Writes the whole body of a request.
///
/// `tools` are the request's, bound to `dialect`. Each call in the history is answered exactly once: a call without a
/// result gets an error, a result without a call is left out. What only another provider understands is left out.
pub fn write_request(
    dialect: Dialect,
    request: &ModelRequest,
    tools: &Toolset,
    options: &RequestOptions,
) -> Result<Value, RequestError> {
    let _ = (dialect, request, tools, options);
    unimplemented!("the signature comes first")
}

impl Default for RequestOptions {
    fn default() -> RequestOptions {
        RequestOptions {
            model: String::new(),
            stream: false,
            results: ResultOptions::default(),
            audio: false,
            output_limit: None,
            default_output_tokens: 8_192,
            stream_usage: None,
            parallel_calls: None,
            forced_choice: true,
            named_choice: None,
            reasoning: None,
            encrypted_reasoning: true,
            extra: Map::new(),
        }
    }
}

impl RequestError {
    /// The next thing to try, in one line.
    pub fn hint(&self) -> String {
        match self {
            RequestError::NoMessages => "add a message of the user".to_owned(),
            RequestError::UnknownTool { nearest, .. } if nearest.is_empty() => {
                "demand one of the tools that are offered".to_owned()
            }
            RequestError::UnknownTool { nearest, .. } => {
                let names: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
                format!("did you mean {}?", names.join(" or "))
            }
            RequestError::NoTools => "offer tools, or leave the choice to the model".to_owned(),
            RequestError::OtherDialect { .. } => "bind the tools to the dialect of the request".to_owned(),
            RequestError::InputRequired { .. } => {
                "answer its `inputRequests`, then repeat the call with `inputResponses` and the `requestState`"
                    .to_owned()
            }
        }
    }
}
