//! From text to the tree.
//!
//! Strict RFC 8259, with two mercies that tools in the wild need: a byte order mark is skipped, and a lone surrogate
//! escape reads as U+FFFD. Of a key that stands twice in one object the last value counts, at the first one's place.

use std::collections::HashMap;

use bumpalo::Bump;

use super::{Member, Node};

/// How deep arrays and objects may nest in one tool. The engine recurses, so this bounds its stack.
pub(crate) const MAX_DEPTH: usize = 512;

/// Up to this many keys a linear look for the same key is quicker than a table.
const LINEAR_KEYS: usize = 24;

/// Why text could not be read, and at which byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) message: &'static str,
    /// The text may well be JSON: it was only nested deeper than [`MAX_DEPTH`].
    pub(crate) too_deep: bool,
}

/// A cursor over JSON text.
pub(crate) struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    arena: &'a Bump,
    /// Nodes of the containers that are still open, innermost last.
    nodes: Vec<Node<'a>>,
    members: Vec<Member<'a>>,
}

type Read<T> = Result<T, Fault>;

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str, arena: &'a Bump) -> Reader<'a> {
        let at = if text.starts_with('\u{feff}') { 3 } else { 0 };
        Reader { text, bytes: text.as_bytes(), at, arena, nodes: Vec::new(), members: Vec::new() }
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Puts the cursor back to where [`Reader::position`] was.
    pub(crate) fn rewind(&mut self, at: usize) {
        self.at = at;
        self.nodes.clear();
        self.members.clear();
    }

    /// The next byte that is not white space, not yet taken.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Whether nothing but white space is left.
    pub(crate) fn end(&mut self) -> Read<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.fault("unexpected text after the end of the JSON value"),
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
            Some(b't') => self.word("true", Node::Bool(true)),
            Some(b'f') => self.word("false", Node::Bool(false)),
            Some(b'n') => self.word("null", Node::Null),
            Some(_) => self.fault("expected a JSON value"),
            None => self.fault("unexpected end of the text where a JSON value is due"),
        }
    }

    fn object(&mut self, depth: usize) -> Read<Node<'a>> {
        self.deeper(depth)?;
        let start = self.members.len();
        let mut table: Option<HashMap<&'a str, usize>> = None;
        let mut more = self.enter_object()?;
        while more {
            let key = self.key()?;
            let value = self.value_at(depth + 1)?;
            let open = &mut self.members[start..];
            let twin = match &table {
                None => open.iter().position(|member| member.key == key),
                Some(table) => table.get(key).copied(),
            };
            match twin {
                Some(index) => open[index].value = value,
                None => {
                    let index = open.len();
                    if let Some(table) = &mut table {
                        table.insert(key, index);
                    } else if index == LINEAR_KEYS {
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
        self.deeper(depth)?;
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

    fn deeper(&self, depth: usize) -> Read<()> {
        if depth < MAX_DEPTH {
            return Ok(());
        }
        Err(Fault { at: self.at, message: "nested too deep", too_deep: true })
    }

    /// Takes `{`; true if a member follows.
    pub(crate) fn enter_object(&mut self) -> Read<bool> {
        self.at += 1;
        match self.peek() {
            Some(b'}') => {
                self.at += 1;
                Ok(false)
            }
            Some(b'"') => Ok(true),
            _ => self.fault("expected a key in double quotes, or `}`"),
        }
    }

    /// Takes a key and its colon.
    pub(crate) fn key(&mut self) -> Read<&'a str> {
        if self.peek() != Some(b'"') {
            return self.fault("expected a key in double quotes");
        }
        let key = self.string()?.text(self.arena).unwrap_or_default();
        if self.peek() != Some(b':') {
            return self.fault("expected `:` after the key");
        }
        self.at += 1;
        Ok(key)
    }

    /// After a member's value: true if another member follows, false past the `}`.
    pub(crate) fn next_member(&mut self) -> Read<bool> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                match self.peek() {
                    Some(b'"') => Ok(true),
                    _ => self.fault("expected a key in double quotes after `,`"),
                }
            }
            Some(b'}') => {
                self.at += 1;
                Ok(false)
            }
            Some(_) => self.fault("expected `,` or `}`"),
            None => self.fault("unexpected end of the text inside an object"),
        }
    }

    /// Takes `[`; true if an element follows.
    pub(crate) fn enter_list(&mut self) -> Read<bool> {
        self.at += 1;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// After an element: true if another follows, false past the `]`.
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
            Some(_) => self.fault("expected `,` or `]`"),
            None => self.fault("unexpected end of the text inside an array"),
        }
    }

    fn word(&mut self, word: &str, node: Node<'a>) -> Read<Node<'a>> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(node);
        }
        self.fault("expected a JSON value")
    }

    fn number(&mut self) -> Read<Node<'a>> {
        let start = self.at;
        if self.bytes[self.at] == b'-' {
            self.at += 1;
        }
        match self.bytes.get(self.at) {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return self.fault("expected a digit"),
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.some_digits()?;
        }
        Ok(Node::Number(&self.text[start..self.at]))
    }

    fn some_digits(&mut self) -> Read<()> {
        if !self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            return self.fault("expected a digit");
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
        let mut lone = false;
        loop {
            self.at = plain_until(self.bytes, self.at);
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    lone |= self.escape()?;
                }
                Some(_) => return self.fault("a control character must be escaped in a string"),
                None => return self.fault("unexpected end of the text inside a string"),
            }
        }
        let raw = &self.text[start..self.at];
        self.at += 1;
        Ok(match (escaped, lone) {
            (false, _) => Node::Text(raw),
            (true, false) => Node::Escaped(raw),
            (true, true) => Node::Text(unescape(raw, self.arena)),
        })
    }

    /// Takes one escape; true if it is half of a surrogate pair whose other half is not there.
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
                    let back = self.at;
                    self.at += 2;
                    if (0xdc00..0xe000).contains(&self.unit()?) {
                        return Ok(false);
                    }
                    self.at = back;
                }
                Ok(true)
            }
            _ => self.fault("unknown escape in a string"),
        }
    }

    fn unit(&mut self) -> Read<u32> {
        match self.bytes.get(self.at..self.at + 4).and_then(hex) {
            Some(unit) => {
                self.at += 4;
                Ok(unit)
            }
            None => self.fault("expected four hexadecimal digits after `\\u`"),
        }
    }

    /// Passes over any value, however deep, without building it.
    pub(crate) fn skip(&mut self) -> Read<()> {
        // One bit a level would do; a byte keeps it plain.
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
            return self.fault("expected `:` after the key");
        }
        self.at += 1;
        Ok(())
    }

    fn skip_string(&mut self) -> Read<()> {
        self.at += 1;
        loop {
            self.at = plain_until(self.bytes, self.at);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.escape()?;
                }
                Some(_) => return self.fault("a control character must be escaped in a string"),
                None => return self.fault("unexpected end of the text inside a string"),
            }
        }
    }

    pub(crate) fn fault<T>(&self, message: &'static str) -> Read<T> {
        Err(Fault { at: self.at, message, too_deep: false })
    }
}

