//! `toolwire chat` under a pseudo-terminal: tests type keys and read the screen.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod approvals;
mod attachments;
mod connection_status;
mod conversations;
mod history;
mod images;
mod non_interactive;
mod notes;
mod options;
mod responses;
mod saving;
mod scripted_model;
mod terminal;
mod tool_calls;
mod wrapping;

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use toolwire_testkit::misbehaving_server;
use toolwire_testkit::provider::ModelOutput;

use scripted_model::ScriptedModel;
use terminal::{ALT_ENTER, CTRL_C, CTRL_D, ENTER, Home, TAB, Terminal};

/// Counts the occurrences of the text on the screen.
fn count(screen: &str, text: &str) -> usize {
    screen.matches(text).count()
}

/// Starts a chat with the demo model and waits for its prompt.
fn demo(home: &Home) -> Terminal {
    let terminal = Terminal::start(home, &[], &[]);
    terminal.wait_for_prompt();
    terminal
}

/// A configuration with one server that misbehaves in the given way.
fn misbehaving(behaviour: &str, toolwire: Value) -> Value {
    let server = json!({"command": misbehaving_server(), "args": ["--behaviour", behaviour]});
    json!({"mcpServers": {"odd": server}, "toolwire": toolwire})
}

/// The value of `mcpServers` for the demo server.
fn demo_server() -> Value {
    json!({"demo": {"command": env!("CARGO_BIN_EXE_toolwire"), "args": ["demo-server"]}})
}

/// Settings that allow every call without approval.
fn allow_all() -> Value {
    json!({"agent": {"approvals": {"otherwise": "allow"}}})
}

/// Settings that require approval for every call.
fn approve_all() -> Value {
    json!({"agent": {"approvals": {"otherwise": "ask"}}})
}

#[test]
fn without_configuration_the_demo_model_responds_and_is_announced() {
    let home = Home::new();
    let mut terminal = demo(&home);
    let screen = terminal.screen();
    assert!(
        screen.replace('\n', "").contains("is not a language model")
            && screen.contains("using the demo server"),
        "{screen}"
    );
    terminal.enter("What is the weather in Paris, and what is 25 + 17?");
    terminal.wait_until("both calls", |screen| {
        screen.contains("✓ get_weather(location: \"Paris\")")
            && screen.contains("✓ calculate(")
            && screen.contains("42")
    });
    terminal.wait_for_prompt();
    terminal.send(CTRL_D);
    assert_eq!(terminal.wait_for_end(), Some(0));
}

#[test]
fn a_newcomer_sees_two_lines_before_the_greeting() {
    let home = Home::new();
    let terminal = Terminal::run_in_columns(120, &home, &["chat"], &[]);
    let screen = terminal.wait_for_prompt();
    let lines: Vec<&str> = screen.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(
        lines[..3],
        [
            "note: using the demo server and `demo`, which is not a language model",
            "hint: add servers with `toolwire import`, and set a key such as ANTHROPIC_API_KEY",
            "toolwire · demo · server demo · /help lists the commands",
        ]
    );
    // The server may be ready before or after the first prompt.
    assert!(lines[3..].iter().all(|line| [">", "demo is ready: 2 tools"].contains(line)), "{screen}");
}

#[test]
fn every_exit_command_exits() {
    for (keys, code) in [("exit\r", 0), ("quit\r", 0), ("/exit\r", 0), (CTRL_D, 0)] {
        let home = Home::new();
        let mut terminal = demo(&home);
        terminal.send(keys);
        assert_eq!(terminal.wait_for_end(), Some(code), "{keys:?}");
    }
}

#[test]
fn ctrl_c_clears_the_line_and_exits_when_repeated() {
    let home = Home::new();
    let mut terminal = demo(&home);
    terminal.send("never sent");
    terminal.wait_for("> never sent");
    terminal.send(CTRL_C);
    terminal.wait_for("Ctrl-C again to exit");
    terminal.wait_for_prompt();
    terminal.enter("/usage");
    terminal.wait_for("output tokens");
    terminal.wait_for_prompt();
    terminal.send(CTRL_C);
    terminal.wait_until("a second hint", |screen| count(screen, "Ctrl-C again to exit") == 2);
    terminal.wait_for_prompt();
    // Only a press within 2 seconds of the last one exits.
    thread::sleep(Duration::from_millis(2_100));
    terminal.send(CTRL_C);
    terminal.wait_until("a third hint", |screen| count(screen, "Ctrl-C again to exit") == 3);
    terminal.wait_for_prompt();
    assert_eq!(terminal.press_until_end(CTRL_C), Some(130));
}

#[test]
fn commands_models_and_tools_are_completed() {
    let home = Home::new();
    let terminal = demo(&home);
    terminal.wait_for("demo is ready");
    terminal.send("/too");
    terminal.send(TAB);
    terminal.send("weather");
    terminal.wait_for("> /tools weather");
    terminal.send(ENTER);
    terminal.wait_until("only the matching tool", |screen| {
        screen.contains("get_weather") && !screen.contains("calculate")
    });
    terminal.wait_for_prompt();
    terminal.send("/approve calc");
    terminal.send(TAB);
    terminal.wait_for("> /approve calculate");
    terminal.send(ENTER);
    terminal.wait_for("`calculate` runs without approval");
    terminal.wait_for_prompt();
    terminal.send("/model anth");
    terminal.send(TAB);
    terminal.wait_for("> /model anthropic/");
}

#[test]
fn wrong_commands_are_reported_with_suggestions() {
    let home = Home::new();
    let terminal = demo(&home);
    terminal.enter("/modle");
    terminal.wait_for("did you mean `/model`?");
    terminal.wait_for_prompt();
    terminal.enter("/resume 99");
    terminal.wait_for("no conversation matches `99`");
    terminal.wait_for_prompt();
    terminal.enter("/model nowhere/at-all");
    terminal.wait_for("unknown provider `nowhere`");
    terminal.wait_for_prompt();
    terminal.enter("/undo");
    terminal.wait_for("the conversation is empty");
    terminal.wait_for_prompt();
    terminal.enter("/help");
    terminal.wait_for("removes the last message and its response");
}

#[test]
fn a_message_may_have_several_lines() {
    let model = ScriptedModel::new(["first", "second", "third", "fourth"].map(ModelOutput::text));
    let home = Home::new();
    let terminal = model.chat(&home);
    terminal.enter("one \\");
    terminal.enter("two");
    terminal.wait_for("first");
    terminal.wait_for_prompt();
    terminal.send("three");
    terminal.send(ALT_ENTER);
    terminal.enter("four");
    terminal.wait_for("second");
    terminal.wait_for_prompt();
    terminal.enter("```");
    terminal.enter("code");
    terminal.enter("```");
    terminal.wait_for("third");
    terminal.wait_for_prompt();
    terminal.send("\x1b[200~five\nsix\x1b[201~");
    terminal.wait_for("six");
    terminal.send(ENTER);
    terminal.wait_for("fourth");
    assert_eq!(model.user_messages(), ["one \ntwo", "three\nfour", "```\ncode\n```", "five\nsix"]);
}
