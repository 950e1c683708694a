//! Cohere v2: calls in the shape of Chat Completions, events and results of its own.

use serde_json::{Value, json};

use crate::Dialect;
use crate::calls::{At, CallError, Draft, Drafts, Ending, ReceivedCall, conclude, failure_in};
use crate::openai_chat::{self, draft, take_call};
use crate::results::{Carrier, Reply, note};

pub(crate) fn read_calls(answer: &Value) -> Result<Vec<ReceivedCall>, CallError> {
    let answer = At::root(answer);
    answer.object()?;
    failure_in(&answer)?;
    let ending = ending(&answer)?;
    let message = answer.get("message");
    let message = message.as_ref().unwrap_or(&answer);
    let Some(calls) = message.get("tool_calls") else { return conclude(Vec::new(), ending) };
    let drafts = calls.items()?.map(|call| draft(&call)).collect::<Result<Vec<Draft>, CallError>>()?;
    conclude(drafts, ending)
}

fn ending(holder: &At<'_>) -> Result<Ending, CallError> {
    Ok(match holder.text("finish_reason")? {
        Some(reason @ ("MAX_TOKENS" | "TIMEOUT")) => Ending::Cut(reason.to_owned()),
        Some(reason @ "ERROR") => {
            // A stream says why beside its word for the end.
            let message = holder.text("error")?.map(str::to_owned);
            Ending::Failed { reason: reason.to_owned(), message }
        }
        _ => Ending::Done,
    })
}

#[derive(Debug, Default)]
pub(crate) struct Stream {
    drafts: Drafts<u64>,
    ending: Option<Ending>,
}

impl Stream {
    pub(crate) fn drafts(&self) -> &[Draft] {
        self.drafts.as_slice()
    }

    pub(crate) fn push(&mut self, event: &Value) -> Result<(), CallError> {
        let event = At::root(event);
        event.object()?;
        failure_in(&event)?;
        match event.text("type")? {
            Some("tool-call-start") => self.take(&event, true),
            Some("tool-call-delta") => self.take(&event, false),
            Some("message-end") => {
                self.ending = Some(match event.get("delta") {
                    Some(delta) => ending(&delta)?,
                    None => Ending::Done,
                });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn take(&mut self, event: &At<'_>, begins: bool) -> Result<(), CallError> {
        if self.ending.is_some() {
            return Err(event.expected("no call after the end"));
        }
        let index =
            event.index("index")?.ok_or_else(|| event.expected_under("index", "the index of a call"))?;
        let delta = event.get("delta");
        let message = delta.as_ref().and_then(|delta| delta.get("message"));
        let Some(call) = message.as_ref().and_then(|message| message.get("tool_calls")) else {
            return Err(event.expected_under("delta/message/tool_calls", "a call"));
        };
        call.object()?;
        if begins {
            if self.drafts.get(&index).is_some() {
                return Err(event.expected_under("index", "an index that no other call has"));
            }
            self.drafts.begin(index, Draft::default());
        }
        match self.drafts.get(&index) {
            Some(draft) => take_call(&call, draft),
            None => Err(event.expected_under("index", "the index of a call that began")),
        }
    }

    pub(crate) fn finish(self) -> Result<Vec<ReceivedCall>, CallError> {
        conclude(self.drafts.into_vec(), self.ending.unwrap_or_else(Ending::missing))
    }
}

pub(crate) fn write_calls(dialect: Dialect, calls: &[ReceivedCall]) -> Vec<Value> {
    openai_chat::write_calls(dialect, calls)
        .into_iter()
        .map(|mut message| {
            // The content of an assistant message with calls is left out here, not null.
            if let Value::Object(fields) = &mut message {
                fields.shift_remove("content");
            }
            message
        })
        .collect()
}

pub(crate) const CARRIER: Carrier = Carrier::TEXT;

/// Each result is a message of documents, the form that feeds citations.
pub(crate) fn write_results(replies: Vec<Reply<'_>>) -> Vec<Value> {
    replies.iter().map(message).collect()
}

fn message(reply: &Reply<'_>) -> Value {
    let texts = reply.prepared.plain_texts(|media| note(media, "not shown"));
    let documents: Vec<Value> =
        texts.into_iter().map(|text| json!({"type": "document", "document": {"data": text}})).collect();
    json!({"role": "tool", "tool_call_id": reply.id, "content": documents})
}
