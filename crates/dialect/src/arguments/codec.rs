//! Decodes and encodes the arguments of one tool.

use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde_json::{Map, Value};
use toolwire_contract::text::json_kind;
use toolwire_contract::toolbox::SchemaFingerprint;
use toolwire_validation::{Requirement, Violation, ViolationKind};

use super::converter::Converter;
use super::error::ArgumentError;
use super::lenient_json;
use super::plan::Plan;
use super::repair::{Repair, RepairKind};
use super::validator::ArgumentValidator;
use crate::Dialect;

/// The deepest nesting that `serde_json` parses.
const MAX_PARSED_DEPTH: usize = 127;

/// A model's arguments, converted to the tool's own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decoded {
    /// The tool's own name.
    pub name: String,
    pub arguments: Map<String, Value>,
    /// The repairs that were made. After fifty, the last one is [`RepairKind::More`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<Repair>,
    /// The tool's own schema, if the arguments were validated against it.
    #[serde(skip)]
    pub schema: Option<SchemaFingerprint>,
}

/// A tool's own arguments, converted to what a model of the dialect would have sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Encoded {
    /// The name that the model sees.
    pub name: String,
    pub arguments: Map<String, Value>,
}

/// Decodes and encodes the arguments of one tool. It is made when the tool's schema is converted.
#[derive(Debug)]
pub(crate) struct Codec {
    dialect: Dialect,
    plan: Plan,
    shared: Vec<Plan>,
    /// The schema in the definition.
    wire_schema: Arc<Value>,
    /// The tool's own schema, as it was received.
    tool_schema: Arc<Value>,
    /// The tool's own schema, normalized. It is used if `tool_schema` is not a valid schema.
    normalized_schema: Arc<Value>,
    /// Whether a part of the definition has a different shape than in the tool's schema.
    reshapes: bool,
    tool_validator: OnceLock<Option<ToolValidator>>,
    wire_validator: OnceLock<Option<ArgumentValidator>>,
}

#[derive(Debug)]
struct ToolValidator {
    validator: ArgumentValidator,
    /// `None` if the normalized schema is used.
    schema: Option<SchemaFingerprint>,
}

impl Codec {
    pub(crate) fn new(
        dialect: Dialect,
        plan: Plan,
        shared: Vec<Plan>,
        wire_schema: Arc<Value>,
        tool_schema: Arc<Value>,
        normalized_schema: Arc<Value>,
    ) -> Codec {
        let reshapes = plan.reshapes() || shared.iter().any(Plan::reshapes);
        Codec {
            dialect,
            plan,
            shared,
            wire_schema,
            tool_schema,
            normalized_schema,
            reshapes,
            tool_validator: OnceLock::new(),
            wire_validator: OnceLock::new(),
        }
    }

