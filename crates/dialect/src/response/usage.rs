//! Token counts and costs, as APIs report them.

use serde_json::Value;
use toolwire_contract::model::Usage;

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
