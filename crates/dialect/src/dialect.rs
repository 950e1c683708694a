//! The supported dialects, with the facts about each that do not depend on a schema.

use std::fmt;
use std::str::FromStr;

/// A provider API's JSON format for tools, calls and results.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// OpenAI Chat Completions.
    OpenAi,
    /// OpenAI Chat Completions with `strict: true` where a tool allows it.
    OpenAiStrict,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Responses with `strict: true` where a tool allows it.
    ResponsesStrict,
    /// Anthropic Messages.
    Anthropic,
    /// Anthropic Messages with `strict: true` where a tool allows it.
    AnthropicStrict,
    /// Gemini, with schemas in `parametersJsonSchema`.
    Gemini,
    /// Gemini, with OpenAPI 3.0 schemas in `parameters`.
    GeminiOpenApi,
    /// AWS Bedrock Converse.
    Bedrock,
    /// Mistral.
    Mistral,
    /// Cohere v2.
    Cohere,
    /// Ollama's native API.
    Ollama,
    /// DeepSeek.
    DeepSeek,
    /// xAI.
    Xai,
    /// Groq.
    Groq,
    /// Azure OpenAI.
    Azure,
    /// EPAM AI DIAL.
    Dial,
    /// MCP itself; nothing is converted.
    Mcp,
}

/// A group of dialects that share the format of messages, calls and definitions.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    OpenAiChat,
    OpenAiResponses,
    Anthropic,
    Gemini,
    Bedrock,
    Cohere,
    Ollama,
    Mcp,
}

/// The error for a name that is not the name of a dialect.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown dialect `{name}`")]
pub struct UnknownDialect {
    pub name: String,
}

impl UnknownDialect {
    /// A one-line suggestion for the user.
    pub fn hint(&self) -> String {
        let names: Vec<&str> = Dialect::all().map(Dialect::name).collect();
        format!("the dialects are {}", names.join(", "))
    }
}

impl Dialect {
    const ALL: [Dialect; 18] = [
        Dialect::OpenAi,
        Dialect::OpenAiStrict,
        Dialect::Responses,
        Dialect::ResponsesStrict,
        Dialect::Anthropic,
        Dialect::AnthropicStrict,
        Dialect::Gemini,
        Dialect::GeminiOpenApi,
        Dialect::Bedrock,
        Dialect::Mistral,
        Dialect::Cohere,
        Dialect::Ollama,
        Dialect::DeepSeek,
        Dialect::Xai,
        Dialect::Groq,
        Dialect::Azure,
        Dialect::Dial,
        Dialect::Mcp,
    ];

    /// Returns every dialect, in the order used by documentation and output.
    pub fn all() -> impl ExactSizeIterator<Item = Dialect> + Clone {
        Self::ALL.into_iter()
    }