    fn converter(&self) -> Converter<'_> {
        Converter::new(&self.shared, &self.wire_schema, &self.normalized_schema)
    }

    fn tool_validator(&self) -> Option<&ToolValidator> {
        let compile = || match ArgumentValidator::new(self.tool_schema.clone()) {
            Ok(validator) => {
                Some(ToolValidator { validator, schema: Some(SchemaFingerprint::of(&self.tool_schema)) })
            }
            Err(_) => {
                let validator = ArgumentValidator::new(self.normalized_schema.clone()).ok()?;
                Some(ToolValidator { validator, schema: None })
            }
        };
        self.tool_validator.get_or_init(compile).as_ref()
    }

    fn wire_validator(&self) -> Option<&ArgumentValidator> {
        // Schemas of OpenAPI are not JSON Schemas.
        let is_openapi = self.dialect == Dialect::GeminiOpenApi;
        let compile =
            || if is_openapi { None } else { ArgumentValidator::new(self.wire_schema.clone()).ok() };
        self.wire_validator.get_or_init(compile).as_ref()
    }

    /// Converts what a model sent to the tool's own arguments.
    pub(crate) fn decode(&self, tool: &str, sent: &Value) -> Result<Decoded, ArgumentError> {
        let mut repairs = Vec::new();
        let mut value = Value::Object(parse(sent, &mut repairs)?);
        // Stored if the shapes differ, to report violations in the shape that the model knows.
        let mut wire_value = None;
        let mut json_texts = Vec::new();
        if !self.plan.is_same() {
            // The plan converts only values of the types in the definition.
            if let Some(validator) = self.wire_validator() {
                validator.repair(tool, &mut value, &mut repairs)?;
            }
            if self.reshapes {
                wire_value = Some(value.clone());
            }
            let converter = self.converter();
            value = converter.decode(&self.plan, value);
            json_texts = converter.json_texts.take();
            if let Some(key) = converter.duplicate_key.take() {
                repairs.push(Repair::of_arguments(RepairKind::DuplicateKey { key }));
            }
        }
        let Some(ToolValidator { validator, schema }) = self.tool_validator() else {
            return Ok(decoded(tool, value, repairs, None));
        };
        let unrepaired = (!json_texts.is_empty()).then(|| (value.clone(), repairs.clone()));
        let mut violations = validator.repair_and_validate(tool, &mut value, &mut repairs)?;
        if violations.is_empty() {
            return Ok(decoded(tool, value, repairs, *schema));
        }
        if let Some((mut value, mut repairs)) = unrepaired
            && use_plain_texts(&mut value, &violations, &json_texts)
            && validator.repair_and_validate(tool, &mut value, &mut repairs)?.is_empty()
        {
            return Ok(decoded(tool, value, repairs, *schema));
        }
        let wire_violations = wire_value
            .zip(self.wire_validator())
            .and_then(|(value, validator)| validator.violations(tool, &value).ok())
            .filter(|violations| !violations.is_empty());
        match wire_violations {
            Some(found) => violations = found,
            None => {
                for violation in &mut violations {
                    self.plan.use_wire_names(&self.shared, violation);
                }
            }
        }
        Err(ArgumentError::Invalid { tool: tool.to_owned(), violations, arguments: into_map(value) })
    }

    /// Converts the tool's own arguments to what a model would have sent.
    pub(crate) fn encode(&self, tool: &str, arguments: &Value) -> Result<Map<String, Value>, ArgumentError> {
        let mut repairs = Vec::new();
        let value = Value::Object(parse(arguments, &mut repairs)?);
        if let Some(ToolValidator { validator, .. }) = self.tool_validator() {
            let violations = validator.all_violations(tool, &value)?;
            if !violations.is_empty() {
                let arguments = into_map(value);
                return Err(ArgumentError::Invalid { tool: tool.to_owned(), violations, arguments });
            }
        }
        let converter = self.converter();
        let encoded = converter.encode(&self.plan, value);
        if let Some(name) = converter.name_collision.take() {
            let requirement = Requirement::Be("unique in this dialect".to_owned());
            let kind = ViolationKind::InvalidPropertyName { name, requirement };
            let violations = vec![Violation { pointer: String::new(), kind }];
            let (tool, arguments) = (tool.to_owned(), into_map(encoded));
            return Err(ArgumentError::Invalid { tool, violations, arguments });
        }
        Ok(into_map(encoded))
    }
}

/// Validates and repairs arguments in MCP's own format, for callers that do not use a dialect.
#[derive(Debug)]
pub struct Checker {
    validator: Option<ArgumentValidator>,
}

impl Checker {
    /// Creates a checker for a tool's `inputSchema`. If that is not a valid schema, only non-objects are
    /// rejected.
    pub fn new(input_schema: &Value) -> Checker {
        Checker { validator: ArgumentValidator::new(input_schema.clone()).ok() }
    }

    /// Returns the arguments, repaired. `sent` may be an object, JSON text of an object, or `null`.
    pub fn check(&self, tool: &str, sent: &Value) -> Result<Decoded, ArgumentError> {
        let mut repairs = Vec::new();
        let mut value = Value::Object(parse(sent, &mut repairs)?);
        let Some(validator) = &self.validator else { return Ok(decoded(tool, value, repairs, None)) };
        let violations = validator.repair_and_validate(tool, &mut value, &mut repairs)?;
        if violations.is_empty() {
            return Ok(decoded(tool, value, repairs, None));
        }
        Err(ArgumentError::Invalid { tool: tool.to_owned(), violations, arguments: into_map(value) })
    }
}

