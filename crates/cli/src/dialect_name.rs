//! Dialects on the command line: by name, with near names when one is misspelt.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use toolwire_dialect::Dialect;

/// Takes the name of any dialect.
pub(crate) fn any() -> impl TypedValueParser<Value = Dialect> {
    among(|_| true)
}

/// Takes the name of a dialect whose definitions can be read back into tools.
pub(crate) fn readable() -> impl TypedValueParser<Value = Dialect> {
    among(Dialect::is_readable)
}

fn among(admitted: fn(Dialect) -> bool) -> impl TypedValueParser<Value = Dialect> {
    let values = Dialect::ALL
        .into_iter()
        .filter(move |dialect| admitted(*dialect))
        .map(|dialect| PossibleValue::new(dialect.name()).help(title(dialect)));
    PossibleValuesParser::new(values)
        .map(|name| name.parse::<Dialect>().expect("clap lets only names of dialects through"))
}

/// Whose dialect it is, in a few words.
const fn title(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAi => "OpenAI Chat Completions",
        Dialect::OpenAiStrict => "the same with `strict: true`, tool by tool where it can be kept",
        Dialect::Responses => "OpenAI Responses",
        Dialect::ResponsesStrict => "the same with `strict: true`",
        Dialect::Anthropic => "Anthropic Messages",
        Dialect::AnthropicStrict => "the same with `strict: true`",
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
