//! Finds the top-level fields of a JSON object and their positions in the bytes.
//!
//! A body that is forwarded unchanged must mean the same to every parser. Its keys must therefore be unique,
//! even if case is ignored, and written without escapes.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use memchr::memchr2;

/// The maximum nesting, which is also that of `serde_json`.
const MAX_DEPTH: usize = 127;

/// The maximum number of values and keys of a request. A parsed value takes up to a hundred times the memory
/// of its text.
pub(crate) const MAX_VALUES: usize = 1_000_000;

/// Keys with a meaning in one of the APIs. Some parsers ignore case, so other spellings of these keys are
/// refused.
const KEYS: [&str; 34] = [
    "audio",
    "background",
    "container",
    "conversation",
    "function_call",
    "functions",
    "include",
    "input",
    "instructions",
    "logprobs",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "mcp_servers",
    "messages",
    "metadata",
    "modalities",
    "model",
    "n",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "response_format",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "system",
    "temperature",
    "text",
    "thinking",
    "tool_choice",
    "tools",
    "toolwire",
];

/// The fields of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopLevel {
    fields: Vec<Field>,
    /// The number of values and keys, including nested ones.
    values: usize,
}

/// The positions of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    name: String,
    /// Without its quotation marks.
    pub(crate) key: Range<usize>,
    pub(crate) value: Range<usize>,
}

/// The reason why a body is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidBody {
    #[error("the body is not JSON: {0}")]
    Syntax(String),
    #[error("the body must be a JSON object")]
    NotAnObject,
    #[error("the body is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    #[error("the body has more than {0} values and keys")]
    TooManyValues(usize),
    #[error("the body has the key `{0}` more than once")]
    DuplicateKey(String),
    #[error("the body has the key `{0}`; write it as `{1}`")]
    OtherSpelling(String, String),
    #[error("the body has a key with escapes or control characters; write top-level keys without escapes")]
    EscapedKey,
}

impl TopLevel {
    /// Finds the fields of an object with at most `max_values` values and keys. The values are skipped
    /// without a check of their syntax.
    pub(crate) fn scan(body: &[u8], max_values: usize) -> Result<TopLevel, InvalidBody> {
        let text = std::str::from_utf8(body).map_err(|_| syntax("it is not UTF-8"))?;
        let mut scanner = Scanner { text, position: 0, values: 0, max_values };
        if scanner.next_token() != Some(b'{') {
            return Err(match serde_json::from_str::<serde::de::IgnoredAny>(text) {
                Ok(_) => InvalidBody::NotAnObject,
                Err(error) => syntax(error),
            });
        }
        scanner.count()?;
        let mut fields: Vec<Field> = Vec::new();
        let mut known = HashSet::new();
        scanner.position += 1;
        if scanner.next_token() == Some(b'}') {
            scanner.position += 1;
        } else {
            loop {
                let key = scanner.key()?;
                let name = &text[key.clone()];
                let plain = folded(name);
                if plain != name && KEYS.binary_search(&&*plain).is_ok() {
                    return Err(InvalidBody::OtherSpelling(name.to_owned(), plain.into_owned()));
                }
                if !known.insert(plain) {
                    return Err(InvalidBody::DuplicateKey(name.to_owned()));
                }
                let value = scanner.value()?;
                fields.push(Field { name: name.to_owned(), key, value });
                match scanner.next_token() {
                    Some(b',') => scanner.position += 1,
                    Some(b'}') => break scanner.position += 1,
                    _ => return Err(scanner.unexpected()),
                }
            }
        }
        match scanner.next_token() {
            None => Ok(TopLevel { fields, values: scanner.values }),
            Some(_) => Err(scanner.unexpected()),
        }
    }

    /// Returns the number of values and keys, including nested ones.
    pub(crate) fn values(&self) -> usize {
        self.values
    }

