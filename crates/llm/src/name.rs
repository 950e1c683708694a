//! Models as people write them.

use std::fmt;

use crate::providers::{self, Provider};

/// A model as people write it: `provider/model`, or a bare name for an OpenAI-compatible endpoint.
///
/// Only the first `/` divides, so models whose own names have one can be said: `openai/meta-llama/Llama-3`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelName {
    /// A name in the table of providers; `None` for a bare name.
    pub provider: Option<&'static str>,
    pub model: String,
}

/// Not a name of a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidModelName {
    #[error("the name of a model is empty")]
    Empty,
    #[error("`{name}` names no model after its provider")]
    NoModel { name: String },
    #[error("no provider is called `{provider}`")]
    UnknownProvider { provider: String, name: String, nearest: Vec<String> },
}

impl ModelName {
    pub fn parse(text: &str) -> Result<ModelName, InvalidModelName> {
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
                nearest: toolwire_contract::nearest_names(provider, providers::names())
                    .into_iter()
                    .map(str::to_owned)
                    .collect(),
            });
        };
        if model.is_empty() {
            return Err(InvalidModelName::NoModel { name: text.to_owned() });
        }
        Ok(ModelName { provider: Some(name), model: model.to_owned() })
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(provider) = self.provider {
            write!(formatter, "{provider}/")?;
        }
        formatter.write_str(&self.model)
    }
}

impl InvalidModelName {
    /// The next thing to try, in one line.
    pub fn hint(&self) -> String {
        match self {
            InvalidModelName::Empty => "write `provider/model`, such as `openai/gpt-5.2`".to_owned(),
            InvalidModelName::NoModel { name } => format!("write the model after it: `{name}…`"),
            InvalidModelName::UnknownProvider { provider, name, nearest } => {
                let model = name.get(provider.len() + 1..).unwrap_or_default();
                match nearest.first() {
                    Some(nearest) => format!("did you mean `{nearest}/{model}`?"),
                    None => {
                        let names: Vec<&str> = providers::names().collect();
                        format!(
                            "the providers are {}; a model of that name behind `OPENAI_BASE_URL` is `openai/{name}`",
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
    fn a_provider_and_a_model() {
        check("openai/gpt-5.2", Some("openai"), "gpt-5.2");
        check(" Anthropic/claude-x ", Some("anthropic"), "claude-x");
        check("bedrock/anthropic.claude-v1:0", Some("bedrock"), "anthropic.claude-v1:0");
        check("openai/meta-llama/Llama-3", Some("openai"), "meta-llama/Llama-3");
        check("gpt-5.2", None, "gpt-5.2");
    }

    #[track_caller]
    fn check_refused(text: &str, message: &str, hint: &str) {
        let refused = ModelName::parse(text).expect_err("the case is no name");
        assert_eq!((refused.to_string().as_str(), refused.hint().as_str()), (message, hint));
    }

    #[test]
    fn a_name_that_is_none_is_told_with_what_to_write() {
        check_refused(
            "antropic/claude-x",
            "no provider is called `antropic`",
            "did you mean `anthropic/claude-x`?",
        );
        check_refused(
            "openai/",
            "`openai/` names no model after its provider",
            "write the model after it: `openai/…`",
        );
        check_refused(
            "  ",
            "the name of a model is empty",
            "write `provider/model`, such as `openai/gpt-5.2`",
        );
        let refused = ModelName::parse("zzz/q").expect_err("no provider has this name");
        assert!(refused.hint().contains("openai/zzz/q"), "{}", refused.hint());
    }
}
