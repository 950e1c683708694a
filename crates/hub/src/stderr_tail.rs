//! The last lines that a server process wrote to stderr, for error messages.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt};
use toolwire_contract::text::truncate;

use crate::sync::lock;
use crate::transport::ProxyCredentials;

const MAX_LINES: usize = 100;
const MAX_LINE_BYTES: usize = 2000;

/// The maximum number of lines that an error message quotes, and of characters in each.
const MAX_QUOTED_LINES: usize = 3;
const MAX_QUOTED_CHARS: usize = 200;

/// A ring buffer of the last lines, each cut to [`MAX_LINE_BYTES`], without the credentials of proxies.
#[derive(Default)]
pub(crate) struct StderrTail(Mutex<LineRing>);

#[derive(Default)]
struct LineRing {
    lines: VecDeque<Vec<u8>>,
    unfinished: Vec<u8>,
    credentials: Arc<ProxyCredentials>,
}

impl StderrTail {
    /// Sets what is removed from all lines.
    pub(crate) fn set_credentials(&self, credentials: Arc<ProxyCredentials>) {
        lock(&self.0).credentials = credentials;
    }

    /// Reads to the end. It never waits for anything else, so a process is never blocked on its stderr.
    pub(crate) async fn read_from(&self, mut stderr: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 8 * 1024];
        while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
            self.write(&buffer[..count]);
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let ring = lock(&self.0);
        let unfinished = (!ring.unfinished.is_empty()).then_some(&ring.unfinished);
        ring.lines
            .iter()
            .chain(unfinished)
            .map(|line| {
                let mut line = ring.credentials.redact(String::from_utf8_lossy(line).into_owned());
                let end = (0..=MAX_LINE_BYTES.min(line.len())).rev().find(|end| line.is_char_boundary(*end));
                line.truncate(end.unwrap_or_default());
                line.trim_end().to_owned()
            })
            .collect()
    }

    fn write(&self, text: &[u8]) {
        let mut ring = lock(&self.0);
        for piece in text.split_inclusive(|byte| *byte == b'\n') {
            let (piece, is_complete) = match piece.strip_suffix(b"\n") {
                Some(piece) => (piece, true),
                None => (piece, false),
            };
            // Credentials are replaced before a line is cut, because a part of them would not be recognized.
            let room = (MAX_LINE_BYTES + ring.credentials.max_bytes()).saturating_sub(ring.unfinished.len());
            ring.unfinished.extend_from_slice(&piece[..piece.len().min(room)]);
            if is_complete {
                let line = std::mem::take(&mut ring.unfinished);
                if ring.lines.len() == MAX_LINES {
                    ring.lines.pop_front();
                }
                ring.lines.push_back(line);
            }
        }
    }
}

const CHECK_PACKAGE: &str = "check the name of the package in `args`";
const CHECK_PATH: &str = "check the path in `args`, and install the dependencies of the server";

/// Texts with which common programs report what is missing, and a hint for each. Less useful lines follow
/// them.
const CAUSES: [(&str, &str); 6] = [
    ("could not be found or you do not have permission", CHECK_PACKAGE),
    ("is not in this registry", CHECK_PACKAGE),
    ("was not found in the package", CHECK_PACKAGE),
    ("No matching distribution found", CHECK_PACKAGE),
    ("Cannot find module", CHECK_PATH),
    ("ModuleNotFoundError", CHECK_PATH),
];

/// Returns the index of the line that names what is missing, and the next thing to try.
pub(crate) fn find_cause(stderr: &[String]) -> Option<(usize, &'static str)> {
    stderr.iter().enumerate().rev().find_map(|(index, line)| {
        let (_, hint) = CAUSES.iter().find(|(phrase, _)| line.contains(phrase))?;
        Some((index, *hint))
    })
}

/// Returns the next thing to try, if a line names what is missing.
pub(crate) fn cause_hint(stderr: &[String]) -> Option<&'static str> {
    find_cause(stderr).map(|(_, hint)| hint)
}

/// Returns the lines that explain best why a process failed: the one that names what is missing, or else the
/// last ones. They have no colours or control characters, and are truncated.
pub(crate) fn quoted_lines(stderr: &[String]) -> Vec<String> {
    if let Some((index, _)) = find_cause(stderr) {
        return vec![cleaned(&stderr[index])];
    }
    let lines = stderr.iter().rev().map(|line| cleaned(line)).filter(|line| !line.is_empty());
    let mut lines: Vec<String> = lines.take(MAX_QUOTED_LINES).collect();
    lines.reverse();
    lines
}

