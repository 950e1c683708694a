//! JSON as people keep it in configurations: with comments, trailing commas, a byte order mark; and where each value stands.

use std::borrow::Cow;

use jsonc_parser::ast::{Object, Value as Node};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::Value;

/// What is wrong, and the byte at which.
pub(super) struct Broken {
    pub(super) message: String,
    pub(super) at: usize,
}

/// Editors on Windows put a byte order mark in front; it is no part of the JSON.
pub(super) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

pub(super) fn parse(text: &str) -> Result<Node<'_>, Broken> {
    // Only what VS Code takes in its own files; JSON5 would let mistakes pass that other hosts refuse.
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
        Broken { message: first.into_iter().chain(letters).collect(), at: error.range().start }
    })?;
    parsed.value.ok_or_else(|| Broken { message: "there is nothing in it".to_owned(), at: text.len() })
}

/// Line and column of a byte, both from 1.
pub(super) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The members of an object: key, where the key stands, value.
pub(super) fn members<'n, 't>(
    object: &'n Object<'t>,
) -> impl Iterator<Item = (&'n str, usize, &'n Node<'t>)> {
    object.properties.iter().map(|member| (member.name.as_str(), member.range.start, &member.value))
}

pub(super) fn start(node: &Node<'_>) -> usize {
    node.range().start
}

pub(super) fn kind_of(node: &Node<'_>) -> &'static str {
    match node {
        Node::StringLit(_) => "text",
        Node::NumberLit(_) => "a number",
        Node::BooleanLit(_) => "true or false",
        Node::Object(_) => "an object",
        Node::Array(_) => "a list",
        Node::NullKeyword(_) => "null",
    }
}

/// A text, number or boolean as text: `"PORT": 8080` means what it looks like.
pub(super) fn scalar<'n>(node: &'n Node<'_>) -> Option<Cow<'n, str>> {
    Some(match node {
        Node::StringLit(text) => Cow::Borrowed(&*text.value),
        Node::NumberLit(number) => Cow::Borrowed(number.value),
        Node::BooleanLit(flag) => Cow::Borrowed(if flag.value { "true" } else { "false" }),
        _ => return None,
    })
}

/// The digits of a number as a value; `None` for what JSON does not take, such as `01`.
pub(super) fn number(digits: &str) -> Option<Value> {
    serde_json::from_str(digits).ok()
}
