//! A stand-in for each API's validator: refuses what the API refuses, in its words.
//!
//! Written from the documented rules and from the answers of the APIs themselves, without a look at the engine. Where
//! the documentation leaves a rule open, the stand-in takes the narrower reading of what is safe to send.

mod anthropic;
mod gemini;
mod loose;
mod ollama;
mod openai;
mod pattern;
mod strict;

use serde_json::{Map, Value};
use toolwire_dialect::Dialect;

use super::place;

#[allow(unused_imports, reason = "each test binary uses its own part")]
pub use pattern::compiles_in_python;

/// What an API says against a definition; nothing, when it takes it.
pub struct Complaints {
    /// How the API names the definition, before each complaint.
    subject: String,
    found: Vec<String>,
}

/// Whether the API behind `dialect` takes `definition` as one entry of a request.
pub fn accept(dialect: Dialect, definition: &Value) -> Result<(), Vec<String>> {
    let mut complaints = Complaints { subject: String::new(), found: Vec::new() };
    match dialect {
        Dialect::OpenAi => openai::chat(definition, openai::Strict::Never, &mut complaints),
        Dialect::OpenAiStrict => openai::chat(definition, openai::Strict::Said, &mut complaints),
        Dialect::Responses => openai::responses(definition, openai::Strict::Never, &mut complaints),
        Dialect::ResponsesStrict => openai::responses(definition, openai::Strict::Said, &mut complaints),
        Dialect::Azure | Dialect::Dial | Dialect::DeepSeek | Dialect::Groq => {
            openai::chat(definition, openai::Strict::Never, &mut complaints);
        }
        Dialect::Anthropic => anthropic::messages(definition, false, &mut complaints),
        Dialect::AnthropicStrict => anthropic::messages(definition, true, &mut complaints),
        Dialect::Bedrock => anthropic::bedrock(definition, &mut complaints),
        Dialect::Gemini => gemini::json_schema(definition, &mut complaints),
        Dialect::GeminiOpenApi => gemini::open_api(definition, &mut complaints),
        Dialect::Mistral => loose::mistral(definition, &mut complaints),
        Dialect::Cohere => loose::cohere(definition, &mut complaints),
        Dialect::Xai => loose::xai(definition, &mut complaints),
        Dialect::Ollama => ollama::chat(definition, &mut complaints),
        Dialect::Mcp => loose::mcp(definition, &mut complaints),
    }
    complaints.verdict()
}

