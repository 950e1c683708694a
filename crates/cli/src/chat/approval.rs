//! The approval question for a call, and parsing of the user's answer.

use toolwire_agent::{Decision, PendingCall};

use super::calls::short_arguments;
use crate::terminal_text::sanitize;

/// The prompt for the answer.
pub(crate) const PROMPT: &str = "run it? y once · a always for this tool · n no, with a reason: ";

/// Returns the question for a call.
pub(crate) fn question(call: &PendingCall) -> String {
    let title = if call.title == call.name { String::new() } else { format!(" ({})", sanitize(&call.title)) };
    format!("`{}`{title} needs your approval: {}", sanitize(&call.name), sanitize(&call.why))
}

/// Returns the complete arguments as lines of JSON, because the user's decision depends on them.
pub(crate) fn argument_lines(call: &PendingCall) -> Vec<String> {
    let short = short_arguments(&call.arguments);
    let text = serde_json::to_string_pretty(&call.arguments).unwrap_or(short);
    text.lines().map(sanitize).collect()
}

/// Parses an answer such as `y`, `always` or `n, wrong folder`. Returns `None` if it is unclear.
pub(crate) fn parse(answer: &str) -> Option<Decision> {
    let answer = answer.trim();
    let (word, rest) = answer.split_once([' ', ',', ':']).unwrap_or((answer, ""));
    let rest = rest.trim_start_matches([' ', ',', ':']);
    let reason = rest.strip_prefix("because ").unwrap_or(rest).trim();
    match word.to_lowercase().as_str() {
        "y" | "yes" | "o" | "once" if reason.is_empty() => Some(Decision::Once),
        "a" | "always" if reason.is_empty() => Some(Decision::Always),
        "n" | "no" => {
            Some(Decision::No { because: Some(reason.to_owned()).filter(|reason| !reason.is_empty()) })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(answer: &str, expected: Option<Decision>) {
        assert_eq!(parse(answer), expected);
    }

    #[test]
    fn answers_are_parsed_in_several_spellings() {
        check("y", Some(Decision::Once));
        check(" YES ", Some(Decision::Once));
        check("a", Some(Decision::Always));
        check("n", Some(Decision::No { because: None }));
        let because = |reason: &str| Some(Decision::No { because: Some(reason.to_owned()) });
        check("n wrong folder", because("wrong folder"));
        check("no, because it is late", because("it is late"));
    }

    #[test]
    fn unclear_answers_are_rejected() {
        check("", None);
        check("ok", None);
        check("yes but only once", None);
        check("always look first", None);
    }
}
