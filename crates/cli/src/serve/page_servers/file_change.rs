//! The difference between two texts of a configuration file, without values that may be secret.

use std::path::Path;

use serde_json::Value;
use toolwire_hub::Config;
use toolwire_page::servers::file_change::Hunk;
use toolwire_page::servers::form::HIDDEN;

use super::edit::displayed;

/// The maximum number of changed lines that are compared one by one.
const MAX_COMPARED: usize = 500;

/// Keys of the settings whose values may be secret, as parts of their names.
const SECRET_SETTINGS: [&str; 9] =
    ["key", "token", "secret", "password", "auth", "header", "env", "url", "credential"];

/// Returns the lines that differ. The texts are of the same file, before and after a change.
pub(super) fn hunks(before: &str, after: &str, secrets: &[String]) -> Vec<Hunk> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let start = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = (&old[start..], &new[start..]);
    let end = rest.0.iter().rev().zip(rest.1.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old, new) = (&rest.0[..rest.0.len() - end], &rest.1[..rest.1.len() - end]);
    let pairs = match old.len().max(new.len()) > MAX_COMPARED {
        true => Vec::new(),
        false => common(old, new),
    };
    let mut hunks = Vec::new();
    let (mut old_at, mut new_at) = (0, 0);
    for (old_next, new_next) in pairs.into_iter().chain([(old.len(), new.len())]) {
        let (removed, added) = (&old[old_at..old_next], &new[new_at..new_next]);
        if !removed.is_empty() || !added.is_empty() {
            let lines = |lines: &[&str]| lines.iter().map(|line| without(line, secrets)).collect();
            hunks.push(Hunk { line: start + old_at + 1, removed: lines(removed), added: lines(added) });
        }
        (old_at, new_at) = (old_next + 1, new_next + 1);
    }
    hunks
}

/// Returns the positions of a longest common subsequence.
fn common(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    let mut lengths = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for (row, old_line) in old.iter().enumerate().rev() {
        for (column, new_line) in new.iter().enumerate().rev() {
            lengths[row][column] = match old_line == new_line {
                true => lengths[row + 1][column + 1] + 1,
                false => lengths[row + 1][column].max(lengths[row][column + 1]),
            };
        }
    }
    let (mut row, mut column, mut pairs) = (0, 0, Vec::new());
    while row < old.len() && column < new.len() {
        if old[row] == new[column] {
            pairs.push((row, column));
            (row, column) = (row + 1, column + 1);
        } else if lengths[row + 1][column] >= lengths[row][column + 1] {
            row += 1;
        } else {
            column += 1;
        }
    }
    pairs
}

/// Returns the values of a configuration that may be secret, the longest first: variables and headers of
/// servers that do not only refer to other variables, secrets of logins, and the keys of the settings.
pub(super) fn secrets(text: &str, file: &Path) -> Vec<String> {
    let mut secrets = Vec::new();
    for (_, server) in Config::raw_servers(text, file).unwrap_or_default() {
        for key in ["env", "headers", "oauth"] {
            if let Some(value) = Config::raw_value(&server, key) {
                collect(value, &mut secrets);
            }
        }
    }
    if let Ok(Some(settings)) = Config::raw_settings(text, file) {
        collect_settings(&settings, &mut secrets);
    }
    secrets.retain(|secret| !secret.trim().is_empty() && displayed(&secret.as_str().into()) == HIDDEN);
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.dedup();
    secrets
}

fn collect_settings(value: &Value, secrets: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let key = key.to_ascii_lowercase();
                match SECRET_SETTINGS.iter().any(|part| key.contains(part)) {
                    true => collect(value, secrets),
                    false => collect_settings(value, secrets),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_settings(item, secrets)),
        _ => {}
    }
}

fn collect(value: &Value, secrets: &mut Vec<String>) {
    match value {
        Value::String(text) => secrets.push(text.clone()),
        Value::Number(number) => secrets.push(number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| collect(item, secrets)),
        Value::Object(members) => members.values().for_each(|member| collect(member, secrets)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// Returns a line in which each value that is a secret is hidden: with and without quotes, and with escapes.
fn without(line: &str, secrets: &[String]) -> String {
    let mut line = line.to_owned();
    for secret in secrets {
        let escaped = Value::from(secret.as_str()).to_string();
        let escaped = escaped.trim_matches('"');
        for text in [secret.as_str(), escaped] {
            line = replaced(&line, text);
        }
    }
    line
}

/// Replaces a text where it is a whole word, so that a short secret does not hide parts of other words.
fn replaced(line: &str, secret: &str) -> String {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let mut result = String::new();
    let mut end = 0;
    for (at, _) in line.match_indices(secret) {
        let (before, after) = (&line[..at], &line[at + secret.len()..]);
        let joins_before = secret.starts_with(is_part) && before.ends_with(is_part);
        let joins_after = secret.ends_with(is_part) && after.starts_with(is_part);
        result.push_str(&line[end..at]);
        result.push_str(if joins_before || joins_after { secret } else { HIDDEN });
        end = at + secret.len();
    }
    result + &line[end..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &str, after: &str, expected: &[(usize, &[&str], &[&str])]) {
        let hunks = hunks(before, after, &[]);
        let expected: Vec<Hunk> = expected
            .iter()
            .map(|(line, removed, added)| Hunk {
                line: *line,
                removed: removed.iter().map(|line| (*line).to_owned()).collect(),
                added: added.iter().map(|line| (*line).to_owned()).collect(),
            })
            .collect();
        assert_eq!(hunks, expected);
    }

    #[test]
    fn only_lines_that_differ_are_listed() {
        check("a\nb\nc\n", "a\nb\nc\n", &[]);
        check("a\nb\nc\n", "a\nx\nc\n", &[(2, &["b"], &["x"])]);
        check("a\nb\nc\nd\n", "a\nc\nd\ne\n", &[(2, &["b"], &[]), (5, &[], &["e"])]);
        check("", "a\n", &[(1, &[], &["a"])]);
        check("a\n", "", &[(1, &["a"], &[])]);
        let long: String = (0..1_000).map(|number| format!("{number}\n")).collect();
        let hunks = hunks("x\n", &long, &[]);
        assert_eq!((hunks.len(), hunks[0].added.len()), (1, 1_000));
    }

    #[test]
    fn secrets_are_hidden_wherever_they_are() {
        let text = r#"{"mcpServers": {
            "a": {"command": "x", "env": {"A": "s3cret", "B": "${B}", "C": "q\"t", "D": 7}},
            "b": {"url": "https://b", "headers": {"Authorization": "Bearer abc"}, "oauth": {"clientSecret": "def"}}},
            "toolwire": {"model": "demo", "gateway": {"keys": {"me": {"key": "tw_1"}}}}}"#;
        let secrets = secrets(text, Path::new("mcp.json"));
        assert_eq!(secrets, ["Bearer abc", "s3cret", "tw_1", "q\"t", "def", "7"]);
        let shown = without(
            r#""s3cret" 's3cret' "q\"t" 7 77 "Bearer abc" tw_1 tw_12 def undefined // s3cret"#,
            &secrets,
        );
        assert_eq!(shown, r#""…" '…' "…" … 77 "…" … tw_12 … undefined // …"#);
    }
}
