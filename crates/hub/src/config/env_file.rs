//! Parses the file that `envFile` names: lines of `NAME=value`, as VS Code reads them.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

const MAX_BYTES: u64 = 1 << 20;

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
        false => Err(format!("it is not a file of at most {MAX_BYTES} bytes")),
    }
}

/// Returns the variables of the file, the last value of each.
pub(super) fn parse(text: &str) -> Vec<(String, String)> {
    let mut variables: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let line = line.trim_start();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else { continue };
        let name = name.trim();
        if name.is_empty() || name.contains(char::is_whitespace) {
            continue;
        }
        variables.retain(|(earlier, _)| earlier != name);
        variables.push((name.to_owned(), unquote(value.trim())));
    }
    variables
}

/// Removes quotes. A comment after the value needs a space before it, and `\n` works in double quotes.
fn unquote(value: &str) -> String {
    let quoted = |quote: char| value.strip_prefix(quote).and_then(|rest| Some(rest.split_once(quote)?.0));
    if let Some(text) = quoted('"') {
        return text.replace("\\n", "\n");
    }
    if let Some(text) = quoted('\'') {
        return text.to_owned();
    }
    value.split(" #").next().unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_a_name_and_a_value_are_variables() {
        let text = "# comment\nA=1\n\n export B = two words # why\nC='#x'\nD=\"a\\nb\" # end\nE=\nnothing\nA=2\nF=x#y\r\n";
        let expected = [("B", "two words"), ("C", "#x"), ("D", "a\nb"), ("E", ""), ("A", "2"), ("F", "x#y")];
        assert_eq!(parse(text), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