/// Replaces values that do not fit by the JSON texts from which they were read. Returns whether there are
/// any.
fn use_plain_texts(value: &mut Value, violations: &[Violation], json_texts: &[String]) -> bool {
    let read: Vec<(Value, &String)> =
        json_texts.iter().filter_map(|text| Some((serde_json::from_str(text).ok()?, text))).collect();
    let mut found = false;
    for violation in violations {
        // The text may contain the value with the violation.
        let ends = violation.pointer.match_indices('/').map(|(end, _)| end).skip(1);
        for end in ends.chain([violation.pointer.len()]) {
            if let Some(place) = value.pointer_mut(&violation.pointer[..end])
                && let Some((_, text)) = read.iter().find(|(read, _)| *read == *place)
            {
                *place = Value::String((*text).clone());
                found = true;
                break;
            }
        }
    }
    found
}

fn decoded(tool: &str, value: Value, repairs: Vec<Repair>, schema: Option<SchemaFingerprint>) -> Decoded {
    Decoded { name: tool.to_owned(), arguments: into_map(value), repairs: Repair::listed(repairs), schema }
}

fn into_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Reads arguments that were sent as an object, as JSON text of an object, or not at all.
fn parse(sent: &Value, repairs: &mut Vec<Repair>) -> Result<Map<String, Value>, ArgumentError> {
    let text = match sent {
        Value::Object(map) => return Ok(map.clone()),
        Value::Null => return Ok(no_arguments(RepairKind::NullArguments, repairs)),
        Value::String(text) if text.trim().is_empty() => {
            return Ok(no_arguments(RepairKind::EmptyArguments, repairs));
        }
        Value::String(text) => text,
        other => return Err(not_an_object(other)),
    };
    let parsed = match parse_text(text) {
        Ok(parsed) => parsed,
        Err(_) => {
            // The error names what is still wrong, not a mistake that was corrected.
            let parsed = parse_text(&lenient_json::corrected(text))?;
            repairs.push(Repair::of_arguments(RepairKind::InvalidJson));
            parsed
        }
    };
    match parsed {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(no_arguments(RepairKind::NullArguments, repairs)),
        Value::String(inner) => match serde_json::from_str(&inner) {
            Ok(Value::Object(map)) => {
                repairs.push(Repair::of_arguments(RepairKind::EncodedTwice));
                Ok(map)
            }
            _ => Err(not_an_object(&Value::String(inner))),
        },
        other => Err(not_an_object(&other)),
    }
}

fn no_arguments(kind: RepairKind, repairs: &mut Vec<Repair>) -> Map<String, Value> {
    repairs.push(Repair::of_arguments(kind));
    Map::new()
}

fn parse_text(text: &str) -> Result<Value, ArgumentError> {
    serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let message = if open_brackets(text, line, column) > MAX_PARSED_DEPTH {
            format!("nested more than {MAX_PARSED_DEPTH} levels deep at line {line} column {column}")
        } else {
            error.to_string()
        };
        ArgumentError::NotJson { message }
    })
}

/// Returns how many arrays and objects are open at a place in JSON text; lines and columns count from 1.
fn open_brackets(text: &str, line: usize, column: usize) -> usize {
    let lines_before = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum::<usize>();
    let (mut depth, mut in_string, mut is_escaped) = (0usize, false, false);
    for byte in text.bytes().take(lines_before + column) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    depth
}

fn not_an_object(value: &Value) -> ArgumentError {
    ArgumentError::NotAnObject { found: json_kind(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_nested_too_deeply_are_reported() {
        let check = |text: &str, expected: &str| match parse_text(text) {
            Err(ArgumentError::NotJson { message }) => assert_eq!(message, expected),
            other => panic!("{other:?}"),
        };
        let deep = format!("{{\"a\":\n{}", "[".repeat(200));
        check(&deep, "nested more than 127 levels deep at line 2 column 127");
        assert!(parse_text(&format!("{}{}", "[".repeat(127), "]".repeat(127))).is_ok());
        let brackets_in_a_string = format!("{{\"a\": \"\\\"{}\", b", "[".repeat(200));
        check(&brackets_in_a_string, "key must be a string at line 1 column 213");
    }
}
