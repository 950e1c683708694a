//! The format of the final response.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The format of the final response.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
#[non_exhaustive]
pub enum OutputFormat {
    #[default]
    Text,
    /// Any JSON object.
    Json,
    /// JSON that matches a schema.
    Schema {
        /// A name of the schema, for the model.
        #[serde(default = "default_name")]
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        schema: Value,
        /// Whether the provider enforces the schema, if it can.
        #[serde(default = "default_strict")]
        strict: bool,
    },
}

fn default_name() -> String {
    OutputFormat::DEFAULT_NAME.to_owned()
}

fn default_strict() -> bool {
    true
}

impl OutputFormat {
    /// The name of a schema that has none.
    pub const DEFAULT_NAME: &str = "response";

    /// Requires JSON that matches a schema, which the provider enforces if it can.
    pub fn schema(schema: Value) -> OutputFormat {
        let (name, strict) = (default_name(), default_strict());
        OutputFormat::Schema { name, description: None, schema, strict }
    }

    pub fn is_text(&self) -> bool {
        *self == OutputFormat::Text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_configuration_needs_only_the_schema() {
        let read = |value: Value| serde_json::from_value::<OutputFormat>(value).expect("a format");
        let schema = json!({"type": "array"});
        assert_eq!(read(json!({"type": "schema", "schema": schema})), OutputFormat::schema(schema.clone()));
        for format in [OutputFormat::Text, OutputFormat::Json, OutputFormat::schema(schema)] {
            assert_eq!(read(json!(format)), format);
        }
    }
}
