//! Colours of code: splits its lines into tokens, by a table of languages.
//!
//! The tokens of a line are its whole text, in order. Only what has a meaning for the reader is found:
//! comments, strings, numbers, keywords, types and keys. Invalid code has tokens like valid code.

mod languages;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

use languages::{Delimiter, Feature, LANGUAGES, Language};

/// The meaning of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenKind {
    Plain,
    Comment,
    String,
    /// A number, or a name with a fixed value.
    Constant,
    Keyword,
    Type,
    /// A key of an object, an attribute or a variable.
    Key,
    /// An added line of a difference.
    Added,
    /// A removed line of a difference.
    Removed,
    /// A header of a difference.
    Header,
}

/// Finds the tokens of a code block, line by line.
#[derive(Debug)]
pub struct Highlighter {
    language: &'static Language,
    /// The comment or string that is open.
    open: Option<Open>,
    /// The word that ends the text of a here document.
    heredoc: Option<String>,
    /// Whether the position is inside a tag of a markup language.
    is_in_tag: bool,
}

/// An open comment or string.
#[derive(Debug)]
struct Open {
    delimiter: Delimiter,
    /// The end mark, if it is not the one of the delimiter.
    close: Cow<'static, str>,
    depth: usize,
}

impl Open {
    fn new(delimiter: Delimiter) -> Open {
        Open { delimiter, close: Cow::Borrowed(delimiter.close), depth: 1 }
    }

    /// Returns the length of the text up to and with the end mark, or `None` if it does not end.
    fn end(&mut self, text: &str) -> Option<usize> {
        let mut position = 0;
        while let Some(character) = text[position..].chars().next() {
            let rest = &text[position..];
            let length = if self.delimiter.escapes && character == '\\' {
                1 + rest[1..].chars().next().map_or(0, char::len_utf8)
            } else if rest.starts_with(&*self.close) {
                self.depth -= 1;
                self.close.len()
            } else if self.delimiter.nests && rest.starts_with(self.delimiter.open) {
                self.depth += 1;
                self.delimiter.open.len()
            } else {
                character.len_utf8()
            };
            position += length;
            if self.depth == 0 {
                return Some(position);
            }
        }
        None
    }
}

impl Highlighter {
    /// Returns a highlighter for the info string of a fence, such as `rust,ignore`, or `None` if the language
    /// is not known.
    pub fn new(info: &str) -> Option<Highlighter> {
        let name = info.trim_start_matches(['{', '.', ' ']);
        let name = name.split([' ', '\t', ',', '{', '}', ':']).next()?.to_lowercase();
        let language = LANGUAGES.iter().find(|language| has_word(language.names, &name))?;
        Some(Highlighter { language, open: None, heredoc: None, is_in_tag: false })
    }

    /// Returns the tokens of the next line.
    pub fn line(&mut self, line: &str) -> Vec<(Range<usize>, TokenKind)> {
        if self.has(Feature::Diff) {
            return vec![(0..line.len(), diff_kind(line))];
        }
        if let Some(word) = &self.heredoc {
            if line.trim().trim_end_matches([';', ',', ')']) == word {
                self.heredoc = None;
            }
            return vec![(0..line.len(), TokenKind::String)];
        }
        let mut tokens: Vec<(Range<usize>, TokenKind)> = Vec::new();
        let mut position = 0;
        while position < line.len() {
            let (length, kind) = self.token(line, position);
            let end = position + length;
            match tokens.last_mut() {
                Some((range, last)) if *last == kind => range.end = end,
                _ => tokens.push((position..end, kind)),
            }
            position = end;
        }
        self.open.take_if(|open| !open.delimiter.is_multiline);
        tokens
    }

    /// Returns the length, which is not zero, and the kind of the token at the position.
    fn token(&mut self, line: &str, position: usize) -> (usize, TokenKind) {
        let rest = &line[position..];
        let Some(mut open) = self.open.take() else {
            return if self.has(Feature::Markup) { self.markup(rest) } else { self.code(line, position) };
        };
        let kind = open.delimiter.kind;
        match open.end(rest) {
            Some(length) => (length, kind),
            None => {
                self.open = Some(open);
                (rest.len(), kind)
            }
        }
    }

    fn has(&self, feature: Feature) -> bool {
        self.language.features.contains(&feature)
    }

