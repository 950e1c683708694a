//! The table of providers: where each is, how it wants to be asked, and what it calls its key.

use toolwire_dialect::{Dialect, OutputLimit};

use crate::Framing;

/// One provider. Everything here can be overruled for an endpoint.
#[derive(Debug, PartialEq, Eq)]
pub struct Provider {
    /// As it stands before the `/` in the name of a model.
    pub name: &'static str,
    pub dialect: Dialect,
    /// The dialect that holds the model to the schemas, where there is one.
    pub strict: Option<Dialect>,
    /// `None` where every user has another one. `{region}` is filled in.
    pub base_url: Option<&'static str>,
    /// Variables that give another base URL, the first that is set counts.
    pub base_url_variables: &'static [&'static str],
    /// Variables that hold the key, the first that is set counts.
    pub key_variables: &'static [&'static str],
    pub key: Key,
    pub auth: Auth,
    /// After the base URL; `{model}` and `{api-version}` are filled in.
    pub path: &'static str,
    /// The path for a streamed answer, where it is another one.
    pub streaming_path: Option<&'static str>,
    pub framing: Framing,
    /// Sent with every request.
    pub headers: &'static [(&'static str, &'static str)],
    /// For `{api-version}`.
    pub api_version: Option<&'static str>,
    pub api_version_variables: &'static [&'static str],
    /// The most tools in one request.
    pub most_tools: Option<usize>,
    /// What it calls the limit of the output, where it is not what the dialect says.
    pub output_limit: Option<OutputLimit>,
    /// Whether one tool may be demanded by its name, where it is not as the dialect says.
    pub named_choice: Option<bool>,
    /// Whether reasoning of earlier answers goes back, where it is not as the dialect says.
    pub reasoning: Option<bool>,
}

/// Whether a key is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Needed,
    /// Sent if there is one.
    Optional,
}

/// How the key is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// `Authorization: Bearer …`
    Bearer,
    /// In a header of this name.
    Header(&'static str),
    /// A Bedrock API key as a bearer, or a signature made with AWS credentials.
    Aws,
}

/// What most have in common: OpenAI's Chat Completions with a bearer key.
const CHAT: Provider = Provider {
    name: "",
    dialect: Dialect::OpenAi,
    strict: None,
    base_url: None,
    base_url_variables: &[],
    key_variables: &[],
    key: Key::Needed,
    auth: Auth::Bearer,
    path: "/chat/completions",
    streaming_path: None,
    framing: Framing::Events,
    headers: &[],
    api_version: None,
    api_version_variables: &[],
    most_tools: Some(128),
    output_limit: None,
    named_choice: None,
    reasoning: None,
};

/// An OpenAI-compatible endpoint that nothing else is known of: what a bare name means.
pub(crate) static COMPATIBLE: Provider = Provider {
    base_url_variables: &["OPENAI_BASE_URL"],
    key_variables: &["OPENAI_API_KEY"],
    key: Key::Optional,
    output_limit: Some(OutputLimit::MaxTokens),
    ..CHAT
};

