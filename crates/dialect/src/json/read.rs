//! The JSON reader.
//!
//! It is strict RFC 8259 with two leniencies that real tools need: a byte order mark is skipped, and an
//! unpaired surrogate escape is read as U+FFFD. For a duplicate key the last value is used, at the position
//! of the first.

use std::collections::HashMap;

use bumpalo::Bump;

use super::strings::{find_special, hex, unescape};
use super::{Member, Node};

/// The maximum nesting depth of arrays and objects in one tool. It bounds the stack, because the engine
/// recurses.
pub(crate) const MAX_DEPTH: usize = 512;

/// The largest number of keys for which a linear search for duplicates is faster than a hash table.
const MAX_LINEAR_KEYS: usize = 24;

/// The reason why text could not be read, and the byte offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JsonError {
    pub(crate) offset: usize,
    pub(crate) message: &'static str,
    /// The text is nested deeper than [`MAX_DEPTH`]; it may still be valid JSON.
    pub(crate) too_deep: bool,
}

/// A cursor over JSON text.
pub(crate) struct JsonReader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    arena: &'a Bump,
    /// The elements read so far of the arrays that are still open, innermost last.
    nodes: Vec<Node<'a>>,
    /// The members read so far of the objects that are still open, innermost last.
    members: Vec<Member<'a>>,
}

type Read<T> = Result<T, JsonError>;

impl<'a> JsonReader<'a> {
    pub(crate) fn new(text: &'a str, arena: &'a Bump) -> JsonReader<'a> {
        let at = if text.starts_with('\u{feff}') { 3 } else { 0 };
        JsonReader { text, bytes: text.as_bytes(), at, arena, nodes: Vec::new(), members: Vec::new() }
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Moves the cursor back to an earlier [`JsonReader::position`].
    pub(crate) fn rewind(&mut self, at: usize) {
        self.at = at;
        self.nodes.clear();
        self.members.clear();
    }

