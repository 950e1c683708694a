//! The usage that a response of a provider contains.

use bytes::{Bytes, BytesMut};
use memchr::memmem;
use serde_json::Value;

/// An event that is longer than this is not read.
const MAX_EVENT_BYTES: usize = 1024 * 1024;

/// The usage in the events of a response. Anthropic's API reports the input at the start and the output at
/// the end, others report both at the end.
#[derive(Default)]
pub(super) struct Reported {
    /// The beginning of an event whose end has not arrived.
    partial: BytesMut,
    counts: Counts,
    events: u64,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    input: Option<u64>,
    output: Option<u64>,
}

impl Reported {
    /// Reads a part of the response.
    pub(super) fn read(&mut self, bytes: &Bytes) {
        self.partial.extend_from_slice(bytes);
        while let Some(end) =
            memmem::find(&self.partial, b"\n\n").or_else(|| memmem::find(&self.partial, b"\r\n\r\n"))
        {
            let event = self.partial.split_to(end);
            let length = self.partial.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
            let _ = self.partial.split_to(length);
            self.read_event(&event);
        }
        if self.partial.len() > MAX_EVENT_BYTES {
            self.partial.clear();
        }
    }

    fn read_event(&mut self, event: &[u8]) {
        let lines = event.split(|byte| matches!(byte, b'\n' | b'\r'));
        let mut data = lines.filter_map(|line| line.strip_prefix(b"data:"));
        let Some(data) = data.next() else { return };
        self.events += 1;
        if memmem::find(data, b"\"usage\"").is_some()
            && let Ok(event) = serde_json::from_slice::<Value>(data)
        {
            let found = counts(&event);
            self.counts.input = self.counts.input.max(found.input);
            self.counts.output = self.counts.output.max(found.output);
        }
    }

    /// Returns the tokens that the response has reported so far. An output without an input is not complete.
    pub(super) fn tokens(&self) -> Option<u64> {
        let input = self.counts.input?;
        Some(input.saturating_add(self.counts.output.unwrap_or(0)))
    }

    pub(super) fn events(&self) -> u64 {
        self.events
    }
}

/// Returns the tokens of a complete response.
pub(super) fn usage_of(body: &[u8]) -> Option<u64> {
    memmem::find(body, b"\"usage\"")?;
    let counts = counts(&serde_json::from_slice(body).ok()?);
    match (counts.input, counts.output) {
        (None, None) => None,
        (input, output) => Some(input.unwrap_or(0).saturating_add(output.unwrap_or(0))),
    }
}

fn counts(value: &Value) -> Counts {
    let places = ["/usage", "/response/usage", "/message/usage"];
    let Some(usage) =
        places.into_iter().filter_map(|place| value.pointer(place)).find(|usage| usage.is_object())
    else {
        return Counts::default();
    };
    let number = |key: &str| usage.get(key).and_then(Value::as_u64);
    // Anthropic's API does not include the tokens of its cache in the input.
    let cached =
        ["cache_read_input_tokens", "cache_creation_input_tokens"].map(|key| number(key).unwrap_or(0));
    let input = number("input_tokens").map(|input| input.saturating_add(cached.iter().sum()));
    let output = number("output_tokens").or_else(|| number("completion_tokens"));
    let input = input.or_else(|| number("prompt_tokens"));
    // Some responses have only the sum.
    let rest = || number("total_tokens").map(|total| total.saturating_sub(output.unwrap_or(0)));
    Counts { input: input.or_else(rest), output }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_stream(text: &str) -> (Option<u64>, u64) {
        // Split at every position.
        let results: Vec<_> = (0..=text.len())
            .map(|at| {
                let mut reported = Reported::default();
                reported.read(&Bytes::copy_from_slice(&text.as_bytes()[..at]));
                reported.read(&Bytes::copy_from_slice(&text.as_bytes()[at..]));
                (reported.tokens(), reported.events())
            })
            .collect();
        assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
        results[0]
    }

    #[test]
    fn each_api_reports_its_usage() {
        let chat = r#"{"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}"#;
        let responses = r#"{"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}"#;
        let messages = r#"{"usage":{"input_tokens":1,"cache_read_input_tokens":2,"output_tokens":4}}"#;
        let embeddings = r#"{"usage":{"prompt_tokens":7,"total_tokens":7}}"#;
        for body in [chat, responses, messages, embeddings, r#"{"usage":{"total_tokens":7}}"#] {
            assert_eq!(usage_of(body.as_bytes()), Some(7), "{body}");
        }
        for body in ["", "RIFF", r#"{"usage":null}"#, r#"{"usage":{}}"#, r#"{"text":"\"usage\""}"#] {
            assert_eq!(usage_of(body.as_bytes()), None, "{body}");
        }
        let chat = "data: {\"choices\":[{}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n";
        assert_eq!(of_stream(chat), (Some(7), 3));
        let messages = "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n: ping\n\nevent: message_delta\ndata: {\"usage\":{\"output_tokens\":4}}\n\n";
        assert_eq!(of_stream(messages), (Some(7), 2));
        assert_eq!(of_stream(&messages.replace('\n', "\r\n")), (Some(7), 2));
        let responses = "data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}}\n\n";
        assert_eq!(of_stream(responses), (Some(7), 1));
        assert_eq!(of_stream("data: {\"choices\":[{}]}\n\n"), (None, 1));
    }
}
