//! Model names as users write them.

use crate::providers::{self, Provider};

/// A parsed model name: `provider/model`, or a bare name for an OpenAI-compatible endpoint.
///
/// Only the first `/` is a separator, so the model itself may contain one: `openai/meta-llama/Llama-3`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ModelName {
    /// The name of a known provider; `None` for a bare name.
    pub(crate) provider: Option<&'static str>,
    pub(crate) model: String,
}

/// An invalid model name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidModelName {
    #[error("the model name is empty")]
    Empty,
    #[error("`{name}` names a provider but no model")]
    MissingModel { name: String },
    #[error("unknown provider `{provider}`")]
    UnknownProvider { provider: String, name: String, nearest: Vec<String> },
}

impl ModelName {
    pub(crate) fn parse(text: &str) -> Result<ModelName, InvalidModelName> {
        let text = text.trim();
        if text.is_empty() {
            return Err(InvalidModelName::Empty);
        }
        let Some((provider, model)) = text.split_once('/') else {
            return Ok(ModelName { provider: None, model: text.to_owned() });
        };
        let known = providers::find(&provider.to_ascii_lowercase());
        let Some(Provider { name, .. }) = known else {
            return Err(InvalidModelName::UnknownProvider {
                provider: provider.to_owned(),
                name: text.to_owned(),
                nearest: toolwire_contract::text::nearest_names(provider, providers::names())
                    .into_iter()
                    .map(str::to_owned)
                    .collect(),
            });
        };
        if model.is_empty() {
            return Err(InvalidModelName::MissingModel { name: text.to_owned() });
        }
        Ok(ModelName { provider: Some(name), model: model.to_owned() })
    }
}

impl InvalidModelName {
    /// Suggests what to do, in one line.
    pub fn hint(&self) -> String {
        match self {
            InvalidModelName::Empty => "write `provider/model`, such as `openai/gpt-5.2`".to_owned(),
            InvalidModelName::MissingModel { name } => format!("add the model: `{name}…`"),
            InvalidModelName::UnknownProvider { provider, name, nearest } => {
                let model = name.get(provider.len() + 1..).unwrap_or_default();
                match nearest.first() {
                    Some(nearest) => format!("did you mean `{nearest}/{model}`?"),
                    None => {
                        let names: Vec<&str> = providers::names().collect();
                        format!(
                            "the providers are {}; for a model of this name at `OPENAI_BASE_URL`, write `openai/{name}`",
                            names.join(", ")
                        )
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, provider: Option<&'static str>, model: &str) {
        assert_eq!(ModelName::parse(text), Ok(ModelName { provider, model: model.to_owned() }));
    }

    #[test]
    fn the_first_slash_separates_provider_and_model() {
        check("openai/gpt-5.2", Some("openai"), "gpt-5.2");
        check(" Anthropic/claude-x ", Some("anthropic"), "claude-x");
        check("bedrock/anthropic.claude-v1:0", Some("bedrock"), "anthropic.claude-v1:0");
        check("openai/meta-llama/Llama-3", Some("openai"), "meta-llama/Llama-3");
        check("gpt-5.2", None, "gpt-5.2");
    }

    #[track_caller]
    fn check_error(text: &str, message: &str, hint: &str) {
        let error = ModelName::parse(text).expect_err("an invalid name");
        assert_eq!((error.to_string().as_str(), error.hint().as_str()), (message, hint));
    }

    #[test]
    fn an_invalid_name_is_reported_with_a_hint() {
        check_error("antropic/claude-x", "unknown provider `antropic`", "did you mean `anthropic/claude-x`?");
        check_error("openai/", "`openai/` names a provider but no model", "add the model: `openai/…`");
        check_error("  ", "the model name is empty", "write `provider/model`, such as `openai/gpt-5.2`");
        let error = ModelName::parse("zzz/q").expect_err("an unknown provider");
        assert!(error.hint().contains("openai/zzz/q"), "{}", error.hint());
    }
}