    /// Skips white space and returns the next byte without consuming it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Returns an error unless only white space is left.
    pub(crate) fn end(&mut self) -> Read<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.error("unexpected text after the end of the JSON value"),
        }
    }

    /// Reads any value.
    pub(crate) fn value(&mut self) -> Read<Node<'a>> {
        self.value_at(0)
    }

    fn value_at(&mut self, depth: usize) -> Read<Node<'a>> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Node::Bool(true)),
            Some(b'f') => self.literal("false", Node::Bool(false)),
            Some(b'n') => self.literal("null", Node::Null),
            Some(_) => self.error("expected a JSON value"),
            None => self.error("unexpected end of input, expected a JSON value"),
        }
    }

    fn object(&mut self, depth: usize) -> Read<Node<'a>> {
        self.check_depth(depth)?;
        let start = self.members.len();
        let mut table: Option<HashMap<&'a str, usize>> = None;
        let mut more = self.enter_object()?;
        while more {
            let key = self.key()?;
            let value = self.value_at(depth + 1)?;
            let open = &mut self.members[start..];
            let existing = match &table {
                None => open.iter().position(|member| member.key == key),
                Some(table) => table.get(key).copied(),
            };
            match existing {
                Some(index) => open[index].value = value,
                None => {
                    let index = open.len();
                    if let Some(table) = &mut table {
                        table.insert(key, index);
                    } else if index == MAX_LINEAR_KEYS {
                        let keys = open.iter().map(|member| member.key).chain([key]);
                        table = Some(keys.enumerate().map(|(index, key)| (key, index)).collect());
                    }
                    self.members.push(Member::new(key, value));
                }
            }
            more = self.next_member()?;
        }
        let members = self.arena.alloc_slice_copy(&self.members[start..]);
        self.members.truncate(start);
        Ok(Node::Object(members))
    }

    fn list(&mut self, depth: usize) -> Read<Node<'a>> {
        self.check_depth(depth)?;
        let start = self.nodes.len();
        let mut more = self.enter_list()?;
        while more {
            let node = self.value_at(depth + 1)?;
            self.nodes.push(node);
            more = self.next_item()?;
        }
        let nodes = self.arena.alloc_slice_copy(&self.nodes[start..]);
        self.nodes.truncate(start);
        Ok(Node::List(nodes))
    }

    fn check_depth(&self, depth: usize) -> Read<()> {
        if depth < MAX_DEPTH {
            return Ok(());
        }
        Err(JsonError { offset: self.at, message: "nested deeper than 512 levels", too_deep: true })
    }

    /// Consumes `{`. Returns whether a member follows.
    pub(crate) fn enter_object(&mut self) -> Read<bool> {
        self.at += 1;
        match self.peek() {
            Some(b'}') => {
                self.at += 1;
                Ok(false)
            }
            Some(b'"') => Ok(true),
            _ => self.error("expected a key in double quotes, or `}`"),
        }
    }

    /// Consumes a key and its colon.
    pub(crate) fn key(&mut self) -> Read<&'a str> {
        if self.peek() != Some(b'"') {
            return self.error("expected a key in double quotes");
        }
        let key = self.string()?.text(self.arena).unwrap_or_default();
        if self.peek() != Some(b':') {
            return self.error("expected `:` after the key");
        }
        self.at += 1;
        Ok(key)
    }

    /// Called after a member's value. Returns whether another member follows; if not, consumes `}`.
    pub(crate) fn next_member(&mut self) -> Read<bool> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                match self.peek() {
                    Some(b'"') => Ok(true),
                    _ => self.error("expected a key in double quotes after `,`"),
                }
            }
            Some(b'}') => {
                self.at += 1;
                Ok(false)
            }
            Some(_) => self.error("expected `,` or `}`"),
            None => self.error("unexpected end of input inside an object"),
        }
    }

    /// Consumes `[`. Returns whether an element follows.
    pub(crate) fn enter_list(&mut self) -> Read<bool> {
        self.at += 1;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// Called after an element. Returns whether another element follows; if not, consumes `]`.
    pub(crate) fn next_item(&mut self) -> Read<bool> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(b']') => {
                self.at += 1;
                Ok(false)
            }
            Some(_) => self.error("expected `,` or `]`"),
            None => self.error("unexpected end of input inside an array"),
        }
    }

    fn literal(&mut self, literal: &str, node: Node<'a>) -> Read<Node<'a>> {
        if self.bytes[self.at..].starts_with(literal.as_bytes()) {
            self.at += literal.len();
            return Ok(node);
        }
        self.error("expected a JSON value")
    }

    fn number(&mut self) -> Read<Node<'a>> {
        let start = self.at;
        if self.bytes[self.at] == b'-' {
            self.at += 1;
        }
        match self.bytes.get(self.at) {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return self.error("expected a digit"),
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.at_least_one_digit()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.at_least_one_digit()?;
        }
        Ok(Node::Number(&self.text[start..self.at]))
    }

    fn at_least_one_digit(&mut self) -> Read<()> {
        if !self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            return self.error("expected a digit");
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
    }

    fn string(&mut self) -> Read<Node<'a>> {
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        let mut unpaired = false;
        loop {
            self.at = find_special(self.bytes, self.at);
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    unpaired |= self.escape()?;
                }
                Some(_) => return self.error("unescaped control character in a string"),
                None => return self.error("unexpected end of input inside a string"),
            }
        }
        let raw = &self.text[start..self.at];
        self.at += 1;
        Ok(match (escaped, unpaired) {
            (false, _) => Node::Text(raw),
            (true, false) => Node::Escaped(raw),
            (true, true) => Node::Text(unescape(raw, self.arena)),
        })
    }

    /// Consumes one escape. Returns whether it is an unpaired surrogate.
    fn escape(&mut self) -> Read<bool> {
        self.at += 1;
        match self.bytes.get(self.at) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(false)
            }
            Some(b'u') => {
                self.at += 1;
                let unit = self.unit()?;
                if !(0xd800..0xe000).contains(&unit) {
                    return Ok(false);
                }
                if unit < 0xdc00 && self.bytes[self.at..].starts_with(b"\\u") {
                    let after_high = self.at;
                    self.at += 2;
                    if (0xdc00..0xe000).contains(&self.unit()?) {
                        return Ok(false);
                    }
                    self.at = after_high;
                }
                Ok(true)
            }
            _ => self.error("invalid escape in a string"),
        }
    }

    /// Consumes the four hexadecimal digits of a UTF-16 code unit.
    fn unit(&mut self) -> Read<u32> {
        match self.bytes.get(self.at..self.at + 4).and_then(hex) {
            Some(unit) => {
                self.at += 4;
                Ok(unit)
            }
            None => self.error("expected four hexadecimal digits after `\\u`"),
        }
    }

    /// Skips a value of any depth without building it.
    pub(crate) fn skip(&mut self) -> Read<()> {
        let mut open: Vec<u8> = Vec::new();
        loop {
            let entered = match self.peek() {
                Some(b'{') => self.enter_object()?.then_some(b'{'),
                Some(b'[') => self.enter_list()?.then_some(b'['),
                Some(b'"') => {
                    self.skip_string()?;
                    None
                }
                _ => {
                    self.value_at(0)?;
                    None
                }
            };
            if let Some(bracket) = entered {
                open.push(bracket);
                if bracket == b'{' {
                    self.skip_key()?;
                }
                continue;
            }
            loop {
                match open.last() {
                    None => return Ok(()),
                    Some(b'{') if self.next_member()? => {
                        self.skip_key()?;
                        break;
                    }
                    Some(b'[') if self.next_item()? => break,
                    Some(_) => {
                        open.pop();
                    }
                }
            }
        }
    }

    fn skip_key(&mut self) -> Read<()> {
        self.skip_string()?;
        if self.peek() != Some(b':') {
            return self.error("expected `:` after the key");
        }
        self.at += 1;
        Ok(())
    }

    fn skip_string(&mut self) -> Read<()> {
        self.at += 1;
        loop {
            self.at = find_special(self.bytes, self.at);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.escape()?;
                }
                Some(_) => return self.error("unescaped control character in a string"),
                None => return self.error("unexpected end of input inside a string"),
            }
        }
    }

    pub(crate) fn error<T>(&self, message: &'static str) -> Read<T> {
        Err(JsonError { offset: self.at, message, too_deep: false })
    }
}
