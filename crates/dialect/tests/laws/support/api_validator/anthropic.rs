//! Anthropic's Messages, plain and strict, and Bedrock's Converse.

use serde_json::{Map, Value};

use super::{
    ApiErrors, check_references, context, find_cycle, pattern, properties, required, schema_path, types,
};

pub(super) fn messages(definition: &Value, may_be_strict: bool, errors: &mut ApiErrors) {
    errors.set_subject("tools.0.custom.".into());
    let required_keys: &[&str] =
        if may_be_strict { &["name", "input_schema", "strict"] } else { &["name", "input_schema"] };
    let Some(tool) = errors.check_keys("tools.0.custom", definition, required_keys, &["description"]) else {
        return;
    };
    let name = tool.get("name").and_then(Value::as_str).unwrap_or("");
    errors.require(is_valid_name(name) && name.len() <= 128, || {
        "name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'".into()
    });
    errors.require(tool.get("description").is_none_or(Value::is_string), || {
        "description: Input should be a valid string".into()
    });
    let input = tool.get("input_schema").unwrap_or(&Value::Null);
    schema(input, errors);
    match tool.get("strict") {
        None | Some(Value::Bool(false)) => {}
        Some(Value::Bool(true)) => {
            strict_schema(input, errors);
            Totals::of(definition).check(errors);
        }
        Some(_) => errors.add("strict: Input should be a valid boolean"),
    }
}

/// Checks the limits that apply to all strict tools of a request together.
pub(super) fn strict_totals(definitions: &[&Value], errors: &mut ApiErrors) {
    let mut totals = Totals::default();
    for definition in definitions {
        let counts = Totals::of(definition);
        totals.tools += counts.tools;
        totals.optional += counts.optional;
        totals.unions += counts.unions;
    }
    totals.check(errors);
}

pub(super) fn bedrock(definition: &Value, errors: &mut ApiErrors) {
    let Some(tool) = errors.check_keys("toolConfig.tools.0", definition, &["toolSpec"], &[]) else { return };
    let spec = tool.get("toolSpec").unwrap_or(&Value::Null);
    let location = "toolConfig.tools.0.toolSpec";
    let Some(spec) = errors.check_keys(location, spec, &["name", "inputSchema"], &["description"]) else {
        return;
    };
    let name = spec.get("name").and_then(Value::as_str).unwrap_or("");
    errors.require(is_valid_name(name) && name.len() <= 64, || {
        format!("The value at {location}.name must match [a-zA-Z0-9_-]+ and have 1 to 64 characters.")
    });
    if let Some(description) = spec.get("description") {
        errors.require(description.as_str().is_some_and(|text| !text.is_empty()), || {
            format!("Invalid length for parameter {location}.description, value: 0, valid min length: 1")
        });
    }
    let input = spec.get("inputSchema").unwrap_or(&Value::Null);
    let Some(input) = errors.check_keys(&format!("{location}.inputSchema"), input, &["json"], &[]) else {
        return;
    };
    let json = input.get("json").unwrap_or(&Value::Null);
    errors.require(json.get("type") == Some(&"object".into()), || {
        format!("The value at {location}.inputSchema.json.type must be one of the following: object.")
    });
    schema(json, errors);
}

fn is_valid_name(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|character| character.is_ascii_alphanumeric() || "_-".contains(character))
}

/// Checks the rules of an `input_schema` without strict mode.
fn schema(schema: &Value, errors: &mut ApiErrors) {
    let Some(root) = schema.as_object() else {
        errors.add("input_schema: Input should be a valid dictionary");
        return;
    };
    errors.require(root.contains_key("type"), || "input_schema.type: Field required".into());
    errors.require(root.get("type") == Some(&"object".into()), || {
        "input_schema.type: Input should be 'object'".into()
    });
    let is_composed = ["oneOf", "allOf", "anyOf"].iter().any(|keyword| root.contains_key(*keyword));
    errors.require(!is_composed, || {
        "input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level".into()
    });
    for key in properties(root) {
        let is_valid = |character: char| character.is_ascii_alphanumeric() || "_.-".contains(character);
        errors.require((1..=64).contains(&key.len()) && key.chars().all(is_valid), || {
            format!(
                "input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$' (`{key}`)"
            )
        });
    }
    if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
        errors.add(&format!(
            "input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 ({error})"
        ));
    }
    check_references(schema, errors);
    pattern::check(schema, errors);
}

