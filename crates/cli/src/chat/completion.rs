//! What the line editor knows of the chat: what can be completed, and when a message is whole.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use super::command::ENTRIES;
use super::markdown::{QUIET, open_fence};
use crate::terminal_text::{sanitize, truncate};

/// The names that can be completed; they change while a line is typed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) tools: Vec<String>,
    pub(crate) models: Vec<String>,
    /// Ids, with their titles.
    pub(crate) conversations: Vec<(String, String)>,
}

pub(crate) type SharedNames = Arc<RwLock<Names>>;

/// Completes, hints and decides whether the message is whole.
pub(crate) struct Assistant {
    pub(crate) names: SharedNames,
    /// Questions of ours are answered in one line, and nothing is completed.
    pub(crate) is_asking: bool,
}

impl Helper for Assistant {}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(&self, line: &str, place: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        if self.is_asking {
            return Ok((0, Vec::new()));
        }
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        Ok(completions(&names, &line[..place]))
    }
}

/// Where the word begins that is being typed, and what it can become.
fn completions(names: &Names, typed: &str) -> (usize, Vec<Pair>) {
    let start = typed.rfind(char::is_whitespace).map_or(0, |space| space + 1);
    let word = &typed[start..];
    let same = |name: &String| Pair { display: sanitize(name), replacement: name.clone() };
    let begins = |name: &&String| name.starts_with(word);
    let candidates = match typed.strip_prefix('/') {
        Some(command) if start == 0 => ENTRIES
            .iter()
            .filter(|entry| entry.name.starts_with(command))
            .map(|entry| {
                let space = if entry.argument.is_empty() { "" } else { " " };
                let display = format!("/{} {}", entry.name, entry.argument);
                Pair {
                    display: display.trim_end().to_owned(),
                    replacement: format!("/{}{space}", entry.name),
                }
            })
            .collect(),
        Some(command) => match command.split_whitespace().next() {
            Some("model") => names.models.iter().filter(begins).map(same).collect(),
            Some("approve" | "tools") => names.tools.iter().filter(begins).map(same).collect(),
            Some("resume") => names
                .conversations
                .iter()
                .filter(|(id, _)| id.starts_with(word))
                .map(|(id, title)| Pair {
                    display: format!("{id}  {}", truncate(&sanitize(title), 40)),
                    replacement: id.clone(),
                })
                .collect(),
            Some("save") => files(word),
            _ => Vec::new(),
        },
        // In a message, names of tools; not before something is there to begin with.
        None if word.len() >= 2 => names.tools.iter().filter(begins).map(same).collect(),
        None => Vec::new(),
    };
    (start, candidates)
}

/// The files and folders that begin so.
fn files(typed: &str) -> Vec<Pair> {
    let (folder, begin) = typed.rsplit_once('/').map_or(("", typed), |(folder, begin)| (folder, begin));
    let place = if typed.starts_with('/') && folder.is_empty() { "/" } else { folder };
    let Ok(entries) = std::fs::read_dir(if place.is_empty() { "." } else { place }) else {
        return Vec::new();
    };
    let mut found: Vec<Pair> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok().filter(|name| name.starts_with(begin))?;
            let slash = if entry.path().is_dir() { "/" } else { "" };
            let before = &typed[..typed.len() - begin.len()];
            Some(Pair { display: sanitize(&name), replacement: format!("{before}{name}{slash}") })
        })
        .filter(|pair| begin.starts_with('.') || !pair.display.starts_with('.'))
        .collect();
    found.sort_by(|one, other| one.replacement.cmp(&other.replacement));
    found
}

impl Hinter for Assistant {
    type Hint = String;

    /// What a command takes, once its name is there.
    fn hint(&self, line: &str, place: usize, _: &Context<'_>) -> Option<String> {
        let name = line.strip_prefix('/').filter(|_| place == line.len() && !self.is_asking)?;
        let entry = ENTRIES.iter().find(|entry| entry.name == name.trim_end())?;
        let space = if name.ends_with(' ') { "" } else { " " };
        (!entry.argument.is_empty()).then(|| format!("{space}{}", entry.argument))
    }
}

impl Highlighter for Assistant {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("{QUIET}{hint}{QUIET:#}"))
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if self.is_asking || is_whole(context.input()) {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

/// Whether the message can be sent: it does not end with a backslash, nor in the middle of fenced code.
pub(crate) fn is_whole(text: &str) -> bool {
    let backslashes = text.chars().rev().take_while(|last| *last == '\\').count();
    backslashes.is_multiple_of(2) && !open_fence(&format!("{text}\n"))
}

/// The message as it was meant: a backslash before a newline was there to get the newline.
pub(crate) fn joined(text: &str) -> String {
    text.replace("\\\n", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, expected_start: usize, expected: &[&str]) {
        let names = Names {
            tools: vec!["get_weather".into(), "get_time".into(), "calculate".into()],
            models: vec!["demo".into(), "openai/x".into()],
            conversations: vec![("0198-a".into(), "Tides".into())],
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
        check("/resume ", 8, &["0198-a"]);
        check("/undo x", 6, &[]);
    }

    #[test]
    fn tools_are_completed_in_messages() {
        check("please ca", 7, &["calculate"]);
        check("please c", 7, &[]);
        check("please ", 7, &[]);
    }

    #[test]
    fn a_message_goes_on_after_a_backslash_and_in_a_fence() {
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
            assert_eq!(is_whole(text), expected, "{text:?}");
        }
        assert_eq!(joined("a\\\nb\nc"), "a\nb\nc");
    }
}
