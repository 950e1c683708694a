//! Conversations: storing, resuming, undoing, changing the model, exporting.

use serde_json::json;
use toolwire_testkit::provider::{API_KEY, Api, Gate, ModelOutput, ScriptedResponse};
use toolwire_testkit::{RedisServer, misbehaving_server};

use crate::scripted_model::{ScriptedModel, gated};
use crate::terminal::{CTRL_C, CTRL_D, Home, Terminal};
use crate::{allow_all, count, demo_server};

#[test]
fn two_chats_on_one_conversation_lose_nothing() {
    let model = ScriptedModel::new(["one", "two", "three"].map(ModelOutput::text));
    let home = Home::new();
    let first = model.chat(&home);
    first.enter("first");
    first.wait_for("\none");
    first.wait_for_prompt();
    let second = model.chat(&home);
    second.enter("/resume 1");
    second.wait_for("> first");
    second.wait_for_prompt();
    second.enter("from the second");
    second.wait_for("\ntwo");
    first.enter("from the first");
    first
        .wait_until("the conflict", |screen| screen.replace('\n', " ").contains("another writer changed it"));
    first.wait_for("`/retry` sends the message again");
    first.wait_for_prompt();
    first.enter("/retry");
    first.wait_for("\nthree");
    assert_eq!(model.user_messages(), ["first", "from the first"]);
    first.wait_for_prompt();
    first.enter("/resume");
    let screen = first.wait_for("continues one");
    assert!(screen.contains("4 messages"), "{screen}");
    assert_eq!(model.provider.rejections(), []);
}

#[test]
fn a_conversation_is_found_by_words_and_displayed_with_its_calls() {
    let call = || {
        ModelOutput::default().call(
            "call_1",
            "calculate",
            r#"{"operator":"add","argument1":1,"argument2":2}"#,
        )
    };
    let model =
        ScriptedModel::new([ModelOutput::text("Tides rise."), call(), ModelOutput::text("**Three**.")]);
    let home = Home::new();
    home.configure(json!({"mcpServers": demo_server()}));
    let mut terminal = model.chat(&home);
    terminal.enter("about tides");
    terminal.wait_for("Tides rise.");
    terminal.wait_for_prompt();
    terminal.enter("/clear");
    terminal.wait_for_prompt();
    terminal.enter("add one and two");
    terminal.wait_for("Three.");
    terminal.wait_for_prompt();
    terminal.enter("/resume rise");
    // The first time, the user typed it.
    terminal.wait_until("the message again", |screen| count(screen, "> about tides") == 2);
    terminal.wait_for_prompt();
    terminal.send(CTRL_D);
    terminal.wait_for_end();

    let variables = [("OPENAI_BASE_URL", &*model.provider.base_url()), ("OPENAI_API_KEY", API_KEY)];
    let again = Terminal::start(&home, &["scripted", "--continue"], &variables);
    let screen = again.wait_for("Three.");
    for part in ["> add one and two", "✓ calculate(operator: \"add\""] {
        assert!(screen.contains(part), "{screen}");
    }
    again.wait_for_prompt();
    again.enter("/delete tides");
    again.wait_for("delete `about tides` (2 messages) permanently?");
    again.enter("y");
    again.wait_for("deleted `about tides`");
    again.wait_for_prompt();
    again.enter("/resume tides");
    again.wait_for("no conversation matches `tides`");
    again.wait_for_prompt();
    again.enter("/delete");
    again.wait_for("delete `add one and two` (4 messages) permanently?");
    again.enter("n");
    again.wait_for("nothing was deleted");
}

