//! MCP itself, as a dialect: messages as sampling with tools writes them.

use serde_json::Value;
use toolwire_contract::{Block, Message, Role, ToolCall};

use crate::calls::{
    At, CallError, Draft, Drafts, Ending, ReceivedCall, arguments_object, conclude, failure_in,
};
use crate::{Answered, results};

/// Takes an assistant message, or the parameters of one `tools/call`.
pub(crate) fn read_calls(answer: &Value) -> Result<Vec<ReceivedCall>, CallError> {
    let mut stream = Stream::default();
    stream.push(answer)?;
    stream.finish()
}

/// Collects calls from messages; MCP has no smaller pieces.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    drafts: Drafts<()>,
    stop_reason: Option<String>,
}

impl Stream {
    pub(crate) fn drafts(&self) -> &[Draft] {
        self.drafts.as_slice()
    }

    pub(crate) fn push(&mut self, message: &Value) -> Result<(), CallError> {
        let message = At::root(message);
        message.object()?;
        failure_in(&message)?;
        if let Some(content) = message.get("content") {
            let lone = [content];
            let blocks: Vec<At<'_>> =
                if content.value().is_array() { content.items()?.collect() } else { lone.to_vec() };
            for block in blocks {
                if block.text("type").ok().flatten() == Some("tool_use") {
                    self.drafts.push(draft(&block, "input")?);
                }
            }
            self.stop_reason = message.text("stopReason")?.map(str::to_owned);
        } else {
            self.drafts.push(draft(&message, "arguments")?);
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Vec<ReceivedCall>, CallError> {
        let ending = match self.stop_reason {
            Some(reason) if reason == "maxTokens" => Ending::Cut(reason),
            _ => Ending::Done,
        };
        conclude(self.drafts.into_vec(), ending)
    }
}

fn draft(call: &At<'_>, arguments_key: &str) -> Result<Draft, CallError> {
    let mut draft = Draft { name: call.need_text("name")?.to_owned(), ..Draft::default() };
    draft.set_id(call.text("id")?);
    if let Some(arguments) = call.get(arguments_key) {
        draft.replace(arguments.value());
    }
    Ok(draft)
}

pub(crate) fn write_calls(calls: &[ReceivedCall]) -> Vec<Value> {
    let blocks = calls
        .iter()
        .map(|call| Block::Call {
            id: call.id.as_str().to_owned(),
            call: ToolCall::new(&call.name, arguments_object(call)),
        })
        .collect();
    vec![Message::new(Role::Assistant, blocks).into()]
}

/// Results go untouched: MCP reads its own.
pub(crate) fn write_results(answers: &[Answered<'_>]) -> Vec<Value> {
    let blocks = answers
        .iter()
        .map(|answer| Block::Result {
            id: answer.call.id.as_str().to_owned(),
            result: answer.result.cloned().unwrap_or_else(results::missing),
        })
        .collect();
    vec![Message::new(Role::User, blocks).into()]
}
