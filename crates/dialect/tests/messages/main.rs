//! Reading calls and writing results in every dialect. The cases are JSON files in this folder.
#![allow(clippy::unwrap_used)]

mod calls;
mod hostile;
mod results;
mod transcripts;

use serde_json::{Map, Value, json};
use toolwire_dialect::response::{CallId, CallKind, ReceivedCall, ResponseError};

/// Returns the outcome of reading calls in the form of the case files.
fn outcome(calls: Result<Vec<ReceivedCall>, ResponseError>) -> Value {
    match calls {
        Ok(calls) => calls.iter().map(call_json).collect(),
        Err(ResponseError::CutOff { reason, calls }) => {
            json!({"cut_off": reason, "calls": calls.iter().map(call_json).collect::<Vec<_>>()})
        }
        Err(ResponseError::Rejected { reason, message }) => json!({"rejected": reason, "message": message}),
        Err(ResponseError::Provider { message, .. }) => json!({"error": message}),
        Err(ResponseError::Malformed { pointer, .. }) => json!({"malformed": pointer}),
        Err(other) => panic!("{other}"),
    }
}

fn call_json(call: &ReceivedCall) -> Value {
    let mut fields = Map::new();
    // A synthetic id is null here; its text does not matter.
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
