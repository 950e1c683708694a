//! From the tree to text.

use std::ops::Range;

use super::Node;
use super::read::plain_until;
use crate::Layout;

/// Writes JSON text, compact or indented by two.
pub(crate) struct Writer {
    pub(crate) out: String,
    layout: Layout,
    depth: usize,
    /// Whether the container that is open has something in it.
    filled: bool,
    /// Where the text lies that the nodes were read from.
    source: Range<*const u8>,
}

impl Writer {
    pub(crate) fn new(layout: Layout, capacity: usize) -> Writer {
        let out = String::with_capacity(capacity);
        Writer { out, layout, depth: 0, filled: false, source: "".as_bytes().as_ptr_range() }
    }

    /// Strings that lie in `source` need no second look: the reader borrows only those that stand there unescaped, and
    /// whatever it had to unescape lies in the arena.
    pub(crate) fn reading_from(self, source: &str) -> Writer {
        Writer { source: source.as_bytes().as_ptr_range(), ..self }
    }

    pub(crate) fn node(&mut self, node: Node<'_>) {
        match node {
            Node::Null => self.out.push_str("null"),
            Node::Bool(true) => self.out.push_str("true"),
            Node::Bool(false) => self.out.push_str("false"),
            Node::Number(digits) => self.out.push_str(digits),
            Node::Text(text) => self.string(text),
            Node::Escaped(raw) => {
                self.out.push('"');
                self.out.push_str(raw);
                self.out.push('"');
            }
            Node::List(nodes) => {
                self.open('[');
                for node in nodes {
                    self.item();
                    self.node(*node);
                }
                self.close(']');
            }
            Node::Object(members) => {
                self.open('{');
                for member in members {
                    self.key(member.key);
                    self.node(member.value);
                }
                self.close('}');
            }
        }
    }

    pub(crate) fn open(&mut self, bracket: char) {
        self.out.push(bracket);
        self.depth += 1;
        self.filled = false;
    }

    pub(crate) fn close(&mut self, bracket: char) {
        self.depth -= 1;
        if self.filled && self.layout == Layout::Indented {
            self.line();
        }
        self.out.push(bracket);
        self.filled = true;
    }

    /// Begins the next element of a list.
    pub(crate) fn item(&mut self) {
        if self.filled {
            self.out.push(',');
        }
        if self.layout == Layout::Indented {
            self.line();
        }
        self.filled = true;
    }

    /// Begins the next member of an object.
    pub(crate) fn key(&mut self, key: &str) {
        self.item();
        self.string(key);
        self.out.push_str(if self.layout == Layout::Indented { ": " } else { ":" });
    }

    pub(crate) fn string(&mut self, text: &str) {
        self.out.push('"');
        if self.source.contains(&text.as_ptr()) {
            self.out.push_str(text);
        } else {
            escape_into(text, &mut self.out);
        }
        self.out.push('"');
    }

    fn line(&mut self) {
        self.out.push('\n');
        for _ in 0..self.depth {
            self.out.push_str("  ");
        }
    }
}

/// Appends `text` as it stands between the quotes of a JSON string.
pub(crate) fn escape_into(text: &str, out: &mut String) {
    let bytes = text.as_bytes();
    let mut copied = 0;
    loop {
        let index = plain_until(bytes, copied);
        out.push_str(&text[copied..index]);
        let Some(byte) = bytes.get(index) else { return };
        copied = index + 1;
        match *byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            control => out.push_str(&format!("\\u{control:04x}")),
        }
    }
}