/// Every provider, in the order they are shown.
pub static PROVIDERS: [Provider; 16] = [
    Provider {
        name: "openai",
        strict: Some(Dialect::OpenAiStrict),
        base_url: Some("https://api.openai.com/v1"),
        base_url_variables: &["OPENAI_BASE_URL"],
        key_variables: &["OPENAI_API_KEY"],
        ..CHAT
    },
    Provider {
        name: "responses",
        dialect: Dialect::Responses,
        strict: Some(Dialect::ResponsesStrict),
        base_url: Some("https://api.openai.com/v1"),
        base_url_variables: &["OPENAI_BASE_URL"],
        key_variables: &["OPENAI_API_KEY"],
        path: "/responses",
        ..CHAT
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
        headers: &[("anthropic-version", "2023-06-01")],
        most_tools: None,
        ..CHAT
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
        most_tools: Some(512),
        ..CHAT
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
        framing: Framing::Aws,
        most_tools: None,
        ..CHAT
    },
    Provider {
        name: "azure",
        dialect: Dialect::Azure,
        base_url_variables: &["AZURE_OPENAI_ENDPOINT"],
        key_variables: &["AZURE_OPENAI_API_KEY"],
        auth: Auth::Header("api-key"),
        path: "/openai/deployments/{model}/chat/completions?api-version={api-version}",
        api_version: Some("2024-10-21"),
        api_version_variables: &["OPENAI_API_VERSION", "AZURE_OPENAI_API_VERSION"],
        ..CHAT
    },
    Provider {
        name: "dial",
        dialect: Dialect::Dial,
        base_url_variables: &["DIAL_URL", "DIAL_BASE_URL"],
        key_variables: &["DIAL_API_KEY"],
        auth: Auth::Header("Api-Key"),
        path: "/openai/deployments/{model}/chat/completions?api-version={api-version}",
        api_version: Some("2024-10-21"),
        api_version_variables: &["DIAL_API_VERSION"],
        ..CHAT
    },
    Provider {
        name: "ollama",
        dialect: Dialect::Ollama,
        base_url: Some("http://127.0.0.1:11434"),
        base_url_variables: &["OLLAMA_HOST"],
        key_variables: &["OLLAMA_API_KEY"],
        key: Key::Optional,
        path: "/api/chat",
        framing: Framing::Lines,
        most_tools: None,
        ..CHAT
    },
    Provider {
        name: "mistral",
        dialect: Dialect::Mistral,
        base_url: Some("https://api.mistral.ai/v1"),
        base_url_variables: &["MISTRAL_BASE_URL"],
        key_variables: &["MISTRAL_API_KEY"],
        most_tools: None,
        ..CHAT
    },
    Provider {
        name: "groq",
        dialect: Dialect::Groq,
        base_url: Some("https://api.groq.com/openai/v1"),
        key_variables: &["GROQ_API_KEY"],
        ..CHAT
    },
    Provider {
        name: "deepseek",
        dialect: Dialect::DeepSeek,
        base_url: Some("https://api.deepseek.com"),
        key_variables: &["DEEPSEEK_API_KEY"],
        ..CHAT
    },
    Provider {
        name: "xai",
        dialect: Dialect::Xai,
        base_url: Some("https://api.x.ai/v1"),
        key_variables: &["XAI_API_KEY"],
        most_tools: Some(350),
        ..CHAT
    },
    Provider {
        name: "cohere",
        dialect: Dialect::Cohere,
        base_url: Some("https://api.cohere.com"),
        base_url_variables: &["CO_API_URL"],
        key_variables: &["CO_API_KEY", "COHERE_API_KEY"],
        path: "/v2/chat",
        most_tools: None,
        ..CHAT
    },
    Provider {
        name: "vllm",
        base_url: Some("http://127.0.0.1:8000/v1"),
        base_url_variables: &["VLLM_BASE_URL"],
        key_variables: &["VLLM_API_KEY"],
        key: Key::Optional,
        most_tools: None,
        output_limit: Some(OutputLimit::MaxTokens),
        ..CHAT
    },
    Provider {
        name: "llamacpp",
        base_url: Some("http://127.0.0.1:8080/v1"),
        base_url_variables: &["LLAMACPP_BASE_URL"],
        key_variables: &["LLAMA_API_KEY"],
        key: Key::Optional,
        most_tools: None,
        output_limit: Some(OutputLimit::MaxTokens),
        named_choice: Some(false),
        ..CHAT
    },
    Provider {
        name: "openrouter",
        base_url: Some("https://openrouter.ai/api/v1"),
        base_url_variables: &["OPENROUTER_BASE_URL"],
        key_variables: &["OPENROUTER_API_KEY"],
        reasoning: Some(true),
        ..CHAT
    },
];

/// The provider of this name.
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
    fn each_name_stands_for_one_provider() {
        assert_eq!(names().collect::<HashSet<_>>().len(), PROVIDERS.len());
    }

    #[test]
    fn no_more_tools_are_offered_than_the_dialect_knows_to_be_taken() {
        // Servers that one runs oneself speak OpenAI's API without its limit; for Responses none is published, and that of
        // Chat Completions is kept.
        let others = ["vllm", "llamacpp", "responses"];
        for provider in PROVIDERS.iter().filter(|provider| !others.contains(&provider.name)) {
            assert_eq!(provider.most_tools, provider.dialect.max_tools(), "{}", provider.name);
        }
    }

    #[test]
    fn whoever_has_no_address_of_its_own_has_a_variable_for_it() {
        for provider in &PROVIDERS {
            assert!(
                provider.base_url.is_some() || !provider.base_url_variables.is_empty(),
                "{}",
                provider.name
            );
            assert_eq!(provider.path.contains("{api-version}"), provider.api_version.is_some());
        }
    }
}
