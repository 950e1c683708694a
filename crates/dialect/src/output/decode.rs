//! Converts the response of a model back to the original schema of the required format.

use serde_json::Value;
use toolwire_contract::model::{ModelResponse, StopReason};
use toolwire_contract::{Block, Content, Message};

use super::root::ANSWER;
use super::{BoundOutput, BoundSchema};
use crate::arguments::ArgumentError;
use crate::arguments::parse_any;
use crate::response::UNPARSED_ARGUMENTS;

impl BoundOutput {
    /// Returns the response with its text converted to the original schema, if it can be read. A response
    /// with calls of other tools is not the final one, and is returned unchanged.
    pub fn decode(&self, mut response: ModelResponse) -> ModelResponse {
        let written = self.take_call(&mut response);
        if response.message.calls().next().is_some() || response.stop == StopReason::Refusal {
            return response;
        }
        let text = text_of(&response.message);
        let decoded = match (&self.schema, written) {
            (Some(schema), Some(written)) => schema.decode(&written).or(Some(written)),
            _ if text.trim().is_empty() => None,
            (Some(schema), None) => schema.decode(&Value::String(text.clone())).or_else(|| container(&text)),
            (None, _) => container(&text),
        };
        let Some(decoded) = decoded else { return response };
        if !serde_json::from_str(&text).is_ok_and(|written: Value| written == decoded) {
            let is_text = |block: &Block| matches!(block, Block::Content(Content::Text { .. }));
            response.message.content.retain(|block| !is_text(block));
            response.message.content.push(Block::Content(Content::text(decoded.to_string())));
        }
        response
    }

    /// Removes the calls whose arguments are the response. Returns those of the first one, unless it was cut
    /// off.
    fn take_call(&self, response: &mut ModelResponse) -> Option<Value> {
        let name = self.tool_name()?;
        let mut arguments = None;
        response.message.content.retain(|block| {
            let Block::Call { id, call } = block else { return true };
            if call.name != name {
                return true;
            }
            response.unusable.retain(|unusable| unusable.id != *id);
            arguments.get_or_insert_with(|| match &call.arguments {
                Some(arguments) => Value::Object(arguments.clone()),
                None => {
                    let meta = call.extra.get("_meta");
                    meta.and_then(|meta| meta.get(UNPARSED_ARGUMENTS)).cloned().unwrap_or_default()
                }
            });
            false
        });
        if arguments.is_some()
            && response.stop == StopReason::Calls
            && response.message.calls().next().is_none()
        {
            response.stop = StopReason::End;
        }
        arguments.filter(|_| response.stop == StopReason::End)
    }
}

impl BoundSchema {
    /// Returns the response; `None` if it is not the JSON that the instructions require.
    fn decode(&self, written: &Value) -> Option<Value> {
        let mut arguments = match self.tool.decode(&self.wire.name, written) {
            Ok(decoded) => decoded.arguments,
            // These arguments are repaired as far as possible. The caller rejects them and lists the
            // violations.
            Err(ArgumentError::Invalid { arguments, .. }) => arguments,
            Err(_) => return None,
        };
        match self.is_wrapped {
            true => arguments.shift_remove(ANSWER),
            false => Some(Value::Object(arguments)),
        }
    }
}

/// Returns an object or array that a model wrote, without the text around it that it often adds.
fn container(text: &str) -> Option<Value> {
    parse_any(text).filter(|value| value.is_object() || value.is_array())
}

fn text_of(message: &Message) -> String {
    message.texts().collect()
}
