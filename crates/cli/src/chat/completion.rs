//! Completion, hints and multi-line input for the line editor.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};
use toolwire_markdown::ends_in_code_fence;

use super::command::COMMANDS;
use super::history_keys::HistoryKeys;
use super::mentions::complete_path;
use crate::attachment::expand_home;
use crate::display::markdown::DIMMED;
use crate::terminal_text::sanitize;

/// The names that can be completed. They can change while the user types.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompletionNames {
    pub(crate) tools: Vec<String>,
    pub(crate) models: Vec<String>,
}

pub(crate) type SharedNames = Arc<RwLock<CompletionNames>>;

/// Completes words, displays hints, and decides whether a message is complete.
pub(crate) struct EditorHelper {
    pub(crate) names: SharedNames,
    pub(super) keys: HistoryKeys,
    /// Whether the line answers a question: then it is a single line and nothing is completed.
    pub(crate) is_question: bool,
}

impl Helper for EditorHelper {}

impl Completer for EditorHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, cursor: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        if self.is_question {
            return Ok((0, Vec::new()));
        }
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        Ok(completions(&names, &line[..cursor]))
    }
}

/// Returns the start of the last word of `typed`, and its completions.
fn completions(names: &CompletionNames, typed: &str) -> (usize, Vec<Pair>) {
    if let Some(paths) = complete_path(typed) {
        return paths;
    }
    let start = typed.rfind(char::is_whitespace).map_or(0, |space| space + 1);
    let word = &typed[start..];
    let matching = |names: &[String]| -> Vec<Pair> {
        let names = names.iter().filter(|name| name.starts_with(word));
        names.map(|name| Pair { display: sanitize(name), replacement: name.clone() }).collect()
    };
    let candidates = match typed.strip_prefix('/') {
        Some(command) if start == 0 => COMMANDS
            .iter()
            .filter(|info| info.name.starts_with(command))
            .map(|info| {
                let space = if info.argument.is_empty() { "" } else { " " };
                let display = format!("/{} {}", info.name, info.argument);
                Pair { display: display.trim_end().to_owned(), replacement: format!("/{}{space}", info.name) }
            })
            .collect(),
        Some(command) => match command.split_whitespace().next() {
            Some("model") => matching(&names.models),
            Some("approve" | "tools") => matching(&names.tools),
            Some("save") => matching_files(word),
            _ => Vec::new(),
        },
        // In a message, tool names are completed after two characters.
        None if word.len() >= 2 => matching(&names.tools),
        None => Vec::new(),
    };
    (start, candidates)
}

/// Returns the files and folders whose paths start with `typed`.
pub(crate) fn matching_files(typed: &str) -> Vec<Pair> {
    let (folder, prefix) = typed.rsplit_once('/').unwrap_or(("", typed));
    let folder = match folder {
        "" if typed.starts_with('/') => "/",
        "" => ".",
        folder => folder,
    };
    let Ok(entries) = std::fs::read_dir(expand_home(&format!("{folder}/"))) else { return Vec::new() };
    let mut pairs: Vec<Pair> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok().filter(|name| name.starts_with(prefix))?;
            let slash = if entry.path().is_dir() { "/" } else { "" };
            let before = &typed[..typed.len() - prefix.len()];
            Some(Pair { display: sanitize(&name), replacement: format!("{before}{name}{slash}") })
        })
        .filter(|pair| prefix.starts_with('.') || !pair.display.starts_with('.'))
        .collect();
    pairs.sort_by(|one, other| one.replacement.cmp(&other.replacement));
    pairs
}

impl Hinter for EditorHelper {
    type Hint = String;

    /// Returns the argument of a command when its name is complete.
    fn hint(&self, line: &str, cursor: usize, context: &Context<'_>) -> Option<String> {
        // The editor asks for hints whenever the line or the history entry changes.
        self.keys.observe(&line[..cursor], context);
        let name = line.strip_prefix('/').filter(|_| cursor == line.len() && !self.is_question)?;
        let info = COMMANDS.iter().find(|info| info.name == name.trim_end())?;
        let space = if name.ends_with(' ') { "" } else { " " };
        (!info.argument.is_empty()).then(|| format!("{space}{}", info.argument))
    }
}

impl Highlighter for EditorHelper {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("{DIMMED}{hint}{DIMMED:#}"))
    }
}

impl Validator for EditorHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if self.is_question || is_complete(context.input()) {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

/// Whether the message can be sent: it ends neither with a backslash nor inside fenced code.
pub(crate) fn is_complete(text: &str) -> bool {
    let backslashes = text.chars().rev().take_while(|last| *last == '\\').count();
    backslashes.is_multiple_of(2) && !ends_in_code_fence(&format!("{text}\n"))
}

/// Removes the backslashes that continue a message on the next line.
pub(crate) fn unescape_newlines(text: &str) -> String {
    text.replace("\\\n", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, expected_start: usize, expected: &[&str]) {
        let names = CompletionNames {
            tools: vec!["get_weather".into(), "get_time".into(), "calculate".into()],
            models: vec!["demo".into(), "openai/x".into()],
        };
        let (start, candidates) = completions(&names, typed);
        let candidates: Vec<&str> = candidates.iter().map(|pair| pair.replacement.as_str()).collect();
        assert_eq!((start, candidates.as_slice()), (expected_start, expected));
    }

    #[test]
    fn commands_and_their_arguments_are_completed() {
        check("/re", 0, &["/retry", "/resume "]);
        check("/model o", 7, &["openai/x"]);
        check("/approve get_", 9, &["get_weather", "get_time"]);
        check("/undo x", 6, &[]);
        // Ids of conversations are long and say nothing; the commands list titles with numbers.
        check("/resume ", 8, &[]);
        check("/delete ", 8, &[]);
    }

    #[test]
    fn tools_are_completed_in_messages() {
        check("please ca", 7, &["calculate"]);
        check("please c", 7, &[]);
        check("please ", 7, &[]);
    }

    #[test]
    fn messages_continue_after_a_backslash_and_inside_a_fence() {
        for (text, expected) in [
            ("a", true),
            ("a\\", false),
            ("a\\\\", true),
            ("a\\\nb", true),
            ("```\ncode", false),
            ("```\ncode\n```", true),
            ("```", false),
            ("`a`", true),
        ] {
            assert_eq!(is_complete(text), expected, "{text:?}");
        }
        assert_eq!(unescape_newlines("a\\\nb\nc"), "a\nb\nc");
    }
}
