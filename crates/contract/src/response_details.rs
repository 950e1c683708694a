//! Parts of a response that only some APIs have.

use serde_json::Value;

/// A source that a part of the text is based on.
#[derive(Clone, Debug, PartialEq)]
pub struct Citation {
    /// The key under which messages store data of the provider's family, such as `toolwire/anthropic`.
    pub family: String,
    /// The citation in the format of the family.
    pub value: Value,
}

/// A part of a response that only one API has, such as a web search that the provider has made. Requests to
/// this API contain it unchanged, and all others leave it out.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderPart {
    /// The key under which messages store data of the provider's family, such as `toolwire/anthropic`.
    pub family: String,
    /// The part in the format of the family.
    pub value: Value,
}

/// What a provider reports about a response, apart from its content.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ResponseDetails {
    /// The service tier that was used, as the provider names it.
    pub service_tier: Option<String>,
    /// OpenAI's id of the configuration of its servers.
    pub system_fingerprint: Option<String>,
    /// The details of a refusal, in Anthropic's format.
    pub stop_details: Option<Value>,
    /// Whether the response was cut off because the context window is full. Otherwise, it reached its own
    /// limit.
    pub is_context_full: bool,
    /// The container in which the provider ran code, in Anthropic's format.
    pub container: Option<Value>,
    /// How often the provider called its own tools in this response, in Anthropic's format.
    pub server_tool_use: Option<Value>,
}
