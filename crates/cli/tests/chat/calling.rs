//! Calls: asked about, seen, stopped, and servers that ask the person.

use serde_json::json;
use toolwire_testkit::provider::{Gate, ModelOutput, ScriptedResponse};

use crate::scripted::{Scripted, gated};
use crate::terminal::{CTRL_C, Home};
use crate::{allowed, demo, misbehaving, times};

#[test]
fn calls_are_asked_about_once_always_or_not() {
    let home = Home::new();
    home.write(
        "mcp.json",
        &json!({
            "mcpServers": {"demo": {"command": env!("CARGO_BIN_EXE_toolwire"), "args": ["demo-server"]}},
            "toolwire": {"agent": {"approvals": {"otherwise": "ask"}}},
        })
        .to_string(),
    );
    let terminal = demo(&home);
    terminal.enter("What is 1 + 1?");
    terminal.wait_for("run it?");
    terminal.send("what?\r");
    terminal.wait_for("type y, a, or n");
    terminal.send("n use your head\r");
    let screen = terminal.wait("the call to have failed", |screen| screen.contains("✗ calculate"));
    assert!(screen.contains("use your head"), "{screen}");
    terminal.wait_for_prompt();
    terminal.enter("What is 2 + 2?");
    terminal.wait("another question", |screen| times(screen, "run it?") == 3);
    terminal.send("y\r");
    terminal.wait_for("✓ calculate");
    terminal.wait_for_prompt();
    terminal.enter("What is 3 + 3?");
    terminal.wait("another question", |screen| times(screen, "run it?") == 4);
    terminal.send("a\r");
    terminal.wait("another result", |screen| times(screen, "✓ calculate") == 2);
    terminal.wait_for_prompt();
    terminal.enter("What is 4 + 4?");
    let screen = terminal.wait("a result without a question", |screen| times(screen, "✓ calculate") == 3);
    assert_eq!(times(&screen, "run it?"), 4, "{screen}");
}

#[test]
fn always_is_asked_no_more_within_the_same_answer() {
    let sum = r#"{"operator": "add", "argument1": 1, "argument2": 1}"#;
    let both = ModelOutput::default().call("call_1", "calculate", sum).call("call_2", "calculate", sum);
    let scripted = Scripted::new([both, ModelOutput::text("Two, and two.")]);
    let home = Home::new();
    let servers = json!({"demo": {"command": env!("CARGO_BIN_EXE_toolwire"), "args": ["demo-server"]}});
    let toolwire = json!({"agent": {"approvals": {"otherwise": "ask"}}});
    home.write("mcp.json", &json!({"mcpServers": servers, "toolwire": toolwire}).to_string());
    let terminal = scripted.chat(&home);
    terminal.enter("What is 1 + 1, twice?");
    terminal.wait_for("run it?");
    terminal.send("a\r");
    let screen = terminal.wait_for("Two, and two.");
    assert_eq!((times(&screen, "✓ calculate"), times(&screen, "run it?")), (2, 1), "{screen}");
}

#[test]
fn what_was_typed_before_a_question_is_no_answer_to_it() {
    let gate = Gate::new();
    let call = ModelOutput::default().call(
        "call_1",
        "calculate",
        r#"{"operator": "add", "argument1": 1, "argument2": 1}"#,
    );
    let scripted =
        Scripted::playing([gated(call, 0, &gate), ScriptedResponse::Output(ModelOutput::text("Then not."))]);
    let home = Home::new();
    let servers = json!({"demo": {"command": env!("CARGO_BIN_EXE_toolwire"), "args": ["demo-server"]}});
    let toolwire = json!({"agent": {"approvals": {"otherwise": "ask"}}});
    home.write("mcp.json", &json!({"mcpServers": servers, "toolwire": toolwire}).to_string());
    let terminal = scripted.chat(&home);
    terminal.enter("What is 1 + 1?");
    scripted.wait_until(gate.reached());
    terminal.enter("y");
    gate.open();
    let screen = terminal.wait("the question", |screen| screen.trim_end().ends_with("n no, with a reason:"));
    assert!(!screen.contains("✓ calculate"), "{screen}");
    terminal.enter("n");
    terminal.wait_for("✗ calculate");
    terminal.wait_for("Then not.");
    // It waits for the next message instead.
    terminal.wait("it on the line", |screen| screen.trim_end().ends_with("> y"));
}

