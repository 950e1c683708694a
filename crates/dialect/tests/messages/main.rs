//! Calls in and results out, in every dialect: the cases are data, in the files beside this one.
#![allow(clippy::unwrap_used)]

mod calls;
mod hostile;
mod results;
mod transcripts;

use serde_json::{Map, Value, json};
use toolwire_dialect::{CallError, CallId, CallKind, ReceivedCall};

/// The outcome of reading calls, as the case files write it.
fn outcome(calls: Result<Vec<ReceivedCall>, CallError>) -> Value {
    match calls {
        Ok(calls) => calls.iter().map(call_json).collect(),
        Err(CallError::Cut { reason, calls }) => {
            json!({"cut": reason, "calls": calls.iter().map(call_json).collect::<Vec<_>>()})
        }
        Err(CallError::Failed { reason, message }) => json!({"failed": reason, "message": message}),
        Err(CallError::ErrorAnswer { message }) => json!({"error": message}),
        Err(CallError::Malformed { pointer, .. }) => json!({"malformed": pointer}),
    }
}

fn call_json(call: &ReceivedCall) -> Value {
    let mut fields = Map::new();
    // A made-up id is told by its kind: its letters are nobody's business.
    match &call.id {
        CallId::Given(id) => fields.insert("id".to_owned(), json!(id)),
        CallId::Synthetic(_) => fields.insert("id".to_owned(), Value::Null),
    };
    fields.insert("name".to_owned(), json!(call.name));
    if let Some(namespace) = &call.namespace {
        fields.insert("namespace".to_owned(), json!(namespace));
    }
    fields.insert("arguments".to_owned(), call.arguments.clone());
    if call.kind == CallKind::Custom {
        fields.insert("kind".to_owned(), json!("custom"));
    }
    if let Some(signature) = &call.signature {
        fields.insert("signature".to_owned(), json!(signature));
    }
    Value::Object(fields)
}
