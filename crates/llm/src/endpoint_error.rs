//! Errors in the settings of an endpoint, with hints.

use crate::{InvalidModelName, providers};

/// The settings of an endpoint are missing or invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    #[error(transparent)]
    Name(#[from] InvalidModelName),
    #[error("unknown provider `{provider}` in the configuration of `{name}`")]
    UnknownProvider { name: String, provider: String, nearest: Vec<String> },
    #[error("no API key is set for `{name}`")]
    MissingKey { name: String, key_source: String },
    #[error("no base URL is set for `{name}`")]
    MissingBaseUrl { name: String, variables: Vec<String> },
    #[error("no region is set for `{name}`")]
    MissingRegion { name: String },
    #[error("invalid base URL `{base_url}` for `{name}`: {problem}")]
    InvalidBaseUrl { name: String, base_url: String, problem: String },
    #[error("invalid header `{header}` for `{name}`")]
    InvalidHeader { name: String, header: String },
    #[error("the API key of `{name}` is not a valid header value")]
    InvalidKey { name: String },
    #[error("`{name}` does not support the API `{api}`")]
    UnsupportedApi { name: String, api: &'static str },
    #[error("`{name}` does not support strict tools")]
    StrictUnsupported { name: String },
    #[error("the provider of `{name}` has no embeddings")]
    EmbeddingsUnsupported { name: String },
    #[error("cannot create an HTTP client: {problem}")]
    HttpClient { problem: String },
}

impl EndpointError {
    /// Suggests what to do, in one line.
    pub fn hint(&self) -> String {
        let join_or = |names: &[String]| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(" or ")
        };
        match self {
            EndpointError::Name(error) => error.hint(),
            EndpointError::UnknownProvider { nearest, .. } => match nearest.first() {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("the providers are {}", providers::names().collect::<Vec<_>>().join(", ")),
            },
            EndpointError::MissingKey { key_source, .. } => format!("set {key_source}"),
            EndpointError::MissingBaseUrl { name, variables } => match providers::find(name) {
                Some(_) => format!("add the model: `{name}/…`"),
                None if name.contains('/') => format!("set {}", join_or(variables)),
                None => format!(
                    "set {} to an OpenAI-compatible endpoint, or write `provider/model`, such as `openai/{name}`",
                    join_or(variables)
                ),
            },
            EndpointError::MissingRegion { .. } => {
                "set `AWS_REGION`, or `region` in the configuration".to_owned()
            }
            EndpointError::InvalidBaseUrl { .. } => "start it with `http://` or `https://`".to_owned(),
            EndpointError::InvalidHeader { .. } => {
                "use letters, digits and dashes in header names, and a single line of text in values"
                    .to_owned()
            }
            EndpointError::InvalidKey { .. } => "use a key that is a single line of ASCII text".to_owned(),
            EndpointError::UnsupportedApi { .. } => "remove `api`, or use an OpenAI endpoint".to_owned(),
            EndpointError::StrictUnsupported { .. } => "remove `strict`".to_owned(),
            EndpointError::EmbeddingsUnsupported { .. } => {
                "use a model of another provider, such as `openai/text-embedding-3-small`".to_owned()
            }
            EndpointError::HttpClient { .. } => "check `HTTPS_PROXY` and the system certificates".to_owned(),
        }
    }
}
