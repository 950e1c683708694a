//! May this call run? The question, and what a person types as the answer.

use toolwire_agent::{Decision, PendingCall};

use super::calls::short_arguments;
use crate::terminal_text::sanitize;

/// The question on the line of the prompt.
pub(crate) const PROMPT: &str = "run it? y once · a always for this tool · n no, with a reason: ";

/// What is asked, in words.
pub(crate) fn question(call: &PendingCall) -> String {
    let title = if call.title == call.name { String::new() } else { format!(" ({})", sanitize(&call.title)) };
    format!("`{}`{title} needs your approval: {}", sanitize(&call.name), sanitize(&call.why))
}

/// The arguments, whole: who decides must see what will be done.
pub(crate) fn arguments(call: &PendingCall) -> Vec<String> {
    let short = short_arguments(&call.arguments);
    let text = serde_json::to_string_pretty(&call.arguments).unwrap_or(short);
    text.lines().map(sanitize).collect()
}

/// What was decided, if it can be told from what was typed.
pub(crate) fn read(typed: &str) -> Option<Decision> {
    let typed = typed.trim();
    let (word, rest) = typed.split_once([' ', ',', ':']).unwrap_or((typed, ""));
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
    fn check(typed: &str, expected: Option<Decision>) {
        assert_eq!(read(typed), expected);
    }

    #[test]
    fn an_answer_is_read_however_it_is_written() {
        check("y", Some(Decision::Once));
        check(" YES ", Some(Decision::Once));
        check("a", Some(Decision::Always));
        check("n", Some(Decision::No { because: None }));
        let because = |reason: &str| Some(Decision::No { because: Some(reason.to_owned()) });
        check("n wrong folder", because("wrong folder"));
        check("no, because it is late", because("it is late"));
    }

    #[test]
    fn what_is_no_answer_allows_nothing() {
        check("", None);
        check("ok", None);
        check("yes but only once", None);
        check("always look first", None);
    }
}
