//! An imitation of each API's validator: it rejects what the API rejects, with similar messages.
//!
//! It follows the documented rules and the APIs' responses, independently of the engine. If the documentation
//! is ambiguous, the stricter reading is used.

mod anthropic;
mod gemini;
mod lenient;
mod ollama;
mod openai;
mod pattern;
mod strict;

use serde_json::{Map, Value};
use toolwire_dialect::Dialect;

use super::schema_path;

#[allow(unused_imports, reason = "not every test binary uses it")]
pub use pattern::compiles_in_python;

/// The errors an API reports for a definition; empty if the API accepts it.
pub struct ApiErrors {
    /// The prefix of each error: how the API names the definition.
    subject: String,
    messages: Vec<String>,
}

/// Checks whether the API of `dialect` accepts `definition` as one entry of a request.
pub fn validate_definition(dialect: Dialect, definition: &Value) -> Result<(), Vec<String>> {
    let mut errors = ApiErrors { subject: String::new(), messages: Vec::new() };
    match dialect {
        Dialect::OpenAi => openai::chat(definition, openai::Strict::Never, &mut errors),
        Dialect::OpenAiStrict => openai::chat(definition, openai::Strict::Required, &mut errors),
        Dialect::Responses => openai::responses(definition, openai::Strict::Never, &mut errors),
        Dialect::ResponsesStrict => openai::responses(definition, openai::Strict::Required, &mut errors),
        Dialect::Azure | Dialect::Dial | Dialect::DeepSeek | Dialect::Groq => {
            openai::chat(definition, openai::Strict::Never, &mut errors);
        }
        Dialect::Anthropic => anthropic::messages(definition, false, &mut errors),
        Dialect::AnthropicStrict => anthropic::messages(definition, true, &mut errors),
        Dialect::Bedrock => anthropic::bedrock(definition, &mut errors),
        Dialect::Gemini => gemini::json_schema(definition, &mut errors),
        Dialect::GeminiOpenApi => gemini::open_api(definition, &mut errors),
        Dialect::Mistral => lenient::mistral(definition, &mut errors),
        Dialect::Cohere => lenient::cohere(definition, &mut errors),
        Dialect::Xai => lenient::xai(definition, &mut errors),
        Dialect::Ollama => ollama::chat(definition, &mut errors),
        Dialect::Mcp => lenient::mcp(definition, &mut errors),
        other => panic!("no validator for `{other}`"),
    }
    errors.into_result()
}

/// Checks whether the API accepts `definitions` in one request: each of them, and all together.
pub fn validate_request(dialect: Dialect, definitions: &[&Value]) -> Result<(), Vec<String>> {
    let separate =
        definitions.iter().filter_map(|definition| validate_definition(dialect, definition).err()).flatten();
    let together = validate_together(dialect, definitions).err().into_iter().flatten();
    let errors: Vec<String> = separate.chain(together).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Checks the rules for a complete request: the number of definitions, and that their names differ.
pub fn validate_together(dialect: Dialect, definitions: &[&Value]) -> Result<(), Vec<String>> {
    let mut errors = ApiErrors { subject: String::new(), messages: Vec::new() };
    let count = definitions.len();
    match dialect {
        Dialect::OpenAi
        | Dialect::OpenAiStrict
        | Dialect::Azure
        | Dialect::Dial
        | Dialect::DeepSeek
        | Dialect::Groq => openai::check_count(count, &mut errors),
        Dialect::Gemini | Dialect::GeminiOpenApi if count > 512 => errors.add(
            "tools[0].function_declarations: [FIELD_INVALID] At most 512 function declarations can be specified.",
        ),
        Dialect::Xai if count > 350 => {
            errors.add(&format!("Invalid request content: at most 350 tools, got {count}"));
        }
        Dialect::Bedrock if count == 0 => {
            errors.add("Invalid length for parameter toolConfig.tools, value: 0, valid min length: 1");
        }
        Dialect::AnthropicStrict => anthropic::strict_totals(definitions, &mut errors),
        _ => {}
    }
    let mut names: Vec<&str> =
        definitions.iter().filter_map(|definition| name(dialect, definition)).collect();
    names.sort_unstable();
    for pair in names.windows(2) {
        if pair[0] == pair[1] {
            errors.add(&match dialect {
                Dialect::Gemini | Dialect::GeminiOpenApi => {
                    format!("Duplicate function declaration found: {}", pair[0])
                }
                _ => format!("tools: Tool names must be unique. (`{}`)", pair[0]),
            });
        }
    }
    errors.into_result()
}

/// Returns the name that the model sees.
pub fn name(dialect: Dialect, definition: &Value) -> Option<&str> {
    let pointer = match dialect {
        Dialect::Responses
        | Dialect::ResponsesStrict
        | Dialect::Anthropic
        | Dialect::AnthropicStrict
        | Dialect::Gemini
        | Dialect::GeminiOpenApi
        | Dialect::Mcp => "/name",
        Dialect::Bedrock => "/toolSpec/name",
        _ => "/function/name",
    };
    definition.pointer(pointer)?.as_str()
}

/// Returns the schema of the arguments; `None` for a tool without arguments, if the dialect omits its schema.
pub fn schema(dialect: Dialect, definition: &Value) -> Option<&Value> {
    definition.pointer(match dialect {
        Dialect::Responses | Dialect::ResponsesStrict => "/parameters",
        Dialect::Anthropic | Dialect::AnthropicStrict => "/input_schema",
        Dialect::Gemini => "/parametersJsonSchema",
        Dialect::GeminiOpenApi => "/parameters",
        Dialect::Mcp => "/inputSchema",
        Dialect::Bedrock => "/toolSpec/inputSchema/json",
        _ => "/function/parameters",
    })
}

/// Whether the definition claims strict mode.
pub fn is_strict(definition: &Value) -> bool {
    ["/strict", "/function/strict", "/toolSpec/strict"]
        .iter()
        .any(|pointer| definition.pointer(pointer) == Some(&Value::Bool(true)))
}

impl ApiErrors {
    fn set_subject(&mut self, subject: String) {
        self.subject = subject;
    }

    fn add(&mut self, error: &str) {
        self.messages.push(format!("{}{error}", self.subject));
    }

    /// Adds `error` unless `condition` is true.
    fn require(&mut self, condition: bool, error: impl FnOnce() -> String) {
        if !condition {
            let error = error();
            self.add(&error);
        }
    }

    fn into_result(self) -> Result<(), Vec<String>> {
        if self.messages.is_empty() { Ok(()) } else { Err(self.messages) }
    }

    /// Requires `value` to be an object with all keys in `required` and no others except those in `optional`.
    fn check_keys<'value>(
        &mut self,
        path: &str,
        value: &'value Value,
        required: &[&str],
        optional: &[&str],
    ) -> Option<&'value Map<String, Value>> {
        let Some(map) = value.as_object() else {
            self.add(&format!("{path}: expected an object"));
            return None;
        };
        for key in required {
            self.require(map.contains_key(*key), || format!("Missing required parameter: '{path}.{key}'."));
        }
        for key in map.keys() {
            let is_known = required.contains(&key.as_str()) || optional.contains(&key.as_str());
            self.require(is_known, || format!("Unknown parameter: '{path}.{key}'."));
        }
        Some(map)
    }
}

