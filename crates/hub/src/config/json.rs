//! JSON with comments, trailing commas and a byte order mark, parsed with the offset of each value.

use std::borrow::Cow;

use jsonc_parser::ast::Value as Node;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Value};
use toolwire_contract::text::json_kind;

pub(super) struct SyntaxError {
    pub(super) message: String,
    /// In bytes.
    pub(super) offset: usize,
}

/// Removes the byte order mark that some Windows editors write.
pub(super) fn strip_byte_order_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

pub(super) fn parse_json(text: &str) -> Result<Node<'_>, SyntaxError> {
    // Allows what VS Code allows in its own files. JSON5 would accept mistakes that other hosts reject.
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options).map_err(|error| {
        let message = error.kind().to_string();
        let mut letters = message.chars();
        let first = letters.next().map(|first| first.to_ascii_lowercase());
        SyntaxError { message: first.into_iter().chain(letters).collect(), offset: error.range().start }
    })?;
    parsed.value.ok_or_else(|| SyntaxError { message: "the file is empty".to_owned(), offset: text.len() })
}

/// Returns the line and the column of a byte offset, both counted from 1.
pub(super) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// Returns the type of a value in the terms of [`json_kind`].
pub(super) fn node_kind(node: &Node<'_>) -> &'static str {
    json_kind(&match node {
        Node::StringLit(_) => Value::String(String::new()),
        Node::NumberLit(_) => Value::from(0),
        Node::BooleanLit(_) => Value::Bool(false),
        Node::Object(_) => Value::Object(Map::new()),
        Node::Array(_) => Value::Array(Vec::new()),
        Node::NullKeyword(_) => Value::Null,
    })
}

/// Returns a string, number or boolean as text, so that `"PORT": 8080` is the same as `"PORT": "8080"`.
pub(super) fn scalar<'n>(node: &'n Node<'_>) -> Option<Cow<'n, str>> {
    Some(match node {
        Node::StringLit(text) => Cow::Borrowed(&*text.value),
        Node::NumberLit(number) => Cow::Borrowed(number.value),
        Node::BooleanLit(flag) => Cow::Borrowed(if flag.value { "true" } else { "false" }),
        _ => return None,
    })
}

/// Returns `None` for digits that are not a JSON number, such as `01`.
pub(super) fn number(digits: &str) -> Option<Value> {
    serde_json::from_str(digits).ok()
}
