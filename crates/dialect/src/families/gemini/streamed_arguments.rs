//! Arguments in fragments, as Vertex sends them with `streamFunctionCallArguments`.
//!
//! Each fragment has a JSON path (`$.filters[0].name`) and one scalar, or a part of a string.

use serde_json::{Map, Value};

use crate::response::{JsonCursor, ReadResult};

/// Longer paths are rejected, because deeply nested values could exhaust the stack.
const MAX_DEPTH: usize = 64;

#[derive(Debug, Default)]
pub(super) struct StreamedArguments {
    value: Option<Value>,
}

enum Step {
    Key(String),
    Index(usize),
}

impl StreamedArguments {
    pub(super) fn add(&mut self, fragment: &JsonCursor<'_>) -> ReadResult {
        fragment.object()?;
        let path = fragment.required_string("jsonPath")?;
        let wrong_path = || fragment.error_at("jsonPath", "a path to a value in the arguments");
        let steps = parse(path).ok_or_else(wrong_path)?;
        let value = scalar(fragment)?;
        let target = target(self.value.get_or_insert(Value::Null), &steps).ok_or_else(wrong_path)?;
        match (target, value) {
            // A string may be split into several fragments with the same path.
            (Value::String(text), Some(Value::String(more))) => text.push_str(&more),
            (target @ Value::Null, Some(value)) => *target = value,
            // The last fragment may have no value.
            (_, None) => {}
            (_, Some(_)) => return Err(wrong_path()),
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Option<Value> {
        self.value
    }
}

fn scalar(fragment: &JsonCursor<'_>) -> ReadResult<Option<Value>> {
    if let Some(text) = fragment.string("stringValue")? {
        return Ok(Some(Value::String(text.to_owned())));
    }
    if let Some(number) = fragment.get("numberValue") {
        return match number.value() {
            Value::Number(_) => Ok(Some(number.value().clone())),
            _ => Err(number.error("a number")),
        };
    }
    if let Some(flag) = fragment.get("boolValue") {
        return match flag.value() {
            Value::Bool(_) => Ok(Some(flag.value().clone())),
            _ => Err(flag.error("a boolean")),
        };
    }
    // Protobuf writes null as `"NULL_VALUE"` or as `null` itself.
    Ok(fragment.object()?.contains_key("nullValue").then_some(Value::Null))
}

/// Returns the value at a path and creates it if it is missing. An array grows by one element at a time, so a
/// huge index is rejected.
fn target<'a>(root: &'a mut Value, steps: &[Step]) -> Option<&'a mut Value> {
    let mut value = root;
    for step in steps {
        value = match step {
            Step::Key(key) => {
                if value.is_null() {
                    *value = Value::Object(Map::new());
                }
                value.as_object_mut()?.entry(key.as_str()).or_insert(Value::Null)
            }
            Step::Index(index) => {
                if value.is_null() {
                    *value = Value::Array(Vec::new());
                }
                let items = value.as_array_mut()?;
                if *index == items.len() {
                    items.push(Value::Null);
                }
                items.get_mut(*index)?
            }
        };
    }
    Some(value)
}

/// Parses `$.a.b[0]['c d']`. Filters and wildcards, which do not name a single value, are rejected.
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

/// Returns the text before the closing quote, and the rest after it.
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
    fn check(fragments: Value, expected: Option<Value>) {
        let mut arguments = StreamedArguments::default();
        let fragments = JsonCursor::root(&fragments);
        let mut fragments = fragments.items().expect("an array");
        let outcome = fragments.try_for_each(|fragment| arguments.add(&fragment));
        assert_eq!(outcome.ok().and_then(|()| arguments.finish()), expected);
    }

    #[test]
    fn fragments_are_assembled_by_path() {
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
    fn invalid_paths_are_rejected() {
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
