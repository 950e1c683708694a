//! Builds the description that a model reads: the doc comment, then a summary of the arguments.

use serde_json::Value;

/// The start of the description of a tool that needs explicit consent.
const CONSENT_NOTICE: &str = "REQUIRES EXPLICIT USER INSTRUCTION";

/// Returns the doc comment, preceded by the consent notice and followed by the summary of the arguments.
pub(crate) fn description(doc: &str, explicit: Option<&str>, schema: &Value) -> String {
    let mut parts = Vec::new();
    match (explicit, doc.trim()) {
        (Some(_), "") => parts.push(format!("{CONSENT_NOTICE}.")),
        (Some(_), doc) => parts.push(format!("{CONSENT_NOTICE}. {doc}")),
        (None, "") => {}
        (None, doc) => parts.push(doc.to_owned()),
    }
    let summary = summary(schema);
    if !summary.is_empty() {
        parts.push(format!("Arguments:\n{summary}"));
    }
    parts.join("\n\n")
}

/// Returns one line per argument: name, type, whether it is required, default, allowed values.
fn summary(schema: &Value) -> String {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let lines = properties.into_iter().flatten().map(|(name, property)| {
        let is_required = required.is_some_and(|required| required.iter().any(|each| each == name.as_str()));
        let mut facts = vec![type_of(property)];
        match property.get("default") {
            Some(default) => facts.push(format!("default `{}`", plain(default))),
            None if is_required => facts.push("required".to_owned()),
            None => facts.push("optional".to_owned()),
        }
        if let Some(options) = property.get("enum").and_then(Value::as_array) {
            let options: Vec<String> = options.iter().map(|option| format!("`{}`", plain(option))).collect();
            facts.push(format!("one of {}", options.join(", ")));
        }
        if let Some(constant) = property.get("const") {
            facts.push(format!("always `{}`", plain(constant)));
        }
        format!("- `{name}`: {}", facts.join(", "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn type_of(schema: &Value) -> String {
    match schema.get("type") {
        Some(Value::String(name)) if name == "array" => match schema.get("items").map(type_of) {
            Some(items) if items != "any" => format!("array of {items}"),
            _ => "array".to_owned(),
        },
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names.iter().map(plain).collect::<Vec<_>>().join(" or "),
        _ => {
            let branches = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array());
            let mut names: Vec<String> = branches.into_iter().flatten().map(type_of).collect();
            names.dedup();
            match names.is_empty() {
                true if schema.get("$ref").is_some() => "object".to_owned(),
                true => "any".to_owned(),
                false => names.join(" or "),
            }
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_summarized_after_the_doc_comment() {
        let schema = json!({
            "type": "object",
            "properties": {
                "location": {"type": "string", "description": "City"},
                "units": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": "array", "items": {"type": "integer"}},
                "area": {"anyOf": [{"type": "object"}, {"type": "string"}]},
                "extra": true
            },
            "required": ["location"]
        });
        let expected = "REQUIRES EXPLICIT USER INSTRUCTION. The weather.\n\nArguments:\n\
            - `location`: string, required\n\
            - `units`: string, default `celsius`, one of `celsius`, `fahrenheit`\n\
            - `days`: array of integer, optional\n\
            - `area`: object or string, optional\n\
            - `extra`: any, optional";
        assert_eq!(description("The weather.", Some("X"), &schema), expected);
    }

    #[test]
    fn without_arguments_there_is_no_summary() {
        assert_eq!(description(" Now. ", None, &json!({"type": "object", "properties": {}})), "Now.");
    }
}