    /// Returns the name used on the command line and in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Dialect::OpenAi => "openai",
            Dialect::OpenAiStrict => "openai-strict",
            Dialect::Responses => "responses",
            Dialect::ResponsesStrict => "responses-strict",
            Dialect::Anthropic => "anthropic",
            Dialect::AnthropicStrict => "anthropic-strict",
            Dialect::Gemini => "gemini",
            Dialect::GeminiOpenApi => "gemini-openapi",
            Dialect::Bedrock => "bedrock",
            Dialect::Mistral => "mistral",
            Dialect::Cohere => "cohere",
            Dialect::Ollama => "ollama",
            Dialect::DeepSeek => "deepseek",
            Dialect::Xai => "xai",
            Dialect::Groq => "groq",
            Dialect::Azure => "azure",
            Dialect::Dial => "dial",
            Dialect::Mcp => "mcp",
        }
    }

    /// Returns the name of the API in a few words.
    pub const fn title(self) -> &'static str {
        match self {
            Dialect::OpenAi => "OpenAI Chat Completions",
            Dialect::OpenAiStrict => "OpenAI Chat Completions, `strict: true` where a tool allows it",
            Dialect::Responses => "OpenAI Responses",
            Dialect::ResponsesStrict => "OpenAI Responses, `strict: true` where a tool allows it",
            Dialect::Anthropic => "Anthropic Messages",
            Dialect::AnthropicStrict => "Anthropic Messages, `strict: true` where a tool allows it",
            Dialect::Gemini => "Gemini, `parametersJsonSchema`",
            Dialect::GeminiOpenApi => "Gemini, OpenAPI `parameters`",
            Dialect::Bedrock => "AWS Bedrock Converse",
            Dialect::Mistral => "Mistral",
            Dialect::Cohere => "Cohere v2",
            Dialect::Ollama => "Ollama",
            Dialect::DeepSeek => "DeepSeek",
            Dialect::Xai => "xAI Grok",
            Dialect::Groq => "Groq",
            Dialect::Azure => "Azure OpenAI",
            Dialect::Dial => "EPAM AI DIAL",
            Dialect::Mcp => "MCP itself",
        }
    }

    /// Returns the maximum number of tools in one request, if a limit is known. The API rejects requests
    /// beyond it.
    pub const fn max_tools(self) -> Option<usize> {
        match self {
            Dialect::OpenAi
            | Dialect::OpenAiStrict
            | Dialect::DeepSeek
            | Dialect::Groq
            | Dialect::Azure
            | Dialect::Dial => Some(128),
            Dialect::Xai => Some(350),
            Dialect::Gemini | Dialect::GeminiOpenApi => Some(512),
            _ => None,
        }
    }

    /// Returns the family whose message format this dialect uses.
    pub const fn family(self) -> Family {
        match self {
            Dialect::OpenAi
            | Dialect::OpenAiStrict
            | Dialect::Mistral
            | Dialect::DeepSeek
            | Dialect::Xai
            | Dialect::Groq
            | Dialect::Azure
            | Dialect::Dial => Family::OpenAiChat,
            Dialect::Responses | Dialect::ResponsesStrict => Family::OpenAiResponses,
            Dialect::Anthropic | Dialect::AnthropicStrict => Family::Anthropic,
            Dialect::Gemini | Dialect::GeminiOpenApi => Family::Gemini,
            Dialect::Bedrock => Family::Bedrock,
            Dialect::Cohere => Family::Cohere,
            Dialect::Ollama => Family::Ollama,
            Dialect::Mcp => Family::Mcp,
        }
    }

    /// Returns the dialect in which the same API enforces the schemas of tools, if it has one.
    pub(crate) const fn strict_variant(self) -> Option<Dialect> {
        match self {
            Dialect::OpenAi | Dialect::OpenAiStrict => Some(Dialect::OpenAiStrict),
            Dialect::Responses | Dialect::ResponsesStrict => Some(Dialect::ResponsesStrict),
            Dialect::Anthropic | Dialect::AnthropicStrict => Some(Dialect::AnthropicStrict),
            _ => None,
        }
    }

    /// Whether this is exactly the API that a gateway serves as `family`. Others of the family reject some of
    /// its fields.
    pub fn has_api_of(self, family: Family) -> bool {
        family.format().verbatim.is_some_and(|format| format.dialects.contains(&self))
    }

    /// Whether definitions in this dialect can be read back into tools (`--from`).
    pub const fn is_readable(self) -> bool {
        matches!(
            self,
            Dialect::OpenAi
                | Dialect::Responses
                | Dialect::Anthropic
                | Dialect::Gemini
                | Dialect::Bedrock
                | Dialect::Mcp
        )
    }
}

impl Family {
    /// Returns the `_meta` key under which a message stores data that only this family understands.
    pub const fn meta_key(self) -> &'static str {
        match self {
            Family::OpenAiChat => "toolwire/openai",
            Family::OpenAiResponses => "toolwire/responses",
            Family::Anthropic => "toolwire/anthropic",
            Family::Gemini => "toolwire/gemini",
            Family::Bedrock => "toolwire/bedrock",
            Family::Cohere => "toolwire/cohere",
            Family::Ollama => "toolwire/ollama",
            Family::Mcp => "toolwire/mcp",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, UnknownDialect> {
        Dialect::all()
            .find(|dialect| dialect.name() == name)
            .ok_or_else(|| UnknownDialect { name: name.to_owned() })
    }
}
