//! Validates arguments against the schema before they are deserialized.

use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};
use toolwire_validation::Validator;

use crate::failure::Failure;
use crate::instruction::Instruction;
use crate::schema::resolve;
use crate::violation::Violation;

/// Checks arguments against one schema, compiled once.
pub(crate) struct Checker {
    validator: Validator,
    /// Pairs of an alias and the name of the argument.
    aliases: Vec<(String, String)>,
}

impl Checker {
    pub(crate) fn new(schema: Value, aliases: Vec<(String, String)>) -> Result<Checker, String> {
        let validator = Validator::with_formats(schema).map_err(|error| error.to_string())?;
        Ok(Checker { validator, aliases })
    }

    /// Returns the normalized arguments, or every violation of the schema.
    pub(crate) fn check(&self, arguments: Map<String, Value>) -> Result<Map<String, Value>, Vec<Violation>> {
        let mut arguments = Value::Object(self.without_aliases(arguments));
        normalize(&mut arguments, self.validator.schema(), self.validator.schema());
        match self.validator.violations(&arguments) {
            Ok(violations) if violations.is_empty() => {}
            Ok(violations) => return Err(violations.into_iter().map(Violation::from).collect()),
            Err(too_complex) => {
                let violation = Violation { field: "arguments".to_owned(), message: too_complex.to_string() };
                return Err(vec![violation]);
            }
        }
        match arguments {
            Value::Object(fields) => Ok(fields),
            _ => Err(Vec::new()),
        }
    }

    /// Renames aliases to the names of their arguments. An argument that was sent under two names is not
    /// changed, so that it is rejected.
    fn without_aliases(&self, mut arguments: Map<String, Value>) -> Map<String, Value> {
        for (alias, name) in &self.aliases {
            if !arguments.contains_key(name)
                && let Some(value) = arguments.shift_remove(alias)
            {
                arguments.insert(name.clone(), value);
            }
        }
        arguments
    }
}

/// Returns the failure that lists every violation.
pub(crate) fn validation_failure(violations: &[Violation]) -> Failure {
    let mut fields: Vec<String> =
        violations.iter().map(|violation| format!("`{}`", violation.field)).collect();
    fields.dedup();
    let verb = if fields.len() == 1 { "is" } else { "are" };
    Failure::new("validation_error", format!("{} {verb} invalid; nothing was done", fields.join(", ")))
        .with_instruction(Instruction::retry_with(
            "arguments corrected as `data.validation_errors` describes",
        ))
        .with_data("validation_errors", violations)
}

/// Deserializes checked arguments. An error of the type's own code is reported like a violation of the
/// schema.
pub fn read<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, Failure> {
    let arguments = Value::Object(arguments);
    // The path to an error is tracked only if there is one, because it costs time.
    if let Ok(read) = T::deserialize(&arguments) {
        return Ok(read);
    }
    serde_path_to_error::deserialize(&arguments).or_else(|error| {
        // Flattened and untagged types cannot deserialize numbers with exact digits, so they get plain
        // numbers.
        let plain = plain_numbers(&arguments);
        serde_path_to_error::deserialize(&plain).map_err(
            |_: serde_path_to_error::Error<serde_json::Error>| {
                let field = match error.path().to_string() {
                    path if path == "." => "arguments".to_owned(),
                    path => path,
                };
                validation_failure(&[Violation { field, message: error.inner().to_string() }])
            },
        )
    })
}

fn plain_numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) if !number.is_i64() && !number.is_u64() => {
            number.as_f64().and_then(Number::from_f64).map_or_else(|| value.clone(), Value::Number)
        }
        Value::Array(items) => items.iter().map(plain_numbers).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), plain_numbers(value)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