    /// Returns the fields in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// Returns a key as parsers that ignore case compare it. Go's parser also treats two other characters as `s`
/// and `k`.
pub(crate) fn folded(key: &str) -> Cow<'_, str> {
    let fold = |letter: char| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    match key.chars().all(|letter| fold(letter) == letter) {
        true => Cow::Borrowed(key),
        false => key.chars().map(fold).collect(),
    }
}

fn syntax(problem: impl ToString) -> InvalidBody {
    InvalidBody::Syntax(problem.to_string())
}

struct Scanner<'b> {
    text: &'b str,
    position: usize,
    /// The number of values and keys so far.
    values: usize,
    max_values: usize,
}

impl<'b> Scanner<'b> {
    /// Skips white space, and returns the next byte without advancing past it.
    fn next_token(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.position..];
        let blank = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.position += blank;
        rest.get(blank).copied()
    }

    fn unexpected(&self) -> InvalidBody {
        match self.text[self.position..].chars().next() {
            Some(found) => {
                syntax(format!("unexpected `{}` at byte {}", found.escape_default(), self.position))
            }
            None => syntax("unexpected end"),
        }
    }

    /// Counts a value or a key.
    fn count(&mut self) -> Result<(), InvalidBody> {
        self.values += 1;
        match self.values > self.max_values {
            true => Err(InvalidBody::TooManyValues(self.max_values)),
            false => Ok(()),
        }
    }

    /// Reads a key and the colon after it. Returns the position of the key.
    fn key(&mut self) -> Result<Range<usize>, InvalidBody> {
        if self.next_token() != Some(b'"') {
            return Err(self.unexpected());
        }
        let start = self.position + 1;
        self.string()?;
        let key = start..self.position - 1;
        if self.text[key.clone()].bytes().any(|byte| byte == b'\\' || byte.is_ascii_control()) {
            return Err(InvalidBody::EscapedKey);
        }
        if self.next_token() != Some(b':') {
            return Err(self.unexpected());
        }
        self.position += 1;
        Ok(key)
    }

    /// Skips a string, which is a value or a key. The position must be that of its first quotation mark.
    fn string(&mut self) -> Result<(), InvalidBody> {
        self.count()?;
        let bytes = self.text.as_bytes();
        let mut position = self.position + 1;
        loop {
            let rest = bytes.get(position..).unwrap_or_default();
            let special = memchr2(b'"', b'\\', rest).ok_or_else(|| syntax("unterminated string"))?;
            position += special;
            if rest[special] == b'"' {
                break;
            }
            position += 2;
        }
        self.position = position + 1;
        Ok(())
    }

    /// Skips a value, and returns its range.
    fn value(&mut self) -> Result<Range<usize>, InvalidBody> {
        let first = self.next_token().ok_or_else(|| self.unexpected())?;
        let start = self.position;
        let mut depth = 0_usize;
        match first {
            b'"' => self.string()?,
            b'{' | b'[' => loop {
                match self.text.as_bytes().get(self.position) {
                    Some(b'"') => {
                        self.string()?;
                        continue;
                    }
                    Some(b'{' | b'[') => {
                        self.count()?;
                        depth += 1;
                    }
                    Some(b'}' | b']') => depth -= 1,
                    Some(byte) if is_part_of_word(byte) => {
                        self.word()?;
                        continue;
                    }
                    Some(_) => {}
                    None => return Err(self.unexpected()),
                }
                self.position += 1;
                if depth == 0 {
                    break;
                }
                if depth >= MAX_DEPTH {
                    return Err(InvalidBody::TooDeep);
                }
            },
            byte if is_part_of_word(&byte) => self.word()?,
            _ => return Err(self.unexpected()),
        }
        Ok(start..self.position)
    }

    /// Skips a number, `true`, `false` or `null`.
    fn word(&mut self) -> Result<(), InvalidBody> {
        self.count()?;
        let rest = &self.text.as_bytes()[self.position..];
        self.position += rest.iter().take_while(|byte| is_part_of_word(byte)).count();
        Ok(())
    }
}

fn is_part_of_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}
