//! A stand-in for a model that needs no API key and no network.

mod arguments;
mod describe;
mod fill;
mod properties;
mod select;
mod tokens;

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use toolwire_contract::model::{
    Model, ModelError, ModelEvent, ModelRequest, ModelResponse, StopReason, UnsupportedContent,
};
use toolwire_contract::{Block, Content, Message, ResourceBody, ResourceContents, Role, ToolCall};

use select::select_calls;

/// A stand-in for a model. It selects tools by matching words, and its responses say that it is not a
/// language model.
///
/// The same request always gets the same response. All matching tools are called in one step, and the next
/// response describes their results.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demo;

/// The last line of every text response.
const LABEL: &str =
    "(`demo` is a built-in stand-in, not a language model. It selects tools by matching words.)";

/// The number of tools that are listed if none matches.
const MAX_LISTED_TOOLS: usize = 8;

impl Demo {
    /// The model name.
    pub const NAME: &str = "demo";
}

impl Model for Demo {
    fn name(&self) -> &str {
        Demo::NAME
    }

    /// Accepts only text.
    fn check_content(&self, content: &Content) -> Result<(), UnsupportedContent> {
        let media_type = match content {
            Content::Image { mime_type, .. } | Content::Audio { mime_type, .. } => mime_type,
            Content::Resource {
                resource: ResourceContents { mime_type, body: ResourceBody::Blob(_), .. },
                ..
            } => mime_type.as_deref().unwrap_or("binary data"),
            _ => return Ok(()),
        };
        Err(UnsupportedContent::MediaType { media_type: media_type.to_owned(), accepted: Vec::new() })
    }

    fn ask(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        let events = async move {
            match fill::respond(&request) {
                Some(Ok(value)) => events(text_response(value.to_string())),
                Some(Err(error)) => vec![Err(error)],
                None => events(respond(&request)),
            }
        };
        stream::once(async move { stream::iter(events.await) }).flatten().boxed()
    }
}

/// Splits the response into events, as a streaming model does.
fn events(response: ModelResponse) -> Vec<Result<ModelEvent, ModelError>> {
    let mut events = Vec::new();
    for block in &response.message.content {
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
    events.push(Ok(ModelEvent::Response(response)));
    events
}

fn respond(request: &ModelRequest) -> ModelResponse {
    let results = describe::results(&request.messages);
    if !results.is_empty() {
        let descriptions: Vec<String> =
            results.into_iter().map(|(call, result)| describe::describe_result(call, result)).collect();
        return text_response(format!("{}\n\n{LABEL}", descriptions.join("\n\n")));
    }
    let question = last_text(&request.messages);
    let selection = select_calls(&request.tools, &question, &request.tool_choice);
    if selection.calls.is_empty() {
        return text_response(format!("{}\n\n{LABEL}", explain_no_call(request, &selection)));
    }
    let turn = request.messages.len();
    let calls = selection.calls.into_iter().enumerate().map(|(index, (name, arguments))| Block::Call {
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

fn text_response(text: String) -> ModelResponse {
    ModelResponse {
        message: Message::assistant(text),
        stop: StopReason::End,
        usage: None,
        unusable: Vec::new(),
    }
}

/// Returns the text of the last message.
fn last_text(messages: &[Arc<Message>]) -> String {
    messages.last().map(|message| message.texts().collect::<Vec<_>>().join("\n")).unwrap_or_default()
}

/// Explains why no tool was called.
fn explain_no_call(request: &ModelRequest, selection: &select::Selection) -> String {
    if !selection.incomplete.is_empty() {
        let missing = selection.incomplete.iter().map(|(tool, missing)| {
            let missing: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
            format!("`{tool}` matches, but the question does not contain {}.", missing.join(" and "))
        });
        return missing.collect::<Vec<_>>().join("\n");
    }
    if request.tools.is_empty() {
        return "No tools are available.".to_owned();
    }
    let mut listed: Vec<String> =
        request.tools.iter().take(MAX_LISTED_TOOLS).map(|tool| format!("`{}`", tool.name)).collect();
    if request.tools.len() > MAX_LISTED_TOOLS {
        listed.push(format!("{} more", request.tools.len() - MAX_LISTED_TOOLS));
    }
    format!("No tool matches the question. Available tools: {}.", listed.join(", "))
}

#[cfg(test)]
mod tests;
