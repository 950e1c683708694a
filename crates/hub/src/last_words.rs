//! What a server said before it went away, for whoever reads the error.

/// How many lines of stderr an error has room for, and how many characters of each.
const MOST_LINES: usize = 3;
const LONGEST_LINE: usize = 200;

/// The reason, and the last lines that the server said on stderr, if any.
pub(crate) fn with_last_words(reason: String, stderr: &[String]) -> String {
    let said = stderr.iter().rev().map(|line| cleaned(line)).filter(|line| !line.is_empty());
    let mut said: Vec<String> = said.take(MOST_LINES).collect();
    if said.is_empty() {
        return reason;
    }
    said.reverse();
    format!("{reason}; its last words on stderr: {}", said.join(" / "))
}

/// The line without colours and control characters, and not too long.
fn cleaned(line: &str) -> String {
    let mut clean = String::new();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            // A sequence for the terminal goes on to the first letter after its bracket.
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
    let clean = clean.trim();
    match clean.char_indices().nth(LONGEST_LINE) {
        Some((cut, _)) => format!("{}…", &clean[..cut]),
        None => clean.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_told_clean_and_cut() {
        let stderr =
            ["first", "second\r", "\u{1b}[1;31mred\u{1b}[0m\talert\u{7}", " \u{1b}[0m", &"x".repeat(1000)];
        let stderr = stderr.map(str::to_owned);
        assert_eq!(
            with_last_words("it ended".to_owned(), &stderr),
            format!("it ended; its last words on stderr: second / red alert / {}…", "x".repeat(LONGEST_LINE))
        );
    }

    #[test]
    fn silence_adds_nothing() {
        assert_eq!(with_last_words("it ended".to_owned(), &[String::new()]), "it ended");
    }
}
