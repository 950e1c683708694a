//! Parses the file that `envFile` names: lines of `NAME=value` or `NAME: value`, as VS Code reads them.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::json::strip_byte_order_mark;

const MAX_BYTES: u64 = 1 << 20;

const QUOTES: [char; 3] = ['"', '\'', '`'];

/// Reads the file. The error is the reason why that is impossible.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let describe = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => "the file does not exist".to_owned(),
        _ => error.to_string(),
    };
    let metadata = fs::metadata(path).map_err(describe)?;
    // Reading a pipe or a device could take forever.
    match metadata.is_file() && metadata.len() <= MAX_BYTES {
        true => fs::read_to_string(path).map_err(describe),
        false => Err("it is not a regular file, or it is larger than 1 MiB".to_owned()),
    }
}

/// Returns the variables of the file, the last value of each.
pub(super) fn parse(text: &str) -> Vec<(String, String)> {
    let mut variables: Vec<(String, String)> = Vec::new();
    for line in strip_byte_order_mark(text).split(['\n', '\r']).map(str::trim) {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = split_unquoted(line, &['=', ':']).filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let name = name.trim();
        if !name.is_empty() {
            variables.retain(|(earlier, _)| earlier != name);
            variables.push((name.to_owned(), unquote(value.trim())));
        }
    }
    variables
}

/// Splits the text at the first separator outside of quotes. A quote after a backslash does not end quoted
/// text.
fn split_unquoted<'a>(text: &'a str, separators: &[char]) -> Option<(&'a str, &'a str)> {
    let (mut open_quote, mut previous) = (None, ' ');
    for (index, letter) in text.char_indices() {
        match open_quote {
            Some(quote) if letter == quote && previous != '\\' => open_quote = None,
            Some(_) => {}
            None if QUOTES.contains(&letter) => open_quote = Some(letter),
            None if separators.contains(&letter) => return Some((&text[..index], &text[index + 1..])),
            None => {}
        }
        previous = letter;
    }
    None
}

/// Removes a comment, and the quotes around the value. `\n` and `\r` work in double quotes; a backslash
/// before another character stays.
fn unquote(value: &str) -> String {
    let value = split_unquoted(value, &['#']).map_or(value, |(value, _)| value.trim_end());
    let quoted = |quote: &char| value.strip_prefix(*quote)?.strip_suffix(*quote);
    match QUOTES.iter().find_map(quoted) {
        Some(text) if value.starts_with('"') => text.replace("\\n", "\n").replace("\\r", "\r"),
        Some(text) => text.to_owned(),
        None => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_a_name_and_a_value_are_variables() {
        let text = "\u{feff}FIRST=1\n# comment\nA=1\n\n export B = two words # why\nC='#x'\nD=\"a\\nb\\r\" # end\nE=\n\
                    nothing\nA=2\nF=x#y\r\nG: `\"z\"`\rH=\"{\\\"a\\\": 1}\"\n=none\nI=\"";
        let expected = [
            ("FIRST", "1"),
            ("B", "two words"),
            ("C", "#x"),
            ("D", "a\nb\r"),
            ("E", ""),
            ("A", "2"),
            ("F", "x"),
            ("G", "\"z\""),
            ("H", "{\\\"a\\\": 1}"),
            ("I", "\""),
        ];
        assert_eq!(parse(text), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
