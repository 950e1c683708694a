//! The table of providers: URLs, authentication, environment variables and limits.

use toolwire_dialect::Dialect;
use toolwire_dialect::request::{ApiSupport, OutputLimit};

use crate::discovery::LimitsQuery;
use crate::frames::Framing;

/// A provider and its defaults. The configuration of an endpoint can override them.
#[derive(Debug, PartialEq, Eq)]
pub struct Provider {
    /// The part before the `/` in a model name.
    pub name: &'static str,
    pub(crate) dialect: Dialect,
    /// How much of the dialect's API the provider supports.
    pub(crate) api_support: ApiSupport,
    /// The dialect in which the provider enforces the schemas of the tools, if it has one.
    pub(crate) strict: Option<Dialect>,
    /// `None` if every user has their own. `{region}` is replaced.
    pub(crate) base_url: Option<&'static str>,
    /// Environment variables for another base URL; the first that is set is used.
    pub(crate) base_url_variables: &'static [&'static str],
    /// Environment variables for the key; the first that is set is used.
    pub(crate) key_variables: &'static [&'static str],
    pub(crate) key: KeyRequirement,
    pub(crate) auth: Auth,
    /// Appended to the base URL; `{model}` and `{api-version}` are replaced.
    pub(crate) path: &'static str,
    /// The path for streamed responses, if it differs.
    pub(crate) streaming_path: Option<&'static str>,
    /// The path of OpenAI's embeddings API, if the provider has it.
    pub(crate) embeddings_path: Option<&'static str>,
    pub(crate) framing: Framing,
    /// Sent with every request.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// The default of `{api-version}`.
    pub(crate) api_version: Option<&'static str>,
    pub(crate) api_version_variables: &'static [&'static str],
    /// The maximum number of tools in one request.
    pub(crate) max_tools: Option<usize>,
    /// The field for the output limit, if it differs from the dialect's.
    pub(crate) output_limit: Option<OutputLimit>,
    /// Whether a call of one named tool can be forced, if it differs from the dialect.
    pub(crate) named_choice: Option<bool>,
    /// Whether tools may be called in a request with a schema for its response, if it differs from the
    /// dialect.
    pub(crate) output_with_tools: Option<bool>,
    /// Whether reasoning of earlier responses is sent back, if it differs from the dialect.
    pub(crate) reasoning: Option<bool>,
    /// Whether messages accept files such as PDF, if the dialect does.
    pub(crate) accepts_files: bool,
    /// The model that is used if the user names none and a key of the provider is set.
    pub(crate) default_model: Option<&'static str>,
    pub(crate) limits_query: LimitsQuery,
}

/// Whether a provider requires a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyRequirement {
    Required,
    /// Sent if one is set.
    Optional,
}

/// The authentication of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Auth {
    /// `Authorization: Bearer …`
    Bearer,
    /// The key in a header of this name.
    Header(&'static str),
    /// A Bedrock API key as a bearer token, or a signature with AWS credentials.
    Aws,
}

/// The defaults of most providers: OpenAI's Chat Completions with a bearer token.
const CHAT_COMPLETIONS: Provider = Provider {
    name: "",
    dialect: Dialect::OpenAi,
    api_support: ApiSupport::Complete,
    strict: None,
    base_url: None,
    base_url_variables: &[],
    key_variables: &[],
    key: KeyRequirement::Required,
    auth: Auth::Bearer,
    path: "/chat/completions",
    streaming_path: None,
    embeddings_path: Some("/embeddings"),
    framing: Framing::Events,
    headers: &[],
    api_version: None,
    api_version_variables: &[],
    max_tools: Some(128),
    output_limit: None,
    named_choice: None,
    output_with_tools: None,
    reasoning: None,
    accepts_files: true,
    default_model: None,
    limits_query: LimitsQuery::None,
};

/// An unknown OpenAI-compatible endpoint, used for bare model names.
pub(crate) static OPENAI_COMPATIBLE: Provider = Provider {
    api_support: ApiSupport::Partial,
    base_url_variables: &["OPENAI_BASE_URL"],
    key_variables: &["OPENAI_API_KEY"],
    key: KeyRequirement::Optional,
    output_limit: Some(OutputLimit::MaxTokens),
    output_with_tools: Some(false),
    limits_query: LimitsQuery::Get("/models"),
    ..CHAT_COMPLETIONS
};

