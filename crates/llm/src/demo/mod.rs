//! A stand-in for a model, for a machine with no key and no network.

mod choose;
mod fill;
mod tell;
mod words;

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use toolwire_contract::{
    Block, Content, Message, Model, ModelError, ModelEvent, ModelRequest, ModelResponse, Role, StopReason,
    ToolCall,
};

use choose::choose;

/// A stand-in for a model: it picks tools by matching words, and says that it is no language model.
///
/// It answers the same question the same way each time, calls each fitting tool once in one step, and tells what the tools
/// said. It needs nothing but the request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demo;

/// What stands under every answer.
const LABEL: &str =
    "(I am `demo`, the built-in stand-in: no language model. I pick tools by matching words.)";

/// More tools are not listed.
const MOST_LISTED: usize = 8;

impl Demo {
    /// The name it goes by.
    pub const NAME: &str = "demo";
}

impl Model for Demo {
    fn name(&self) -> &str {
        Demo::NAME
    }

    fn ask(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        stream::once(async move { stream::iter(events(answer(&request))) }).flatten().boxed()
    }
}

/// The answer in pieces, as a model would write it.
fn events(answer: ModelResponse) -> Vec<Result<ModelEvent, ModelError>> {
    let mut events = Vec::new();
    for block in &answer.message.content {
        match block {
            Block::Content(Content::Text { text, .. }) => {
                events.extend(text.split_inclusive(' ').map(|piece| Ok(ModelEvent::Text(piece.to_owned()))));
            }
            Block::Call { id, call } => {
                events.push(Ok(ModelEvent::CallAnnounced { id: id.clone(), name: call.name.clone() }));
            }
            _ => {}
        }
    }
    events.push(Ok(ModelEvent::Response(answer)));
    events
}

fn answer(request: &ModelRequest) -> ModelResponse {
    let results = tell::results(&request.messages);
    if !results.is_empty() {
        let told: Vec<String> = results.into_iter().map(|(call, result)| tell::tell(call, result)).collect();
        return said(format!("{}\n\n{LABEL}", told.join("\n\n")));
    }
    let question = question(&request.messages);
    let choice = choose(&request.tools, &question, &request.tool_choice);
    if choice.calls.is_empty() {
        return said(format!("{}\n\n{LABEL}", without_calls(request, &choice)));
    }
    let turn = request.messages.len();
    let calls = choice.calls.into_iter().enumerate().map(|(index, (name, arguments))| Block::Call {
        id: format!("demo_{turn}_{}", index + 1),
        call: ToolCall::new(name, arguments),
    });
    ModelResponse {
        message: Message::new(Role::Assistant, calls.collect()),
        stop: StopReason::Calls,
        usage: None,
        unusable: Vec::new(),
    }
}

fn said(text: String) -> ModelResponse {
    ModelResponse {
        message: Message::assistant(text),
        stop: StopReason::End,
        usage: None,
        unusable: Vec::new(),
    }
}

/// The words of the last message.
fn question(messages: &[Arc<Message>]) -> String {
    let last = messages.last().map(|message| message.content.as_slice()).unwrap_or_default();
    let texts = last.iter().filter_map(|block| match block {
        Block::Content(Content::Text { text, .. }) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// What to say when no tool can be called.
fn without_calls(request: &ModelRequest, choice: &choose::Choice) -> String {
    if !choice.incomplete.is_empty() {
        let missing = choice.incomplete.iter().map(|(tool, missing)| {
            let missing: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
            format!("I would use `{tool}`, but I cannot find {} in your question.", missing.join(" and "))
        });
        return missing.collect::<Vec<_>>().join("\n");
    }
    if request.tools.is_empty() {
        return "There are no tools here, and without them I have nothing to say.".to_owned();
    }
    let mut listed: Vec<String> =
        request.tools.iter().take(MOST_LISTED).map(|tool| format!("`{}`", tool.name)).collect();
    if request.tools.len() > MOST_LISTED {
        listed.push(format!("{} more", request.tools.len() - MOST_LISTED));
    }
    format!("None of the tools fits these words. I can use {}.", listed.join(", "))
}

#[cfg(test)]
mod tests;
