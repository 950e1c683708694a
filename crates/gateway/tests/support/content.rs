//! Responses with content other than text, and responses that break rules.

use serde_json::json;
use toolwire_contract::model::{
    Citation, ModelError, ModelEvent, ModelRequest, ResponseDetails, StopReason, Usage,
};
use toolwire_contract::{Block, Content, Message, Role};
use toolwire_testkit::ScriptedTurn;

use super::{MODEL, PNG, ending, with_text};

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
