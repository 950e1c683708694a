//! `toolwire chat` as a person has it: typed at under a pseudo-terminal, its screen read.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod answering;
mod calling;
mod connecting;
mod keeping;
mod plain;
mod scripted;
mod terminal;

use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use toolwire_testkit::misbehaving_server;
use toolwire_testkit::provider::ModelOutput;

use scripted::Scripted;
use terminal::{ALT_ENTER, CTRL_C, CTRL_D, ENTER, Home, TAB, Terminal, UP};

/// How often the text is on the screen.
fn times(screen: &str, text: &str) -> usize {
    screen.matches(text).count()
}

fn demo(home: &Home) -> Terminal {
    let terminal = Terminal::start(home, &[], &[]);
    terminal.wait_for_prompt();
    terminal
}

/// A server of the kind that does something wrong.
fn misbehaving(behaviour: &str, toolwire: serde_json::Value) -> String {
    let command = misbehaving_server();
    json!({"mcpServers": {"odd": {"command": command, "args": ["--behaviour", behaviour]}}, "toolwire": toolwire}).to_string()
}

const ALLOWED: &str = r#"{"agent": {"approvals": {"otherwise": "allow"}}}"#;

fn allowed() -> serde_json::Value {
    serde_json::from_str(ALLOWED).unwrap()
}

#[test]
fn with_nothing_configured_the_stand_in_answers_and_says_what_it_is() {
    let home = Home::new();
    let mut terminal = demo(&home);
    let screen = terminal.screen();
    assert!(
        screen.replace('\n', "").contains("is not a language model")
            && screen.contains("using the demo server"),
        "{screen}"
    );
    terminal.enter("What is the weather in Paris, and what is 25 + 17?");
    terminal.wait("both calls", |screen| {
        screen.contains("✓ get_weather(location: \"Paris\")")
            && screen.contains("✓ calculate(")
            && screen.contains("42")
    });
    terminal.wait_for_prompt();
    terminal.send(CTRL_D);
    assert_eq!(terminal.wait_for_end(), Some(0));
}

#[test]
fn every_way_out_leads_out() {
    for (keys, code) in [("exit\r", 0), ("quit\r", 0), ("/exit\r", 0), (CTRL_D, 0)] {
        let home = Home::new();
        let mut terminal = demo(&home);
        terminal.send(keys);
        assert_eq!(terminal.wait_for_end(), Some(code), "{keys:?}");
    }
}

#[test]
fn ctrl_c_clears_the_line_and_twice_leaves() {
    let home = Home::new();
    let mut terminal = demo(&home);
    terminal.send("never sent");
    terminal.wait_for("> never sent");
    terminal.send(CTRL_C);
    terminal.wait_for("Ctrl-C again exits");
    terminal.wait_for_prompt();
    terminal.enter("/usage");
    terminal.wait_for("output tokens");
    terminal.wait_for_prompt();
    terminal.send(CTRL_C);
    terminal.wait("second remark", |screen| times(screen, "Ctrl-C again exits") == 2);
    terminal.wait_for_prompt();
    terminal.send(CTRL_C);
    assert_eq!(terminal.wait_for_end(), Some(130));
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
    terminal.wait("the one tool", |screen| screen.contains("get_weather") && !screen.contains("calculate"));
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
fn wrong_commands_are_told_with_the_nearest_one() {
    let home = Home::new();
    let terminal = demo(&home);
    terminal.enter("/modle");
    terminal.wait_for("did you mean `/model`?");
    terminal.wait_for_prompt();
    terminal.enter("/resume 99");
    terminal.wait_for("unknown conversation `99`");
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
fn what_was_typed_is_remembered_for_its_owner_alone() {
    let home = Home::new();
    let mut terminal = demo(&home);
    terminal.enter("What is 2 + 2?");
    terminal.wait_for("✓ calculate");
    terminal.wait_for_prompt();
    terminal.send(CTRL_D);
    terminal.wait_for_end();
    let mode = |name: &str| home.data().join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("history"), mode("conversations.db")), (0o600, 0o600));

    let again = demo(&home);
    again.send(UP);
    again.wait_for("> What is 2 + 2?");
}

#[test]
fn a_message_may_have_several_lines() {
    let scripted = Scripted::new([
        ModelOutput::text("first"),
        ModelOutput::text("second"),
        ModelOutput::text("third"),
        ModelOutput::text("fourth"),
    ]);
    let home = Home::new();
    let terminal = scripted.chat(&home);
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
    assert_eq!(scripted.said(), ["one \ntwo", "three\nfour", "```\ncode\n```", "five\nsix"]);
}