#[test]
fn a_summary_replaces_the_conversation_and_survives_the_chat() {
    let summary = "The code word is heron.";
    let model = ScriptedModel::new(["one", "two", summary, "three", "four"].map(ModelOutput::text));
    let home = Home::new();
    let mut terminal = model.chat(&home);
    terminal.enter("/compact");
    terminal.wait_for("there is nothing new to summarize");
    for (message, response) in [("the code word is heron", "\none"), ("and now?", "\ntwo")] {
        terminal.wait_for_prompt();
        terminal.enter(message);
        terminal.wait_for(response);
    }
    terminal.wait_for_prompt();
    terminal.enter("/compact the code word");
    terminal.wait_for("4 messages summarized");
    let asked = model.last_request()["messages"].to_string();
    assert!(asked.contains("keep this: the code word"), "{asked}");
    terminal.wait_for_prompt();
    terminal.enter("which word?");
    terminal.wait_for("\nthree");
    terminal.wait_for_prompt();
    terminal.send(CTRL_D);
    terminal.wait_for_end();
    let again = model.chat(&home);
    again.enter("/resume 1");
    again.wait_for("> which word?");
    again.wait_for_prompt();
    again.enter("once more");
    again.wait_for("\nfour");
    let sent = model.last_request()["messages"].to_string();
    assert!(sent.contains(summary) && !sent.contains("and now?"), "{sent}");
    again.wait_for_prompt();
    again.enter("/undo");
    again.wait_for("removed: once more");
    assert_eq!(model.provider.rejections(), []);
}

#[test]
fn a_summary_can_be_stopped_and_nothing_changes() {
    let gate = Gate::new();
    let model = ScriptedModel::with_responses([
        ScriptedResponse::Output(ModelOutput::text("one")),
        gated(ModelOutput::text("A summary."), 0, &gate),
        ScriptedResponse::Output(ModelOutput::text("two")),
    ]);
    let home = Home::new();
    let terminal = model.chat(&home);
    terminal.enter("the code word is heron");
    terminal.wait_for("\none");
    terminal.wait_for_prompt();
    terminal.enter("/compact");
    model.wait_for(gate.reached());
    terminal.wait_for("summarizing the conversation");
    terminal.send(CTRL_C);
    terminal.wait_for("stopped: nothing was summarized");
    terminal.wait_for_prompt();
    terminal.enter("which word?");
    terminal.wait_for("\ntwo");
    assert_eq!(model.user_messages(), ["the code word is heron", "which word?"]);
    assert_eq!(model.provider.rejections(), []);
}

#[test]
fn a_stored_conversation_is_shown_with_its_calls() {
    let home = Home::new();
    let question = "What is 25 + 17?";
    let mut asked = Terminal::run(&home, &["ask", question, "--keep", "-m", "demo"], &[]);
    assert_eq!(asked.wait_for_end(), Some(0));
    let mut shown = Terminal::run(&home, &["conversations", "show", "25 +"], &[]);
    assert_eq!(shown.wait_for_end(), Some(0));
    let screen = shown.screen();
    assert!(screen.contains(&format!("> {question}\n")), "{screen}");
    assert!(screen.contains("✓ calculate(operator: \"add\"") && screen.contains("result 42"), "{screen}");
}

