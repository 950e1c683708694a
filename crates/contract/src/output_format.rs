//! The form of the final response.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The form of the final response.
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
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        schema: Value,
        /// Whether the provider enforces the schema, if it can.
        strict: bool,
    },
}

impl OutputFormat {
    /// The name of a schema that has none.
    pub const DEFAULT_NAME: &str = "response";

    /// Requires JSON that matches a schema, which the provider enforces if it can.
    pub fn schema(schema: Value) -> OutputFormat {
        let name = OutputFormat::DEFAULT_NAME.to_owned();
        OutputFormat::Schema { name, description: None, schema, strict: true }
    }

    pub fn is_text(&self) -> bool {
        *self == OutputFormat::Text
    }
}
