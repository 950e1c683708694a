//! The schemas of arguments and outcomes, made from Rust's types.
//!
//! What is **served** says kinds, names and choices, in the words that every dialect has; limits (`minimum`, `pattern`, …),
//! which many dialects cannot say, are words in the description. What is **checked** has them all: the server refuses what
//! does not keep to them (ADR 0008).

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

/// A tool's arguments, as they are served and as they are checked.
#[derive(Clone, Debug)]
pub struct Arguments {
    pub(crate) served: Value,
    pub(crate) checked: Value,
    /// Other names of the fields, each with the field's own.
    pub(crate) aliases: Vec<(String, String)>,
    /// Fields that have a default which cannot be shown, as its type has no JSON.
    pub(crate) hidden_defaults: Vec<String>,
}

/// The schema of a struct of arguments.
pub fn arguments<T: JsonSchema + DeserializeOwned>() -> Arguments {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let mut schema = generate::<T>(settings);
    tidy::root(&mut schema);
    let aliases = aliases::aliases::<T>(&schema);
    let hidden_defaults = tidy::hidden_defaults(&schema);
    tidy::arguments(&mut schema, true);
    let (mut served, mut checked) = (schema.clone(), schema);
    flatten::to_fields(&mut served);
    limits::to_words(&mut served);
    limits::to_bounds(&mut checked);
    tidy::formats(&mut served);
    tidy::formats(&mut checked);
    Arguments { served, checked, aliases, hidden_defaults }
}

/// The schema of what a tool returns.
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
    /// Adds an argument that must be there and can only be `constant`; `false` when there is one of that name.
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