#[test]
fn a_server_that_dies_in_a_call_is_told_and_the_answer_goes_on() {
    let scripted = Scripted::new([
        ModelOutput::default().call("call_1", "echo", r#"{"text": "hi"}"#),
        ModelOutput::text("It went away."),
    ]);
    let home = Home::new();
    home.write("mcp.json", &misbehaving("exits-mid-call", allowed()));
    let terminal = scripted.chat(&home);
    terminal.enter("say hi");
    terminal.wait_for("✗ echo");
    terminal.wait_for("It went away.");
    terminal.wait_for_prompt();
    assert_eq!(scripted.provider.rejections(), []);
}

#[test]
fn the_prompt_is_there_at_once_and_a_message_waits_for_its_servers() {
    let scripted = Scripted::new([ModelOutput::text("Here I am.")]);
    let home = Home::new();
    let gate = home.path().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let wait = format!("read line < {}; exec {} demo-server", gate.display(), env!("CARGO_BIN_EXE_toolwire"));
    home.write(
        "mcp.json",
        &json!({"mcpServers": {"late": {"command": "sh", "args": ["-c", wait]}}}).to_string(),
    );
    let terminal = scripted.chat(&home);
    terminal.enter("are you there?");
    terminal.wait_for("waiting for late");
    assert_eq!(scripted.provider.requests(), []);
    std::fs::write(&gate, "now\n").unwrap();
    terminal.wait_for("Here I am.");
    let tools = scripted.last_request()["tools"].to_string();
    assert!(tools.contains("\"get_weather\"") && tools.contains("\"calculate\""), "{tools}");
}

#[test]
fn waiting_for_a_server_can_be_stopped() {
    let home = Home::new();
    home.write("mcp.json", &misbehaving("never-initializes", json!(null)));
    let terminal = demo(&home);
    terminal.enter("hello");
    terminal.wait_for("waiting for odd");
    terminal.send(CTRL_C);
    terminal.wait_for("the message was not sent");
    terminal.wait_for_prompt();
}

#[test]
fn ctrl_c_stops_a_call_and_the_history_stays_whole() {
    let scripted =
        Scripted::new([ModelOutput::default().call("call_1", "never", "{}"), ModelOutput::text("Done.")]);
    let home = Home::new();
    home.write("mcp.json", &misbehaving("never-responds", allowed()));
    let terminal = scripted.chat(&home);
    terminal.enter("say hi");
    terminal.wait_for("never()");
    terminal.send(CTRL_C);
    terminal.wait_for("stopped");
    terminal.wait_for_prompt();
    // The call has its result in the history, so the provider takes the next message.
    terminal.enter("never mind");
    terminal.wait_for("Done.");
    assert_eq!(scripted.provider.rejections(), []);
}

#[test]
fn the_progress_of_a_call_is_seen() {
    let scripted = Scripted::new([
        ModelOutput::default().call("call_1", "echo", r#"{"text": "hi"}"#),
        ModelOutput::text("Done."),
    ]);
    let home = Home::new();
    home.write("mcp.json", &misbehaving("slow-progress", allowed()));
    let terminal = scripted.chat(&home);
    terminal.enter("say hi");
    terminal.wait_for(" of 10");
    terminal.wait_for("✓ echo(text: \"hi\")");
    terminal.wait_for("Done.");
}

#[test]
fn a_server_can_ask_the_person() {
    let params = json!({
        "message": "Where to?",
        "requestedSchema": {"type": "object", "required": ["city", "nights"], "properties": {
            "city": {"type": "string", "title": "City"},
            "nights": {"type": "integer", "title": "Nights", "minimum": 1},
        }},
    });
    let arguments = json!({"method": "elicitation/create", "params": params}).to_string();
    let scripted = Scripted::new([
        ModelOutput::default().call("call_1", "ask", &arguments),
        ModelOutput::text("Booked."),
    ]);
    let home = Home::new();
    home.write("mcp.json", &misbehaving("asks", allowed()));
    let terminal = scripted.chat(&home);
    terminal.enter("book it");
    terminal.wait_for("server `odd` asks: Where to?");
    terminal.wait_for("City:");
    terminal.send("Oslo\r");
    terminal.wait_for("Nights (a number):");
    terminal.send("0\r");
    terminal.wait_for("it must be at least 1");
    terminal.send("3\r");
    terminal.wait_for("Booked.");
    let result = scripted.last_request()["messages"].to_string();
    assert!(result.contains("Oslo") && result.contains("accept"), "{result}");
}

#[test]
fn a_server_can_send_the_person_to_a_page() {
    let ask = |id: &str| {
        let params = json!({
            "mode": "url", "message": "Sign in first.", "elicitationId": id, "url": "https://example.com/sign-in",
        });
        let arguments = json!({"method": "elicitation/create", "params": params}).to_string();
        ModelOutput::default().call(&format!("call_{id}"), "ask", &arguments)
    };
    let scripted =
        Scripted::new([ask("1"), ModelOutput::text("Signed in."), ask("2"), ModelOutput::text("Then not.")]);
    let home = Home::new();
    home.write("mcp.json", &misbehaving("asks", allowed()));
    let terminal = scripted.chat(&home);
    for (time, answer, action, end) in [(1, "y", "accept", "Signed in."), (2, "n", "decline", "Then not.")] {
        terminal.enter("go there");
        let prompt = "open this page yourself; done? y or n:";
        let screen = terminal.wait("the question", |screen| times(screen, prompt) == time);
        assert!(
            screen.contains("server `odd` asks: Sign in first.")
                && screen.contains("https://example.com/sign-in"),
            "{screen}"
        );
        terminal.enter(answer);
        terminal.wait_for(end);
        terminal.wait_for_prompt();
        let result = scripted.last_request()["messages"].to_string();
        assert!(result.contains(action), "{result}");
    }
}
