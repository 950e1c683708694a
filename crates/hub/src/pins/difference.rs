//! The places where two definitions of a tool differ.

use serde_json::Value;
use toolwire_contract::text::escape_pointer_segment;

use super::DefinitionPart;

/// If a part has more differences, it is compared as a whole.
const MAX_CHANGES_PER_PART: usize = 200;

/// A place in the definition of a tool that differs from the accepted definition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DefinitionChange {
    pub part: DefinitionPart,
    /// The place within the part, as a JSON pointer.
    pub pointer: String,
    /// The accepted value; `None` if the place is new.
    pub before: Option<Value>,
    /// The current value; `None` if the place was removed.
    pub after: Option<Value>,
}

/// Returns the differences of one part, in the order of the accepted definition.
pub(super) fn compare(
    part: DefinitionPart,
    before: Option<&Value>,
    after: Option<&Value>,
) -> Vec<DefinitionChange> {
    let mut changes = Vec::new();
    compare_at(part, String::new(), before, after, &mut changes);
    if changes.len() > MAX_CHANGES_PER_PART {
        changes = vec![change(part, String::new(), before, after)];
    }
    changes
}

fn compare_at(
    part: DefinitionPart,
    pointer: String,
    before: Option<&Value>,
    after: Option<&Value>,
    changes: &mut Vec<DefinitionChange>,
) {
    if changes.len() > MAX_CHANGES_PER_PART {
        return;
    }
    match (before, after) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            for (key, value) in before {
                compare_at(part, child(&pointer, key), Some(value), after.get(key), changes);
            }
            for (key, value) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
                compare_at(part, child(&pointer, key), None, Some(value), changes);
            }
        }
        // Lists of simple values, such as `enum` and `required`, are easier to read as a whole.
        (Some(Value::Array(before)), Some(Value::Array(after)))
            if before.len() == after.len() && before.iter().chain(after).all(Value::is_object) =>
        {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                compare_at(part, format!("{pointer}/{index}"), Some(before), Some(after), changes);
            }
        }
        (before, after) if before == after => {}
        (before, after) => changes.push(change(part, pointer, before, after)),
    }
}

fn change(
    part: DefinitionPart,
    pointer: String,
    before: Option<&Value>,
    after: Option<&Value>,
) -> DefinitionChange {
    DefinitionChange { part, pointer, before: before.cloned(), after: after.cloned() }
}

fn child(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", escape_pointer_segment(key))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(before: Value, after: Value, expected: Value) {
        let changes = compare(DefinitionPart::InputSchema, Some(&before), Some(&after));
        let changes: Vec<Value> =
            changes.iter().map(|change| json!([change.pointer, change.before, change.after])).collect();
        assert_eq!(Value::from(changes), expected);
    }

    #[test]
    fn changes_are_found_at_their_places() {
        check(json!({"a": 1, "b": {"c": 2}}), json!({"b": {"c": 2}, "a": 1}), json!([]));
        check(
            json!({"a": 1, "b": {"c": 2, "d/e": 3}}),
            json!({"b": {"c": 4, "f~": [1]}}),
            json!([["/a", 1, null], ["/b/c", 2, 4], ["/b/d~1e", 3, null], ["/b/f~0", null, [1]]]),
        );
        check(json!({"enum": ["a"]}), json!({"enum": ["a", "b"]}), json!([["/enum", ["a"], ["a", "b"]]]));
        check(
            json!({"anyOf": [{"type": "string"}, {"minimum": 1}]}),
            json!({"anyOf": [{"type": "string"}, {"minimum": 2}]}),
            json!([["/anyOf/1/minimum", 1, 2]]),
        );
        check(json!(true), json!({}), json!([["", true, {}]]));
    }

    #[test]
    fn a_part_with_very_many_changes_is_compared_as_a_whole() {
        let schema = |value: u32| -> Value {
            (0..=MAX_CHANGES_PER_PART).map(|key| (key.to_string(), json!(value))).collect()
        };
        let (before, after) = (schema(1), schema(2));
        check(before.clone(), after.clone(), json!([["", before, after]]));
    }
}
