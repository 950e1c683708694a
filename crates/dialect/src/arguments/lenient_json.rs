//! Reads JSON text with the mistakes that models make, if its meaning is unambiguous: code fences, comments,
//! trailing commas, single quotes, keys without quotes, and the literals of Python and JavaScript.

use serde_json::Value;

/// Parses JSON text, with its mistakes corrected if necessary.
pub(crate) fn parse_any(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().or_else(|| serde_json::from_str(&corrected(text)).ok())
}

/// Returns the text with its mistakes corrected, as far as that is possible without guessing: a text that was
/// cut off is not completed. Lines and columns stay nearly the same, for the errors of the parser.
pub(super) fn corrected(text: &str) -> String {
    let input = without_fences(text);
    let start = input.as_ptr() as usize - text.as_ptr() as usize;
    let mut rewriter = Rewriter { input, at: 0, output: String::with_capacity(text.len()) };
    rewriter.blank(&text[..start]);
    rewriter.run()
}

/// Removes a byte order mark and a Markdown code fence around the text.
fn without_fences(text: &str) -> &str {
    let text = text.trim_start_matches('\u{feff}').trim();
    let Some(fenced) = text.strip_prefix("```") else { return text };
    // The language is before the line break or the value.
    let body = &fenced[fenced.find(['\n', '{', '[']).unwrap_or(fenced.len())..];
    body.trim_end().strip_suffix("```").unwrap_or(body).trim()
}

/// Rewrites the text as strict JSON.
struct Rewriter<'t> {
    input: &'t str,
    at: usize,
    output: String,
}

impl<'t> Rewriter<'t> {
    fn run(mut self) -> String {
        while let Some(next) = self.rest().chars().next() {
            match next {
                '"' | '\'' => self.string(next),
                '/' | '#' => self.comment(),
                '}' | ']' => {
                    // A comma before the end of an object or array.
                    let end = self.output.trim_end().len();
                    if self.output[..end].ends_with(',') {
                        self.output.replace_range(end - 1..end, " ");
                    }
                    self.push(next);
                }
                _ if next.is_alphabetic() || next == '_' || next == '$' => self.word(),
                _ => self.push(next),
            }
        }
        self.output
    }

    fn rest(&self) -> &'t str {
        &self.input[self.at..]
    }

    /// Copies a character.
    fn push(&mut self, character: char) {
        self.output.push(character);
        self.at += character.len_utf8();
    }

    /// Writes white space in place of a text, with the same lines.
    fn blank(&mut self, text: &str) {
        self.output.extend(text.chars().map(|character| if character == '\n' { '\n' } else { ' ' }));
    }

    fn comment(&mut self) {
        let rest = self.rest();
        let length = if rest.starts_with("/*") {
            rest.find("*/").map(|end| end + 2)
        } else if rest.starts_with("//") || rest.starts_with('#') {
            Some(rest.find('\n').unwrap_or(rest.len()))
        } else {
            None
        };
        // A single slash, or a comment without an end, is left for the parser to reject, with all that
        // follows.
        match length {
            Some(length) => self.blank(&rest[..length]),
            None => self.output.push_str(rest),
        }
        self.at += length.unwrap_or(rest.len());
    }

    /// Copies a string. One without an end is left for the parser to reject.
    fn string(&mut self, quote: char) {
        self.at += 1;
        self.output.push('"');
        let mut characters = self.rest().char_indices();
        while let Some((offset, character)) = characters.next() {
            match character {
                _ if character == quote => {
                    self.at += offset + 1;
                    self.output.push('"');
                    return;
                }
                '\\' => match characters.next() {
                    Some((_, '\'')) => self.output.push('\''),
                    escaped => {
                        self.output.push('\\');
                        self.output.extend(escaped.map(|(_, escaped)| escaped));
                    }
                },
                '"' => self.output.push_str("\\\""),
                // JSON does not allow line breaks in strings.
                '\n' => self.output.push_str("\\n"),
                '\r' => self.output.push_str("\\r"),
                '\t' => self.output.push_str("\\t"),
                _ => self.output.push(character),
            }
        }
        self.at = self.input.len();
    }

    /// Rewrites a literal, or quotes a key.
    fn word(&mut self) {
        let rest = self.rest();
        let is_part = |character: char| character.is_alphanumeric() || matches!(character, '_' | '$' | '-');
        let word = &rest[..rest.find(|character| !is_part(character)).unwrap_or(rest.len())];
        let is_key = rest[word.len()..].trim_start().starts_with(':');
        self.at += word.len();
        match word {
            _ if is_key => {
                self.output.push('"');
                self.output.push_str(word);
                self.output.push('"');
            }
            "True" => self.output.push_str("true"),
            "False" => self.output.push_str("false"),
            "None" | "undefined" => self.output.push_str("null"),
            // The literals of JSON; anything else makes the result invalid.
            _ => self.output.push_str(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Value) {
        assert_eq!(parse_any(text), Some(expected), "{text}");
    }

    #[test]
    fn common_mistakes_are_read() {
        check("```json\n{\"a\": 1}\n```", json!({"a": 1}));
        check("```json {\"a\": 1}```", json!({"a": 1}));
        check("```{\"a\":\n1}```", json!({"a": 1}));
        check("\u{feff}{\"a\": 1}", json!({"a": 1}));
        check("{\"a\": [1, 2,], }", json!({"a": [1, 2]}));
        check(
            "{'a': 'it\\'s \"x\"', 'b': True, 'c': None}",
            json!({"a": "it's \"x\"", "b": true, "c": null}),
        );
        check("{a: 1, user_id: undefined}", json!({"a": 1, "user_id": null}));
        check(
            "{\"a\": 1, // one\n /* two */ \"b\": \"http://x\" # three\n}",
            json!({"a": 1, "b": "http://x"}),
        );
        check("{\"a\": \"one\ntwo\"}", json!({"a": "one\ntwo"}));
        check("{\"a\": \"\\u00e9\\\\\"}", json!({"a": "é\\"}));
    }

    #[test]
    fn a_comment_without_an_end_is_copied() {
        let text = format!("{{\"a\": 1 {}", "/* ".repeat(100_000));
        assert_eq!(corrected(&text), text.trim_end());
    }

    #[test]
    fn doubtful_texts_are_not_read() {
        for text in [
            "{\"a\": 1",
            "{\"a\": \"x",
            "{\"a\": yes}",
            "{\"a\": 1} {\"b\": 2}",
            "a: 1",
            "{\"a\": NaN}",
            "[1,,2]",
            "{,}x",
        ] {
            assert_eq!(parse_any(text), None, "{text}");
        }
    }
}
