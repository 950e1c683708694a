//! The tokens that the response to a forwarded request reports.

use memchr::memmem;
use serde_json::Value;
use toolwire_contract::model::Usage;

const KEY: &[u8] = b"\"usage\"";

/// The tokens that events have reported so far. Anthropic's API reports the input at the start and the output at
/// the end, others report both at the end.
#[derive(Default)]
pub(crate) struct ReportedUsage(Usage);

impl ReportedUsage {
    /// Whether one of these events may report tokens. Most events do not, and need not be parsed.
    pub(crate) fn is_reported_in(events: &[u8]) -> bool {
        memmem::find_iter(events, KEY).any(|position| {
            let value = events[position + KEY.len()..].trim_ascii_start();
            let value = value.strip_prefix(b":").unwrap_or(value).trim_ascii_start();
            value.starts_with(b"{")
        })
    }

    /// Reads the data of an event. Returns the tokens so far, if it reports any.
    pub(crate) fn read(&mut self, data: &[u8]) -> Option<Usage> {
        let event: Value = serde_json::from_slice(data).ok()?;
        let places = ["/usage", "/response/usage", "/message/usage"];
        let usage = read(
            places.into_iter().filter_map(|place| event.pointer(place)).find(|usage| usage.is_object())?,
        );
        let known = &mut self.0;
        known.input_tokens = known.input_tokens.max(usage.input_tokens);
        known.output_tokens = known.output_tokens.max(usage.output_tokens);
        known.cached_tokens = known.cached_tokens.max(usage.cached_tokens);
        Some(*known)
    }
}

/// Reads `usage` of any of the APIs.
pub(crate) fn read(usage: &Value) -> Usage {
    let number = |value: &Value, key: &str| value.get(key).and_then(Value::as_u64);
    let cached = ["prompt_tokens_details", "input_tokens_details"]
        .into_iter()
        .find_map(|details| number(usage.get(details)?, "cached_tokens"));
    // Anthropic's API does not include the tokens of its cache in the others.
    let [read, written] =
        ["cache_read_input_tokens", "cache_creation_input_tokens"].map(|key| number(usage, key).unwrap_or(0));
    let output = number(usage, "output_tokens").or_else(|| number(usage, "completion_tokens")).unwrap_or(0);
    let input = number(usage, "input_tokens").map(|input| input.saturating_add(read).saturating_add(written));
    let input = input.or_else(|| number(usage, "prompt_tokens"));
    // Some responses have only the sum.
    let input = input.or_else(|| Some(number(usage, "total_tokens")?.saturating_sub(output)));
    Usage {
        input_tokens: input.unwrap_or(0),
        output_tokens: output,
        cached_tokens: cached.unwrap_or(read),
        cache_write_tokens: written,
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tokens(usage: Usage) -> (u64, u64, u64) {
        (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
    }

    #[test]
    fn each_api_reports_its_usage() {
        for (usage, expected) in [
            (
                json!({"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 2}}),
                (3, 4, 2),
            ),
            (
                json!({"input_tokens": 3, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 1}}),
                (3, 4, 1),
            ),
            (
                json!({"input_tokens": 1, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 5, "output_tokens": 4}),
                (8, 4, 2),
            ),
            (json!({"total_tokens": 7}), (7, 0, 0)),
            (json!({"prompt_tokens": "x"}), (0, 0, 0)),
        ] {
            assert_eq!(tokens(read(&usage)), expected, "{usage}");
        }
    }

    #[test]
    fn the_events_of_a_stream_report_the_usage_together() {
        let mut reported = ReportedUsage::default();
        let start = br#"{"type":"message_start","message":{"usage":{"input_tokens":5,"output_tokens":1}}}"#;
        let end = br#"{"type":"message_delta","usage":{"output_tokens":9}}"#;
        assert_eq!(reported.read(start).map(tokens), Some((5, 1, 0)));
        assert_eq!(reported.read(b"{\"type\":\"ping\"}"), None);
        assert_eq!(reported.read(end).map(tokens), Some((5, 9, 0)));
    }

    #[test]
    fn only_events_with_tokens_are_read() {
        for (events, expected) in [
            ("data: {\"usage\":{\"x\":1}}\n\n", true),
            ("data: {\"usage\" : {}}\n\n", true),
            ("data: {\"usage\":null}\n\n", false),
            ("data: {\"usage\":null}\n\ndata: {\"usage\":{}}\n\n", true),
            ("data: {\"text\":\"usage\"}\n\n", false),
            ("data: {\"usage\"", false),
        ] {
            assert_eq!(ReportedUsage::is_reported_in(events.as_bytes()), expected, "{events}");
        }
    }
}