#[test]
fn a_call_that_a_killed_chat_had_started_is_reported() {
    let model = ScriptedModel::new([
        ModelOutput::default().call("call_1", "echo", r#"{"text": "hi"}"#),
        ModelOutput::text("I see."),
    ]);
    let home = Home::new();
    let arguments = ["--behaviour", "unhinted", "--delay", "600000"];
    let servers = json!({"slow": {"command": misbehaving_server(), "args": arguments}});
    home.configure(json!({"mcpServers": servers, "toolwire": allow_all()}));
    let mut terminal = model.chat(&home);
    terminal.enter("say hi");
    terminal.wait_for("echo(text: \"hi\")");
    terminal.signal("KILL");
    terminal.wait_for_end();
    let again = model.chat(&home);
    again.wait_for("slow is ready");
    again.enter("/resume 1");
    again.wait_for("interrupted: `echo`; it is unknown whether this took effect");
    again.wait_for_prompt();
    again.enter("what happened?");
    again.wait_for("I see.");
    let messages = model.last_request()["messages"].to_string();
    assert!(messages.contains("it is unknown whether it took effect"), "{messages}");
    assert_eq!(model.provider.rejections(), []);
}

#[test]
fn the_last_message_can_be_retried_or_removed() {
    let model = ScriptedModel::new(["one", "two", "three", "four", "five"].map(ModelOutput::text));
    let home = Home::new();
    let mut terminal = model.chat(&home);
    terminal.enter("first");
    terminal.wait_for("\none");
    terminal.wait_for_prompt();
    terminal.enter("second");
    terminal.wait_for("\ntwo");
    terminal.wait_for_prompt();
    terminal.enter("/retry");
    terminal.wait_for("\nthree");
    assert_eq!(model.user_messages(), ["first", "second"]);
    terminal.wait_for_prompt();
    terminal.enter("/undo");
    terminal.wait_for("removed: second");
    terminal.wait_for_prompt();
    terminal.enter("other");
    terminal.wait_for("\nfour");
    assert_eq!(model.user_messages(), ["first", "other"]);
    terminal.wait_for_prompt();
    terminal.send(CTRL_D);
    terminal.wait_for_end();

    let again = model.chat(&home);
    again.enter("/resume");
    let screen = again.wait_for("continues one");
    // The conversation, and its state before each of the two changes.
    assert_eq!(count(&screen, "  first  "), 3, "{screen}");
    again.wait_for_prompt();
    again.enter("/resume 1");
    again.wait_for("> other");
    again.wait_for_prompt();
    again.enter("more");
    again.wait_for("\nfive");
    assert_eq!(model.user_messages(), ["first", "other", "more"]);
    assert_eq!(model.provider.rejections(), []);
}

#[test]
fn the_model_can_be_changed_and_a_conversation_cleared() {
    let first = ScriptedModel::new([ModelOutput::text("I am the first."), ModelOutput::text("Begun anew.")]);
    let second = ScriptedModel::with_api(
        Api::Anthropic,
        [ScriptedResponse::Output(ModelOutput::text("I am the second."))],
    );
    let home = Home::new();
    let models = json!({
        "one": {"provider": "openai", "model": "m", "apiKey": API_KEY, "baseUrl": first.provider.base_url()},
        "two": {"provider": "anthropic", "model": "m", "apiKey": API_KEY, "baseUrl": second.provider.base_url()},
    });
    let mut servers = demo_server();
    servers["gone"] = json!({"command": "no-such-program"});
    home.configure(json!({"mcpServers": servers, "toolwire": {"model": "one", "models": models}}));
    let terminal = Terminal::start(&home, &[], &[]);
    terminal.wait_for("demo is ready");
    terminal.enter("/servers");
    terminal.wait_until("both servers", |screen| {
        screen.contains("demo  ready, 2 tools") && screen.contains("gone  ")
    });
    terminal.wait_for_prompt();
    terminal.enter("who are you?");
    terminal.wait_for("I am the first.");
    terminal.wait_for_prompt();
    terminal.enter("/model");
    terminal.wait_for("configured: `one`, `two`");
    terminal.wait_for_prompt();
    terminal.enter("/model two");
    terminal.wait_for("two is used from now on");
    terminal.wait_for_prompt();
    terminal.enter("and now?");
    terminal.wait_for("I am the second.");
    terminal.wait_for_prompt();
    assert_eq!(second.user_messages(), ["who are you?", "and now?"]);
    terminal.enter("/clear");
    terminal.wait_for("a new conversation");
    terminal.wait_for_prompt();
    terminal.enter("/model one");
    terminal.wait_for("one is used from now on");
    terminal.wait_for_prompt();
    terminal.enter("hello again");
    terminal.wait_for("Begun anew.");
    assert_eq!(first.user_messages(), ["hello again"]);
    assert_eq!((first.provider.rejections(), second.provider.rejections()), (vec![], vec![]));
}

#[test]
fn a_conversation_deleted_from_the_store_is_saved_and_stored_again() {
    let redis = RedisServer::start();
    let model = ScriptedModel::new(["one", "two"].map(ModelOutput::text));
    let home = Home::new();
    home.write("config.json", &json!({"toolwire": {"store": redis.url()}}).to_string());
    let variables = [("OPENAI_BASE_URL", &*model.provider.base_url()), ("OPENAI_API_KEY", API_KEY)];
    let terminal = Terminal::start(&home, &["config.json", "scripted"], &variables);
    terminal.wait_for_prompt();
    terminal.enter("first");
    terminal.wait_for("\none");
    terminal.wait_for_prompt();
    redis.command(&["FLUSHALL"]);
    terminal.enter("/save saved.md");
    terminal.wait_for("from memory, because the store failed");
    terminal.wait_for_prompt();
    terminal.enter("second");
    terminal.wait_for("`/retry` sends the message again");
    terminal.wait_for_prompt();
    terminal.enter("/retry");
    terminal.wait_for("\ntwo");
    terminal.wait_for_prompt();
    terminal.enter("/resume");
    terminal.wait_for("4 messages");
    let text = std::fs::read_to_string(home.path().join("saved.md")).unwrap();
    assert!(text.ends_with("first\n\n## Assistant\n\none\n"), "{text}");
    assert_eq!(model.user_messages(), ["first", "second"]);
}

#[test]
fn a_chat_continues_when_the_store_is_full() {
    let redis = RedisServer::start();
    let model = ScriptedModel::new(["one", "two", "three"].map(ModelOutput::text));
    let home = Home::new();
    home.configure(json!({"toolwire": {"store": redis.url()}}));
    let terminal = model.chat(&home);
    terminal.enter("first");
    terminal.wait_for("\none");
    terminal.wait_for_prompt();
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    terminal.enter("second");
    terminal.wait_for("this conversation is no longer stored");
    terminal.wait_for("\ntwo");
    terminal.wait_for_prompt();
    terminal.enter("third");
    let screen = terminal.wait_for("\nthree");
    assert_eq!(count(&screen, "no longer stored"), 1, "{screen}");
    assert_eq!(model.user_messages(), ["first", "second", "third"]);
}

#[test]
fn a_message_sent_while_the_store_is_down_is_not_lost() {
    let mut redis = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let model = ScriptedModel::new(["one", "two"].map(ModelOutput::text));
    let home = Home::new();
    home.configure(json!({"toolwire": {"store": redis.url()}}));
    let terminal = model.chat(&home);
    terminal.enter("first");
    terminal.wait_for("\none");
    terminal.wait_for_prompt();
    redis.kill();
    terminal.enter("second");
    terminal.wait_for("saving the message");
    // Waiting for the store can be stopped.
    terminal.send(CTRL_C);
    terminal.wait_for("error:");
    redis.restart();
    terminal.wait_for_prompt();
    terminal.enter("/retry");
    terminal.wait_for("\ntwo");
    assert_eq!(model.user_messages(), ["first", "second"]);
    assert_eq!(model.provider.rejections(), []);
}

#[test]
fn retry_without_a_store_keeps_earlier_results() {
    let call = ModelOutput::default().call(
        "call_1",
        "calculate",
        r#"{"operator": "add", "argument1": 1, "argument2": 1}"#,
    );
    let model = ScriptedModel::with_responses([
        ScriptedResponse::Output(call),
        ScriptedResponse::error(400, json!({"error": {"message": "not now"}})),
        ScriptedResponse::error(400, json!({"error": {"message": "not now"}})),
        ScriptedResponse::Output(ModelOutput::text("At last.")),
    ]);
    let home = Home::new();
    home.write("notes.txt", "This is not a database.");
    let toolwire = json!({"store": "notes.txt", "agent": {"approvals": {"otherwise": "allow"}}});
    home.configure(json!({"mcpServers": demo_server(), "toolwire": toolwire}));
    let terminal = model.chat(&home);
    terminal.enter("What is 1 + 1?");
    terminal.wait_for("not now");
    terminal.wait_for_prompt();
    terminal.enter("And now?");
    terminal.wait_until("another refusal", |screen| count(screen, "not now") == 2);
    terminal.wait_for_prompt();
    terminal.enter("/retry");
    terminal.wait_for("At last.");
    let messages = model.last_request()["messages"].to_string();
    assert!(!messages.contains("unknown") && messages.contains("expression"), "{messages}");
    assert_eq!(model.user_messages(), ["What is 1 + 1?", "And now?"]);
}