/// Appends the quoted stderr lines, if any, to the reason why a server is unavailable.
pub(crate) fn with_stderr(reason: String, stderr: &[String]) -> String {
    match quoted_lines(stderr) {
        lines if lines.is_empty() => reason,
        lines => format!("{reason}; stderr: {}", lines.join(" / ")),
    }
}

/// Removes colours and control characters, and truncates the line.
fn cleaned(line: &str) -> String {
    let mut clean = String::new();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            // A terminal sequence ends with the first letter after its bracket.
            if characters.as_str().starts_with('[') {
                characters.next();
                characters.find(|character| matches!(character, '@'..='~'));
            }
        } else if !character.is_control() {
            clean.push(character);
        } else if character == '\t' {
            clean.push(' ');
        }
    }
    truncate(clean.trim(), MAX_QUOTED_CHARS).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_stored_and_long_lines_are_cut() {
        let tail = StderrTail::default();
        for number in 0..150 {
            tail.write(format!("line {number}\n").as_bytes());
        }
        tail.write("x".repeat(5000).as_bytes());
        let lines = tail.lines();
        assert_eq!(lines.len(), MAX_LINES + 1);
        assert_eq!(lines[0], "line 50");
        assert_eq!(lines[MAX_LINES].len(), MAX_LINE_BYTES);
    }

    /// A line would be cut in the middle of the password, or ends with the output of the process.
    #[test]
    fn credentials_of_proxies_are_removed_before_lines_are_cut() {
        let proxy = "http://me:s3cret-word@proxy:3128";
        for padding in MAX_LINE_BYTES - proxy.len() - 1..=MAX_LINE_BYTES {
            let tail = StderrTail::default();
            let credentials = ProxyCredentials::new(&[("HTTPS_PROXY".into(), proxy.into())]);
            tail.set_credentials(Arc::new(credentials));
            let line = format!("{} {proxy}", "x".repeat(padding));
            tail.write(format!("{line}\n{line}").as_bytes());
            for line in tail.lines() {
                assert!(line.len() <= MAX_LINE_BYTES && !line.contains("me:"), "{padding}: {line}");
            }
        }
    }

    #[test]
    fn quoted_lines_are_cleaned_and_truncated() {
        let stderr =
            ["first", "second\r", "\u{1b}[1;31mred\u{1b}[0m\talert\u{7}", " \u{1b}[0m", &"x".repeat(1000)];
        let stderr = stderr.map(str::to_owned);
        assert_eq!(
            with_stderr("it exited".to_owned(), &stderr),
            format!("it exited; stderr: second / red alert / {}…", "x".repeat(MAX_QUOTED_CHARS - 1))
        );
    }

    #[test]
    fn the_line_that_names_a_missing_package_is_quoted() {
        let npm = [
            "npm error code E404",
            "npm error 404 Not Found - GET https://registry.npmjs.org/nope - Not found",
            "npm error 404",
            "npm error 404  'nope@*' is not in this registry.",
            "npm error 404",
            "npm error 404 Note that you can also install from a",
            "npm error 404 tarball, folder, http url, or git folder.",
            "npm error A complete log of this run can be found in: /home/me/.npm/_logs/debug-0.log",
        ];
        let uvx = [
            "  × No solution found when resolving tool dependencies:",
            "  ╰─▶ Because nope was not found in the package registry and you require",
            "      nope, we can conclude that your requirements are unsatisfiable.",
            "",
        ];
        let node =
            ["Error: Cannot find module '/nope.js'", "  requireStack: []", "}", "", "Node.js v20.19.2"];
        let quoted =
            |lines: &[&str]| quoted_lines(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
        assert_eq!(quoted(&npm), ["npm error 404  'nope@*' is not in this registry."]);
        assert_eq!(quoted(&uvx), ["╰─▶ Because nope was not found in the package registry and you require"]);
        assert_eq!(quoted(&node), ["Error: Cannot find module '/nope.js'"]);
        assert_eq!(cause_hint(&npm.map(str::to_owned)), Some(CHECK_PACKAGE));
        assert_eq!(cause_hint(&["done".to_owned()]), None);
    }

    #[test]
    fn an_empty_stderr_adds_nothing() {
        assert_eq!(with_stderr("it exited".to_owned(), &[String::new()]), "it exited");
    }
}
