//! Tool calls: approval, progress, stopping, and questions of servers to the user.

use serde_json::json;
use toolwire_testkit::processes_with_variable;
use toolwire_testkit::provider::{Gate, ModelOutput, ScriptedResponse};

use crate::scripted_model::{ScriptedModel, gated};
use crate::terminal::{CTRL_C, ENTER, Home};
use crate::{allow_all, approve_all, count, demo, demo_server, misbehaving};

#[test]
fn a_call_can_be_approved_once_always_or_denied() {
    let home = Home::new();
    home.configure(json!({"mcpServers": demo_server(), "toolwire": approve_all()}));
    let terminal = demo(&home);
    terminal.enter("What is 1 + 1?");
    terminal.wait_for("run it?");
    terminal.send("what?\r");
    terminal.wait_for("type y, a, or n");
    terminal.send("n use your head\r");
    let screen = terminal.wait_until("the call to have failed", |screen| screen.contains("✗ calculate"));
    assert!(screen.contains("use your head"), "{screen}");
    terminal.wait_for_prompt();
    terminal.enter("What is 2 + 2?");
    terminal.wait_until("another question", |screen| count(screen, "run it?") == 3);
    terminal.send("y\r");
    terminal.wait_for("✓ calculate");
    terminal.wait_for_prompt();
    terminal.enter("What is 3 + 3?");
    terminal.wait_until("another question", |screen| count(screen, "run it?") == 4);
    terminal.send("a\r");
    terminal.wait_until("another result", |screen| count(screen, "✓ calculate") == 2);
    terminal.wait_for_prompt();
    terminal.enter("What is 4 + 4?");
    let screen =
        terminal.wait_until("a result without a question", |screen| count(screen, "✓ calculate") == 3);
    assert_eq!(count(&screen, "run it?"), 4, "{screen}");
}

#[test]
fn always_applies_to_later_calls_of_the_same_response() {
    let sum = r#"{"operator": "add", "argument1": 1, "argument2": 1}"#;
    let both = ModelOutput::default().call("call_1", "calculate", sum).call("call_2", "calculate", sum);
    let model = ScriptedModel::new([both, ModelOutput::text("Two, and two.")]);
    let home = Home::new();
    home.configure(json!({"mcpServers": demo_server(), "toolwire": approve_all()}));
    let terminal = model.chat(&home);
    terminal.enter("What is 1 + 1, twice?");
    terminal.wait_for("run it?");
    terminal.send("a\r");
    let screen = terminal.wait_for("Two, and two.");
    assert_eq!((count(&screen, "✓ calculate"), count(&screen, "run it?")), (2, 1), "{screen}");
}

#[test]
fn text_typed_before_a_question_does_not_answer_it() {
    let gate = Gate::new();
    let call = ModelOutput::default().call(
        "call_1",
        "calculate",
        r#"{"operator": "add", "argument1": 1, "argument2": 1}"#,
    );
    let model = ScriptedModel::with_responses([
        gated(call, 0, &gate),
        ScriptedResponse::Output(ModelOutput::text("Then not.")),
    ]);
    let home = Home::new();
    home.configure(json!({"mcpServers": demo_server(), "toolwire": approve_all()}));
    let terminal = model.chat(&home);
    terminal.enter("What is 1 + 1?");
    model.wait_for(gate.reached());
    terminal.enter("y");
    gate.open();
    let screen =
        terminal.wait_until("the question", |screen| screen.trim_end().ends_with("n no, with a reason:"));
    assert!(!screen.contains("✓ calculate"), "{screen}");
    terminal.enter("n");
    terminal.wait_for("✗ calculate");
    terminal.wait_for("Then not.");
    // The text is on the prompt for the next message.
    terminal.wait_until("the typed text on the prompt", |screen| screen.trim_end().ends_with("> y"));
}

