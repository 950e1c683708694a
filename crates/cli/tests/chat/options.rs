//! The options of the command line, and `ask` on a terminal.

use serde_json::json;
use toolwire_testkit::misbehaving_server;
use toolwire_testkit::provider::{API_KEY, Gate, ModelOutput};

use crate::scripted_model::{ScriptedModel, gated};
use crate::terminal::{CTRL_D, Home, Terminal};
use crate::{approve_all, count, demo_server};

fn start(model: &ScriptedModel, home: &Home, arguments: &[&str]) -> Terminal {
    let base_url = model.provider.base_url();
    Terminal::start(home, arguments, &[("OPENAI_BASE_URL", &base_url), ("OPENAI_API_KEY", API_KEY)])
}

/// Stores a conversation about tides and then one about moons.
fn store_two_conversations(model: &ScriptedModel, home: &Home) {
    home.configure(json!({"mcpServers": {}}));
    let mut terminal = model.chat(home);
    terminal.enter("about tides");
    terminal.wait_for("\none");
    terminal.wait_for_prompt();
    terminal.enter("/clear");
    terminal.wait_for_prompt();
    terminal.enter("about moons");
    terminal.wait_for("\ntwo");
    terminal.wait_for_prompt();
    terminal.send(CTRL_D);
    assert_eq!(terminal.wait_for_end(), Some(0));
}

#[test]
fn model_names_the_model() {
    let home = Home::new();
    home.configure(json!({"mcpServers": {}}));
    for option in ["-m", "--model"] {
        let model = ScriptedModel::new([ModelOutput::text("Hello.")]);
        let terminal = start(&model, &home, &[option, "scripted"]);
        terminal.wait_for("toolwire · scripted · no servers");
        terminal.wait_for_prompt();
        terminal.enter("hi");
        terminal.wait_for("Hello.");
        assert_eq!(model.last_request()["model"], "scripted");
    }
}

#[test]
fn a_key_without_a_model_selects_the_default_model_of_its_provider() {
    let model = ScriptedModel::new([ModelOutput::text("Hello.")]);
    let home = Home::new();
    home.configure(json!({"mcpServers": {}}));
    let terminal = start(&model, &home, &[]);
    terminal.wait_for("toolwire · openai/gpt-5.2 · no servers");
    terminal.wait_for_prompt();
    terminal.enter("hi");
    terminal.wait_for("Hello.");
    assert_eq!(model.last_request()["model"], "gpt-5.2");
}

#[test]
fn a_model_can_be_given_only_once() {
    let home = Home::new();
    let mut terminal = Terminal::start(&home, &["demo", "-m", "demo"], &[]);
    assert_eq!(terminal.wait_for_end(), Some(2));
    let expected = "error: the model is given twice\nhint: use either `--model` or the model as an argument";
    assert_eq!(terminal.screen().trim(), expected);
}

#[test]
fn resume_with_words_continues_the_conversation_that_contains_them() {
    let model = ScriptedModel::new(["one", "two", "three"].map(ModelOutput::text));
    let home = Home::new();
    store_two_conversations(&model, &home);
    let terminal = start(&model, &home, &["-m", "scripted", "--resume", "tides"]);
    let screen = terminal.wait_for("\none");
    assert!(screen.contains("> about tides") && !screen.contains("moons"), "{screen}");
    terminal.wait_for_prompt();
    terminal.enter("go on");
    terminal.wait_for("\nthree");
    assert_eq!(model.user_messages(), ["about tides", "go on"]);
}

#[test]
fn resume_without_a_value_lists_the_conversations() {
    let model = ScriptedModel::new(["one", "two", "three"].map(ModelOutput::text));
    let home = Home::new();
    store_two_conversations(&model, &home);
    let terminal = start(&model, &home, &["-m", "scripted", "--resume"]);
    let screen = terminal.wait_for("`/resume NUMBER` continues one");
    let titles = |line: &&str| line.contains("about ");
    let listed: Vec<&str> = screen.lines().filter(titles).collect();
    assert!(
        listed.len() == 2 && listed[0].contains("about moons") && listed[1].contains("about tides"),
        "{screen}"
    );
    terminal.wait_for_prompt();
    terminal.enter("/resume 2");
    terminal.wait_for("> about tides");
    terminal.wait_for_prompt();
    terminal.enter("go on");
    terminal.wait_for("\nthree");
    assert_eq!(model.user_messages(), ["about tides", "go on"]);
}

#[test]
fn an_allowed_tool_runs_without_a_question() {
    let sum = r#"{"operator": "add", "argument1": 1, "argument2": 1}"#;
    let call = ModelOutput::default().call("call_1", "calculate", sum);
    let model = ScriptedModel::new([call, ModelOutput::text("Two.")]);
    let home = Home::new();
    home.configure(json!({"mcpServers": demo_server(), "toolwire": approve_all()}));
    let terminal = start(&model, &home, &["-m", "scripted", "--allow", "calc*"]);
    terminal.wait_for_prompt();
    terminal.enter("What is 1 + 1?");
    let screen = terminal.wait_for("Two.");
    assert_eq!((count(&screen, "✓ calculate"), count(&screen, "run it?")), (1, 0), "{screen}");
}

#[test]
fn server_selects_one_server() {
    let model = ScriptedModel::new([ModelOutput::text("Hello.")]);
    let home = Home::new();
    let mut servers = demo_server();
    servers["odd"] = json!({"command": misbehaving_server()});
    home.configure(json!({"mcpServers": servers}));
    let terminal = start(&model, &home, &["-m", "scripted", "--server", "odd"]);
    terminal.wait_for("toolwire · scripted · server odd ·");
    terminal.wait_for_prompt();
    terminal.enter("hi");
    terminal.wait_for("Hello.");
    let tools = model.last_request()["tools"].to_string();
    assert!(tools.contains("\"echo\"") && !tools.contains("\"calculate\""), "{tools}");
}

#[test]
fn ask_renders_the_response_while_it_streams() {
    let gate = Gate::new();
    let text = "# Title\n\nSome **bold** text.\n\n- one\n- two\n";
    let model = ScriptedModel::with_responses([gated(ModelOutput::text(text), 6, &gate)]);
    let home = Home::new();
    home.configure(json!({"mcpServers": demo_server()}));
    let base_url = model.provider.base_url();
    let variables = [("OPENAI_BASE_URL", &*base_url), ("OPENAI_API_KEY", API_KEY)];
    let mut terminal = Terminal::run(&home, &["ask", "go", "-m", "scripted"], &variables);
    model.wait_for(gate.reached());
    // Five chunks of five characters were sent.
    let screen = terminal.wait_for("Some bold");
    assert!(screen.contains("Title\n") && !screen.contains("two"), "{screen}");
    gate.open();
    assert_eq!(terminal.wait_for_end(), Some(0));
    assert_eq!(terminal.screen().trim(), "Title\n\nSome bold text.\n\n• one\n• two");
    assert_eq!(model.user_messages(), ["go"]);
}
