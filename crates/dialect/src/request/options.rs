//! The options of a request.

use serde_json::{Map, Value};

use crate::request::OutputMethod;
use crate::result::ResultOptions;

/// Options for writing a request. The defaults suit the API's current models.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RequestOptions {
    /// The API's name of the model. Not in the body where it is in the URL (Gemini, Bedrock).
    pub model: String,
    /// Whether to stream the response. Not in the body where it is in the URL (Gemini, Bedrock).
    pub stream: bool,
    /// Options for results; `images` and `files` also apply to user messages.
    pub results: ResultOptions,
    /// Whether the model accepts audio. Otherwise each audio clip becomes a note. Gemini's models always
    /// accept it.
    pub audio: bool,
    /// Chat Completions: the key of the output limit. `None`: the dialect's default.
    pub output_limit: Option<OutputLimit>,
    /// The output limit if the request has none and the API requires one (Anthropic, MCP).
    pub default_output_tokens: u64,
    /// Ollama: the size of the context window to allocate, in tokens. `None`: the server's default, beyond
    /// which it silently drops the start of the conversation.
    pub context_tokens: Option<u64>,
    /// Whether to mark the parts that the provider caches: tools, instructions and history (Anthropic; on
    /// Bedrock only some models accept it). Other APIs cache by themselves.
    pub prompt_cache: bool,
    /// Chat Completions: whether to request the usage of a stream (`stream_options`). `None`: the dialect's
    /// default.
    pub stream_usage: Option<bool>,
    /// Whether the model may request several calls at once; `None` leaves it to the API. Only OpenAI's APIs
    /// and Anthropic have such a field.
    pub parallel_calls: Option<bool>,
    /// Whether the API accepts a required call. Otherwise (thinking models of Anthropic and DeepSeek reject
    /// it) the model decides.
    pub forced_choice: bool,
    /// Whether the API accepts a required tool by name. Otherwise (llama.cpp) the request lists only that
    /// tool and requires some call. `None`: the dialect's default.
    pub named_choice: Option<bool>,
    /// Chat Completions: whether to send back the reasoning of earlier responses (`reasoning_content`,
    /// `reasoning`, `reasoning_details`). `None`: the dialect's default (DeepSeek, with calls). Other servers
    /// reject unknown keys.
    pub reasoning: Option<bool>,
    /// Responses: whether to request encrypted reasoning. Models without reasoning reject this.
    pub encrypted_reasoning: bool,
    /// The way in which the schema of the response is sent to the model. `None`: the dialect's default.
    pub output: Option<OutputMethod>,
    /// Whether tools may be called in a request with a schema for its response. `None`: the dialect's
    /// default.
    pub output_with_tools: Option<bool>,
    /// How much of the API the server supports. Only a server with the complete API gets the requests of
    /// clients unchanged.
    pub api_support: ApiSupport,
    /// Additional fields of the body (`reasoning_effort`, `thinking`). Objects are merged key by key; these
    /// fields override others.
    pub extra: Map<String, Value>,
}

/// How much of an API a server supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ApiSupport {
    /// The format of the API. The server may ignore or reject some fields, such as `max_completion_tokens`.
    Partial,
    /// Everything that the API documents.
    #[default]
    Complete,
}

/// The key of the output limit in Chat Completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputLimit {
    MaxTokens,
    MaxCompletionTokens,
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
            context_tokens: None,
            prompt_cache: false,
            stream_usage: None,
            parallel_calls: None,
            forced_choice: true,
            named_choice: None,
            reasoning: None,
            encrypted_reasoning: true,
            output: None,
            output_with_tools: None,
            api_support: ApiSupport::default(),
            extra: Map::new(),
        }
    }
}