/// The first index at or after `at` of a quote, a backslash, a control character or the end.
///
/// Eight bytes at a time, as most strings are short; once one turns out long, as descriptions do, as many at a time as the
/// compiler finds wide registers for.
pub(super) fn plain_until(bytes: &[u8], start: usize) -> usize {
    const LONG: usize = 24;
    const WIDE: usize = 32;
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    const fn zeros(word: u64) -> u64 {
        word.wrapping_sub(ONES) & !word & HIGHS
    }
    let mut at = start;
    while let Some(chunk) = bytes.get(at..at + 8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("the chunk has eight bytes"));
        let quotes = zeros(word ^ (ONES * b'"' as u64));
        let backslashes = zeros(word ^ (ONES * b'\\' as u64));
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let found = quotes | backslashes | controls;
        if found != 0 {
            // The lowest set bit is exact: a borrow can only disturb bytes above a real match.
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
        if at == start + LONG {
            while bytes
                .get(at..at + WIDE)
                .is_some_and(|chunk| chunk.iter().fold(true, |all, byte| all & is_plain(*byte)))
            {
                at += WIDE;
            }
        }
    }
    while bytes.get(at).is_some_and(|byte| is_plain(*byte)) {
        at += 1;
    }
    at
}

const fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |unit, digit| Some(unit * 16 + (*digit as char).to_digit(16)?))
}

/// The characters of a well-formed escaped string; half surrogates become U+FFFD.
pub(super) fn unescape<'b>(raw: &str, arena: &'b Bump) -> &'b str {
    let mut text = bumpalo::collections::String::with_capacity_in(raw.len(), arena);
    let mut rest = raw;
    while let Some(index) = rest.find('\\') {
        text.push_str(&rest[..index]);
        let escape = rest.as_bytes().get(index + 1).copied().unwrap_or(b'\\');
        rest = rest.get(index + 2..).unwrap_or_default();
        text.push(match escape {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = take_unit(&mut rest);
                let pair = match unit {
                    0xd800..0xdc00 => rest.strip_prefix("\\u").and_then(|mut low| {
                        let low_unit = take_unit(&mut low);
                        (0xdc00..0xe000).contains(&low_unit).then_some((low_unit, low))
                    }),
                    _ => None,
                };
                match pair {
                    Some((low_unit, after)) => {
                        rest = after;
                        char::from_u32(0x10000 + ((unit - 0xd800) << 10) + (low_unit - 0xdc00))
                    }
                    None => char::from_u32(unit),
                }
                .unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            other => other as char,
        });
    }
    text.push_str(rest);
    text.into_bump_str()
}

fn take_unit(rest: &mut &str) -> u32 {
    let unit = rest.as_bytes().get(..4).and_then(hex).unwrap_or(0xfffd);
    *rest = rest.get(4..).unwrap_or_default();
    unit
}
