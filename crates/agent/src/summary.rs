//! Summarizes the start of a conversation, with the model that the conversation uses.
//!
//! The messages are sent as one text, in parts if they exceed the window: each part is summarized together
//! with the summary of the parts before it. No tools are offered, and the history stays as it is.

use std::sync::Arc;

use futures::StreamExt;
use toolwire_contract::model::{Model, ModelError, ModelEvent, ModelRequest, ModelResponse, Usage};
use toolwire_contract::text::{estimate_tokens, truncate};
use toolwire_contract::{Block, Content, Message, ResourceBody, Role};

use crate::context_window::shorten_result;
use crate::run::text_of;

const INSTRUCTIONS: &str = "You write summaries of conversations between a user and an assistant that calls tools. The \
    assistant continues the conversation with your summary instead of the messages, so it must contain everything that \
    is still needed: what the user wants, what was decided and done, the exact names, ids, paths, numbers and facts that \
    results contain, and what is still open. Write plain text of at most 500 words, in the language of the user. Do not \
    continue the conversation and do not answer questions in it.";

/// The tokens of one part if the window is unknown.
const DEFAULT_PART_TOKENS: u64 = 24_000;
/// A part needs at most this share of the window, in percent. The instructions and the summary need the rest.
const PART_PERCENT: u64 = 50;
const MIN_PART_TOKENS: u64 = 500;
/// The number of requests that may be refused as too long before summarizing fails.
const MAX_REFUSALS: u32 = 4;
/// The maximum length of a summary. Models do not always stop at the requested length.
const MAX_SUMMARY_CHARS: usize = 12_000;

/// The input of a summary.
pub(crate) struct SummaryTask {
    /// The summary of the messages before these.
    pub(crate) previous: Option<String>,
    pub(crate) messages: Vec<Arc<Message>>,
    /// The user's description of what the summary must contain.
    pub(crate) keep: Option<String>,
    /// The size of the window, if it is known.
    pub(crate) window: Option<u64>,
    pub(crate) result_characters: usize,
}

impl SummaryTask {
    /// Returns the summary and its usage.
    pub(crate) async fn run(self, model: &dyn Model) -> Result<(String, Usage), ModelError> {
        let mut part_tokens = self.window.map_or(DEFAULT_PART_TOKENS, |window| window * PART_PERCENT / 100);
        let mut summary = self.previous.clone().unwrap_or_default();
        let mut usage = Usage::default();
        let mut refusals = 0;
        let text: String = self.messages.iter().map(|message| self.describe(message)).collect();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let part = first_part(rest, part_tokens.max(MIN_PART_TOKENS));
            match ask(model, self.request(&summary, part)).await {
                Ok(response) => {
                    usage = usage.plus(&response.usage.unwrap_or_default());
                    let written = text_of(&response.message);
                    if written.trim().is_empty() {
                        let problem = "the summary is empty".to_owned();
                        return Err(ModelError::Malformed { model: model.name().to_owned(), problem });
                    }
                    summary = truncate(written.trim(), MAX_SUMMARY_CHARS).into_owned();
                    rest = &rest[part.len()..];
                }
                Err(ModelError::ContextExceeded { .. })
                    if refusals < MAX_REFUSALS && part_tokens > MIN_PART_TOKENS =>
                {
                    refusals += 1;
                    part_tokens = (estimate_tokens(part) / 2).max(MIN_PART_TOKENS);
                }
                Err(error) => return Err(error),
            }
        }
        Ok((summary, usage))
    }

    fn request(&self, summary: &str, part: &str) -> ModelRequest {
        let mut prompt = String::new();
        if !summary.is_empty() {
            prompt.push_str(&format!(
                "<summary>\n{summary}\n</summary>\nThe summary covers the messages before these:\n"
            ));
        }
        prompt.push_str(&format!("<conversation>\n{part}</conversation>\n\nSummarize all of it."));
        if let Some(keep) = &self.keep {
            prompt.push_str(&format!(" Above all, keep this: {keep}"));
        }
        ModelRequest {
            instructions: Some(INSTRUCTIONS.to_owned()),
            messages: vec![Message::user(prompt).into()],
            ..ModelRequest::default()
        }
    }

    fn describe(&self, message: &Message) -> String {
        let mut text = String::new();
        let speaker = match message.role {
            Role::User => "User",
            Role::Assistant => "Assistant",
        };
        for block in &message.content {
            match block {
                Block::Content(Content::Text { text: spoken, .. }) => {
                    text.push_str(&format!("{speaker}: {spoken}\n"));
                }
                Block::Content(file @ Content::Resource { resource, .. }) => {
                    let name = file.resource_name().unwrap_or_default();
                    text.push_str(&format!("{speaker}: [attached file {name}]\n"));
                    if let ResourceBody::Text(content) = &resource.body {
                        text.push_str(&format!("{}\n", truncate(content, self.result_characters)));
                    }
                }
                Block::Content(other) => match other.type_name() {
                    Some("thinking") => {}
                    name => text.push_str(&format!("{speaker}: [{}]\n", name.unwrap_or("content"))),
                },
                Block::Call { call, .. } => {
                    let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
                    let arguments = truncate(&arguments, self.result_characters);
                    text.push_str(&format!("Assistant calls {} with {arguments}\n", call.name));
                }
                Block::Result { result, .. } => {
                    let kind = if result.is_error() { "Error" } else { "Result" };
                    for block in shorten_result(result, self.result_characters).blocks() {
                        if let Content::Text { text: line, .. } = block {
                            text.push_str(&format!("{kind}: {line}\n"));
                        }
                    }
                }
            }
        }
        text
    }
}

/// Returns the start of a text with at most this many tokens: complete lines if possible, and at least one
/// character.
fn first_part(text: &str, tokens: u64) -> &str {
    if estimate_tokens(text) <= tokens {
        return text;
    }
    let mut end = 0;
    for (index, char) in text.char_indices() {
        let after = index + char.len_utf8();
        // Three ASCII bytes, or one other character, are a token: see `estimate_tokens`.
        if after as u64 > tokens * 3 || (after % 512 == 0 && estimate_tokens(&text[..after]) > tokens) {
            break;
        }
        end = after;
    }
    let complete_lines = text[..end].rfind('\n').map_or(end, |line| line + 1);
    &text[..complete_lines.max(text.chars().next().map_or(0, char::len_utf8))]
}

/// Sends a request and returns the complete response.
async fn ask(model: &dyn Model, request: ModelRequest) -> Result<ModelResponse, ModelError> {
    let mut events = model.ask(request);
    while let Some(event) = events.next().await {
        if let ModelEvent::Response(response) = event? {
            return Ok(response);
        }
    }
    let problem = "the stream ended without a response".to_owned();
    Err(ModelError::Malformed { model: model.name().to_owned(), problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_divided_at_lines() {
        let text = "one line of text\n".repeat(300);
        let mut rest = text.as_str();
        let mut parts = 0;
        while !rest.is_empty() {
            let part = first_part(rest, 500);
            assert!(estimate_tokens(part) <= 500 && part.ends_with('\n'), "{part}");
            rest = &rest[part.len()..];
            parts += 1;
        }
        assert_eq!(parts, 4);
        let without_lines = "日".repeat(2_000);
        let part = first_part(&without_lines, 500);
        assert!(!part.is_empty() && estimate_tokens(part) <= 700, "{}", part.len());
    }
}