/// Whether the API takes `definitions` in one request: each of them, and all together.
pub fn accept_request(dialect: Dialect, definitions: &[&Value]) -> Result<(), Vec<String>> {
    let alone = definitions.iter().filter_map(|definition| accept(dialect, definition).err()).flatten();
    let together = accept_together(dialect, definitions).err().into_iter().flatten();
    let found: Vec<String> = alone.chain(together).collect();
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// Whether the API takes together what it takes one by one: how many there are, and that their names differ.
pub fn accept_together(dialect: Dialect, definitions: &[&Value]) -> Result<(), Vec<String>> {
    let mut complaints = Complaints { subject: String::new(), found: Vec::new() };
    let count = definitions.len();
    match dialect {
        Dialect::OpenAi
        | Dialect::OpenAiStrict
        | Dialect::Azure
        | Dialect::Dial
        | Dialect::DeepSeek
        | Dialect::Groq => openai::count(count, &mut complaints),
        Dialect::Gemini | Dialect::GeminiOpenApi if count > 512 => complaints.say(
            "tools[0].function_declarations: [FIELD_INVALID] At most 512 function declarations can be specified.",
        ),
        Dialect::Xai if count > 350 => {
            complaints.say(&format!("Invalid request content: at most 350 tools, got {count}"));
        }
        Dialect::Bedrock if count == 0 => {
            complaints.say("Invalid length for parameter toolConfig.tools, value: 0, valid min length: 1");
        }
        Dialect::AnthropicStrict => anthropic::strict_totals(definitions, &mut complaints),
        _ => {}
    }
    let mut names: Vec<&str> =
        definitions.iter().filter_map(|definition| name(dialect, definition)).collect();
    names.sort_unstable();
    for pair in names.windows(2) {
        if pair[0] == pair[1] {
            complaints.say(&match dialect {
                Dialect::Gemini | Dialect::GeminiOpenApi => {
                    format!("Duplicate function declaration found: {}", pair[0])
                }
                _ => format!("tools: Tool names must be unique. (`{}`)", pair[0]),
            });
        }
    }
    complaints.verdict()
}

/// The name the model sees.
pub fn name(dialect: Dialect, definition: &Value) -> Option<&str> {
    let place = match dialect {
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
    definition.pointer(place)?.as_str()
}

/// The schema for the arguments; none for a no-argument tool of a dialect that leaves it out.
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
        .any(|place| definition.pointer(place) == Some(&Value::Bool(true)))
}

impl Complaints {
    fn about(&mut self, subject: String) {
        self.subject = subject;
    }

    fn say(&mut self, complaint: &str) {
        self.found.push(format!("{}{complaint}", self.subject));
    }

    /// Says `complaint` unless `holds`.
    fn demand(&mut self, holds: bool, complaint: impl FnOnce() -> String) {
        if !holds {
            let complaint = complaint();
            self.say(&complaint);
        }
    }

    fn verdict(self) -> Result<(), Vec<String>> {
        if self.found.is_empty() { Ok(()) } else { Err(self.found) }
    }

    /// Complains unless `value` is an object with all of `needed` and nothing beside `needed` and `allowed`.
    fn keys<'value>(
        &mut self,
        what: &str,
        value: &'value Value,
        needed: &[&str],
        allowed: &[&str],
    ) -> Option<&'value Map<String, Value>> {
        let Some(map) = value.as_object() else {
            self.say(&format!("{what}: expected an object"));
            return None;
        };
        for key in needed {
            self.demand(map.contains_key(*key), || format!("Missing required parameter: '{what}.{key}'."));
        }
        for key in map.keys() {
            let known = needed.contains(&key.as_str()) || allowed.contains(&key.as_str());
            self.demand(known, || format!("Unknown parameter: '{what}.{key}'."));
        }
        Some(map)
    }
}

/// The types a schema names; empty when it names none.
fn types(schema: &Map<String, Value>) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The names that `required` lists.
fn required(schema: &Map<String, Value>) -> Vec<&str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The names under `properties`.
fn properties(schema: &Map<String, Value>) -> Vec<&str> {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect()
}

/// A path as OpenAI writes it: `('properties', 'x')`.
fn context(path: &[String]) -> String {
    let steps: Vec<String> = path.iter().map(|step| format!("'{step}'")).collect();
    match steps.len() {
        1 => format!("({},)", steps[0]),
        _ => format!("({})", steps.join(", ")),
    }
}

/// Complains about references that lead nowhere inside the schema.
fn references(schema: &Value, complaints: &mut Complaints) {
    place::walk(schema, &mut |path, node| {
        if let Some(reference) = node.get("$ref").and_then(Value::as_str) {
            complaints.demand(place::resolve(schema, reference).is_some(), || {
                format!("In context={}, reference '{reference}' cannot be resolved.", context(path))
            });
        }
    });
}

/// The definitions that a schema reaches itself through, when it does: the first such reference.
///
/// With `only_required`, a step through an optional property or a list breaks the circle.
fn circle(root: &Value, only_required: bool) -> Option<String> {
    let mut found = None;
    place::walk(root, &mut |_, node| {
        if let Some(reference) = node.get("$ref").and_then(Value::as_str)
            && found.is_none()
            && let Some(target) = place::resolve(root, reference)
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
    goal: &'root Value,
    only_required: bool,
    seen: &mut Vec<*const Value>,
) -> bool {
    if let Some(target) =
        from.get("$ref").and_then(Value::as_str).and_then(|reference| place::resolve(root, reference))
    {
        if std::ptr::eq(target, goal) {
            return true;
        }
        if !seen.contains(&std::ptr::from_ref(target)) {
            seen.push(target);
            if reaches(root, target, goal, only_required, seen) {
                return true;
            }
        }
    }
    let Some(map) = from.as_object() else { return false };
    let needed = required(map);
    place::children(from).into_iter().any(|(steps, child)| {
        let holds_no_value = steps[0] == "$defs" || steps[0] == "definitions";
        let optional = steps[0] == "properties" && !needed.contains(&steps[1].as_str());
        let breaks = only_required && optional;
        !holds_no_value && !breaks && reaches(root, child, goal, only_required, seen)
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
