//! Normalizes types, numbers and patterns.

use std::borrow::Cow;

use crate::Effect;
use crate::json::{Decimal, Member, Node, Place};
use crate::schema::context::Context;
use crate::schema::edit::ObjectEdit;
use crate::schema::excerpt::excerpt;
use crate::schema::pattern::to_python;

impl<'a> Context<'a, '_> {
    pub(super) fn normalize_number(
        &mut self,
        edit: &mut ObjectEdit<'a>,
        member: Member<'a>,
        place: &Place<'_>,
    ) {
        self.normalize_numeric(edit, member, place, "a number", |_| true);
    }

    pub(super) fn normalize_count(
        &mut self,
        edit: &mut ObjectEdit<'a>,
        member: Member<'a>,
        place: &Place<'_>,
    ) {
        self.normalize_numeric(edit, member, place, "a non-negative integer", |digits| {
            let number = Decimal::of(digits);
            number.is_integer() && !number.is_negative()
        });
    }

    /// Converts a number in quotes, and removes anything that is not a valid number.
    fn normalize_numeric(
        &mut self,
        edit: &mut ObjectEdit<'a>,
        member: Member<'a>,
        place: &Place<'_>,
        expected: &str,
        is_valid: impl Fn(&str) -> bool,
    ) {
        let Member { key, value } = member;
        if matches!(value, Node::Number(digits) if is_valid(digits)) {
            return;
        }
        match value.text(self.arena).and_then(json_number).filter(|digits| is_valid(digits)) {
            Some(digits) => {
                edit.put(key, Node::Number(digits));
                let detail = format!("{key} converted from a string to a number");
                self.record(place, key, Effect::Rewritten, detail);
            }
            None => self.drop_invalid(edit, member, place, expected),
        }
    }

    pub(super) fn normalize_exclusive(
        &mut self,
        edit: &mut ObjectEdit<'a>,
        member: Member<'a>,
        place: &Place<'_>,
    ) {
        let Member { key, value: Node::Bool(exclusive) } = member else {
            return self.normalize_number(edit, member, place);
        };
        let bound = if key == "exclusiveMinimum" { "minimum" } else { "maximum" };
        edit.remove(key);
        self.upgraded = true;
        let limit = match edit.get(bound) {
            Some(Node::Number(digits)) => Some(digits),
            other => other.and_then(|limit| limit.text(self.arena)).and_then(json_number),
        };
        let detail = match limit.filter(|_| exclusive) {
            Some(digits) => {
                edit.put(bound, Node::Number(digits));
                edit.rename(bound, key);
                format!("draft-04 {key}: true merged with {bound}")
            }
            None => format!("draft-04 {key}: {exclusive} removed; it has no effect"),
        };
        self.record(place, key, Effect::Rewritten, detail);
    }

    pub(super) fn normalize_pattern(
        &mut self,
        edit: &mut ObjectEdit<'a>,
        member: Member<'a>,
        place: &Place<'_>,
    ) {
        let Some(pattern) = member.value.text(self.arena) else {
            return self.drop_invalid(edit, member, place, "a string");
        };
        if !self.profile.python_patterns {
            return;
        }
        match to_python(pattern) {
            Some(Cow::Borrowed(_)) => {}
            Some(Cow::Owned(rewritten)) => {
                let rewritten = self.text(&rewritten);
                edit.put("pattern", rewritten);
                self.record_rewritten_pattern(place, "pattern", member.value, rewritten);
            }
            None => {
                edit.remove("pattern");
                self.record_negated_removal(place, "pattern");
                self.describe(edit, &format!("Pattern: {pattern}"));
                let pattern = excerpt(member.value);
                let detail =
                    format!("pattern {pattern} moved to the description; this API cannot compile it");
                self.record(place, "pattern", Effect::Widened, detail);
            }
        }
    }

    pub(super) fn record_rewritten_pattern(
        &mut self,
        place: &Place<'_>,
        keyword: &str,
        original: Node<'_>,
        rewritten: Node<'_>,
    ) {
        let (original, rewritten) = (excerpt(original), excerpt(rewritten));
        let detail = format!("pattern {original} rewritten as {rewritten}, which this API can compile");
        self.record(place, keyword, Effect::Rewritten, detail);
    }

    /// Replaces a `type` that JSON Schema does not have by the type it means, or removes it.
    pub(super) fn normalize_type(&mut self, edit: &mut ObjectEdit<'a>, value: Node<'a>, place: &Place<'_>) {
        let arena = self.arena;
        let name_of = |node: Node<'a>| node.text(arena).map_or(TypeName::Unknown, TypeName::of);
        let (normalized, effect) = match value {
            Node::List(names) => {
                let mut known: Vec<Node<'a>> = Vec::with_capacity(names.len());
                let mut all_known = !names.is_empty();
                let mut unchanged = true;
                for name in names {
                    let TypeName::Known(known_name) = name_of(*name) else {
                        all_known = false;
                        continue;
                    };
                    let duplicate = known.iter().any(|other| is_text(*other, known_name));
                    unchanged &= is_text(*name, known_name) && !duplicate;
                    if !duplicate {
                        known.push(Node::Text(known_name));
                    }
                }
                match all_known {
                    false => (None, Effect::Widened),
                    true if unchanged => return,
                    true => (Some(self.list(&known)), Effect::Rewritten),
                }
            }
            _ => match name_of(value) {
                TypeName::Known(name) if is_text(value, name) => return,
                TypeName::Known(name) => (Some(Node::Text(name)), Effect::Rewritten),
                TypeName::Any => (None, Effect::Rewritten),
                // Strictly, an unknown type allows no value, but this is never intended.
                TypeName::Unknown => (None, Effect::Widened),
            },
        };
        let detail = match normalized {
            Some(node) => {
                edit.put("type", node);
                format!("type {} replaced by {}", excerpt(value), excerpt(node))
            }
            None => {
                edit.remove("type");
                format!("type {} removed; it is not a JSON Schema type", excerpt(value))
            }
        };
        self.record(place, "type", effect, detail);
    }
}

fn is_text(node: Node<'_>, text: &str) -> bool {
    matches!(node, Node::Text(own) if own == text)
}

/// Returns the digits of a JSON number in quotes.
fn json_number(text: &str) -> Option<&str> {
    let text = text.trim();
    let starts = text.bytes().next().is_some_and(|byte| byte == b'-' || byte.is_ascii_digit());
    (starts && serde_json::from_str::<serde_json::Number>(text).is_ok()).then_some(text)
}

enum TypeName {
    Known(&'static str),
    Any,
    Unknown,
}

impl TypeName {
    /// Returns the JSON Schema type that a name means, also in the terms of programming languages.
    fn of(name: &str) -> TypeName {
        const MAX_NAME_LENGTH: usize = 16;
        let known = match name {
            "string" => "string",
            "object" => "object",
            "number" => "number",
            "integer" => "integer",
            "boolean" => "boolean",
            "array" => "array",
            "null" => "null",
            _ if name.len() > MAX_NAME_LENGTH => return TypeName::Unknown,
            _ => match name.trim().to_ascii_lowercase().as_str() {
                "string" | "str" | "text" => "string",
                "object" | "dict" | "map" | "struct" => "object",
                "number" | "float" | "double" | "decimal" => "number",
                "integer" | "int" | "long" => "integer",
                "boolean" | "bool" => "boolean",
                "array" | "list" | "tuple" | "set" => "array",
                "null" | "none" | "nil" => "null",
                "any" | "unknown" | "" | "mixed" => return TypeName::Any,
                _ => return TypeName::Unknown,
            },
        };
        TypeName::Known(known)
    }
}
