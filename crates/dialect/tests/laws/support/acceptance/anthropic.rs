//! Anthropic's Messages, plain and strict, and Bedrock's Converse in front of it.

use serde_json::{Map, Value};

use super::{Complaints, circle, context, pattern, place, properties, references, required, types};

pub(super) fn messages(definition: &Value, may_be_strict: bool, complaints: &mut Complaints) {
    complaints.about("tools.0.custom.".into());
    let needed: &[&str] =
        if may_be_strict { &["name", "input_schema", "strict"] } else { &["name", "input_schema"] };
    let Some(tool) = complaints.keys("tools.0.custom", definition, needed, &["description"]) else { return };
    let name = tool.get("name").and_then(Value::as_str).unwrap_or("");
    complaints.demand(legal_name(name) && name.len() <= 128, || {
        "name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'".into()
    });
    complaints.demand(tool.get("description").is_none_or(Value::is_string), || {
        "description: Input should be a valid string".into()
    });
    let input = tool.get("input_schema").unwrap_or(&Value::Null);
    schema(input, complaints);
    match tool.get("strict") {
        None | Some(Value::Bool(false)) => {}
        Some(Value::Bool(true)) => {
            strict_schema(input, complaints);
            Totals::of(definition).complain(complaints);
        }
        Some(_) => complaints.say("strict: Input should be a valid boolean"),
    }
}

/// The limits that count over all strict tools of a request.
pub(super) fn strict_totals(definitions: &[&Value], complaints: &mut Complaints) {
    let mut totals = Totals::default();
    for definition in definitions {
        let one = Totals::of(definition);
        totals.tools += one.tools;
        totals.optional += one.optional;
        totals.unions += one.unions;
    }
    totals.complain(complaints);
}

pub(super) fn bedrock(definition: &Value, complaints: &mut Complaints) {
    let Some(tool) = complaints.keys("toolConfig.tools.0", definition, &["toolSpec"], &[]) else { return };
    let spec = tool.get("toolSpec").unwrap_or(&Value::Null);
    let place = "toolConfig.tools.0.toolSpec";
    let Some(spec) = complaints.keys(place, spec, &["name", "inputSchema"], &["description"]) else { return };
    let name = spec.get("name").and_then(Value::as_str).unwrap_or("");
    complaints.demand(legal_name(name) && name.len() <= 64, || {
        format!("The value at {place}.name must match [a-zA-Z0-9_-]+ and have 1 to 64 characters.")
    });
    if let Some(description) = spec.get("description") {
        complaints.demand(description.as_str().is_some_and(|text| !text.is_empty()), || {
            format!("Invalid length for parameter {place}.description, value: 0, valid min length: 1")
        });
    }
    let input = spec.get("inputSchema").unwrap_or(&Value::Null);
    let Some(input) = complaints.keys(&format!("{place}.inputSchema"), input, &["json"], &[]) else { return };
    let json = input.get("json").unwrap_or(&Value::Null);
    complaints.demand(json.get("type") == Some(&"object".into()), || {
        format!("The value at {place}.inputSchema.json.type must be one of the following: object.")
    });
    schema(json, complaints);
}

fn legal_name(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|character| character.is_ascii_alphanumeric() || "_-".contains(character))
}