/// All providers, in display order.
pub static PROVIDERS: &[Provider] = &[
    Provider {
        name: "openai",
        strict: Some(Dialect::OpenAiStrict),
        base_url: Some("https://api.openai.com/v1"),
        base_url_variables: &["OPENAI_BASE_URL"],
        key_variables: &["OPENAI_API_KEY"],
        default_model: Some("gpt-5.2"),
        ..CHAT_COMPLETIONS
    },
    Provider {
        name: "responses",
        dialect: Dialect::Responses,
        strict: Some(Dialect::ResponsesStrict),
        base_url: Some("https://api.openai.com/v1"),
        base_url_variables: &["OPENAI_BASE_URL"],
        key_variables: &["OPENAI_API_KEY"],
        path: "/responses",
        ..CHAT_COMPLETIONS
    },
    Provider {
        name: "anthropic",
        dialect: Dialect::Anthropic,
        strict: Some(Dialect::AnthropicStrict),
        base_url: Some("https://api.anthropic.com"),
        base_url_variables: &["ANTHROPIC_BASE_URL"],
        key_variables: &["ANTHROPIC_API_KEY"],
        auth: Auth::Header("x-api-key"),
        path: "/v1/messages",
        embeddings_path: None,
        headers: &[("anthropic-version", "2023-06-01")],
        max_tools: None,
        default_model: Some("claude-sonnet-4-5"),
        limits_query: LimitsQuery::Get("/v1/models/{model}"),
        ..CHAT_COMPLETIONS
    },
    Provider {
        name: "gemini",
        dialect: Dialect::Gemini,
        base_url: Some("https://generativelanguage.googleapis.com"),
        base_url_variables: &["GOOGLE_GEMINI_BASE_URL"],
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        auth: Auth::Header("x-goog-api-key"),
        path: "/v1beta/models/{model}:generateContent",
        streaming_path: Some("/v1beta/models/{model}:streamGenerateContent?alt=sse"),
        embeddings_path: Some("/v1beta/openai/embeddings"),
        max_tools: Some(512),
        default_model: Some("gemini-2.5-flash"),
        limits_query: LimitsQuery::Get("/v1beta/models/{model}"),
        ..CHAT_COMPLETIONS
    },
    Provider {
        name: "bedrock",
        dialect: Dialect::Bedrock,
        base_url: Some("https://bedrock-runtime.{region}.amazonaws.com"),
        base_url_variables: &["AWS_ENDPOINT_URL_BEDROCK_RUNTIME"],
        key_variables: &["AWS_BEARER_TOKEN_BEDROCK"],
        auth: Auth::Aws,
        path: "/model/{model}/converse",
        streaming_path: Some("/model/{model}/converse-stream"),
        embeddings_path: None,
        framing: Framing::Aws,
        max_tools: None,
        ..CHAT_COMPLETIONS
    },
    Provider {
        name: "azure",
        dialect: Dialect::Azure,
        base_url_variables: &["AZURE_OPENAI_ENDPOINT"],
        key_variables: &["AZURE_OPENAI_API_KEY"],
        auth: Auth::Header("api-key"),
        path: "/openai/deployments/{model}/chat/completions?api-version={api-version}",
        embeddings_path: Some("/openai/deployments/{model}/embeddings?api-version={api-version}"),
        api_version: Some("2024-10-21"),
        api_version_variables: &["OPENAI_API_VERSION", "AZURE_OPENAI_API_VERSION"],
        ..CHAT_COMPLETIONS
    },
    Provider {
        name: "dial",
        dialect: Dialect::Dial,
        base_url_variables: &["DIAL_URL", "DIAL_BASE_URL"],
        key_variables: &["DIAL_API_KEY"],
        auth: Auth::Header("Api-Key"),
        path: "/openai/deployments/{model}/chat/completions?api-version={api-version}",
        embeddings_path: Some("/openai/deployments/{model}/embeddings?api-version={api-version}"),
        api_version: Some("2024-10-21"),
        api_version_variables: &["DIAL_API_VERSION"],
        ..CHAT_COMPLETIONS
    },
    Provider {
        name: "ollama",
        dialect: Dialect::Ollama,
        base_url: Some("http://127.0.0.1:11434"),
        base_url_variables: &["OLLAMA_HOST"],
        key_variables: &["OLLAMA_API_KEY"],
        key: KeyRequirement::Optional,
        path: "/api/chat",
        embeddings_path: Some("/v1/embeddings"),
        framing: Framing::Lines,
        max_tools: None,
        limits_query: LimitsQuery::OllamaShow,
        ..CHAT_COMPLETIONS
    },
    Provider {
        name: "mistral",
        dialect: Dialect::Mistral,
        base_url: Some("https://api.mistral.ai/v1"),
        base_url_variables: &["MISTRAL_BASE_URL"],
        key_variables: &["MISTRAL_API_KEY"],
        max_tools: None,
        default_model: Some("mistral-large-latest"),
        limits_query: LimitsQuery::Get("/models"),
        ..CHAT_COMPLETIONS
    },
    Provider {
        name: "groq",
        dialect: Dialect::Groq,
        embeddings_path: None,
        base_url: Some("https://api.groq.com/openai/v1"),
        key_variables: &["GROQ_API_KEY"],
        default_model: Some("openai/gpt-oss-120b"),
        limits_query: LimitsQuery::Get("/models"),
        ..CHAT_COMPLETIONS
    },
    Provider {
        name: "deepseek",
        dialect: Dialect::DeepSeek,
        embeddings_path: None,
        base_url: Some("https://api.deepseek.com"),
        key_variables: &["DEEPSEEK_API_KEY"],
        default_model: Some("deepseek-chat"),
        ..CHAT_COMPLETIONS
    },
    Provider {
        name: "xai",
        dialect: Dialect::Xai,
        base_url: Some("https://api.x.ai/v1"),
        key_variables: &["XAI_API_KEY"],
        max_tools: Some(350),
        default_model: Some("grok-4"),
        ..CHAT_COMPLETIONS
    },
    Provider {
        name: "cohere",
        dialect: Dialect::Cohere,
        base_url: Some("https://api.cohere.com"),
        base_url_variables: &["CO_API_URL"],
        key_variables: &["CO_API_KEY", "COHERE_API_KEY"],
        path: "/v2/chat",
        embeddings_path: Some("/compatibility/v1/embeddings"),
        max_tools: None,
        default_model: Some("command-a-03-2025"),
        limits_query: LimitsQuery::Get("/v1/models/{model}"),
        ..CHAT_COMPLETIONS
    },
    Provider {
        name: "vllm",
        api_support: ApiSupport::Partial,
        base_url: Some("http://127.0.0.1:8000/v1"),
        base_url_variables: &["VLLM_BASE_URL"],
        key_variables: &["VLLM_API_KEY"],
        key: KeyRequirement::Optional,
        max_tools: None,
        accepts_files: false,
        output_limit: Some(OutputLimit::MaxTokens),
        output_with_tools: Some(false),
        limits_query: LimitsQuery::Get("/models"),
        ..CHAT_COMPLETIONS
    },
    Provider {
        name: "llamacpp",
        api_support: ApiSupport::Partial,
        base_url: Some("http://127.0.0.1:8080/v1"),
        base_url_variables: &["LLAMACPP_BASE_URL"],
        key_variables: &["LLAMA_API_KEY"],
        key: KeyRequirement::Optional,
        max_tools: None,
        accepts_files: false,
        output_limit: Some(OutputLimit::MaxTokens),
        named_choice: Some(false),
        output_with_tools: Some(false),
        limits_query: LimitsQuery::LlamaProps,
        ..CHAT_COMPLETIONS
    },
    Provider {
        name: "openrouter",
        // OpenRouter sends the requests to other providers, which support different parts of the API.
        api_support: ApiSupport::Partial,
        base_url: Some("https://openrouter.ai/api/v1"),
        base_url_variables: &["OPENROUTER_BASE_URL"],
        key_variables: &["OPENROUTER_API_KEY"],
        reasoning: Some(true),
        default_model: Some("openrouter/auto"),
        limits_query: LimitsQuery::Get("/models"),
        ..CHAT_COMPLETIONS
    },
];