#[test]
fn a_server_that_exits_during_a_call_fails_only_the_call() {
    let model = ScriptedModel::new([
        ModelOutput::default().call("call_1", "echo", r#"{"text": "hi"}"#),
        ModelOutput::text("It went away."),
    ]);
    let home = Home::new();
    home.configure(misbehaving("exits-mid-call", allow_all()));
    let terminal = model.chat(&home);
    terminal.enter("say hi");
    terminal.wait_for("✗ echo");
    terminal.wait_for("It went away.");
    terminal.wait_for_prompt();
    assert_eq!(model.provider.rejections(), []);
}

#[test]
fn the_prompt_appears_at_once_and_a_message_waits_for_the_servers() {
    let model = ScriptedModel::new([ModelOutput::text("Here I am.")]);
    let home = Home::new();
    let gate = home.path().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let script =
        format!("read line < {}; exec {} demo-server", gate.display(), env!("CARGO_BIN_EXE_toolwire"));
    home.configure(json!({"mcpServers": {"late": {"command": "sh", "args": ["-c", script]}}}));
    let terminal = model.chat(&home);
    terminal.enter("are you there?");
    terminal.wait_for("waiting for late");
    assert_eq!(model.provider.requests(), []);
    std::fs::write(&gate, "now\n").unwrap();
    terminal.wait_for("Here I am.");
    let tools = model.last_request()["tools"].to_string();
    assert!(tools.contains("\"get_weather\"") && tools.contains("\"calculate\""), "{tools}");
}

#[test]
fn waiting_for_a_server_can_be_stopped() {
    let home = Home::new();
    home.configure(misbehaving("never-initializes", json!(null)));
    let terminal = demo(&home);
    terminal.enter("hello");
    terminal.wait_for("waiting for odd");
    terminal.send(CTRL_C);
    terminal.wait_for("the message was not sent");
    terminal.wait_for_prompt();
}

#[test]
fn ctrl_c_stops_a_call_and_the_history_stays_valid() {
    let model = ScriptedModel::new([
        ModelOutput::default().call("call_1", "never", "{}"),
        ModelOutput::text("Done."),
    ]);
    let home = Home::new();
    home.configure(misbehaving("never-responds", allow_all()));
    let terminal = model.chat(&home);
    terminal.enter("say hi");
    terminal.wait_for("never()");
    terminal.send(CTRL_C);
    terminal.wait_for("stopped");
    terminal.wait_for_prompt();
    // The stopped call has a result in the history, so the provider accepts the next message.
    terminal.enter("never mind");
    terminal.wait_for("Done.");
    assert_eq!(model.provider.rejections(), []);
}

#[test]
fn progress_of_a_call_is_shown() {
    let model = ScriptedModel::new([
        ModelOutput::default().call("call_1", "echo", r#"{"text": "hi"}"#),
        ModelOutput::text("Done."),
    ]);
    let home = Home::new();
    home.configure(misbehaving("slow-progress", allow_all()));
    let terminal = model.chat(&home);
    terminal.enter("say hi");
    terminal.wait_for(" of 10");
    terminal.wait_for("✓ echo(text: \"hi\")");
    terminal.wait_for("Done.");
}

#[test]
fn a_server_can_ask_the_user() {
    let params = json!({
        "message": "Where to?",
        "requestedSchema": {"type": "object", "required": ["city", "nights"], "properties": {
            "city": {"type": "string", "title": "City"},
            "nights": {"type": "integer", "title": "Nights", "minimum": 1},
        }},
    });
    let arguments = json!({"method": "elicitation/create", "params": params}).to_string();
    let model = ScriptedModel::new([
        ModelOutput::default().call("call_1", "ask", &arguments),
        ModelOutput::text("Booked."),
    ]);
    let home = Home::new();
    home.configure(misbehaving("asks", allow_all()));
    let terminal = model.chat(&home);
    terminal.enter("book it");
    terminal.wait_for("server `odd` asks: Where to?");
    terminal.wait_for("City:");
    terminal.send("Oslo\r");
    terminal.wait_for("Nights (a number):");
    terminal.send("0\r");
    terminal.wait_for("it must be at least 1");
    terminal.send("3\r");
    terminal.wait_for("Booked.");
    let result = model.last_request()["messages"].to_string();
    assert!(result.contains("Oslo") && result.contains("accept"), "{result}");
}

#[test]
fn a_server_can_send_the_user_to_a_page() {
    let ask = |id: &str| {
        let params = json!({
            "mode": "url", "message": "Sign in first.", "elicitationId": id, "url": "https://example.com/sign-in",
        });
        let arguments = json!({"method": "elicitation/create", "params": params}).to_string();
        ModelOutput::default().call(&format!("call_{id}"), "ask", &arguments)
    };
    let model = ScriptedModel::new([
        ask("1"),
        ModelOutput::text("Signed in."),
        ask("2"),
        ModelOutput::text("Then not."),
    ]);
    let home = Home::new();
    home.configure(misbehaving("asks", allow_all()));
    let terminal = model.chat(&home);
    for (number, answer, action, end) in [(1, "y", "accept", "Signed in."), (2, "n", "decline", "Then not.")]
    {
        terminal.enter("go there");
        let prompt = "open this page yourself; done? y or n:";
        let screen = terminal.wait_until("the question", |screen| count(screen, prompt) == number);
        assert!(
            screen.contains("server `odd` asks: Sign in first.")
                && screen.contains("https://example.com/sign-in"),
            "{screen}"
        );
        terminal.enter(answer);
        terminal.wait_for(end);
        terminal.wait_for_prompt();
        let result = model.last_request()["messages"].to_string();
        assert!(result.contains(action), "{result}");
    }
}

#[test]
fn a_question_ends_with_the_response() {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string", "title": "City"}}});
    let params = json!({"message": "Where to?", "requestedSchema": schema});
    let arguments = json!({"method": "elicitation/create", "params": params}).to_string();
    let model = ScriptedModel::new([
        ModelOutput::default().call("call_1", "ask", &arguments),
        ModelOutput::text("The server is gone."),
        ModelOutput::text("Fine."),
    ]);
    let home = Home::new();
    let mut config = misbehaving("asks", allow_all());
    let mark = format!("question-{}", std::process::id());
    config["mcpServers"]["odd"]["env"] = json!({"TOOLWIRE_TEST_CHAT": mark});
    home.configure(config);
    let terminal = model.chat(&home);
    terminal.enter("book it");
    terminal.wait_for("City [nothing]:");
    for process in processes_with_variable("TOOLWIRE_TEST_CHAT", &mark) {
        std::process::Command::new("kill").args(["-KILL", &process.pid.to_string()]).status().unwrap();
    }
    terminal.wait_for("the response ended, so no answer is needed; press Enter");
    // The question has ended, so this text becomes the next message.
    terminal.enter("never mind");
    terminal.wait_for("The server is gone.");
    terminal.wait_for("> never mind");
    terminal.send(ENTER);
    terminal.wait_for("Fine.");
    assert_eq!(model.user_messages(), ["book it", "never mind"]);
}