/// The rules of an `input_schema` without strict mode.
fn schema(schema: &Value, complaints: &mut Complaints) {
    let Some(root) = schema.as_object() else {
        complaints.say("input_schema: Input should be a valid dictionary");
        return;
    };
    complaints.demand(root.contains_key("type"), || "input_schema.type: Field required".into());
    complaints.demand(root.get("type") == Some(&"object".into()), || {
        "input_schema.type: Input should be 'object'".into()
    });
    let composed = ["oneOf", "allOf", "anyOf"].iter().any(|keyword| root.contains_key(*keyword));
    complaints.demand(!composed, || {
        "input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level".into()
    });
    for key in properties(root) {
        let legal = |character: char| character.is_ascii_alphanumeric() || "_.-".contains(character);
        complaints.demand((1..=64).contains(&key.len()) && key.chars().all(legal), || {
            format!(
                "input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$' (`{key}`)"
            )
        });
    }
    if let Err(error) = jsonschema::draft202012::meta::validate(schema) {
        complaints.say(&format!(
            "input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 ({error})"
        ));
    }
    references(schema, complaints);
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

fn strict_schema(schema: &Value, complaints: &mut Complaints) {
    if let Some(reference) = circle(schema, false) {
        complaints.say(&format!("input_schema: recursive schemas are not supported (`{reference}`)"));
    }
    place::walk(schema, &mut |path, node| match node.as_object() {
        Some(map) => strict_node(path, map, complaints),
        None if path.last().is_some_and(|step| step == "additionalProperties") => {}
        None => complaints.say(&format!("boolean schemas are not supported at {}", context(path))),
    });
}

fn strict_node(path: &[String], node: &Map<String, Value>, complaints: &mut Complaints) {
    let here = context(path);
    for keyword in node.keys() {
        complaints.demand(STRICT_KEYWORDS.contains(&keyword.as_str()), || {
            format!("input_schema: property '{keyword}' is not supported at {here}")
        });
    }
    let kinds = types(node);
    let typed = ["anyOf", "allOf", "$ref", "enum", "const"].iter().any(|keyword| node.contains_key(*keyword));
    complaints
        .demand(!kinds.is_empty() || typed, || format!("input_schema: schema must have a type at {here}"));
    let object = kinds.contains(&"object") || node.contains_key("properties");
    complaints.demand(!object || node.get("additionalProperties") == Some(&Value::Bool(false)), || {
        format!("For 'object' type, 'additionalProperties' must be explicitly set to false ({here})")
    });
    for name in required(node) {
        complaints.demand(properties(node).contains(&name), || {
            format!("input_schema: required property '{name}' is not defined at {here}")
        });
    }
    let both = node.contains_key("allOf")
        && (node.contains_key("$ref")
            || node["allOf"].as_array().into_iter().flatten().any(|member| member.get("$ref").is_some()));
    complaints.demand(!both, || format!("input_schema: allOf with $ref is not supported at {here}"));
    let listed = node.get("enum").and_then(Value::as_array).into_iter().flatten();
    for value in listed.chain(node.get("const")) {
        complaints.demand(!value.is_object() && !value.is_array(), || {
            format!("input_schema: enum values must be primitives at {here}")
        });
    }
    if let Some(format) = node.get("format").and_then(Value::as_str) {
        complaints.demand(STRICT_FORMATS.contains(&format), || {
            format!("input_schema: format '{format}' is not supported at {here}")
        });
    }
    if let Some(count) = node.get("minItems") {
        complaints.demand(matches!(count.as_u64(), Some(0 | 1)), || {
            format!("input_schema: For 'array' type, 'minItems' values other than 0 or 1 are not supported at {here}")
        });
    }
    if let Some(regex) = node.get("pattern").and_then(Value::as_str) {
        complaints.demand(pattern::is_simple(regex, true), || {
            format!("input_schema: pattern '{regex}' is not supported at {here}")
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
    /// What one definition adds: nothing, unless it claims strict mode.
    fn of(definition: &Value) -> Totals {
        let mut totals = Totals::default();
        if definition.get("strict") != Some(&Value::Bool(true)) {
            return totals;
        }
        totals.tools = 1;
        place::walk(&definition["input_schema"], &mut |_, node| {
            let Some(node) = node.as_object() else { return };
            let needed = required(node);
            totals.optional += properties(node).iter().filter(|name| !needed.contains(*name)).count();
            totals.unions += usize::from(node.contains_key("anyOf") || types(node).len() > 1);
        });
        totals
    }

    fn complain(&self, complaints: &mut Complaints) {
        for (count, limit, what) in [
            (self.tools, 20, "strict tools"),
            (self.optional, 24, "optional parameters"),
            (self.unions, 16, "parameters with union types"),
        ] {
            complaints.demand(count <= limit, || {
                format!("Schemas contain too many {what} ({count}), limit {limit}.")
            });
        }
    }
}