/// Removes `null` where the schema allows omitting the field but not `null`, and writes `5.0` as `5` where it
/// requires an integer.
pub(crate) fn normalize(value: &mut Value, schema: &Value, root: &Value) {
    let schema = resolve(schema, root);
    for part in applicable_parts(value, schema) {
        normalize(value, part, root);
    }
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, property) in properties.into_iter().flatten() {
                let is_null = fields.get(name).is_some_and(Value::is_null);
                if is_null && !requires(schema, name) && !allows_null(property) {
                    fields.shift_remove(name);
                }
            }
            for (name, value) in fields {
                let inside = properties.and_then(|properties| properties.get(name));
                if let Some(inside) = inside.or_else(|| schema.get("additionalProperties")) {
                    normalize(value, inside, root);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inside) = schema.get("items") {
                items.iter_mut().for_each(|item| normalize(item, inside, root));
            }
        }
        Value::Number(number) if schema.get("type").is_some_and(|kind| kind == "integer") => {
            if let Some(integer) = as_integer(number) {
                *number = integer;
            }
        }
        _ => {}
    }
}

/// Returns the parts of a composed schema that apply to the value: all of `allOf`, and the only alternative
/// that it can match.
fn applicable_parts<'s>(value: &Value, schema: &'s Value) -> Vec<&'s Value> {
    let list = |key: &str| schema.get(key).and_then(Value::as_array).into_iter().flatten();
    let can_be = |branch: &&Value| {
        let (Some(fields), Some(properties)) =
            (value.as_object(), branch.get("properties").and_then(Value::as_object))
        else {
            return false;
        };
        let tags = properties.iter().filter_map(|(name, property)| Some((name, property.get("const")?)));
        let required = branch.get("required").and_then(Value::as_array).into_iter().flatten();
        tags.into_iter().all(|(name, tag)| fields.get(name) == Some(tag))
            && required.filter_map(Value::as_str).all(|name| fields.contains_key(name))
    };
    let mut parts: Vec<&Value> = list("allOf").collect();
    for key in ["anyOf", "oneOf"] {
        let candidates: Vec<&Value> = list(key).filter(can_be).collect();
        if let [only] = candidates.as_slice() {
            parts.push(only);
        }
    }
    parts
}

fn requires(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|required| required.iter().any(|each| each == name))
}

/// More digits than any integer type of Rust has.
const MAX_DIGITS: usize = 40;

/// Returns an integer that is written with a fraction or an exponent, without them. All digits are compared,
/// because a float would round.
fn as_integer(number: &Number) -> Option<Number> {
    let text = number.to_string();
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    if digits.bytes().all(|byte| byte.is_ascii_digit()) && text != "-0" {
        return None;
    }
    let (digits, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let all = format!("{integer}{fraction}");
    let shift = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let significant = all.trim_start_matches('0');
    let digits = match usize::try_from(shift) {
        Ok(zeros) if significant.is_empty() || zeros <= MAX_DIGITS => {
            format!("{significant}{}", "0".repeat(zeros.min(MAX_DIGITS)))
        }
        Ok(_) => return None,
        Err(_) => {
            let cut = usize::try_from(shift.unsigned_abs()).ok()?;
            let end = significant.len().saturating_sub(cut);
            if significant[end..].bytes().any(|digit| digit != b'0') {
                return None;
            }
            significant[..end].to_owned()
        }
    };
    match digits.trim_start_matches('0') {
        "" => Some(Number::from(0)),
        digits => format!("{sign}{digits}").parse().ok(),
    }
}

/// Whether a schema allows `null`.
pub(crate) fn allows_null(schema: &Value) -> bool {
    let Some(fields) = schema.as_object() else { return schema == true };
    let list = |key: &str| fields.get(key).and_then(Value::as_array);
    if let Some(kind) = fields.get("type") {
        return kind == "null"
            || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "null"));
    }
    if let Some(constant) = fields.get("const") {
        return constant.is_null();
    }
    if let Some(options) = list("enum") {
        return options.contains(&Value::Null);
    }
    if let Some(branches) = list("anyOf").or_else(|| list("oneOf")) {
        return branches.iter().any(allows_null);
    }
    !fields.contains_key("$ref")
}
