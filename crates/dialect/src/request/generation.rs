//! The generation parameters in the bodies of each API.

use serde_json::{Map, Value, json};
use toolwire_contract::model::{Effort, Generation};

use super::SetFields;

/// The names of the generation parameters in one API; `None` where the API has no such parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GenerationFormat {
    /// The object that contains them; `None`: the body itself.
    pub(crate) container: Option<&'static str>,
    pub(crate) stop: Option<&'static str>,
    pub(crate) top_p: Option<&'static str>,
    pub(crate) top_k: Option<&'static str>,
    pub(crate) seed: Option<&'static str>,
    pub(crate) frequency_penalty: Option<&'static str>,
    pub(crate) presence_penalty: Option<&'static str>,
    pub(crate) effort: EffortFormat,
    pub(crate) has_parallel_calls: bool,
    pub(crate) user: UserFormat,
    /// The highest temperature that the API accepts; `None` if it is at least 2, as in OpenAI's APIs.
    pub(crate) max_temperature: Option<f64>,
}

/// The format of the effort in a body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EffortFormat {
    None,
    /// `reasoning_effort`, with these levels.
    Level(&'static [Effort]),
    /// `reasoning.effort` (Responses).
    Reasoning,
    /// `output_config.effort`, `thinking.budget_tokens`, or no thinking (Anthropic).
    OutputConfig,
    /// `thinkingConfig.thinkingBudget` (Gemini).
    ThinkingBudget,
    /// `thinking.token_budget` (Cohere).
    TokenBudget,
    /// `think` (Ollama).
    Switch,
}

/// The format of the end user's id in a body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UserFormat {
    None,
    /// `user`.
    Key,
    /// `metadata.user_id` (Anthropic).
    Metadata,
}

impl GenerationFormat {
    /// The format of an API without generation parameters.
    pub(crate) const NONE: GenerationFormat = GenerationFormat {
        container: None,
        stop: None,
        top_p: None,
        top_k: None,
        seed: None,
        frequency_penalty: None,
        presence_penalty: None,
        effort: EffortFormat::None,
        has_parallel_calls: false,
        user: UserFormat::None,
        max_temperature: None,
    };

    /// Returns the temperature to send.
    pub(crate) fn temperature(&self, temperature: Option<f64>) -> Option<f64> {
        let temperature = temperature.filter(|temperature| temperature.is_finite())?;
        Some(self.max_temperature.map_or(temperature, |max| temperature.min(max)))
    }

    /// Returns the names of the parameters that the API does not have.
    pub(crate) fn unsupported(&self, generation: &Generation) -> Vec<&'static str> {
        let scalars = self.scalars(generation).into_iter();
        let scalars = scalars.filter(|(_, key, value)| key.is_none() && value.is_some());
        let mut names: Vec<&'static str> = scalars.map(|(name, ..)| name).collect();
        let others = [
            (
                "reasoning_effort",
                generation.effort_level().is_some() && matches!(self.effort, EffortFormat::None),
            ),
            ("parallel_tool_calls", generation.parallel_calls.is_some() && !self.has_parallel_calls),
            ("user", generation.user.is_some() && matches!(self.user, UserFormat::None)),
        ];
        names.extend(others.into_iter().filter(|(_, is_lost)| *is_lost).map(|(name, _)| name));
        names
    }

    /// Adds the parameters that the API has to a body, except `parallel_calls`: its place depends on the
    /// tools.
    pub(crate) fn write(&self, generation: &Generation, body: &mut Map<String, Value>) {
        let scalars = self.scalars(generation).into_iter();
        let fields: Vec<(&str, Value)> = scalars.filter_map(|(_, key, value)| Some((key?, value?))).collect();
        if !fields.is_empty() {
            let container = match self.container {
                Some(key) => object(body, key),
                None => &mut *body,
            };
            for (key, value) in fields {
                container.set(key, value);
            }
        }
        self.effort.write(generation, body);
        match (&generation.user, self.user) {
            (None, _) | (_, UserFormat::None) => {}
            (Some(user), UserFormat::Key) => body.set("user", user.as_str()),
            (Some(user), UserFormat::Metadata) => object(body, "metadata").set("user_id", user.as_str()),
        }
    }

    /// Returns the name, the key in this API and the value of each parameter that every API writes in the
    /// same way.
    fn scalars(&self, generation: &Generation) -> [(&'static str, Option<&'static str>, Option<Value>); 6] {
        let number = |number: Option<f64>| number.filter(|number| number.is_finite()).map(Value::from);
        let stop = (!generation.stop.is_empty()).then(|| json!(generation.stop));
        [
            ("stop", self.stop, stop),
            ("top_p", self.top_p, number(generation.top_p)),
            ("top_k", self.top_k, generation.top_k.map(Value::from)),
            ("seed", self.seed, generation.seed.map(Value::from)),
            ("frequency_penalty", self.frequency_penalty, number(generation.frequency_penalty)),
            ("presence_penalty", self.presence_penalty, number(generation.presence_penalty)),
        ]
    }
}

/// Returns an object in a body, which is created if it does not exist.
fn object<'a>(body: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = body.entry(key).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it is an object now")
}

impl EffortFormat {
    fn write(self, generation: &Generation, body: &mut Map<String, Value>) {
        const OUTPUT_LEVELS: [Effort; 5] =
            [Effort::Low, Effort::Medium, Effort::High, Effort::XHigh, Effort::Max];
        let (Some(effort), Some(tokens)) = (generation.effort_level(), generation.thinking_budget()) else {
            return;
        };
        match self {
            EffortFormat::None => {}
            EffortFormat::Level(levels) => body.set("reasoning_effort", nearest(effort, levels).name()),
            EffortFormat::Reasoning => object(body, "reasoning").set("effort", effort.name()),
            EffortFormat::OutputConfig | EffortFormat::TokenBudget if effort == Effort::None => {
                body.set("thinking", json!({"type": "disabled"}));
            }
            EffortFormat::OutputConfig => {
                if let Some(tokens) = generation.thinking_tokens {
                    body.set("thinking", json!({"type": "enabled", "budget_tokens": tokens}));
                }
                if let Some(effort) = generation.effort {
                    object(body, "output_config").set("effort", nearest(effort, &OUTPUT_LEVELS).name());
                }
            }
            EffortFormat::ThinkingBudget => {
                object(body, "generationConfig").set("thinkingConfig", json!({"thinkingBudget": tokens}));
            }
            EffortFormat::TokenBudget => {
                body.set("thinking", json!({"type": "enabled", "token_budget": tokens}));
            }
            EffortFormat::Switch => body.set("think", effort != Effort::None),
        }
    }
}

/// Returns the level that is nearest to `effort`; the higher one of two.
fn nearest(effort: Effort, levels: &[Effort]) -> Effort {
    let distance = |level: &&Effort| (**level as u8).abs_diff(effort as u8);
    levels.iter().rev().min_by_key(distance).copied().unwrap_or(effort)
}