const STRICT_KEYWORDS: [&str; 18] = [
    "type",
    "title",
    "description",
    "default",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "enum",
    "const",
    "anyOf",
    "allOf",
    "$ref",
    "$defs",
    "definitions",
    "pattern",
    "format",
];

const STRICT_FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

fn strict_schema(schema: &Value, errors: &mut ApiErrors) {
    if let Some(reference) = find_cycle(schema, false) {
        errors.add(&format!("input_schema: recursive schemas are not supported (`{reference}`)"));
    }
    schema_path::walk(schema, &mut |path, node| match node.as_object() {
        Some(map) => strict_node(path, map, errors),
        None if path.last().is_some_and(|step| step == "additionalProperties") => {}
        None => errors.add(&format!("boolean schemas are not supported at {}", context(path))),
    });
}

fn strict_node(path: &[String], node: &Map<String, Value>, errors: &mut ApiErrors) {
    let location = context(path);
    for keyword in node.keys() {
        errors.require(STRICT_KEYWORDS.contains(&keyword.as_str()), || {
            format!("input_schema: property '{keyword}' is not supported at {location}")
        });
    }
    let kinds = types(node);
    let has_other_keyword =
        ["anyOf", "allOf", "$ref", "enum", "const"].iter().any(|keyword| node.contains_key(*keyword));
    errors.require(!kinds.is_empty() || has_other_keyword, || {
        format!("input_schema: schema must have a type at {location}")
    });
    let is_object = kinds.contains(&"object") || node.contains_key("properties");
    errors.require(!is_object || node.get("additionalProperties") == Some(&Value::Bool(false)), || {
        format!("For 'object' type, 'additionalProperties' must be explicitly set to false ({location})")
    });
    for name in required(node) {
        errors.require(properties(node).contains(&name), || {
            format!("input_schema: required property '{name}' is not defined at {location}")
        });
    }
    let has_both = node.contains_key("allOf")
        && (node.contains_key("$ref")
            || node["allOf"].as_array().into_iter().flatten().any(|member| member.get("$ref").is_some()));
    errors.require(!has_both, || format!("input_schema: allOf with $ref is not supported at {location}"));
    let values = node.get("enum").and_then(Value::as_array).into_iter().flatten();
    for value in values.chain(node.get("const")) {
        errors.require(!value.is_object() && !value.is_array(), || {
            format!("input_schema: enum values must be primitives at {location}")
        });
    }
    if let Some(format) = node.get("format").and_then(Value::as_str) {
        errors.require(STRICT_FORMATS.contains(&format), || {
            format!("input_schema: format '{format}' is not supported at {location}")
        });
    }
    if let Some(count) = node.get("minItems") {
        errors.require(matches!(count.as_u64(), Some(0 | 1)), || {
            format!("input_schema: For 'array' type, 'minItems' values other than 0 or 1 are not supported at {location}")
        });
    }
    if let Some(regex) = node.get("pattern").and_then(Value::as_str) {
        errors.require(pattern::is_simple(regex, true), || {
            format!("input_schema: pattern '{regex}' is not supported at {location}")
        });
    }
}

#[derive(Default)]
struct Totals {
    tools: usize,
    optional: usize,
    unions: usize,
}

impl Totals {
    /// Counts one definition; zero unless it claims strict mode.
    fn of(definition: &Value) -> Totals {
        let mut totals = Totals::default();
        if definition.get("strict") != Some(&Value::Bool(true)) {
            return totals;
        }
        totals.tools = 1;
        schema_path::walk(&definition["input_schema"], &mut |_, node| {
            let Some(node) = node.as_object() else { return };
            let required = required(node);
            totals.optional += properties(node).iter().filter(|name| !required.contains(*name)).count();
            totals.unions += usize::from(node.contains_key("anyOf") || types(node).len() > 1);
        });
        totals
    }

    fn check(&self, errors: &mut ApiErrors) {
        for (count, limit, name) in [
            (self.tools, 20, "strict tools"),
            (self.optional, 24, "optional parameters"),
            (self.unions, 16, "parameters with union types"),
        ] {
            errors.require(count <= limit, || {
                format!("Schemas contain too many {name} ({count}), limit {limit}.")
            });
        }
    }
}