/// Returns the types that a schema lists; empty if it has no `type`.
fn types(schema: &Map<String, Value>) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the names in `required`.
fn required(schema: &Map<String, Value>) -> Vec<&str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns the names in `properties`.
fn properties(schema: &Map<String, Value>) -> Vec<&str> {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect()
}

/// Formats a path as OpenAI does: `('properties', 'x')`.
fn context(path: &[String]) -> String {
    let steps: Vec<String> = path.iter().map(|step| format!("'{step}'")).collect();
    match steps.len() {
        1 => format!("({},)", steps[0]),
        _ => format!("({})", steps.join(", ")),
    }
}

/// Adds an error for each reference that cannot be resolved inside the schema.
fn check_references(schema: &Value, errors: &mut ApiErrors) {
    schema_path::walk(schema, &mut |path, node| {
        if let Some(reference) = node.get("$ref").and_then(Value::as_str) {
            errors.require(schema_path::resolve(schema, reference).is_some(), || {
                format!("In context={}, reference '{reference}' cannot be resolved.", context(path))
            });
        }
    });
}

/// Returns the first reference that is part of a cycle.
///
/// With `only_required`, an optional property breaks a cycle.
fn find_cycle(root: &Value, only_required: bool) -> Option<String> {
    let mut found = None;
    schema_path::walk(root, &mut |_, node| {
        if let Some(reference) = node.get("$ref").and_then(Value::as_str)
            && found.is_none()
            && let Some(target) = schema_path::resolve(root, reference)
            && reaches(root, target, target, only_required, &mut Vec::new())
        {
            found = Some(reference.to_owned());
        }
    });
    found
}

fn reaches<'root>(
    root: &'root Value,
    from: &'root Value,
    searched: &'root Value,
    only_required: bool,
    seen: &mut Vec<*const Value>,
) -> bool {
    if let Some(target) =
        from.get("$ref").and_then(Value::as_str).and_then(|reference| schema_path::resolve(root, reference))
    {
        if std::ptr::eq(target, searched) {
            return true;
        }
        if !seen.contains(&std::ptr::from_ref(target)) {
            seen.push(target);
            if reaches(root, target, searched, only_required, seen) {
                return true;
            }
        }
    }
    let Some(map) = from.as_object() else { return false };
    let required = required(map);
    schema_path::children(from).into_iter().any(|(steps, child)| {
        let is_definition = steps[0] == "$defs" || steps[0] == "definitions";
        let is_optional = steps[0] == "properties" && !required.contains(&steps[1].as_str());
        let breaks_cycle = only_required && is_optional;
        !is_definition && !breaks_cycle && reaches(root, child, searched, only_required, seen)
    })
}

/// Whether `value` is of the JSON Schema type `kind`.
fn is_of_type(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.as_number().is_some_and(|number| {
            let text = number.to_string();
            !text.contains(['.', 'e', 'E']) || number.as_f64().is_some_and(|float| float.fract() == 0.0)
        }),
        _ => false,
    }
}
