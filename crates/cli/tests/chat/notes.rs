//! Notes during a chat: a shortened history, a retry, and tools that were skipped or changed.

use std::net::TcpListener;

use serde_json::{Value, json};
use toolwire_testkit::provider::{Delivery, Gate, ModelOutput, ScriptedResponse, TokenCounts};

use crate::scripted_model::ScriptedModel;
use crate::terminal::{Home, Terminal};
use crate::{allow_all, count, misbehaving};

/// A response that fills a window of this size.
const WINDOW: u64 = 1_000;

fn long_response() -> ModelOutput {
    ModelOutput::text(&"word ".repeat(600))
}

/// Starts a chat without tools and with a small window, and waits for the first response.
fn chat_in_a_small_window(model: &ScriptedModel, home: &Home, mut context: Value) -> Terminal {
    context["tokens"] = json!(WINDOW);
    home.configure(json!({"mcpServers": {}, "toolwire": {"agent": {"context": context}}}));
    let terminal = model.chat(home);
    terminal.enter("tell me everything");
    terminal.wait_for("word word");
    terminal.wait_for_prompt();
    terminal
}

#[test]
fn messages_that_the_model_does_not_get_any_more_are_counted() {
    let model = ScriptedModel::new([long_response(), ModelOutput::text("Goodbye.")]);
    let home = Home::new();
    let terminal = chat_in_a_small_window(&model, &home, json!({}));
    terminal.enter("and now?");
    terminal.wait_for_words(
        "note: the context window is nearly full: 2 older messages omitted in requests; \
         `/compact` in chat summarizes instead",
    );
    terminal.wait_for("Goodbye.");
    terminal.wait_for_prompt();
    let sent = model.last_request()["messages"].to_string();
    assert!(sent.contains("and now?") && !sent.contains("word word"), "{sent}");
    assert_eq!(model.provider.rejections(), []);
}

#[test]
fn an_automatic_summary_is_reported() {
    // The messages are summarized in several parts; the last request gets the same response.
    let summary = || ModelOutput::text("Everything was told.");
    let model =
        ScriptedModel::new(std::iter::once(long_response()).chain(std::iter::repeat_with(summary).take(9)));
    let home = Home::new();
    let terminal = chat_in_a_small_window(&model, &home, json!({"summarize": true}));
    terminal.enter("and now?");
    terminal.wait_for_words("note: 2 messages summarized, because the context window is nearly full");
    terminal.wait_for("Everything was told.");
    terminal.wait_for_prompt();
    let sent = model.last_request()["messages"].to_string();
    assert!(sent.contains("Everything was told.") && sent.contains("and now?"), "{sent}");
    assert!(!sent.contains("word word"), "{sent}");
    assert_eq!(model.provider.rejections(), []);
}

#[test]
fn a_retry_is_shown_until_the_response_arrives() {
    let gate = Gate::new();
    let overloaded = json!({"error": {"message": "busy", "type": "server_error"}});
    let delivery = Delivery { before_headers: Some(gate.clone()), ..Delivery::default() };
    let model = ScriptedModel::with_responses([
        ScriptedResponse::Error { status: 503, headers: Vec::new(), body: overloaded },
        ScriptedResponse::Delivered(ModelOutput::text("Here I am."), delivery),
    ]);
    let home = Home::new();
    let terminal = model.chat(&home);
    terminal.enter("are you there?");
    model.wait_for(gate.reached());
    terminal.wait_until("the retry", |screen| {
        screen.contains("overloaded, trying again in 0.") && screen.contains(" s, 1 of 3")
    });
    gate.open();
    terminal.wait_for("Here I am.");
    let screen = terminal.wait_for_prompt();
    assert!(!screen.contains("trying again"), "{screen}");
    assert_eq!(model.user_messages(), ["are you there?"]);
}

#[test]
fn skipped_tools_are_reported() {
    let model = ScriptedModel::new([]);
    let home = Home::new();
    home.configure(misbehaving("bad-tools", json!(null)));
    let terminal = model.chat(&home);
    terminal.wait_for_words(
        "warning: odd: tool `schema_text` was skipped: inputSchema is a string without a JSON object in it",
    );
    terminal.wait_for("odd is ready: 12 tools");
    terminal.wait_for_prompt();
}

/// The log line is printed while the prompt is displayed.
#[test]
fn log_lines_are_printed_above_the_prompt() {
    let home = Home::new();
    let script = "until [ -e prompt ]; do sleep 0.01; done; exit 3";
    home.configure(json!({"mcpServers": {"late": {"command": "sh", "args": ["-c", script]}}}));
    let terminal = Terminal::run_in_columns(200, &home, &["chat", "demo"], &[("TOOLWIRE_LOG", "warn")]);
    terminal.wait_for_prompt();
    home.write("prompt", "");
    let screen = terminal.wait_for(" WARN toolwire::hub::status: server=late");
    assert!(!screen.lines().any(|line| line.starts_with("> ")), "{screen}");
    terminal.wait_for_prompt();
}

/// The server accepts connections and never responds.
#[test]
fn a_store_that_does_not_respond_is_named_and_delays_only_the_start() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let model = ScriptedModel::new(["Here I am.", "Still here."].map(ModelOutput::text));
    let home = Home::new();
    let store = json!({"redis": format!("redis://{}", silent.local_addr().unwrap()), "timeout": "2s"});
    home.configure(json!({"mcpServers": {}, "toolwire": {"store": store}}));
    let terminal = model.chat(&home);
    terminal.wait_for_words("note: waiting for the store of conversations");
    terminal.wait_for_words("warning: the conversation is not stored: ");
    for (message, response) in [("are you there?", "Here I am."), ("and now?", "Still here.")] {
        terminal.enter(message);
        terminal.wait_for(response);
        terminal.wait_for_prompt();
    }
    assert_eq!(count(&terminal.screen(), "waiting for the store"), 1);
    assert_eq!(model.user_messages(), ["are you there?", "and now?"]);
}

#[test]
fn cached_tokens_are_in_the_status_line_and_in_usage() {
    let counts = TokenCounts { input: 100, cached: 60, written: 0, output: 5, thinking: 0 };
    let model = ScriptedModel::new([ModelOutput::text("Hello.").usage(counts)]);
    let home = Home::new();
    home.configure(json!({"mcpServers": {}}));
    let terminal = model.chat(&home);
    terminal.enter("hi");
    terminal.wait_for("scripted · 105 tokens (60 cached) · context 100");
    terminal.wait_for_prompt();
    terminal.enter("/usage");
    terminal.wait_for_words("input tokens 100 cached 60 output tokens 5");
}

#[test]
fn changed_tools_are_reported() {
    let model = ScriptedModel::new([
        ModelOutput::default().call("call_1", "swapped", "{}"),
        ModelOutput::text("Done."),
    ]);
    let home = Home::new();
    home.configure(misbehaving("changes-tools", allow_all()));
    let terminal = model.chat(&home);
    terminal.wait_for("odd is ready: 2 tools");
    terminal.enter("add them");
    terminal.wait_for("Done.");
    terminal
        .wait_for_words("warning: odd: tool `swapped` changed since it was pinned: its description changed");
    terminal.wait_for_words("hint: review it with `toolwire pins list`");
    terminal.wait_for_prompt();
}
