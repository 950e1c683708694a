//! Scripted providers: servers that speak the wire format of an LLM API and refuse what that API refuses.
//!
//! A [`Provider`] listens on a port of this machine, plays a [`Script`] and keeps every request it [`Received`]. Before it
//! plays a reply it [`judge`]s the request: keys, headers and paths, roles, the pairing of calls and results, ids, media,
//! tools. A request the real API would refuse gets that API's own error and uses up no reply. What an answer says is a
//! [`Said`], the same for every API; [`render`] writes it as the API does, whole or as the events of a stream.
//!
//! The rules are those of `provider-formats.md`; each file has a table of its rules with the section they come from. No
//! rule is made up: where the behaviour of an API is not known, the request passes. Nothing here shares code with the
//! crates it tests, so that one mistake is not made on both sides.
//!
//! | [`Api`] | key | [`Provider::base_url`] ends with | asked at |
//! |---|---|---|---|
//! | `OpenAiChat`, `Mistral`, `Xai`, `Vllm`, `LlamaCpp` | `Authorization: Bearer` | `/v1` | `/chat/completions` |
//! | `Groq` | `Authorization: Bearer` | `/openai/v1` | `/chat/completions` |
//! | `DeepSeek` | `Authorization: Bearer` | | `/chat/completions`, also below `/v1` and `/beta` |
//! | `Azure` | `api-key` | | `/openai/deployments/D/chat/completions?api-version=V`, `/openai/v1/chat/completions` |
//! | `Dial` | `Api-Key` | | `/openai/deployments/D/chat/completions` |
//! | `Responses` | `Authorization: Bearer` | `/v1` | `/responses` |
//! | `Anthropic` | `x-api-key` and `anthropic-version` | | `/v1/messages` |
//! | `Gemini` | `x-goog-api-key` or `?key=` | | `/v1beta/models/M:generateContent`, `:streamGenerateContent?alt=sse` |
//! | `Bedrock` | SigV4 with [`ACCESS_KEY`] and [`SECRET_KEY`], or `Authorization: Bearer` | | `/model/M/converse`, `/converse-stream` |
//! | `Cohere` | `Authorization: Bearer` | | `/v2/chat` |
//! | `Ollama` | none | | `/api/chat` |
//!
//! Every key is [`KEY`].

mod anthropic;
mod bedrock;
mod chat;
mod cohere;
mod gemini;
mod json;
mod judge;
mod media;
mod ollama;
mod render;
mod responses;
mod said;
mod schema;
mod script;
mod seal;
mod server;

pub use judge::{Refusal, judge};
pub use render::render;
pub use said::{Call, Fault, Said, Stop, Tokens};
pub use script::{Delivery, Gate, Reply, Script, Split};
pub use server::{Provider, Received};

/// The key every provider takes.
pub const KEY: &str = "test-key";
/// The access key id Bedrock takes.
pub const ACCESS_KEY: &str = "AKIDEXAMPLE";
/// The secret that belongs to [`ACCESS_KEY`].
pub const SECRET_KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

/// An API, or a flavour of one.
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
    /// All of them.
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
}