/// Returns the provider of this name.
pub(crate) fn find(name: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|provider| provider.name == name)
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().map(|provider| provider.name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn provider_names_are_unique() {
        assert_eq!(names().collect::<HashSet<_>>().len(), PROVIDERS.len());
    }

    #[test]
    fn tool_limits_match_those_of_the_dialect() {
        // Self-hosted servers implement OpenAI's API without its limit. OpenAI publishes no limit for
        // Responses, so the limit of Chat Completions is used.
        let exceptions = ["vllm", "llamacpp", "responses"];
        for provider in PROVIDERS.iter().filter(|provider| !exceptions.contains(&provider.name)) {
            assert_eq!(provider.max_tools, provider.dialect.max_tools(), "{}", provider.name);
        }
    }

    #[test]
    fn servers_that_only_follow_openai_s_api_have_a_part_of_it() {
        let partial = |provider: &&Provider| provider.api_support == ApiSupport::Partial;
        let names: Vec<&str> = PROVIDERS.iter().filter(partial).map(|provider| provider.name).collect();
        assert_eq!(names, ["vllm", "llamacpp", "openrouter"]);
        assert_eq!(OPENAI_COMPATIBLE.api_support, ApiSupport::Partial);
    }

    #[test]
    fn a_provider_with_a_key_and_public_models_has_a_default_model() {
        let without: Vec<&str> = PROVIDERS
            .iter()
            .filter(|provider| provider.key == KeyRequirement::Required && provider.default_model.is_none())
            .map(|provider| provider.name)
            .collect();
        // `responses` has the key of `openai`; models of Bedrock depend on the region, and deployments on the
        // user.
        assert_eq!(without, ["responses", "bedrock", "azure", "dial"]);
    }

    #[test]
    fn a_provider_without_a_base_url_has_a_variable_for_it() {
        for provider in PROVIDERS {
            assert!(
                provider.base_url.is_some() || !provider.base_url_variables.is_empty(),
                "{}",
                provider.name
            );
            assert_eq!(provider.path.contains("{api-version}"), provider.api_version.is_some());
        }
    }
}