    /// Opens a comment or string whose start mark has this length.
    fn start(&mut self, mut open: Open, start: usize, rest: &str) -> (usize, TokenKind) {
        let mut kind = open.delimiter.kind;
        let length = match open.end(&rest[start..]) {
            Some(length) => {
                let after = rest[start + length..].trim_start_matches(' ');
                if kind == TokenKind::String
                    && self.language.key_mark.is_some_and(|mark| after.starts_with(mark))
                {
                    kind = TokenKind::Key;
                }
                start + length
            }
            None => {
                self.open = Some(open);
                rest.len()
            }
        };
        (length, kind)
    }

    fn delimiter(&self, rest: &str) -> Option<Delimiter> {
        self.language.delimiters.iter().find(|delimiter| rest.starts_with(delimiter.open)).copied()
    }

    fn code(&mut self, line: &str, position: usize) -> (usize, TokenKind) {
        let rest = &line[position..];
        let before = line[..position].chars().next_back();
        let is_after_space = before.is_none_or(char::is_whitespace);
        let is_in_word = self.has(Feature::BareWords) && before.is_some_and(char::is_alphanumeric);
        let delimiter = self.delimiter(rest).filter(|_| !is_in_word);
        // A mark of one character such as `#` has other meanings inside a word.
        let is_comment = |mark: &&str| rest.starts_with(*mark) && (mark.len() > 1 || is_after_space);
        let is_block_comment = delimiter.is_some_and(|delimiter| delimiter.kind == TokenKind::Comment);
        if !is_block_comment && self.language.comments.iter().any(is_comment) {
            return (rest.len(), TokenKind::Comment);
        }
        if self.has(Feature::RustLiterals)
            && let Some(token) = self.rust_literal(rest)
        {
            return token;
        }
        // `<<<` of a shell is followed by a string.
        if let Some(word) = heredoc_word(self.language.heredoc, rest).filter(|_| before != Some('<')) {
            self.heredoc = Some(word.to_owned());
            return (self.language.heredoc.len(), TokenKind::Plain);
        }
        if let Some(delimiter) = delimiter {
            return self.start(Open::new(delimiter), delimiter.open.len(), rest);
        }
        let mut characters = rest.chars();
        match (characters.next(), characters.next()) {
            (Some(sigil), Some(next))
                if self.language.sigils.contains(sigil) && (next.is_alphabetic() || next == '_') =>
            {
                let is_other = |character: char| !character.is_alphanumeric() && character != '_';
                match sigil {
                    '$' => (1 + rest[1..].find(is_other).unwrap_or(rest.len() - 1), TokenKind::Key),
                    _ => (1 + self.name_length(&rest[1..]), TokenKind::Keyword),
                }
            }
            (Some('\\'), next) => (1 + next.map_or(0, char::len_utf8), TokenKind::Plain),
            (Some(first), _) if first.is_ascii_digit() => (number_length(rest), TokenKind::Constant),
            (Some(first), _) if self.is_in_name(first) && first != '-' => {
                let length = self.name_length(rest);
                (length, self.name_kind(&rest[..length], &rest[length..]))
            }
            (first, _) => (first.map_or(1, char::len_utf8), TokenKind::Plain),
        }
    }

    fn is_in_name(&self, character: char) -> bool {
        character.is_alphanumeric() || character == '_' || self.language.name_characters.contains(character)
    }

    fn name_length(&self, text: &str) -> usize {
        text.find(|character| !self.is_in_name(character)).unwrap_or(text.len())
    }

    fn name_kind(&self, name: &str, after: &str) -> TokenKind {
        let language = self.language;
        let lowercase;
        let word = if self.has(Feature::IgnoresCase) {
            lowercase = name.to_lowercase();
            &lowercase
        } else {
            name
        };
        if self.is_key(after) {
            TokenKind::Key
        } else if has_word(language.keywords, word) {
            TokenKind::Keyword
        } else if has_word(language.constants, word) {
            TokenKind::Constant
        } else if has_word(language.types, word) {
            TokenKind::Type
        } else if self.has(Feature::CapitalizedTypes) && name.starts_with(char::is_uppercase) {
            let is_constant = name.len() > 1 && !name.contains(char::is_lowercase);
            if is_constant { TokenKind::Constant } else { TokenKind::Type }
        } else {
            TokenKind::Plain
        }
    }

    /// Whether the text after a name makes it a key.
    fn is_key(&self, after: &str) -> bool {
        let Some(mark) = self.language.key_mark else { return false };
        let after = after.trim_start_matches(' ').strip_prefix(mark);
        // `a:hover` and `http://` have no keys.
        after.is_some_and(|value| mark != ':' || value.is_empty() || value.starts_with([' ', '\t']))
    }

