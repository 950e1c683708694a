//! The types and values that the schema of a tool allows for a property.

use serde_json::Value;

/// Returns the type of a property; the first that is not `null` if there are several.
pub(super) fn type_of(property: &Value) -> Option<&str> {
    match property.get("type") {
        Some(Value::String(name)) => Some(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        _ if property.get("enum").is_some() => Some("string"),
        _ => {
            let branches = property.get("anyOf").or_else(|| property.get("oneOf"))?.as_array()?;
            branches.iter().filter_map(type_of).find(|name| *name != "null")
        }
    }
}

/// Returns the strings that a property allows, if it lists them.
pub(super) fn allowed_strings(root: &Value, property: &Value) -> Vec<String> {
    let texts = |values: &[Value]| values.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if let Some(values) = property.get("enum").and_then(Value::as_array) {
        return texts(values);
    }
    let branches = property.get("anyOf").or_else(|| property.get("oneOf")).and_then(Value::as_array);
    let of_branch = |branch: &Value| match resolve(root, branch) {
        branch if branch.get("const").is_some() => texts(std::slice::from_ref(&branch["const"])),
        branch => {
            branch.get("enum").and_then(Value::as_array).map(|values| texts(values)).unwrap_or_default()
        }
    };
    branches.into_iter().flatten().flat_map(of_branch).collect()
}

/// Resolves a reference within the schema of the tool.
pub(super) fn resolve(root: &Value, schema: &Value) -> Value {
    let pointer =
        schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
    let Some(target) = pointer.and_then(|pointer| root.pointer(pointer)) else { return schema.clone() };
    let mut target = target.clone();
    if let (Value::Object(target), Value::Object(siblings)) = (&mut target, schema) {
        target.extend(
            siblings
                .iter()
                .filter(|(key, _)| *key != "$ref")
                .map(|(key, value)| (key.clone(), value.clone())),
        );
    }
    target
}
