//! The form of an elicitation request: its fields, and parsing of the user's input.

use serde_json::Value;
use toolwire_contract::text::counted;

use crate::terminal_text::sanitize;

/// One field of a form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FormField {
    pub(crate) name: String,
    title: String,
    description: Option<String>,
    kind: FieldKind,
    is_required: bool,
    default: Option<Value>,
}

#[derive(Clone, Debug, PartialEq)]
enum FieldKind {
    Text {
        min: Option<u64>,
        max: Option<u64>,
    },
    Number {
        is_integer: bool,
        min: Option<f64>,
        max: Option<f64>,
    },
    Boolean,
    /// One of several values, each with its title.
    Choice(Vec<(String, String)>),
    /// Any number of values, each with its title.
    Choices(Vec<(String, String)>),
}

/// Returns the fields of an elicitation schema: an object with properties of simple types.
pub(crate) fn fields(schema: &Value) -> Vec<FormField> {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flatten()
        .map(|(name, property)| FormField {
            name: name.clone(),
            title: string(property, "title").unwrap_or_else(|| name.clone()),
            description: string(property, "description"),
            kind: field_kind(property),
            is_required: required.contains(&name.as_str()),
            default: property.get("default").cloned(),
        })
        .collect()
}

fn string(property: &Value, key: &str) -> Option<String> {
    property.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn field_kind(property: &Value) -> FieldKind {
    let number = |key: &str| property.get(key).and_then(Value::as_f64);
    let length = |key: &str| property.get(key).and_then(Value::as_u64);
    if let Some(choices) = choices(property) {
        return FieldKind::Choice(choices);
    }
    match property.get("type").and_then(Value::as_str) {
        Some("boolean") => FieldKind::Boolean,
        Some(kind @ ("integer" | "number")) => FieldKind::Number {
            is_integer: kind == "integer",
            min: number("minimum"),
            max: number("maximum"),
        },
        Some("array") => {
            let items = property.get("items").unwrap_or(&Value::Null);
            FieldKind::Choices(choices(items).or_else(|| titled_choices(items, "anyOf")).unwrap_or_default())
        }
        _ => FieldKind::Text { min: length("minLength"), max: length("maxLength") },
    }
}

fn choices(property: &Value) -> Option<Vec<(String, String)>> {
    if let Some(values) = property.get("enum").and_then(Value::as_array) {
        let names = property.get("enumNames").and_then(Value::as_array);
        let name = |index: usize| names.and_then(|names| names.get(index)).and_then(Value::as_str);
        let choice = |(index, value): (usize, &Value)| {
            let value = value.as_str()?;
            Some((value.to_owned(), name(index).unwrap_or(value).to_owned()))
        };
        return Some(values.iter().enumerate().filter_map(choice).collect());
    }
    titled_choices(property, "oneOf")
}

fn titled_choices(property: &Value, key: &str) -> Option<Vec<(String, String)>> {
    let options = property.get(key)?.as_array()?;
    let choice = |option: &Value| {
        let value = string(option, "const")?;
        Some((value.clone(), string(option, "title").unwrap_or(value)))
    };
    Some(options.iter().filter_map(choice).collect())
}

impl FormField {
    /// Returns the lines above the prompt: the description and the choices.
    pub(crate) fn description_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.description.iter().map(|text| sanitize(text)).collect();
        if let FieldKind::Choice(choices) | FieldKind::Choices(choices) = &self.kind {
            let numbered = choices.iter().enumerate();
            lines.extend(numbered.map(|(index, (_, name))| format!("  {}. {}", index + 1, sanitize(name))));
        }
        lines
    }

    pub(crate) fn prompt(&self) -> String {
        let expected = match &self.kind {
            FieldKind::Boolean => " (y or n)",
            FieldKind::Choice(_) => " (its number)",
            FieldKind::Choices(_) => " (their numbers)",
            FieldKind::Number { .. } => " (a number)",
            FieldKind::Text { .. } => "",
        };
        let default = match (&self.default, self.is_required) {
            (Some(Value::String(text)), _) => format!(" [{}]", sanitize(text)),
            (Some(value), _) => format!(" [{}]", sanitize(&value.to_string())),
            (None, false) => " [nothing]".to_owned(),
            (None, true) => String::new(),
        };
        format!("{}{expected}{default}: ", sanitize(&self.title))
    }

    /// Parses the user's input. Returns `None` if the field is omitted, or the problem as an error.
    pub(crate) fn parse(&self, typed: &str) -> Result<Option<Value>, String> {
        let typed = typed.trim();
        if typed.is_empty() {
            return match &self.default {
                Some(value) => Ok(Some(value.clone())),
                None if self.is_required => Err("a value is required".to_owned()),
                None => Ok(None),
            };
        }
        match &self.kind {
            FieldKind::Boolean => match typed.to_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(Some(true.into())),
                "n" | "no" | "false" => Ok(Some(false.into())),
                _ => Err("type y or n".to_owned()),
            },
            FieldKind::Number { is_integer, min, max } => {
                parse_number(typed, *is_integer, *min, *max).map(Some)
            }
            FieldKind::Choice(choices) => parse_choice(choices, typed).map(|value| Some(value.into())),
            FieldKind::Choices(choices) => {
                let parts = typed.split([',', ' ']).filter(|part| !part.is_empty());
                let values: Result<Vec<Value>, String> =
                    parts.map(|part| parse_choice(choices, part).map(Value::from)).collect();
                values.map(|values| Some(values.into()))
            }
            FieldKind::Text { min, max } => {
                let length = typed.chars().count() as u64;
                match (*min, *max) {
                    (Some(min), _) if length < min => {
                        Err(format!("it must have at least {}", counted(min, "character")))
                    }
                    (_, Some(max)) if length > max => {
                        Err(format!("it must have at most {}", counted(max, "character")))
                    }
                    _ => Ok(Some(typed.into())),
                }
            }
        }
    }
}

