//! The approval question for a call, and parsing of the user's answer.

use std::fmt::Write as _;

use toolwire_agent::approval::{Decision, PendingCall};

use crate::display::calls::short_arguments;
use crate::terminal_text::is_invisible;

/// The prompt for the answer.
pub(crate) const PROMPT: &str = "run it? y once · a always for this tool · n no, with a reason: ";

/// Returns the question for a call of a tool of this server.
pub(crate) fn question(call: &PendingCall, server: Option<&str>) -> String {
    let title = if call.title == call.name { String::new() } else { format!(" ({})", escape(&call.title)) };
    let server = server.map(|server| format!(" of server `{}`", escape(server))).unwrap_or_default();
    format!("`{}`{title}{server} needs your approval: {}", escape(&call.name), escape(&call.why))
}

/// Returns the complete arguments as lines of JSON, because the user's decision depends on them. Characters
/// that are not visible are escaped.
pub(crate) fn argument_lines(call: &PendingCall) -> Vec<String> {
    let short = short_arguments(&call.arguments);
    let text = serde_json::to_string_pretty(&call.arguments).unwrap_or(short);
    text.lines().map(escape).collect()
}

/// Replaces characters that are not visible, or change the direction of the text, by JSON's escapes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_invisible(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(character);
        }
    }
    escaped
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
    fn invisible_characters_are_escaped() {
        for (text, expected) in [
            ("plain ä 日本 🎈", "plain ä 日本 🎈"),
            ("rm\u{200b} -rf \u{202e}/", "rm\\u200b -rf \\u202e/"),
            ("a\u{e0041}b", "a\\udb40\\udc41b"),
            ("\u{3164}\u{2800}\u{ad}\u{feff}\u{fe0f}\u{1b}", "\\u3164\\u2800\\u00ad\\ufeff\\ufe0f\\u001b"),
        ] {
            assert_eq!(escape(text), expected);
        }
    }

    #[test]
    fn unclear_answers_are_rejected() {
        check("", None);
        check("ok", None);
        check("yes but only once", None);
        check("always look first", None);
    }
}
