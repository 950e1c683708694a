//! Types, numbers and patterns.

use crate::Effect;
use crate::json::{Decimal, Node, Place};
use crate::schema::brief::brief;
use crate::schema::context::Context;
use crate::schema::draft::Draft;

impl<'a> Context<'a, '_> {
    pub(super) fn mend_number(
        &mut self,
        draft: &mut Draft<'a>,
        key: &'a str,
        value: Node<'a>,
        place: &Place<'_>,
    ) {
        if matches!(value, Node::Number(_)) {
            return;
        }
        match value.text(self.arena).and_then(numeric) {
            Some(digits) => {
                draft.put(key, Node::Number(digits));
                self.note(place, key, Effect::Rewritten, "a number in quotes");
            }
            None => self.drop_invalid(draft, key, value, place, "a number"),
        }
    }

    pub(super) fn mend_count(
        &mut self,
        draft: &mut Draft<'a>,
        key: &'a str,
        value: Node<'a>,
        place: &Place<'_>,
    ) {
        let whole = |digits: &str| {
            let number = Decimal::of(digits);
            number.is_integer() && !number.is_negative()
        };
        match value {
            Node::Number(digits) if whole(digits) => {}
            _ => match value.text(self.arena).and_then(numeric).filter(|digits| whole(digits)) {
                Some(digits) => {
                    draft.put(key, Node::Number(digits));
                    self.note(place, key, Effect::Rewritten, "a number in quotes");
                }
                None => self.drop_invalid(draft, key, value, place, "a count"),
            },
        }
    }

    pub(super) fn mend_exclusive(
        &mut self,
        draft: &mut Draft<'a>,
        key: &'a str,
        value: Node<'a>,
        place: &Place<'_>,
    ) {
        let Node::Bool(exclusive) = value else {
            return self.mend_number(draft, key, value, place);
        };
        let bound = if key == "exclusiveMinimum" { "minimum" } else { "maximum" };
        draft.remove(key);
        self.upgraded = true;
        if exclusive
            && let Some(limit) = draft.get(bound)
            && let Some(digits) = match limit {
                Node::Number(digits) => Some(digits),
                other => other.text(self.arena).and_then(numeric),
            }
        {
            draft.put(bound, Node::Number(digits));
            draft.rename(bound, key);
        }
        self.note(place, key, Effect::Rewritten, "a boolean in draft-04, a number today");
    }

    pub(super) fn mend_pattern(&mut self, draft: &mut Draft<'a>, value: Node<'a>, place: &Place<'_>) {
        let Some(pattern) = value.text(self.arena) else {
            return self.drop_invalid(draft, "pattern", value, place, "a string");
        };
        if self.profile.python_patterns && !crate::schema::pattern::compiles_in_python(pattern) {
            draft.remove("pattern");
            if self.turned > 0 {
                self.note(place, "pattern", Effect::Narrowed, "without it the rule around it refuses more");
            }
            self.describe(draft, &format!("Pattern: {pattern}"));
            self.note(
                place,
                "pattern",
                Effect::Widened,
                "the API's checker cannot compile it; it is in the description",
            );
        }
    }

    /// What a `type` should say instead; the inner `None` is no type at all.
    pub(super) fn mend_type(&mut self, value: Node<'a>, place: &Place<'_>) -> Option<Option<Node<'a>>> {
        let mended = match value {
            Node::List([]) => None,
            Node::List(names) => {
                let mut kept: Vec<Node<'a>> = Vec::with_capacity(names.len());
                let mut open = false;
                let mut same = true;
                for name in names {
                    match name.text(self.arena).map(type_name) {
                        Some(TypeName::Known(known)) => {
                            same &= matches!(name, Node::Text(text) if *text == known);
                            if kept.iter().any(|other| other.same(Node::Text(known))) {
                                same = false;
                            } else {
                                kept.push(Node::Text(known));
                            }
                        }
                        _ => open = true,
                    }
                }
                if same && !open {
                    return None;
                }
                if open { None } else { Some(self.list(&kept)) }
            }
            _ => match value.text(self.arena).map(type_name) {
                Some(TypeName::Known(known)) => {
                    if matches!(value, Node::Text(text) if text == known) {
                        return None;
                    }
                    Some(Node::Text(known))
                }
                _ => None,
            },
        };
        let effect = if mended.is_some() { Effect::Rewritten } else { Effect::Widened };
        // A type that JSON Schema does not know allows nothing by the letter; nobody means that.
        let effect = match value.text(self.arena).map(type_name) {
            Some(TypeName::Any) => Effect::Rewritten,
            _ => effect,
        };
        self.note(place, "type", effect, format!("{} is no type of JSON Schema", brief(value)));
        Some(mended)
    }
}

/// Digits in quotes, if they are a JSON number.
fn numeric(text: &str) -> Option<&str> {
    let text = text.trim();
    let starts = text.bytes().next().is_some_and(|byte| byte == b'-' || byte.is_ascii_digit());
    (starts && serde_json::from_str::<serde_json::Number>(text).is_ok()).then_some(text)
}

enum TypeName {
    Known(&'static str),
    Any,
    Unknown,
}

/// The JSON Schema type that a word stands for, in whatever language the server's author thinks.
fn type_name(word: &str) -> TypeName {
    const LONGEST: usize = 16;
    if let "string" | "object" | "number" | "integer" | "boolean" | "array" | "null" = word {
        return TypeName::Known(match word {
            "string" => "string",
            "object" => "object",
            "number" => "number",
            "integer" => "integer",
            "boolean" => "boolean",
            "array" => "array",
            _ => "null",
        });
    }
    if word.len() > LONGEST {
        return TypeName::Unknown;
    }
    TypeName::Known(match word.trim().to_ascii_lowercase().as_str() {
        "string" | "str" | "text" => "string",
        "object" | "dict" | "map" | "struct" => "object",
        "number" | "float" | "double" | "decimal" => "number",
        "integer" | "int" | "long" => "integer",
        "boolean" | "bool" => "boolean",
        "array" | "list" | "tuple" | "set" => "array",
        "null" | "none" | "nil" => "null",
        "any" | "unknown" | "" | "mixed" => return TypeName::Any,
        _ => return TypeName::Unknown,
    })
}