fn parse_number(typed: &str, is_integer: bool, min: Option<f64>, max: Option<f64>) -> Result<Value, String> {
    let value: Value = serde_json::from_str(typed).map_err(|_| "type a number".to_owned())?;
    let number = value.as_f64().ok_or_else(|| "type a number".to_owned())?;
    if is_integer && number.fract() != 0.0 {
        return Err("type a whole number".to_owned());
    }
    match (min, max) {
        (Some(min), _) if number < min => Err(format!("it must be at least {min}")),
        (_, Some(max)) if number > max => Err(format!("it must be at most {max}")),
        _ => Ok(value),
    }
}

fn parse_choice(choices: &[(String, String)], typed: &str) -> Result<String, String> {
    let by_number = || choices.get(typed.parse::<usize>().ok()?.checked_sub(1)?);
    let by_name = || choices.iter().find(|(value, name)| value == typed || name.eq_ignore_ascii_case(typed));
    match by_name().or_else(by_number) {
        Some((value, _)) => Ok(value.clone()),
        None => Err(format!("type a number from 1 to {}", choices.len())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(property: Value, is_required: bool) -> FormField {
        let required = if is_required { json!(["f"]) } else { json!([]) };
        let mut fields =
            fields(&json!({"type": "object", "properties": {"f": property}, "required": required}));
        fields.remove(0)
    }

    #[track_caller]
    fn check(property: Value, typed: &str, expected: Result<Option<Value>, &str>) {
        assert_eq!(field(property, true).parse(typed), expected.map_err(str::to_owned));
    }

    #[test]
    fn input_is_parsed_as_the_type_of_the_field() {
        check(json!({"type": "string"}), " text ", Ok(Some(json!("text"))));
        check(json!({"type": "string", "maxLength": 3}), "text", Err("it must have at most 3 characters"));
        check(json!({"type": "integer"}), "3", Ok(Some(json!(3))));
        check(json!({"type": "integer"}), "3.5", Err("type a whole number"));
        check(json!({"type": "number", "minimum": 4}), "3.5", Err("it must be at least 4"));
        check(json!({"type": "boolean"}), "Y", Ok(Some(json!(true))));
        check(json!({"type": "string", "enum": ["a", "b"]}), "2", Ok(Some(json!("b"))));
        check(json!({"type": "string", "enum": ["1", "0"]}), "1", Ok(Some(json!("1"))));
        check(json!({"oneOf": [{"const": "x", "title": "The X"}]}), "the x", Ok(Some(json!("x"))));
        check(json!({"type": "string", "enum": ["a", "b"]}), "c", Err("type a number from 1 to 2"));
        check(
            json!({"type": "array", "items": {"anyOf": [{"const": "x"}, {"const": "y"}]}}),
            "2, 1",
            Ok(Some(json!(["y", "x"]))),
        );
    }

    #[test]
    fn empty_input_is_the_default_or_omits_the_field() {
        check(json!({"type": "integer", "default": 7}), "", Ok(Some(json!(7))));
        check(json!({"type": "string"}), "", Err("a value is required"));
        assert_eq!(field(json!({"type": "string"}), false).parse(""), Ok(None));
    }

    #[test]
    fn the_prompt_describes_the_expected_input() {
        let choice =
            field(json!({"title": "Colour", "description": "of the sky", "enum": ["blue", "grey"]}), true);
        assert_eq!(choice.description_lines(), ["of the sky", "  1. blue", "  2. grey"]);
        assert_eq!(choice.prompt(), "Colour (its number): ");
        assert_eq!(field(json!({"type": "boolean", "default": true}), false).prompt(), "f (y or n) [true]: ");
    }
}
