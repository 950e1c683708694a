//! The parameters of a response that more than one API has.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Parameters of a response, in addition to its length and temperature. Those that an API does not have are
/// not sent; `toolwire_dialect::request::dropped_parameters` lists them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Generation {
    /// The response ends before the first of these texts.
    pub stop: Vec<String>,
    pub top_p: Option<f64>,
    pub top_k: Option<u64>,
    pub seed: Option<i64>,
    pub frequency_penalty: Option<f64>,
    pub presence_penalty: Option<f64>,
    /// The amount of reasoning before the response.
    pub effort: Option<Effort>,
    /// The maximum number of reasoning tokens. APIs with effort levels instead get the nearest level.
    pub thinking_tokens: Option<u64>,
    /// Whether the model may request several calls at once; `None` leaves it to the API.
    pub parallel_calls: Option<bool>,
    /// An id of the end user, for the provider's abuse detection.
    pub user: Option<String>,
    /// Fields of a client's request, for APIs of the same family and others that have them too.
    pub family_fields: Option<FamilyFields>,
}

/// Fields of a request body that no other type represents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FamilyFields {
    /// The key under which messages store data of this family, such as `toolwire/openai`.
    pub family: String,
    pub fields: Map<String, Value>,
}

/// The amount of reasoning before a response. APIs with fewer levels use the nearest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    XHigh,
    Max,
}

impl Generation {
    /// Returns the effort, for APIs with levels.
    pub fn effort_level(&self) -> Option<Effort> {
        self.effort.or_else(|| self.thinking_tokens.map(Effort::from_thinking_tokens))
    }

    /// Returns the maximum number of reasoning tokens, for APIs that have a number instead of levels.
    pub fn thinking_budget(&self) -> Option<u64> {
        self.thinking_tokens.or_else(|| self.effort.map(Effort::thinking_tokens))
    }
}

impl Effort {
    /// All levels, from the lowest to the highest.
    pub const ALL: &'static [Effort] = &[
        Effort::None,
        Effort::Minimal,
        Effort::Low,
        Effort::Medium,
        Effort::High,
        Effort::XHigh,
        Effort::Max,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Effort::None => "none",
            Effort::Minimal => "minimal",
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High => "high",
            Effort::XHigh => "xhigh",
            Effort::Max => "max",
        }
    }

    /// Returns the effort with this name.
    pub fn from_name(name: &str) -> Option<Effort> {
        Effort::ALL.iter().copied().find(|effort| effort.name() == name)
    }

    /// Returns the maximum number of reasoning tokens, for APIs that have a number instead of levels.
    pub const fn thinking_tokens(self) -> u64 {
        match self {
            Effort::None => 0,
            Effort::Minimal => 1_024,
            Effort::Low => 2_048,
            Effort::Medium => 8_192,
            Effort::High => 24_576,
            Effort::XHigh | Effort::Max => 49_152,
        }
    }

    /// Returns the smallest effort with at least this many reasoning tokens.
    pub fn from_thinking_tokens(tokens: u64) -> Effort {
        Effort::ALL.iter().copied().find(|effort| effort.thinking_tokens() >= tokens).unwrap_or(Effort::Max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_effort_has_a_name_and_a_number() {
        for &effort in Effort::ALL {
            assert_eq!(Effort::from_name(effort.name()), Some(effort));
            let text = serde_json::to_string(&effort).expect("valid JSON");
            assert_eq!(text, format!("\"{}\"", effort.name()));
            let same = Effort::from_thinking_tokens(effort.thinking_tokens());
            assert_eq!(same.thinking_tokens(), effort.thinking_tokens());
        }
        assert_eq!(Effort::from_thinking_tokens(1_000_000), Effort::Max);
        assert_eq!(Effort::from_name("High"), None);
    }
}
