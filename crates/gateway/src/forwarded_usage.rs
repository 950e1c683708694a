//! The tokens that the response to a forwarded request reports.

use memchr::memmem;
use serde_json::{Map, Value};
use toolwire_contract::model::Usage;
use toolwire_dialect::response::read_usage;

const KEY: &[u8] = b"\"usage\"";

/// The `usage` that events have reported so far. Anthropic's API reports the input at the start and the
/// output at the end, others report both at the end.
#[derive(Default)]
pub(crate) struct ReportedUsage(Map<String, Value>);

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
        let reported = places.into_iter().find_map(|place| event.pointer(place)?.as_object())?;
        let known = reported.iter().filter(|(_, value)| !value.is_null());
        self.0.extend(known.map(|(key, value)| (key.clone(), value.clone())));
        read_usage(&Value::Object(self.0.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(usage: Usage) -> (u64, u64, u64, u64) {
        (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cache_write_tokens)
    }

    #[test]
    fn the_events_of_a_stream_report_the_usage_together() {
        let mut reported = ReportedUsage::default();
        let start = br#"{"type":"message_start","message":{"usage":{"input_tokens":5,"cache_creation_input_tokens":2,"output_tokens":1}}}"#;
        let end = br#"{"type":"message_delta","usage":{"output_tokens":9}}"#;
        assert_eq!(reported.read(start).map(tokens), Some((7, 1, 0, 2)));
        assert_eq!(reported.read(b"{\"type\":\"ping\"}"), None);
        assert_eq!(reported.read(end).map(tokens), Some((7, 9, 0, 2)));
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