    /// Finds a raw string, a character or a lifetime.
    fn rust_literal(&mut self, rest: &str) -> Option<(usize, TokenKind)> {
        if let Some(text) = rest.strip_prefix('\'') {
            let first = text.chars().next()?;
            let is_character = first == '\\' || text[first.len_utf8()..].starts_with('\'');
            return Some(if is_character {
                let mut open = Open::new(languages::SINGLE);
                (1 + open.end(text).unwrap_or(text.len()), TokenKind::String)
            } else {
                (1 + self.name_length(text), TokenKind::Type)
            });
        }
        let raw = rest.strip_prefix(['b', 'c']).unwrap_or(rest).strip_prefix('r')?;
        let text = raw.trim_start_matches('#');
        let hashes = &raw[..raw.len() - text.len()];
        let text = text.strip_prefix('"')?;
        let open = Open { close: format!("\"{hashes}").into(), ..Open::new(languages::RAW) };
        Some(self.start(open, rest.len() - text.len(), rest))
    }

    fn markup(&mut self, rest: &str) -> (usize, TokenKind) {
        if !self.is_in_tag {
            let comment = languages::MARKUP_COMMENT;
            if rest.starts_with(comment.open) {
                return self.start(Open::new(comment), comment.open.len(), rest);
            }
            let starts_tag = |next: char| next.is_alphabetic() || matches!(next, '/' | '!' | '?');
            self.is_in_tag = rest.strip_prefix('<').is_some_and(|tag| tag.starts_with(starts_tag));
            let ends_name = |next: char| next.is_whitespace() || matches!(next, '>' | '<');
            let end = match self.is_in_tag {
                true => rest[1..].find(ends_name).map(|end| end + 1),
                false => rest.char_indices().skip(1).find(|(_, next)| *next == '<').map(|(end, _)| end),
            };
            let kind = if self.is_in_tag { TokenKind::Keyword } else { TokenKind::Plain };
            return (end.unwrap_or(rest.len()), kind);
        }
        if let Some(delimiter) = self.delimiter(rest) {
            return self.start(Open::new(delimiter), delimiter.open.len(), rest);
        }
        match rest.chars().next() {
            Some('>') => {
                self.is_in_tag = false;
                (1, TokenKind::Keyword)
            }
            Some('/' | '?') => (1, TokenKind::Keyword),
            Some(first) if self.is_in_name(first) => (self.name_length(rest), TokenKind::Key),
            first => (first.map_or(1, char::len_utf8), TokenKind::Plain),
        }
    }
}

/// Whether the word is one of the list, which is separated by spaces.
fn has_word(list: &str, word: &str) -> bool {
    !word.is_empty() && list.split(' ').any(|known| known == word)
}

fn diff_kind(line: &str) -> TokenKind {
    let is_header = ["+++", "---", "diff ", "index "].iter().any(|start| line.starts_with(start));
    match line.chars().next() {
        _ if is_header => TokenKind::Header,
        Some('+') => TokenKind::Added,
        Some('-') => TokenKind::Removed,
        Some('@') => TokenKind::Type,
        _ => TokenKind::Plain,
    }
}

fn number_length(text: &str) -> usize {
    let is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
    let mut before = ' ';
    let mut characters = text.char_indices().peekable();
    while let Some((index, character)) = characters.next() {
        let next_is_digit = characters.peek().is_some_and(|(_, next)| next.is_ascii_digit());
        let is_part = match character {
            '.' | '\'' => next_is_digit && before.is_ascii_digit(),
            '+' | '-' => !is_hexadecimal && matches!(before, 'e' | 'E') && next_is_digit,
            _ => character.is_ascii_alphanumeric() || character == '_',
        };
        if !is_part {
            return index;
        }
        before = character;
    }
    text.len()
}

/// Returns the end word of a here document that starts at the text, if it is quoted or starts with a capital.
fn heredoc_word<'a>(marker: &str, text: &'a str) -> Option<&'a str> {
    let text = text.strip_prefix(marker).filter(|_| !marker.is_empty())?;
    let text = text.strip_prefix(['-', '~']).unwrap_or(text).trim_start_matches(' ');
    let (is_quoted, text) = match text.strip_prefix(['"', '\'']) {
        Some(text) => (true, text),
        None => (false, text),
    };
    let end = text.find(|character: char| !character.is_alphanumeric() && character != '_');
    let word = &text[..end.unwrap_or(text.len())];
    (!word.is_empty() && (is_quoted || word.starts_with(|first: char| first.is_ascii_uppercase())))
        .then_some(word)
}
