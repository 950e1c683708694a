//! The status line above the prompt: model, context usage and cost.

use toolwire_agent::ContextUse;
use toolwire_contract::model::Usage;

use crate::terminal_text::sanitize;

/// Formats the status line: `demo · 1.2k tokens (800 cached) · 3% of 128k · $0.0123`.
pub(crate) fn line(model: &str, usage: &Usage, context: ContextUse) -> String {
    let mut parts = vec![sanitize(model)];
    let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
    if tokens > 0 {
        let cached = match usage.cached_tokens {
            0 => String::new(),
            cached => format!(" ({} cached)", short_number(cached)),
        };
        parts.push(format!("{} tokens{cached}", short_number(tokens)));
    }
    match context.size.filter(|size| *size > 0) {
        Some(size) if context.used > 0 => {
            let percent = context.used.saturating_mul(100).div_ceil(size);
            parts.push(format!("{percent}% of {}", short_number(size)));
        }
        None if context.used > 0 => parts.push(format!("context {}", short_number(context.used))),
        _ => {}
    }
    parts.extend(usage.dollars().map(cost));
    parts.join(" · ")
}

/// Returns the rows of `/usage`, each with its label.
pub(crate) fn usage_rows(model: &str, usage: &Usage, context: ContextUse) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("model", sanitize(model)),
        ("input tokens", usage.input_tokens.to_string()),
        ("  cached", usage.cached_tokens.to_string()),
        ("output tokens", usage.output_tokens.to_string()),
        ("  reasoning", usage.reasoning_tokens.to_string()),
    ];
    if usage.cache_write_tokens > 0 {
        rows.insert(3, ("  written to the cache", usage.cache_write_tokens.to_string()));
    }
    let window = match context.size {
        Some(size) => format!("{} of {size} tokens", context.used),
        None => format!("{} tokens; the size of the window is unknown", context.used),
    };
    rows.push(("context", window));
    rows.push(("cost", usage.dollars().map_or_else(|| "unknown for this model".to_owned(), cost)));
    rows
}

fn cost(dollars: f64) -> String {
    if dollars >= 1.0 { format!("${dollars:.2}") } else { format!("${dollars:.4}") }
}

pub(crate) fn short_number(number: u64) -> String {
    let tenths = |unit: u64| {
        let tenths = number / (unit / 10);
        if tenths.is_multiple_of(10) || tenths >= 1_000 {
            format!("{}", tenths / 10)
        } else {
            format!("{}.{}", tenths / 10, tenths % 10)
        }
    };
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{}k", tenths(1_000)),
        _ => format!("{}M", tenths(1_000_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(usage: Usage, context: ContextUse, expected: &str) {
        assert_eq!(line("m", &usage, context), expected);
    }

    #[test]
    fn unknown_values_are_omitted() {
        check(Usage::default(), ContextUse::default(), "m");
        let usage = Usage { input_tokens: 1_200, output_tokens: 34, ..Usage::default() };
        check(usage, ContextUse { used: 1_234, size: None }, "m · 1.2k tokens · context 1.2k");
        let usage = Usage { cost_nanodollars: Some(12_345_678), cached_tokens: 800, ..usage };
        check(
            usage,
            ContextUse { used: 1_234, size: Some(128_000) },
            "m · 1.2k tokens (800 cached) · 1% of 128k · $0.0123",
        );
    }

    #[test]
    fn large_numbers_are_abbreviated() {
        let short: Vec<String> =
            [0, 999, 1_000, 12_345, 128_000, 999_999, 1_048_576].map(short_number).into();
        assert_eq!(short, ["0", "999", "1k", "12.3k", "128k", "999k", "1M"]);
    }
}
