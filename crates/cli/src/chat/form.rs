//! What a server asks a person for, field by field.

use serde_json::{Map, Value};

use crate::terminal_text::sanitize;

/// One field of a form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    title: String,
    description: Option<String>,
    kind: Kind,
    is_required: bool,
    default: Option<Value>,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Text {
        least: Option<u64>,
        most: Option<u64>,
    },
    Number {
        is_whole: bool,
        least: Option<f64>,
        most: Option<f64>,
    },
    YesOrNo,
    /// One of these, each with what it is called.
    Choice(Vec<(String, String)>),
    /// Any of these.
    Choices(Vec<(String, String)>),
}

/// The fields of an object schema of plain properties, as elicitation allows them.
pub(crate) fn fields(schema: &Value) -> Vec<Field> {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flatten()
        .map(|(name, property)| Field {
            name: name.clone(),
            title: text(property, "title").unwrap_or_else(|| name.clone()),
            description: text(property, "description"),
            kind: kind(property),
            is_required: required.contains(&name.as_str()),
            default: property.get("default").cloned(),
        })
        .collect()
}

fn text(property: &Value, key: &str) -> Option<String> {
    property.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn kind(property: &Value) -> Kind {
    let number = |key: &str| property.get(key).and_then(Value::as_f64);
    let length = |key: &str| property.get(key).and_then(Value::as_u64);
    if let Some(choices) = choices(property) {
        return Kind::Choice(choices);
    }
    match property.get("type").and_then(Value::as_str) {
        Some("boolean") => Kind::YesOrNo,
        Some(kind @ ("integer" | "number")) => {
            Kind::Number { is_whole: kind == "integer", least: number("minimum"), most: number("maximum") }
        }
        Some("array") => {
            let items = property.get("items").unwrap_or(&Value::Null);
            Kind::Choices(choices(items).or_else(|| titled(items, "anyOf")).unwrap_or_default())
        }
        _ => Kind::Text { least: length("minLength"), most: length("maxLength") },
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
    titled(property, "oneOf")
}

fn titled(property: &Value, key: &str) -> Option<Vec<(String, String)>> {
    let options = property.get(key)?.as_array()?;
    let choice = |option: &Value| {
        let value = text(option, "const")?;
        Some((value.clone(), text(option, "title").unwrap_or(value)))
    };
    Some(options.iter().filter_map(choice).collect())
}

impl Field {
    /// What the field is about, for the lines above the prompt.
    pub(crate) fn about(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.description.iter().map(|text| sanitize(text)).collect();
        if let Kind::Choice(choices) | Kind::Choices(choices) = &self.kind {
            let numbered = choices.iter().enumerate();
            lines.extend(numbered.map(|(index, (_, name))| format!("  {}. {}", index + 1, sanitize(name))));
        }
        lines
    }

    pub(crate) fn prompt(&self) -> String {
        let form = match &self.kind {
            Kind::YesOrNo => " (y or n)",
            Kind::Choice(_) => " (its number)",
            Kind::Choices(_) => " (their numbers)",
            Kind::Number { .. } => " (a number)",
            Kind::Text { .. } => "",
        };
        let unless = match (&self.default, self.is_required) {
            (Some(Value::String(text)), _) => format!(" [{}]", sanitize(text)),
            (Some(value), _) => format!(" [{value}]"),
            (None, false) => " [nothing]".to_owned(),
            (None, true) => String::new(),
        };
        format!("{}{form}{unless}: ", sanitize(&self.title))
    }

    /// The value that was typed; nothing where the field is left out; or what is wrong with it.
    pub(crate) fn read(&self, typed: &str) -> Result<Option<Value>, String> {
        let typed = typed.trim();
        if typed.is_empty() {
            return match &self.default {
                Some(value) => Ok(Some(value.clone())),
                None if self.is_required => Err("a value is required".to_owned()),
                None => Ok(None),
            };
        }
        match &self.kind {
            Kind::YesOrNo => match typed.to_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(Some(true.into())),
                "n" | "no" | "false" => Ok(Some(false.into())),
                _ => Err("type y or n".to_owned()),
            },
            Kind::Number { is_whole, least, most } => read_number(typed, *is_whole, *least, *most).map(Some),
            Kind::Choice(choices) => chosen(choices, typed).map(|value| Some(value.into())),
            Kind::Choices(choices) => {
                let several = typed.split([',', ' ']).filter(|part| !part.is_empty());
                let values: Result<Vec<Value>, String> =
                    several.map(|part| chosen(choices, part).map(Value::from)).collect();
                values.map(|values| Some(values.into()))
            }
            Kind::Text { least, most } => {
                let length = typed.chars().count() as u64;
                if least.is_some_and(|least| length < least) {
                    return Err(format!("it must have at least {} characters", least.unwrap_or_default()));
                }
                if most.is_some_and(|most| length > most) {
                    return Err(format!("it must have at most {} characters", most.unwrap_or_default()));
                }
                Ok(Some(typed.into()))
            }
        }
    }
}

fn read_number(typed: &str, is_whole: bool, least: Option<f64>, most: Option<f64>) -> Result<Value, String> {
    let value: Value = serde_json::from_str(typed).map_err(|_| "type a number".to_owned())?;
    let number = value.as_f64().ok_or_else(|| "type a number".to_owned())?;
    if is_whole && number.fract() != 0.0 {
        return Err("type a whole number".to_owned());
    }
    match (least, most) {
        (Some(least), _) if number < least => Err(format!("it must be at least {least}")),
        (_, Some(most)) if number > most => Err(format!("it must be at most {most}")),
        _ => Ok(value),
    }
}

fn chosen(choices: &[(String, String)], typed: &str) -> Result<String, String> {
    let by_number = || choices.get(typed.parse::<usize>().ok()?.checked_sub(1)?);
    let by_name = || choices.iter().find(|(value, name)| value == typed || name.eq_ignore_ascii_case(typed));
    match by_name().or_else(by_number) {
        Some((value, _)) => Ok(value.clone()),
        None => Err(format!("type a number from 1 to {}", choices.len())),
    }
}

/// The fields that were given, as the answer.
pub(crate) fn answer(values: Vec<(String, Value)>) -> Value {
    Value::Object(values.into_iter().collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(property: Value, is_required: bool) -> Field {
        let required = if is_required { json!(["f"]) } else { json!([]) };
        let mut fields =
            fields(&json!({"type": "object", "properties": {"f": property}, "required": required}));
        fields.remove(0)
    }

    #[track_caller]
    fn check(property: Value, typed: &str, expected: Result<Option<Value>, &str>) {
        assert_eq!(field(property, true).read(typed), expected.map_err(str::to_owned));
    }

    #[test]
    fn values_are_read_as_their_field_wants_them() {
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
    fn nothing_typed_is_the_default_or_nothing() {
        check(json!({"type": "integer", "default": 7}), "", Ok(Some(json!(7))));
        check(json!({"type": "string"}), "", Err("a value is required"));
        assert_eq!(field(json!({"type": "string"}), false).read(""), Ok(None));
    }

    #[test]
    fn the_prompt_says_what_is_wanted() {
        let choice =
            field(json!({"title": "Colour", "description": "of the sky", "enum": ["blue", "grey"]}), true);
        assert_eq!(choice.about(), ["of the sky", "  1. blue", "  2. grey"]);
        assert_eq!(choice.prompt(), "Colour (its number): ");
        assert_eq!(field(json!({"type": "boolean", "default": true}), false).prompt(), "f (y or n) [true]: ");
    }
}
