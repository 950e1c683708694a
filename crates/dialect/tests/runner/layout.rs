//! The text layout of case files, and the lines in which two texts differ.

use serde_json::Value;

const MAX_LINE_CHARS: usize = 140;
/// A longer list only exists to exceed a limit. It is written on one line, so that the file stays readable.
const MAX_ENTRIES_ON_OWN_LINES: usize = 100;

/// Writes `value` as JSON, with each object and array on one line where it fits.
pub(crate) fn to_text(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, 0, &mut text);
    text.push('\n');
    text
}

/// Writes `value` at the end of `text`. Its first line already has `column` characters.
fn write(value: &Value, depth: usize, column: usize, text: &mut String) {
    let entries: Vec<(String, &Value)> = match value {
        Value::Array(items) => items.iter().map(|item| (String::new(), item)).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key_text(key), value)).collect(),
        _ => Vec::new(),
    };
    let line = one_line(value);
    // One character is reserved for the comma.
    let fits_on_line = column + line.chars().count() < MAX_LINE_CHARS;
    if fits_on_line || entries.is_empty() || entries.len() > MAX_ENTRIES_ON_OWN_LINES {
        text.push_str(&line);
        return;
    }
    let (open, close) = if value.is_array() { ('[', ']') } else { ('{', '}') };
    let indent = "  ".repeat(depth + 1);
    text.push(open);
    for (position, (key, value)) in entries.iter().enumerate() {
        text.push_str(if position == 0 { "\n" } else { ",\n" });
        text.push_str(&indent);
        text.push_str(key);
        write(value, depth + 1, indent.len() + key.chars().count(), text);
    }
    text.push('\n');
    text.push_str(&indent[2..]);
    text.push(close);
}

fn one_line(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(one_line).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| key_text(key) + &one_line(value));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        _ => value.to_string(),
    }
}

fn key_text(key: &str) -> String {
    format!("{}: ", Value::from(key))
}

/// Returns the lines from the first to the last one that differs, with a few lines of context.
pub(crate) fn difference(expected: &str, actual: &str) -> String {
    const CONTEXT_LINES: usize = 3;
    const MAX_LINES: usize = 30;
    let (expected, actual): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let shorter = expected.len().min(actual.len());
    let start = (0..shorter).take_while(|&line| expected[line] == actual[line]).count();
    let end = (0..shorter - start)
        .take_while(|&line| expected[expected.len() - 1 - line] == actual[actual.len() - 1 - line])
        .count();
    let mut text = String::from("differs\n");
    let mut add_lines = |mark: char, lines: &[&str]| {
        for line in lines.iter().take(MAX_LINES) {
            text.push_str(&format!("  {mark} {line}\n"));
        }
        if lines.len() > MAX_LINES {
            text.push_str(&format!("  {mark} … {} more lines\n", lines.len() - MAX_LINES));
        }
    };
    add_lines(' ', &expected[start.saturating_sub(CONTEXT_LINES)..start]);
    add_lines('-', &expected[start..expected.len() - end]);
    add_lines('+', &actual[start..actual.len() - end]);
    add_lines(
        ' ',
        &expected[expected.len() - end..(expected.len() - end + CONTEXT_LINES).min(expected.len())],
    );
    text
}
