//! Converts TOML to JSON.

use serde_json::{Map, Number, Value};
use toml_edit::{Document, Item, TableLike, TomlError, Value as TomlValue};

/// Dates and times become strings, and numbers that JSON does not have become `null`.
pub(super) fn toml_to_json(text: &str) -> Result<Map<String, Value>, TomlError> {
    Ok(table_to_json(Document::parse(text)?.as_table()))
}

fn table_to_json(table: &dyn TableLike) -> Map<String, Value> {
    table.iter().map(|(key, item)| (key.to_owned(), item_to_json(item))).collect()
}

fn item_to_json(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => value_to_json(value),
        Item::Table(table) => Value::Object(table_to_json(table)),
        Item::ArrayOfTables(tables) => {
            tables.iter().map(|table| Value::Object(table_to_json(table))).collect()
        }
    }
}

fn value_to_json(value: &TomlValue) -> Value {
    match value {
        TomlValue::String(text) => Value::String(text.value().clone()),
        TomlValue::Integer(number) => Value::from(*number.value()),
        TomlValue::Float(number) => Number::from_f64(*number.value()).map_or(Value::Null, Value::Number),
        TomlValue::Boolean(value) => Value::Bool(*value.value()),
        TomlValue::Datetime(time) => Value::String(time.value().to_string()),
        TomlValue::Array(items) => items.iter().map(value_to_json).collect(),
        TomlValue::InlineTable(table) => Value::Object(table_to_json(table)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_value_is_converted() {
        let text = "a.b = 1\nwhen = 2026-01-02T03:04:05Z\ntext = '''x\ny'''\nlist = [1.5, true, {c = 'd'}]\n\
                    none = nan\n[t.u]\nv = -7\n[[tables]]\nw = 0x10\n[[tables]]\n";
        let expected = json!({
            "a": {"b": 1},
            "when": "2026-01-02T03:04:05Z",
            "text": "x\ny",
            "list": [1.5, true, {"c": "d"}],
            "none": null,
            "t": {"u": {"v": -7}},
            "tables": [{"w": 16}, {}],
        });
        assert_eq!(toml_to_json(text).map(Value::Object).expect("valid TOML"), expected);
        let repeated = toml_to_json("a = 1\na = 2\n").expect_err("a repeated key");
        assert_eq!(repeated.span().map(|span| span.start), Some(6));
        assert!(toml_to_json(&format!("a = {}", "[".repeat(100_000))).is_err());
    }
}
