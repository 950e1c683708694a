//! The dialects by name, and what is known of each before any schema is looked at.

use std::fmt;
use std::str::FromStr;

/// One provider's JSON for tools, calls and results.
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
    /// Gemini, schemas as `parametersJsonSchema`.
    Gemini,
    /// Gemini, schemas as OpenAPI 3.0 `parameters`.
    GeminiOpenApi,
    /// AWS Bedrock Converse.
    Bedrock,
    /// Mistral.
    Mistral,
    /// Cohere v2.
    Cohere,
    /// Ollama's own API.
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
    /// MCP itself: nothing is changed.
    Mcp,
}

/// Dialects that share the shape of their messages, calls and wrappers.
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

/// `dialect` is not a name of a dialect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no dialect is called `{name}`")]
pub struct UnknownDialect {
    pub name: String,
}

impl UnknownDialect {
    /// The next thing to try, in one line.
    pub fn hint(&self) -> String {
        let names: Vec<&str> = Dialect::ALL.iter().map(|dialect| dialect.name()).collect();
        format!("the dialects are {}", names.join(", "))
    }
}

impl Dialect {
    /// Every dialect, in the order they are documented and shown.
    pub const ALL: [Dialect; 18] = [
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

    /// The name users write.
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

    /// How many tools one request takes, where a limit is known: beyond it the API refuses the whole request.
    pub const fn most_tools(self) -> Option<usize> {
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

    /// Whose message shapes this dialect uses.
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

    /// Whether its definitions can be read back into tools (`--from`).
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
    /// The key of `_meta` under which a message keeps what only this family understands.
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
        Dialect::ALL
            .into_iter()
            .find(|dialect| dialect.name() == name)
            .ok_or_else(|| UnknownDialect { name: name.to_owned() })
    }
}
