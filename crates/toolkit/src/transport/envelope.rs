//! Finds the id of an unreadable request, so that the error reaches the waiting caller.

use std::fmt;

use rmcp::model::ErrorCode;
use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, json};

/// Returns the id of the request as far as the text can be parsed; `Null` if there is none.
///
/// Other fields are skipped without parsing, so they may be nested too deeply or have invalid text. A
/// response has an id too, but that id is ours: an error must not be sent for it.
pub(super) fn id_of(text: &[u8]) -> Value {
    let mut fields = EnvelopeFields::default();
    let mut reader = serde_json::Deserializer::from_slice(text);
    // Parsing often fails; the fields found before the error are used.
    let _ = Envelope(&mut fields).deserialize(&mut reader);
    match fields {
        EnvelopeFields { id: Some(id @ (Value::String(_) | Value::Number(_))), is_request: true } => id,
        _ => Value::Null,
    }
}

/// Returns the error response to an invalid message, with the id of its request if it can be found.
pub(super) fn refusal(text: &[u8], code: ErrorCode, message: &str) -> Value {
    tracing::debug!(code = code.0, "a message was refused");
    json!({"jsonrpc": "2.0", "id": id_of(text), "error": {"code": code.0, "message": message}})
}

#[derive(Default)]
struct EnvelopeFields {
    id: Option<Value>,
    is_request: bool,
}

struct Envelope<'a>(&'a mut EnvelopeFields);

impl<'de> DeserializeSeed<'de> for Envelope<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Envelope<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(name) = fields.next_key::<String>()? {
            match name.as_str() {
                "id" => self.0.id = Some(fields.next_value()?),
                "method" => {
                    self.0.is_request = true;
                    fields.next_value::<IgnoredAny>()?;
                }
                _ => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &[u8], expected: Value) {
        assert_eq!(id_of(text), expected, "{}", String::from_utf8_lossy(text));
    }

    #[test]
    fn an_id_is_found_in_an_invalid_message() {
        check(br#"{"id":7,"method":"m","params":"\ud800"}"#, json!(7));
        check(b"{\"method\":\"m\",\"params\":\"\xff\",\"id\":\"a\"}", json!("a"));
        let deep = format!(r#"{{"params":{}{},"method":"m","id":7}}"#, "[".repeat(300), "]".repeat(300));
        check(deep.as_bytes(), json!(7));
        check(br#"{"id":7,"method":"m","params":{"a":"cut o"#, json!(7));
    }

    #[test]
    fn only_requests_have_an_id() {
        for text in ["", "nonsense", "[1]", r#"{"id":7,"result":"\ud800"}"#, r#"{"id":[7],"method":"m"}"#] {
            check(text.as_bytes(), Value::Null);
        }
    }
}
