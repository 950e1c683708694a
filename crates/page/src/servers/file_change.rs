//! The difference of the configuration file, as a user sees it before it is written.

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::text::UntrustedText;

/// A change of the configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileChange {
    pub path: String,
    pub hunks: Vec<Hunk>,
    /// The reason why a person must make the change. `None` if the page can write it.
    pub by_hand: Option<String>,
}

/// Neighboring lines that change, without what may be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// The number of the first removed line, or of the line before which lines are added; counted from 1.
    pub line: usize,
    pub removed: Vec<String>,
    pub added: Vec<String>,
}

/// Returns the difference.
pub fn file_change(change: &FileChange) -> Markup {
    html! {
        div.stack #file-change {
            @if change.hunks.is_empty() {
                p.muted { "Nothing changes in " code dir="auto" { (UntrustedText(&change.path)) } "." }
            } @else {
                p.muted {
                    @if change.by_hand.is_some() { "Change these lines of " } @else { "This changes lines of " }
                    code dir="auto" { (UntrustedText(&change.path)) } ":"
                }
            }
            @for hunk in &change.hunks {
                figure.code {
                    figcaption {
                        span { (place(hunk)) }
                        @if change.by_hand.is_some() && !hunk.added.is_empty() {
                            button.button.quiet type="button" data-copy-text=(hunk.added.join("\n") + "\n") { "copy the new lines" }
                        }
                    }
                    (lines("removed", "refused", &hunk.removed))
                    (lines("added", "rewritten", &hunk.added))
                }
            }
        }
    }
}

fn lines(kind: &str, class: &str, lines: &[String]) -> Markup {
    html! {
        @for line in lines {
            div class={ "line " (kind) " " (class) } {
                code dir="auto" { span.unseen { (kind) ": " } (UntrustedText(line)) }
            }
        }
    }
}

/// Returns where the lines are: `lines 4 to 9`.
fn place(hunk: &Hunk) -> String {
    let mut place = String::new();
    // Writing to a string does not fail.
    let _ = match hunk.removed.len() {
        0 if hunk.line == 1 => write!(place, "at the start"),
        0 => write!(place, "after line {}", hunk.line - 1),
        1 => write!(place, "line {}", hunk.line),
        count => write!(place, "lines {} to {}", hunk.line, hunk.line + count - 1),
    };
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_file_are_escaped_and_counted() {
        let hunk = |line, removed: &[&str], added: &[&str]| Hunk {
            line,
            removed: removed.iter().map(|line| (*line).to_owned()).collect(),
            added: added.iter().map(|line| (*line).to_owned()).collect(),
        };
        assert_eq!(place(&hunk(1, &[], &["a"])), "at the start");
        assert_eq!(place(&hunk(4, &[], &["a"])), "after line 3");
        assert_eq!(place(&hunk(4, &["a"], &[])), "line 4");
        assert_eq!(place(&hunk(4, &["a", "b"], &[])), "lines 4 to 5");
        let evil = "<script>alert(1)</script>\u{202E}";
        let change = FileChange {
            path: evil.to_owned(),
            hunks: vec![hunk(1, &[evil], &[evil])],
            by_hand: Some(evil.to_owned()),
        };
        let html = file_change(&change).into_string();
        assert!(!html.contains("<script") && html.contains("⟨U+202E⟩"), "{html}");
        assert!(html.contains("copy the new lines"), "{html}");
    }
}
