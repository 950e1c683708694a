//! Responses with content other than text, and responses that break rules.

use std::sync::Arc;

use futures::stream::BoxStream;
use serde_json::{Value, json};
use toolwire_contract::model::{
    Citation, Model, ModelError, ModelEvent, ModelRequest, ProviderPart, ResponseDetails, StopReason,
    UnsupportedContent, Usage,
};
use toolwire_contract::{Block, Content, Message, Role};
use toolwire_testkit::{ScriptedModel, ScriptedTurn};

use super::{MODEL, PNG, ending, with_text};

/// A model that accepts only text.
pub(crate) struct TextOnly(pub(crate) Arc<ScriptedModel>);

impl Model for TextOnly {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn check_content(&self, content: &Content) -> Result<(), UnsupportedContent> {
        match content {
            Content::Image { mime_type, .. } => {
                let media_type = mime_type.clone();
                Err(UnsupportedContent::MediaType { media_type, accepted: Vec::new() })
            }
            _ => Ok(()),
        }
    }

    fn ask(&self, request: ModelRequest) -> BoxStream<'_, Result<ModelEvent, ModelError>> {
        self.0.ask(request)
    }
}

/// Whether [`play`] has this scenario. A request for a correction begins with `The`.
pub(crate) fn is_known(scenario: &str) -> bool {
    scenario.starts_with("content-") || scenario == "The"
}

pub(crate) fn play(scenario: &str, results: usize, request: &ModelRequest) -> ScriptedTurn {
    let lookup = |id: &'static str| (id, "lookup", json!({"key": id}));
    match (scenario, results) {
        ("content-parallel", 0) => ScriptedTurn::calls([lookup("1"), lookup("2"), lookup("3")]),
        ("content-parallel", results) => ScriptedTurn::text_in_chunks(&format!("{results} results."), 4),
        ("content-empty", _) => {
            let mut turn = ending("", StopReason::End);
            turn.events.clear();
            turn
        }
        ("content-late-json", _) => ScriptedTurn::text(r#"{"town":"Paris"}"#),
        ("content-late-json-after-call", 0) => ScriptedTurn::calls([lookup("1")]),
        ("The", _) if asks_for(request, "content-late-json") => ScriptedTurn::text(r#"{"city":"Paris"}"#),
        ("content-cited", _) => cited(),
        ("content-annotated", _) => annotated(),
        ("content-search", 0) => {
            let turn = with_text("I look.", ScriptedTurn::calls([lookup("1")]));
            after_search(request, "first", turn)
        }
        ("content-search", _) => after_search(request, "second", ending("Here.", StopReason::End)),
        ("content-image", _) => image(),
        ("content-full", _) => {
            let mut details = ResponseDetails::default();
            details.is_context_full = true;
            with_details(details, ending("This is", StopReason::Length))
        }
        ("content-refusal", _) => {
            let mut details = ResponseDetails::default();
            details.stop_details = Some(json!({"type": "refusal", "category": "cyber", "explanation": null}));
            with_details(details, ending("I cannot help.", StopReason::Refusal))
        }
        ("content-tier", _) => {
            let mut details = ResponseDetails::default();
            (details.service_tier, details.system_fingerprint) =
                (Some("priority".into()), Some("fp_1".into()));
            with_details(details, ending("Hi.", StopReason::End))
        }
        ("content-fail", 0) => with_text("First.", ScriptedTurn::calls([lookup("1")])),
        ("content-fail", _) => ScriptedTurn::error(ModelError::Broken {
            model: MODEL.to_owned(),
            problem: "the connection was reset".to_owned(),
        }),
        _ => ScriptedTurn::text("No JSON."),
    }
}

/// Whether a message of the user begins with this scenario.
fn asks_for(request: &ModelRequest, scenario: &str) -> bool {
    let users = request.messages.iter().filter(|message| message.role == Role::User);
    users.flat_map(|message| &message.content).any(
        |block| matches!(block, Block::Content(Content::Text { text, .. }) if text.starts_with(scenario)),
    )
}

fn with_details(details: ResponseDetails, mut turn: ScriptedTurn) -> ScriptedTurn {
    turn.events.insert(0, ModelEvent::Details(details));
    turn
}

/// A document of the client, and a page of the web.
pub(crate) fn citations() -> [serde_json::Value; 2] {
    [
        json!({"type": "char_location", "cited_text": "two", "document_index": 0, "document_title": "A",
            "start_char_index": 0, "end_char_index": 3}),
        json!({"type": "web_search_result_location", "cited_text": "three", "url": "https://example.com/b", "title": "B",
            "encrypted_index": "x"}),
    ]
}

fn cited() -> ScriptedTurn {
    let text = |text: &str| ModelEvent::Text(text.to_owned());
    let citations = citations()
        .map(|value| ModelEvent::Citation(Citation { family: "toolwire/anthropic".to_owned(), value }));
    let [document, page] = citations;
    let mut turn = ending("One two three.", StopReason::End);
    turn.events = vec![
        text("One "),
        ModelEvent::TextPart,
        // A citation may come before its text.
        document,
        text("two "),
        ModelEvent::TextPart,
        text("three"),
        page,
        ModelEvent::TextPart,
        text("."),
    ];
    turn
}

/// A text with a citation in the format of the Responses API, which Anthropic's clients cannot get.
fn annotated() -> ScriptedTurn {
    let value = json!({"type": "url_citation", "start_index": 0, "end_index": 1, "url": "https://example.com", "title": "A"});
    let mut turn = ending("One.", StopReason::End);
    turn.events.push(ModelEvent::Citation(Citation { family: "toolwire/responses".to_owned(), value }));
    turn
}

/// Returns the parts of a web search that the provider makes itself.
pub(crate) fn search(family: &str, query: &str) -> Vec<Value> {
    match family {
        "toolwire/anthropic" => {
            let id = format!("srvtoolu_{query}");
            let page = json!({"type": "web_search_result", "url": "https://example.com", "title": "A", "encrypted_content": "c2VjcmV0", "page_age": null});
            vec![
                json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": query}}),
                json!({"type": "web_search_tool_result", "tool_use_id": id, "content": [page]}),
            ]
        }
        _ => vec![json!({
            "id": format!("ws_{query}"), "type": "web_search_call", "status": "completed",
            "action": {"type": "search", "query": query},
        })],
    }
}

/// Adds a web search before the content of a response, if the request has the provider's tools.
fn after_search(request: &ModelRequest, query: &str, mut turn: ScriptedTurn) -> ScriptedTurn {
    let Some(verbatim) = request.verbatim.as_ref().filter(|verbatim| !verbatim.provider_tools.is_empty())
    else {
        return turn;
    };
    let family = verbatim.family.to_owned();
    for value in search(&family, query).into_iter().rev() {
        if let Some(Ok(response)) = &mut turn.end {
            let block = Content::Other(json!({"type": value["type"], "_meta": {&family: value}}));
            response.message.content.insert(0, Block::Content(block));
        }
        turn.events.insert(0, ModelEvent::ProviderPart(ProviderPart { family: family.clone(), value }));
    }
    turn
}

fn image() -> ScriptedTurn {
    let content = Content::image(PNG, "image/png");
    let usage = Some(Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() });
    let mut turn = ending("", StopReason::End);
    turn.events = vec![ModelEvent::Media(content.clone())];
    if let Some(Ok(response)) = &mut turn.end {
        response.message = Message::new(Role::Assistant, vec![Block::Content(content)]);
        response.usage = usage;
    }
    turn
}
