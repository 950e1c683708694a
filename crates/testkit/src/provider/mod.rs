//! Fake providers: HTTP servers that implement the wire format of an LLM API and reject what that API
//! rejects.
//!
//! A [`FakeProvider`] listens on a local port, plays a [`Script`] and records every [`ReceivedRequest`].
//! Before it plays a response it [checks](check_request) the request: keys, headers and paths, roles, the
//! pairing of calls and results, ids, media, tools. A request that the real API would reject gets that API's
//! own error and uses up no response of the script. A [`ModelOutput`] describes a response independent of the
//! API; [`render`] writes it in the format of an API, complete or as the events of a stream.
//!
//! `docs/providers.md` describes the rules; each file lists the ids of the rules it checks. Where the
//! behaviour of an API is not known, the request is accepted. Nothing here shares code with the crates it
//! tests, so that both sides do not make the same mistake.
//!
//! | [`Api`] | key | [`FakeProvider::base_url`] ends with | path |
//! |---|---|---|---|
//! | `OpenAiChat`, `Mistral`, `Xai` | `Authorization: Bearer` | `/v1` | `/chat/completions` |
//! | `Vllm`, `LlamaCpp` | none | `/v1` | `/chat/completions` |
//! | `Groq` | `Authorization: Bearer` | `/openai/v1` | `/chat/completions` |
//! | `DeepSeek` | `Authorization: Bearer` | | `/chat/completions`, also below `/v1` and `/beta` |
//! | `Azure` | `api-key` or `Authorization: Bearer` | | `/openai/deployments/D/chat/completions?api-version=V`, `/openai/v1/chat/completions` |
//! | `Dial` | `Api-Key` | | `/openai/deployments/D/chat/completions` |
//! | `Responses` | `Authorization: Bearer` | `/v1` | `/responses` |
//! | `Anthropic` | `x-api-key` and `anthropic-version` | | `/v1/messages` |
//! | `Gemini` | `x-goog-api-key` or `?key=` | | `/v1beta/models/M:generateContent`, `:streamGenerateContent?alt=sse` |
//! | `Bedrock` | SigV4 with [`ACCESS_KEY`] and [`SECRET_KEY`], or Bearer | | `/model/M/converse`, `/converse-stream` |
//! | `Cohere` | `Authorization: Bearer` | | `/v2/chat` |
//! | `Ollama` | none | | `/api/chat` |
//!
//! The embeddings of OpenAI's API are at `/embeddings` of the same base URL; at Gemini, Cohere and Ollama,
//! where their OpenAI-compatible APIs have them.
//!
//! Every key is [`API_KEY`].

mod anthropic;
mod bedrock;
mod chat;
mod check;
mod cohere;
mod embeddings;
mod gemini;
mod json;
mod media;
mod ollama;
mod opaque_token;
mod openai_errors;
mod output;
mod render;
mod responses;
mod schema;
mod script;
mod server;
mod window;

pub use check::{Rejection, check_request};
pub use output::{FinishReason, ModelOutput, OutputCall, StreamError, TokenCounts};
pub use render::render;
pub use script::{BodySplit, Delivery, Gate, Script, ScriptedResponse};
pub use server::{FakeProvider, ReceivedRequest};

/// The API key that every fake provider accepts.
pub const API_KEY: &str = "test-key";
/// The access key id that the fake Bedrock accepts.
pub const ACCESS_KEY: &str = "AKIDEXAMPLE";
/// The secret that belongs to [`ACCESS_KEY`].
pub const SECRET_KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

/// An API, or a flavour of Chat Completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    OpenAiChat,
    Azure,
    Dial,
    Mistral,
    Groq,
    DeepSeek,
    Xai,
    Vllm,
    LlamaCpp,
    Responses,
    Anthropic,
    Gemini,
    Bedrock,
    Cohere,
    Ollama,
}

impl Api {
    /// Every API; the flavours of Chat Completions come first.
    pub const ALL: [Api; 15] = [
        Api::OpenAiChat,
        Api::Azure,
        Api::Dial,
        Api::Mistral,
        Api::Groq,
        Api::DeepSeek,
        Api::Xai,
        Api::Vllm,
        Api::LlamaCpp,
        Api::Responses,
        Api::Anthropic,
        Api::Gemini,
        Api::Bedrock,
        Api::Cohere,
        Api::Ollama,
    ];
    /// OpenAI's Chat Completions and the APIs that follow it.
    pub const CHAT_FLAVOURS: &'static [Api] = Api::ALL.split_at(9).0;

    /// Returns the provider's part of a model name, as in `openai/m`.
    pub fn provider_name(self) -> &'static str {
        match self {
            Api::OpenAiChat => "openai",
            Api::Azure => "azure",
            Api::Dial => "dial",
            Api::Mistral => "mistral",
            Api::Groq => "groq",
            Api::DeepSeek => "deepseek",
            Api::Xai => "xai",
            Api::Vllm => "vllm",
            Api::LlamaCpp => "llamacpp",
            Api::Responses => "responses",
            Api::Anthropic => "anthropic",
            Api::Gemini => "gemini",
            Api::Bedrock => "bedrock",
            Api::Cohere => "cohere",
            Api::Ollama => "ollama",
        }
    }
}
