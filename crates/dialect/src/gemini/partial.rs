//! Arguments that come in pieces, as Vertex sends them with `streamFunctionCallArguments`.
//!
//! Each piece names its place by a JSON path (`$.filters[0].name`) and carries one scalar, or a part of a text.

use serde_json::{Map, Value};

use crate::calls::{At, CallError};

/// Deeper places are refused, before a walk of them could exhaust the stack.
const MAX_DEPTH: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct PartialArguments {
    value: Option<Value>,
}

enum Step {
    Key(String),
    Index(usize),
}

impl PartialArguments {
    pub(crate) fn take(&mut self, piece: &At<'_>) -> Result<(), CallError> {
        piece.object()?;
        let path = piece.need_text("jsonPath")?;
        let wrong_path = || piece.expected_under("jsonPath", "a path to a value of the arguments");
        let steps = parse(path).ok_or_else(wrong_path)?;
        let value = scalar(piece)?;
        let place = walk(self.value.get_or_insert(Value::Null), &steps).ok_or_else(wrong_path)?;
        match (place, value) {
            // A text may come in several pieces, all for one place.
            (Value::String(text), Some(Value::String(more))) => text.push_str(&more),
            (place @ Value::Null, Some(value)) => *place = value,
            // A closing piece may carry no value.
            (_, None) => {}
            (_, Some(_)) => return Err(wrong_path()),
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Option<Value> {
        self.value
    }
}

fn scalar(piece: &At<'_>) -> Result<Option<Value>, CallError> {
    if let Some(text) = piece.text("stringValue")? {
        return Ok(Some(Value::String(text.to_owned())));
    }
    if let Some(number) = piece.get("numberValue") {
        return match number.value() {
            Value::Number(_) => Ok(Some(number.value().clone())),
            _ => Err(number.expected("a number")),
        };
    }
    if let Some(flag) = piece.get("boolValue") {
        return match flag.value() {
            Value::Bool(_) => Ok(Some(flag.value().clone())),
            _ => Err(flag.expected("a boolean")),
        };
    }
    // Protobuf writes null as `"NULL_VALUE"` or as `null` itself.
    Ok(piece.object()?.contains_key("nullValue").then_some(Value::Null))
}

/// The place a path leads to, made where it is missing. A list grows by one at a time, so an absurd index is refused
/// instead of filled up to.
fn walk<'a>(root: &'a mut Value, steps: &[Step]) -> Option<&'a mut Value> {
    let mut place = root;
    for step in steps {
        place = match step {
            Step::Key(key) => {
                if place.is_null() {
                    *place = Value::Object(Map::new());
                }
                place.as_object_mut()?.entry(key.as_str()).or_insert(Value::Null)
            }
            Step::Index(index) => {
                if place.is_null() {
                    *place = Value::Array(Vec::new());
                }
                let items = place.as_array_mut()?;
                if *index == items.len() {
                    items.push(Value::Null);
                }
                items.get_mut(*index)?
            }
        };
    }
    Some(place)
}

/// Reads `$.a.b[0]['c d']`; filters, wildcards and the like name no single place and are refused.
fn parse(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() == MAX_DEPTH {
            return None;
        }
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (key, tail) = after.split_at(end);
            if key.is_empty() || key == "*" {
                return None;
            }
            steps.push(Step::Key(key.to_owned()));
            rest = tail;
        } else {
            let after = rest.strip_prefix('[')?;
            let quote = after.chars().next()?;
            if quote == '\'' || quote == '"' {
                let (key, tail) = quoted(&after[1..], quote)?;
                steps.push(Step::Key(key));
                rest = tail.strip_prefix(']')?;
            } else {
                let (index, tail) = after.split_once(']')?;
                steps.push(Step::Index(index.parse().ok()?));
                rest = tail;
            }
        }
    }
    (!steps.is_empty()).then_some(steps)
}

/// The text up to the closing quote, and what follows it.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => key.push(characters.next()?.1),
            _ if character == quote => return Some((key, &text[at + quote.len_utf8()..])),
            _ => key.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(pieces: Value, expected: Option<Value>) {
        let mut partial = PartialArguments::default();
        let outcome =
            At::root(&pieces).items().expect("the case is a list").try_for_each(|piece| partial.take(&piece));
        assert_eq!(outcome.ok().and_then(|()| partial.finish()), expected);
    }

    #[test]
    fn pieces_are_put_in_their_places() {
        check(
            json!([
                {"jsonPath": "$.city", "stringValue": "Zü", "willContinue": true},
                {"jsonPath": "$.city", "stringValue": "rich"},
                {"jsonPath": "$.days[0].n", "numberValue": 3},
                {"jsonPath": "$.days[1]['o\\'k ]']", "boolValue": true},
                {"jsonPath": "$[\"a.b\"]", "nullValue": "NULL_VALUE"},
                {"jsonPath": "$.city"},
            ]),
            Some(json!({"city": "Zürich", "days": [{"n": 3}, {"o'k ]": true}], "a.b": null})),
        );
    }

    #[test]
    fn paths_that_lead_nowhere_are_refused() {
        for path in [
            "",
            "a",
            "$",
            "$.",
            "$..a",
            "$.*",
            "$[*]",
            "$[9999999999]",
            "$[1]",
            "$[-1]",
            "$['a",
            "$['a'",
            "$[",
            "$.a.b",
        ] {
            check(json!([{"jsonPath": "$.a", "numberValue": 1}, {"jsonPath": path, "numberValue": 2}]), None);
        }
        check(json!([{"jsonPath": format!("${}", ".a".repeat(100_000)), "numberValue": 1}]), None);
        check(json!([{"jsonPath": 5, "numberValue": 1}]), None);
        check(json!([{"jsonPath": "$.a", "numberValue": "1"}]), None);
    }
}
