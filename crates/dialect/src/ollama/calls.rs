//! Ollama's own API: whole calls with object arguments, results by the tool's name.

use serde_json::{Value, json};

use crate::calls::{
    At, CallError, Draft, Drafts, Ending, ReceivedCall, arguments_object, conclude, failure_in,
};
use crate::openai_chat::draft;
use crate::results::{Carrier, Reply, note};

pub(crate) fn read_calls(answer: &Value) -> Result<Vec<ReceivedCall>, CallError> {
    let mut stream = Stream::default();
    stream.push(answer)?;
    stream.is_done = true;
    stream.finish()
}

/// Collects calls from chunks. Each call comes whole, so a chunk adds calls and never continues one.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    drafts: Drafts<()>,
    done_reason: Option<String>,
    is_done: bool,
}

impl Stream {
    pub(crate) fn drafts(&self) -> &[Draft] {
        self.drafts.as_slice()
    }

    pub(crate) fn push(&mut self, chunk: &Value) -> Result<(), CallError> {
        let chunk = At::root(chunk);
        chunk.object()?;
        failure_in(&chunk)?;
        let message = chunk.get("message");
        let message = message.as_ref().unwrap_or(&chunk);
        if let Some(calls) = message.get("tool_calls") {
            for call in calls.items()? {
                if self.is_done {
                    return Err(call.expected("no call after the end"));
                }
                self.drafts.push(draft(&call)?);
            }
        }
        if let Some(reason) = chunk.text("done_reason")? {
            self.done_reason = Some(reason.to_owned());
        }
        self.is_done |= chunk.get("done").is_some_and(|done| done.value() == true);
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Vec<ReceivedCall>, CallError> {
        let ending = match self.done_reason {
            Some(reason) if reason == "length" => Ending::Cut(reason),
            _ if self.is_done => Ending::Done,
            _ => Ending::missing(),
        };
        conclude(self.drafts.into_vec(), ending)
    }
}

pub(crate) fn write_calls(calls: &[ReceivedCall]) -> Vec<Value> {
    let calls: Vec<Value> = calls
        .iter()
        .map(|call| {
            let mut written = json!({"function": {"name": call.name, "arguments": arguments_object(call)}});
            if let Some(id) = call.id.given() {
                written["id"] = json!(id);
            }
            written
        })
        .collect();
    vec![json!({"role": "assistant", "content": "", "tool_calls": calls})]
}

pub(crate) const CARRIER: Carrier = Carrier {
    image_types: &["image/png", "image/jpeg", "image/webp"],
    image_bytes: 20_000_000,
    ..Carrier::TEXT
};

/// Tool messages by name, then the images of all of them in one user message.
pub(crate) fn write_results(replies: Vec<Reply<'_>>) -> Vec<Value> {
    let mut messages = Vec::with_capacity(replies.len() + 1);
    let mut labels = Vec::new();
    let mut images = Vec::new();
    for reply in &replies {
        let texts = reply.prepared.plain_texts(|media| note(media, "in the next user message"));
        let mut message = json!({"role": "tool", "tool_name": reply.call.name, "content": texts.join("\n")});
        if reply.call.id.given().is_some() {
            message["tool_call_id"] = json!(reply.id);
        }
        messages.push(message);
        for media in reply.prepared.media() {
            labels.push(reply.label(media));
            images.push(json!(media.data));
        }
    }
    if !images.is_empty() {
        messages.push(json!({"role": "user", "content": labels.join("\n"), "images": images}));
    }
    messages
}
