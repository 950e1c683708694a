//! Checks arguments against the schema, before any of them is read.

use jsonschema::Validator;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

use crate::failure::Failure;
use crate::instruction::Instruction;
use crate::schema::resolve;
use crate::violation::{Violation, violations};

/// Checks arguments against one schema, compiled once.
pub(crate) struct Checker {
    schema: Value,
    validator: Validator,
    /// Other names of arguments, each with the argument's own.
    aliases: Vec<(String, String)>,
}

impl Checker {
    pub(crate) fn new(schema: Value, aliases: Vec<(String, String)>) -> Result<Checker, String> {
        let built = jsonschema::options().offline().should_validate_formats(true).build(&schema);
        let validator = built.map_err(|error| error.to_string())?;
        Ok(Checker { schema, validator, aliases })
    }

    /// The arguments in the form that the struct reads, or every reason why they do not fit.
    pub(crate) fn check(&self, arguments: Map<String, Value>) -> Result<Map<String, Value>, Vec<Violation>> {
        let mut arguments = Value::Object(self.by_own_names(arguments));
        settle(&mut arguments, &self.schema, &self.schema);
        if !self.validator.is_valid(&arguments) {
            return Err(violations(&self.validator, &self.schema, &arguments));
        }
        match arguments {
            Value::Object(fields) => Ok(fields),
            _ => Err(Vec::new()),
        }
    }
}

impl Checker {
    /// The arguments, each under its own name. What is given under two names is left as it is, and refused.
    fn by_own_names(&self, mut arguments: Map<String, Value>) -> Map<String, Value> {
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

/// The failure that names every violation.
pub(crate) fn refused(violations: &[Violation]) -> Failure {
    let mut fields: Vec<String> =
        violations.iter().map(|violation| format!("`{}`", violation.field)).collect();
    fields.dedup();
    let verb = if fields.len() == 1 { "does" } else { "do" };
    Failure::new("validation_error", format!("{} {verb} not fit; nothing was done", fields.join(", ")))
        .with_instruction(Instruction::retry_with("arguments that fit, as `data.validation_errors` says"))
        .with_data("validation_errors", violations)
}

/// Reads checked arguments into the struct. What only its own code can refuse is refused in the same words.
pub fn read<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, Failure> {
    let arguments = Value::Object(arguments);
    // Where something is wrong is worked out only when something is.
    if let Ok(read) = T::deserialize(&arguments) {
        return Ok(read);
    }
    serde_path_to_error::deserialize(&arguments).or_else(|error| {
        // Exact digits reach flattened and untagged types in a form they cannot read: those get plain numbers.
        let plain = plain_numbers(&arguments);
        serde_path_to_error::deserialize(&plain).map_err(
            |_: serde_path_to_error::Error<serde_json::Error>| {
                let field = match error.path().to_string() {
                    path if path == "." => "arguments".to_owned(),
                    path => path,
                };
                refused(&[Violation { field, message: error.inner().to_string() }])
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

/// Says what was meant in the words of the schema: a `null` for what may be left out is left out, and `5.0` for an
/// integer is `5`.
pub(crate) fn settle(value: &mut Value, schema: &Value, root: &Value) {
    let schema = resolve(schema, root);
    for part in spoken_of(value, schema) {
        settle(value, part, root);
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
                    settle(value, inside, root);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inside) = schema.get("items") {
                items.iter_mut().for_each(|item| settle(item, inside, root));
            }
        }
        Value::Number(number) if schema.get("type").is_some_and(|kind| kind == "integer") => {
            if let Some(whole) = whole(number) {
                *number = whole;
            }
        }
        _ => {}
    }
}

/// The parts of a composed schema that speak of this value: all of `allOf`, and the one alternative that it can be meant as.
fn spoken_of<'s>(value: &Value, schema: &'s Value) -> Vec<&'s Value> {
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

/// More digits than any integer of Rust's.
const MOST_DIGITS: usize = 40;

/// A whole number without fraction and exponent, if it is one to the last digit. A float would round.
fn whole(number: &Number) -> Option<Number> {
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
    let whole = match usize::try_from(shift) {
        Ok(zeros) if significant.is_empty() || zeros <= MOST_DIGITS => {
            format!("{significant}{}", "0".repeat(zeros.min(MOST_DIGITS)))
        }
        Ok(_) => return None,
        Err(_) => {
            let cut = usize::try_from(shift.unsigned_abs()).ok()?;
            let kept = significant.len().saturating_sub(cut);
            if significant[kept..].bytes().any(|digit| digit != b'0') {
                return None;
            }
            significant[..kept].to_owned()
        }
    };
    match whole.trim_start_matches('0') {
        "" => Some(Number::from(0)),
        whole => format!("{sign}{whole}").parse().ok(),
    }
}

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
