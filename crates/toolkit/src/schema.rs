//! JSON schemas of arguments and outcomes, generated from Rust types.
//!
//! The **served** schema has types, names and choices, which every dialect supports. Limits (`minimum`,
//! `pattern`, …), which many dialects do not support, are described in text. The **checked** schema has all
//! limits; the server rejects arguments that violate them (ADR 0008).

mod aliases;
mod flatten;
mod limits;
mod tidy;
mod walk;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub(crate) use toolwire_validation::resolve;
pub(crate) use walk::{each, subschemas};

/// The schemas of a tool's arguments.
#[derive(Clone, Debug)]
pub struct Arguments {
    pub(crate) served: Value,
    pub(crate) checked: Value,
    /// Pairs of an alias and the name of its field.
    pub(crate) aliases: Vec<(String, String)>,
    /// Fields with a default that is not in the schema, because its type cannot be serialized.
    pub(crate) hidden_defaults: Vec<String>,
}

/// Generates the schemas of a struct of arguments.
pub fn arguments<T: JsonSchema + DeserializeOwned>() -> Arguments {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let mut schema = generate::<T>(settings);
    tidy::root(&mut schema);
    let aliases = aliases::aliases::<T>(&schema);
    let hidden_defaults = tidy::hidden_defaults(&schema);
    tidy::arguments(&mut schema, true);
    let (mut served, mut checked) = (schema.clone(), schema);
    flatten::flatten_alternatives(&mut served);
    limits::describe_limits(&mut served);
    limits::add_bounds(&mut checked);
    tidy::formats(&mut served);
    tidy::formats(&mut checked);
    Arguments { served, checked, aliases, hidden_defaults }
}

/// Generates the schema of a tool's result.
pub(crate) fn output<T: JsonSchema>() -> Value {
    let mut schema = generate::<T>(SchemaSettings::draft2020_12().for_serialize());
    tidy::root(&mut schema);
    tidy::formats(&mut schema);
    schema
}

fn generate<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let settings = settings.with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

impl Arguments {
    /// Adds a required constant argument. Returns `false` if an argument with this name exists.
    pub(crate) fn add_constant(&mut self, name: &str, constant: &str, description: &str) -> bool {
        let property = serde_json::json!({"type": "string", "const": constant, "description": description});
        let Some(fields) = self.served.as_object_mut() else { return false };
        let properties = fields.entry("properties").or_insert_with(|| Map::new().into());
        match properties.as_object_mut() {
            Some(properties) if !properties.contains_key(name) => {
                properties.insert(name.to_owned(), property)
            }
            _ => return false,
        };
        let required = fields.entry("required").or_insert_with(|| Value::Array(Vec::new()));
        if let Some(required) = required.as_array_mut() {
            required.push(name.into());
        }
        true
    }

    pub(crate) fn is_object(&self) -> bool {
        self.served.get("type").is_some_and(|kind| kind == "object")
    }
}
