//! The JSON writer.

use std::ops::Range;

use super::Node;
use super::strings::escape_into;
use crate::Layout;

/// Writes JSON text, compact or indented by two spaces.
pub(crate) struct JsonWriter {
    pub(crate) out: String,
    layout: Layout,
    depth: usize,
    /// Whether the innermost open container has an element.
    has_element: bool,
    /// The address range of the text that the nodes were read from.
    source: Range<*const u8>,
    /// After this length, the remaining elements of arrays and objects are left out.
    max_length: usize,
}

impl JsonWriter {
    pub(crate) fn new(layout: Layout, capacity: usize) -> JsonWriter {
        let out = String::with_capacity(capacity);
        let source = "".as_bytes().as_ptr_range();
        JsonWriter { out, layout, depth: 0, has_element: false, source, max_length: usize::MAX }
    }

    /// Leaves out the remaining elements of arrays and objects once the text is longer than `length`.
    pub(crate) fn up_to(self, length: usize) -> JsonWriter {
        JsonWriter { max_length: length, ..self }
    }

    /// Writes strings that borrow from `source` without checking them for escapes: the reader borrows only
    /// strings that need none, and places the others in the arena.
    pub(crate) fn reading_from(self, source: &str) -> JsonWriter {
        JsonWriter { source: source.as_bytes().as_ptr_range(), ..self }
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
                    if self.out.len() > self.max_length {
                        break;
                    }
                    self.item();
                    self.node(*node);
                }
                self.close(']');
            }
            Node::Object(members) => {
                self.open('{');
                for member in members {
                    if self.out.len() > self.max_length {
                        break;
                    }
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
        self.has_element = false;
    }

    pub(crate) fn close(&mut self, bracket: char) {
        self.depth -= 1;
        if self.has_element && self.layout == Layout::Indented {
            self.line();
        }
        self.out.push(bracket);
        self.has_element = true;
    }

    /// Starts the next element of an array.
    pub(crate) fn item(&mut self) {
        if self.has_element {
            self.out.push(',');
        }
        if self.layout == Layout::Indented {
            self.line();
        }
        self.has_element = true;
    }

    /// Starts the next member of an object.
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
