//! The structured result of a tool.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::{Error as _, SerializeMap};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::failure::{Cause, Failure, FailureParts, insert_data};
use crate::instruction::Instruction;

/// The structured result of a tool: a value or a failure, with a message for the user and an instruction for
/// the agent.
///
/// It is serialized as one object, without absent fields and without a `null` value.
///
/// ```
/// use toolwire_toolkit::{Instruction, Outcome};
///
/// let outcome =
///     Outcome::ok(3).with_message("3 documents").with_instruction(Instruction::present_and_stop());
/// assert!(outcome.is_ok());
/// let failure: Outcome<u32> = Outcome::failure("not_found", "there is no document `plan`");
/// assert_eq!(
///     failure.to_json_string()?,
///     r#"{"success":false,"error":"there is no document `plan`","error_type":"not_found"}"#,
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "an unused outcome is never reported"]
pub struct Outcome<T> {
    pub success: bool,
    pub value: Option<T>,
    /// The error message for the agent.
    pub error: Option<String>,
    /// A machine-readable error code, such as `not_found`.
    pub error_type: Option<String>,
    /// A message for the user.
    pub message: Option<String>,
    /// An instruction for the agent's next step.
    pub instruction: Option<Instruction>,
    /// Machine-readable details.
    pub data: Option<Map<String, Value>>,
    pub(crate) cause: Cause,
}

impl<T> Outcome<T> {
    pub fn ok(value: T) -> Outcome<T> {
        Outcome {
            success: true,
            value: Some(value),
            error: None,
            error_type: None,
            message: None,
            instruction: None,
            data: None,
            cause: Cause::default(),
        }
    }

    pub fn failure(error_type: impl Into<String>, error: impl Into<String>) -> Outcome<T> {
        Failure::new(error_type, error).into()
    }

    /// Adds a message for the user.
    pub fn with_message(mut self, message: impl Into<String>) -> Outcome<T> {
        self.message = Some(message.into());
        self
    }

    /// Adds an instruction for the agent.
    pub fn with_instruction(mut self, instruction: impl Into<Instruction>) -> Outcome<T> {
        self.instruction = Some(instruction.into());
        self
    }

    /// Adds a machine-readable detail. A value that cannot be serialized is omitted.
    pub fn with_data(mut self, key: impl Into<String>, value: impl Serialize) -> Outcome<T> {
        insert_data(&mut self.data, key.into(), value);
        self
    }

    pub(crate) fn with_value<U>(self, value: Option<U>) -> Outcome<U> {
        let Outcome { success, value: _, error, error_type, message, instruction, data, cause } = self;
        Outcome { success, value, error, error_type, message, instruction, data, cause }
    }

    pub fn is_ok(&self) -> bool {
        self.success
    }

    pub fn is_failure(&self) -> bool {
        !self.success
    }
}

impl<T: Serialize> Outcome<T> {
    /// Returns the outcome as JSON, as it is sent. Fails if the value cannot be serialized.
    pub fn to_json(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }

    /// Returns the outcome as JSON text, as it is sent. Fails if the value cannot be serialized.
    pub fn to_json_string(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

impl Outcome<Value> {
    /// Returns the same JSON as serialization, without copying the value.
    pub(crate) fn into_json(self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("success".to_owned(), self.success.into());
        fields.extend(self.value.filter(|value| !value.is_null()).map(|value| ("value".to_owned(), value)));
        let texts = [("error", self.error), ("error_type", self.error_type), ("message", self.message)];
        for (name, text) in texts {
            fields.extend(text.map(|text| (name.to_owned(), Value::String(text))));
        }
        let instruction = self.instruction.map(|instruction| Value::String(instruction.to_string()));
        fields.extend(instruction.map(|text| ("instruction".to_owned(), text)));
        fields.extend(self.data.map(|data| ("data".to_owned(), Value::Object(data))));
        fields
    }
}

impl<T> From<Failure> for Outcome<T> {
    fn from(failure: Failure) -> Outcome<T> {
        let FailureParts { error_type, error, message, instruction, data, cause } = failure.into_parts();
        let (error, error_type) = (Some(error), Some(error_type));
        Outcome { success: false, value: None, error, error_type, message, instruction, data, cause }
    }
}

impl<T, E: Into<Failure>> From<Result<T, E>> for Outcome<T> {
    fn from(result: Result<T, E>) -> Outcome<T> {
        match result {
            Ok(value) => Outcome::ok(value),
            Err(error) => error.into().into(),
        }
    }
}

impl<T: Serialize> Serialize for Outcome<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = self.value.as_ref().map(serde_json::to_value).transpose().map_err(S::Error::custom)?;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("success", &self.success)?;
        if let Some(value) = value.filter(|value| !value.is_null()) {
            map.serialize_entry("value", &value)?;
        }
        if let Some(error) = &self.error {
            map.serialize_entry("error", error)?;
        }
        if let Some(error_type) = &self.error_type {
            map.serialize_entry("error_type", error_type)?;
        }
        if let Some(message) = &self.message {
            map.serialize_entry("message", message)?;
        }
        if let Some(instruction) = &self.instruction {
            map.serialize_entry("instruction", instruction)?;
        }
        if let Some(data) = &self.data {
            map.serialize_entry("data", data)?;
        }
        map.end()
    }
}

/// The serialized fields. The value is deserialized after all fields are known.
#[derive(Deserialize)]
struct Received {
    success: bool,
    value: Option<Value>,
    error: Option<String>,
    error_type: Option<String>,
    message: Option<String>,
    instruction: Option<Instruction>,
    data: Option<Map<String, Value>>,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Outcome<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Outcome<T>, D::Error> {
        let received = Received::deserialize(deserializer)?;
        let value = match received.value {
            Some(value) => Some(serde_json::from_value(value).map_err(D::Error::custom)?),
            // Serialization omits a `null` value, which `()` and `None` produce.
            None if received.success => serde_json::from_value(Value::Null).ok(),
            None => None,
        };
        Ok(Outcome {
            success: received.success,
            value,
            error: received.error,
            error_type: received.error_type,
            message: received.message,
            instruction: received.instruction,
            data: received.data,
            cause: Cause::default(),
        })
    }
}

impl<T: JsonSchema> JsonSchema for Outcome<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Outcome_of_{}", T::schema_name()).into()
    }

    fn schema_id() -> Cow<'static, str> {
        format!("{}::Outcome<{}>", module_path!(), T::schema_id()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        let mut schema = json_schema!({
            "type": "object",
            "properties": {
                "success": {"type": "boolean", "description": "Whether the call succeeded"},
                "value": value,
                "error": {"type": "string", "description": "What failed"},
                "error_type": {"type": "string", "description": "A machine-readable error code"},
                "message": {"type": "string", "description": "A message for the user"},
                "instruction": {"type": "string", "description": "What the agent should do next"},
                "data": {"type": "object", "description": "Machine-readable details", "additionalProperties": true}
            },
            "required": ["success"],
            "additionalProperties": false
        });
        // A value that is always `null` is never present.
        if value_is_null(&schema)
            && let Some(Value::Object(properties)) = schema.get_mut("properties")
        {
            properties.shift_remove("value");
        }
        schema
    }
}

fn value_is_null(schema: &Schema) -> bool {
    schema
        .get("properties")
        .and_then(|properties| properties["value"].get("type"))
        .is_some_and(|kind| kind == "null")
}
