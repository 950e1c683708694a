//! The history of messages: storing, moving through it, and searching.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use toolwire_testkit::provider::ModelOutput;

use crate::scripted_model::ScriptedModel;
use crate::terminal::{CTRL_C, CTRL_D, CTRL_R, CTRL_U, DOWN, ENTER, Home, UP};
use crate::{allow_all, count, demo, misbehaving};

/// Sends messages in a chat that ends before the next one starts.
fn send_earlier(home: &Home, messages: &[&str]) {
    let model = ScriptedModel::new(messages.iter().map(|_| ModelOutput::text("Fine.")));
    let mut terminal = model.chat(home);
    for (index, message) in messages.iter().enumerate() {
        terminal.enter(message);
        terminal.wait_until("a response", |screen| count(screen, "Fine.") > index);
        terminal.wait_for_prompt();
    }
    terminal.send(CTRL_D);
    assert_eq!(terminal.wait_for_end(), Some(0));
}

#[test]
fn only_the_owner_can_read_the_history() {
    let home = Home::new();
    fs::create_dir_all(home.data()).unwrap();
    let history = home.data().join("history");
    home.write("data/toolwire/history", "#V2\nolder message\n");
    fs::set_permissions(&history, Permissions::from_mode(0o644)).unwrap();
    send_earlier(&home, &["What is 2 + 2?"]);
    let mode = |name: &str| home.data().join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("history"), mode("conversations.db")), (0o600, 0o600));
    let terminal = demo(&home);
    terminal.send(UP);
    terminal.wait_for("> What is 2 + 2?");
    terminal.send(UP);
    terminal.wait_for("> older message");
    terminal.send(DOWN);
    terminal.wait_for("> What is 2 + 2?");
}

#[test]
fn ctrl_r_searches_the_messages_of_earlier_chats() {
    let home = Home::new();
    send_earlier(&home, &["the first apple", "the pear", "the second apple"]);
    let model = ScriptedModel::new([ModelOutput::text("Found.")]);
    let terminal = model.chat(&home);
    terminal.send(CTRL_R);
    terminal.wait_for("(reverse-i-search)");
    terminal.send("apple");
    terminal.wait_for("`apple': the second apple");
    terminal.send(CTRL_R);
    terminal.wait_for("`apple': the first apple");
    terminal.send(ENTER);
    terminal.wait_for("Found.");
    assert_eq!(model.user_messages(), ["the first apple"]);
}

#[test]
fn up_searches_messages_that_start_like_the_line() {
    let home = Home::new();
    send_earlier(&home, &["what is one", "who are you", "what is two"]);
    let terminal = demo(&home);
    terminal.send("what");
    terminal.wait_for("> what");
    terminal.send(UP);
    terminal.wait_for("> what is two");
    terminal.send(UP);
    terminal.wait_for("> what is one");
    terminal.send(DOWN);
    terminal.wait_for("> what is two");
    terminal.send(CTRL_C);
    terminal.wait_for_prompt();
    // A search without result changes nothing.
    terminal.send("when");
    terminal.wait_for("> when");
    terminal.send(UP);
    terminal.send(UP);
    terminal.send("!");
    terminal.wait_for("> when!");
    terminal.send(CTRL_U);
    terminal.wait_for_prompt();
    // An empty line moves through all messages.
    terminal.send(UP);
    terminal.send(UP);
    terminal.wait_for("> who are you");
}

#[test]
fn answers_and_messages_after_a_space_are_not_in_the_history() {
    let schema = json!({"type": "object", "required": ["pin"], "properties": {"pin": {"type": "string", "title": "PIN"}}});
    let params = json!({"message": "Your PIN?", "requestedSchema": schema});
    let arguments = json!({"method": "elicitation/create", "params": params}).to_string();
    let model = ScriptedModel::new([
        ModelOutput::default().call("call_1", "ask", &arguments),
        ModelOutput::text("Thanks."),
        ModelOutput::text("Noted."),
    ]);
    let home = Home::new();
    home.configure(misbehaving("asks", allow_all()));
    let mut terminal = model.chat(&home);
    terminal.enter("log me in");
    terminal.wait_for("PIN:");
    terminal.enter("secret-4711");
    terminal.wait_for("Thanks.");
    terminal.wait_for_prompt();
    terminal.enter(" my key is sk-0815");
    terminal.wait_for("Noted.");
    terminal.wait_for_prompt();
    terminal.send(CTRL_D);
    assert_eq!(terminal.wait_for_end(), Some(0));
    let history = fs::read_to_string(home.data().join("history")).unwrap();
    assert!(history.contains("log me in"), "{history}");
    assert!(!history.contains("4711") && !history.contains("0815"), "{history}");
}
