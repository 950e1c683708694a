//! Calls in a Gemini answer, whole and streamed, and back into history.
//!
//! A chunk of a stream has the shape of a whole answer and holds whole calls. Only Vertex, when asked to, sends a call
//! in pieces; see [`partial`](super::partial).

use serde_json::{Map, Value, json};

use super::partial::PartialArguments;
use crate::calls::{
    At, CallError, Draft, Drafts, Ending, ReceivedCall, arguments_object, conclude, failure_in,
};

/// What Gemini 3 takes in place of the signature of a call that another model made.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

pub(crate) fn read_calls(answer: &Value) -> Result<Vec<ReceivedCall>, CallError> {
    let mut stream = Stream::default();
    stream.push(answer)?;
    let ending = stream.ending.take().unwrap_or(Ending::Done);
    stream.conclude(ending)
}

#[derive(Debug, Default)]
pub(crate) struct Stream {
    drafts: Drafts<()>,
    /// The arguments of the last draft, while they come in pieces.
    open: Option<PartialArguments>,
    ending: Option<Ending>,
}

impl Stream {
    pub(crate) fn drafts(&self) -> &[Draft] {
        self.drafts.as_slice()
    }

    pub(crate) fn push(&mut self, chunk: &Value) -> Result<(), CallError> {
        let chunk = At::root(chunk);
        chunk.object()?;
        failure_in(&chunk)?;
        let Some(candidates) = chunk.get("candidates") else {
            // The model's content alone.
            return self.take_content(&chunk);
        };
        let Some(candidate) = candidates.items()?.next() else { return Ok(()) };
        if let Some(content) = candidate.get("content") {
            self.take_content(&content)?;
        }
        if let Some(reason) = candidate.text("finishReason")? {
            self.ending = Some(ending(reason, candidate.text("finishMessage")?));
        }
        Ok(())
    }

    fn take_content(&mut self, content: &At<'_>) -> Result<(), CallError> {
        let Some(parts) = content.get("parts") else { return Ok(()) };
        for part in parts.items()? {
            if let Some(call) = part.get("functionCall") {
                if self.ending.is_some() {
                    return Err(call.expected("no call after the finish reason"));
                }
                self.take_call(&call, part.text("thoughtSignature")?)?;
            }
        }
        Ok(())
    }

    fn take_call(&mut self, call: &At<'_>, signature: Option<&str>) -> Result<(), CallError> {
        call.object()?;
        let name = call.text("name")?.filter(|name| !name.is_empty());
        match name {
            Some(name) => {
                self.close();
                let draft = self.drafts.push(Draft { name: name.to_owned(), ..Draft::default() });
                draft.set_id(call.text("id")?);
                // Absent arguments are the empty object here, not a model's mistake.
                draft.replace(call.get("args").map_or(&json!({}), |arguments| arguments.value()));
            }
            None if self.open.is_none() => {
                return Err(call.expected_under("name", "the name of a tool"));
            }
            None => {}
        }
        if let Some(signature) = signature
            && let Some(draft) = self.drafts.last()
        {
            draft.signature = Some(signature.to_owned());
        }
        if let Some(pieces) = call.get("partialArgs") {
            let open = self.open.get_or_insert_default();
            for piece in pieces.items()? {
                open.take(&piece)?;
            }
        }
        if call.get("willContinue").is_some_and(|flag| flag.value() == true) {
            self.open.get_or_insert_default();
        } else {
            self.close();
        }
        Ok(())
    }

    /// Ends the call that came in pieces.
    fn close(&mut self) {
        if let (Some(open), Some(draft)) = (self.open.take(), self.drafts.last())
            && let Some(arguments) = open.finish()
        {
            draft.replace(&arguments);
        }
    }

    pub(crate) fn finish(mut self) -> Result<Vec<ReceivedCall>, CallError> {
        let ending = match self.ending.take() {
            // A call that said it would go on and did not is not whole.
            Some(Ending::Done) if self.open.is_some() => Ending::Cut("a call did not go on".to_owned()),
            Some(ending) => ending,
            None => Ending::missing(),
        };
        self.conclude(ending)
    }

    fn conclude(mut self, ending: Ending) -> Result<Vec<ReceivedCall>, CallError> {
        self.close();
        conclude(self.drafts.into_vec(), ending)
    }
}

/// `STOP` stands beside calls too. All other reasons mean that something went wrong.
fn ending(finish_reason: &str, message: Option<&str>) -> Ending {
    match finish_reason {
        "STOP" | "FINISH_REASON_UNSPECIFIED" => Ending::Done,
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MISSING_THOUGHT_SIGNATURE"
        | "MALFORMED_RESPONSE" => {
            Ending::Failed { reason: finish_reason.to_owned(), message: message.map(str::to_owned) }
        }
        other => Ending::Cut(other.to_owned()),
    }
}

pub(crate) fn write_calls(calls: &[ReceivedCall]) -> Vec<Value> {
    let is_foreign = calls.iter().all(|call| call.signature.is_none());
    let parts: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(position, call)| {
            let mut function_call = Map::new();
            if let Some(id) = call.id.given() {
                function_call.insert("id".to_owned(), json!(id));
            }
            function_call.insert("name".to_owned(), json!(call.name));
            function_call.insert("args".to_owned(), Value::Object(arguments_object(call)));
            let mut part = json!({"functionCall": function_call});
            // Only the first of parallel calls is signed.
            let signature =
                call.signature.as_deref().or((is_foreign && position == 0).then_some(NO_SIGNATURE));
            if let Some(signature) = signature {
                part["thoughtSignature"] = json!(signature);
            }
            part
        })
        .collect();
    vec![json!({"role": "model", "parts": parts})]
}
