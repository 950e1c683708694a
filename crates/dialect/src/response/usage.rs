//! Token counts and costs, as APIs report them.

use serde_json::Value;
use toolwire_contract::model::Usage;

use crate::Family;

/// Reads `usage` as one of the APIs of OpenAI and Anthropic reports it. `None` if it has no token counts.
pub fn read_usage(reported: &Value) -> Option<Usage> {
    let has = |key: &str| reported.get(key).is_some_and(|value| !value.is_null());
    let family = if has("prompt_tokens") || has("completion_tokens") {
        Family::OpenAiChat
    } else if has("cache_read_input_tokens") || has("cache_creation_input_tokens") {
        Family::Anthropic
    } else {
        // Without a cache, Anthropic's API reports the same counts.
        Family::OpenAiResponses
    };
    (family.format().read_usage)(reported).or_else(|| {
        // Some APIs without output report only the sum.
        let total = tokens(reported, "/total_tokens")?;
        Some(Usage { input_tokens: total, ..Usage::default() })
    })
}

/// JSON pointers to the counts that an API reports. Several counts of one kind are added up.
pub(crate) struct UsagePaths<'a> {
    pub(crate) input: &'a [&'a str],
    pub(crate) output: &'a [&'a str],
    pub(crate) cached: &'a [&'a str],
    pub(crate) cache_write: &'a [&'a str],
    pub(crate) reasoning: &'a [&'a str],
}

impl UsagePaths<'_> {
    /// Returns `None` if neither input nor output tokens are reported.
    pub(crate) fn read(&self, reported: &Value) -> Option<Usage> {
        let sum = |paths: &[&str]| {
            let counts: Vec<u64> = paths.iter().filter_map(|path| tokens(reported, path)).collect();
            (!counts.is_empty()).then(|| counts.iter().sum::<u64>().min(Usage::MAX_COUNT))
        };
        let (input, output) = (sum(self.input), sum(self.output));
        if input.is_none() && output.is_none() {
            return None;
        }
        Some(Usage {
            input_tokens: input.unwrap_or_default(),
            output_tokens: output.unwrap_or_default(),
            cached_tokens: sum(self.cached).unwrap_or_default(),
            cache_write_tokens: sum(self.cache_write).unwrap_or_default(),
            reasoning_tokens: sum(self.reasoning).unwrap_or_default(),
            cost_nanodollars: cost(reported),
        })
    }
}

/// Reads a token count. A value that is not a number is ignored.
fn tokens(reported: &Value, path: &str) -> Option<u64> {
    let number = reported.pointer(path).filter(|value| value.is_number())?;
    let count = number.as_u64().or_else(|| number.as_f64().map(|count| count.max(0.0) as u64))?;
    Some(count.min(Usage::MAX_COUNT))
}

/// Reads the cost, where the API reports it: OpenRouter in dollars, xAI in ten-billionths of a dollar.
fn cost(reported: &Value) -> Option<u64> {
    let number =
        |key: &str| reported.get(key).and_then(Value::as_f64).filter(|cost| cost.is_finite() && *cost >= 0.0);
    let nanodollars = match (number("cost"), number("cost_in_usd_ticks")) {
        (Some(dollars), _) => dollars * 1e9,
        (None, Some(ticks)) => ticks / 10.0,
        (None, None) => return None,
    };
    Some((nanodollars.round() as u64).min(Usage::MAX_COUNT))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_usage_of_each_api_is_read() {
        for (reported, expected) in [
            (
                json!({"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 2}}),
                Some((3, 4, 2, 0)),
            ),
            (
                json!({"input_tokens": 3, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 1}}),
                Some((3, 4, 1, 0)),
            ),
            (
                json!({"input_tokens": 1, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 5, "output_tokens": 4}),
                Some((8, 4, 2, 5)),
            ),
            (json!({"input_tokens": 1, "output_tokens": 4}), Some((1, 4, 0, 0))),
            (json!({"prompt_tokens": 7, "total_tokens": 7}), Some((7, 0, 0, 0))),
            (json!({"total_tokens": 7}), Some((7, 0, 0, 0))),
            (json!({"prompt_tokens": "x"}), None),
            (json!({}), None),
        ] {
            let usage = read_usage(&reported);
            let counts = usage.map(|usage| {
                (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cache_write_tokens)
            });
            assert_eq!(counts, expected, "{reported}");
        }
    }
}
