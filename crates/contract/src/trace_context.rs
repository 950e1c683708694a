//! The position of a request in a distributed trace, as W3C's Trace Context defines it.

use core::fmt;

/// A longer `tracestate` is dropped.
const MAX_STATE_BYTES: usize = 512;

const SAMPLED: u8 = 1;

/// The trace that a request belongs to, and the span that caused it. It travels in the headers `traceparent`
/// and `tracestate`, and in the keys of the same names in MCP's `_meta`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    flags: u8,
    state: Option<String>,
}

impl TraceContext {
    /// Creates the context of a span. Returns `None` if an id is zero, which is invalid.
    pub fn new(trace_id: [u8; 16], span_id: [u8; 8], is_sampled: bool) -> Option<TraceContext> {
        let is_valid = trace_id != [0; 16] && span_id != [0; 8];
        is_valid.then(|| TraceContext { trace_id, span_id, flags: u8::from(is_sampled), state: None })
    }

    /// Reads `traceparent` and `tracestate`. Returns `None` if `traceparent` is invalid; an invalid
    /// `tracestate` is dropped.
    pub fn parse(parent: &str, state: Option<&str>) -> Option<TraceContext> {
        let mut parts = parent.trim().split('-');
        let version = hex::<1>(parts.next()?)?[0];
        let (trace_id, span_id) = (hex::<16>(parts.next()?)?, hex::<8>(parts.next()?)?);
        let flags = hex::<1>(parts.next()?)?[0];
        // Later versions may have further parts; version 255 is invalid.
        if version == u8::MAX || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let mut context = TraceContext::new(trace_id, span_id, false)?;
        // Other flags have no meaning in this version.
        context.flags = flags & SAMPLED;
        context.state = state.map(str::trim).filter(|state| is_valid_state(state)).map(str::to_owned);
        Some(context)
    }

    /// Returns the context of a span below this one.
    #[must_use]
    pub fn child(&self, span_id: [u8; 8]) -> TraceContext {
        TraceContext { span_id, ..self.clone() }
    }

    pub fn trace_id(&self) -> [u8; 16] {
        self.trace_id
    }

    pub fn span_id(&self) -> [u8; 8] {
        self.span_id
    }

    /// Whether the trace is recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns the value of `traceparent`.
    pub fn parent(&self) -> String {
        format!("00-{}-{}-{:02x}", Hex(&self.trace_id), Hex(&self.span_id), self.flags)
    }

    /// Returns the value of `tracestate`, if there is one.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

/// Whether a text is a list of keys and values that can be passed on.
fn is_valid_state(state: &str) -> bool {
    let is_member = |member: &str| {
        let member = member.trim();
        member.is_empty()
            || member.split_once('=').is_some_and(|(key, value)| !key.is_empty() && !value.is_empty())
    };
    !state.is_empty()
        && state.len() <= MAX_STATE_BYTES
        && state.bytes().all(|byte| (b' '..=b'~').contains(&byte))
        && state.split(',').all(is_member)
}

/// Reads bytes in lower-case hexadecimal digits.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let text = text.as_bytes();
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_is_written_as_it_was_read() {
        let context = TraceContext::parse(PARENT, Some("vendor=1, other=a=b")).expect("a valid context");
        assert_eq!((context.parent().as_str(), context.state()), (PARENT, Some("vendor=1, other=a=b")));
        assert!(context.is_sampled());
        let child = context.child([1; 8]);
        assert_eq!(child.parent(), "00-4bf92f3577b34da6a3ce929d0e0e4736-0101010101010101-01");
        assert_eq!(child.state(), context.state());
    }

    #[test]
    fn invalid_contexts_are_ignored() {
        for invalid in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceContext::parse(invalid, None), None, "{invalid}");
        }
        // A later version may have more.
        let later = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff-x";
        assert_eq!(TraceContext::parse(later, None).map(|context| context.parent()).as_deref(), Some(PARENT));
    }

    #[test]
    fn a_state_that_cannot_be_passed_on_is_dropped() {
        let long = format!("a={}", "x".repeat(MAX_STATE_BYTES));
        for state in ["", "a", "=b", "a=", "a=\u{7f}", "a=b\nc", long.as_str()] {
            let context = TraceContext::parse(PARENT, Some(state)).expect("a valid context");
            assert_eq!(context.state(), None, "{state:?}");
        }
    }
}
