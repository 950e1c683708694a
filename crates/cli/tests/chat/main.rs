//! `toolwire chat` as a person has it: typed at under a pseudo-terminal, its screen read.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod connecting;
mod plain;
mod scripted;
mod terminal;

use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use toolwire_testkit::misbehaving_server;
use toolwire_testkit::provider::{Api, Gate, KEY, Reply, Said};

use scripted::{Scripted, gated};
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
        screen.contains("is no language model") && screen.contains("this is the demo server"),
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
    terminal.wait_for("Ctrl-C again leaves");
    terminal.wait_for_prompt();
    terminal.enter("/usage");
    terminal.wait_for("tokens out");
    terminal.wait_for_prompt();
    terminal.send(CTRL_C);
    terminal.wait("second remark", |screen| times(screen, "Ctrl-C again leaves") == 2);
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
    terminal.wait_for("`calculate` runs without asking");
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
    terminal.wait_for("there is no conversation `99`");
    terminal.wait_for_prompt();
    terminal.enter("/model nowhere/at-all");
    terminal.wait_for("no provider is called `nowhere`");
    terminal.wait_for_prompt();
    terminal.enter("/undo");
    terminal.wait_for("nothing has been said yet");
    terminal.wait_for_prompt();
    terminal.enter("/help");
    terminal.wait_for("takes the last message and its answer back");
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
    let scripted =
        Scripted::new([Said::text("first"), Said::text("second"), Said::text("third"), Said::text("fourth")]);
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

#[test]
fn an_answer_is_rendered_while_it_comes() {
    let gate = Gate::new();
    let text = "# Title\n\nSome **bold** text.\n\n- one\n- two\n";
    let scripted = Scripted::playing([gated(Said::text(text), 6, &gate)]);
    let home = Home::new();
    let terminal = scripted.chat(&home);
    terminal.enter("go");
    scripted.wait_until(gate.reached());
    // Five pieces of five characters have been sent.
    let screen = terminal.wait_for("Some bold");
    assert!(screen.contains("\nTitle\n") && !screen.contains("two"), "{screen}");
    gate.open();
    let screen = terminal.wait_for("• two");
    assert!(!screen.contains("**") && times(&screen, "Title") == 1, "{screen}");
    let screen = terminal.wait_for_prompt();
    assert!(screen.contains("scripted · 17 tokens"), "{screen}");
}

#[test]
fn thinking_is_dimmed_and_the_answer_is_not() {
    let said = Said::text("Forty-two.").thinking("Let me see.");
    let scripted = Scripted::of(Api::DeepSeek, [Reply::Answer(said)]);
    let home = Home::new();
    let endpoint =
        json!({"provider": "deepseek", "model": "m", "apiKey": KEY, "baseUrl": scripted.provider.base_url()});
    home.write(
        "mcp.json",
        &json!({"mcpServers": {}, "toolwire": {"models": {"thinker": endpoint}}}).to_string(),
    );
    let terminal = Terminal::start(&home, &["thinker"], &[]);
    terminal.wait_for_prompt();
    terminal.enter("what is it?");
    terminal.wait_for("Forty-two.");
    terminal.wait_for_prompt();
    assert_eq!((terminal.is_dim("Let me see."), terminal.is_dim("Forty-two.")), (true, false));
}

#[test]
fn ctrl_c_stops_an_answer_and_what_was_said_stays() {
    let gate = Gate::new();
    let scripted = Scripted::playing([
        gated(Said::text("This is the beginning of it."), 4, &gate),
        Reply::Answer(Said::text("Another answer.")),
    ]);
    let home = Home::new();
    let terminal = scripted.chat(&home);
    terminal.enter("go on and on");
    terminal.wait_for("This is the beg");
    // What is typed meanwhile is not lost and not in the way.
    terminal.send("typed ahead");
    terminal.send(CTRL_C);
    terminal.wait_for("stopped");
    let screen = terminal.wait_for("> typed ahead");
    assert!(!screen.contains("begtyped") && times(&screen, "typed ahead") == 1, "{screen}");
    terminal.send(ENTER);
    terminal.wait_for("Another answer.");
    assert_eq!(scripted.said(), ["go on and on", "typed ahead"]);
    let history = scripted.last_request();
    let said = &history["messages"][1];
    assert_eq!(said["role"], "assistant");
    assert!(said["content"].to_string().contains("This is the beg"), "{said}");
    assert_eq!(scripted.provider.refusals(), []);
}

#[test]
fn ctrl_c_twice_leaves_an_answer() {
    let scripted = Scripted::playing([Reply::Hang]);
    let home = Home::new();
    let mut terminal = scripted.chat(&home);
    terminal.enter("are you there?");
    terminal.wait_for("waiting for the model");
    terminal.send(CTRL_C);
    terminal.wait_for("stopped · Ctrl-C again leaves");
    terminal.wait_for_prompt();
    terminal.send(CTRL_C);
    assert_eq!(terminal.wait_for_end(), Some(130));
}

#[test]
fn being_told_to_end_gives_the_terminal_back_as_it_was() {
    let home = Home::new();
    let mut terminal = demo(&home);
    let found = terminal.modes_before();
    assert_ne!(terminal.modes(), found, "the line editor takes the keys one by one");
    terminal.send("half a messa");
    terminal.wait_for("> half a messa");
    terminal.signal("TERM");
    assert_eq!(terminal.wait_for_end(), Some(143));
    assert_eq!(terminal.modes(), found);
}

#[test]
fn a_resize_while_an_answer_comes_loses_and_repeats_nothing() {
    let words: Vec<String> = (1..=60).map(|number| format!("word{number:02}")).collect();
    let text = words.join(" ");
    for columns in [120, 37] {
        let gate = Gate::new();
        let scripted = Scripted::playing([gated(Said::text(&text), 40, &gate)]);
        let home = Home::new();
        let terminal = scripted.chat(&home);
        terminal.enter("go");
        scripted.wait_until(gate.reached());
        let before = terminal.wait_for("word28");
        terminal.resize(20, columns);
        gate.open();
        terminal.wait_for("word60");
        let after = terminal.wait_for_prompt();
        let seen: String = after.split_whitespace().collect();
        for word in &words {
            // This terminal cuts lines off when it is made narrower, as some do; what comes then must be whole.
            let least = usize::from(columns > 80 || !before.contains(word));
            assert!((least..=1).contains(&times(&seen, word)), "{word} at {columns}:\n{after}");
        }
    }
}

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
fn what_was_typed_before_a_question_is_no_answer_to_it() {
    let gate = Gate::new();
    let call =
        Said::default().call("call_1", "calculate", r#"{"operator": "add", "argument1": 1, "argument2": 1}"#);
    let scripted = Scripted::playing([gated(call, 0, &gate), Reply::Answer(Said::text("Then not."))]);
    let home = Home::new();
    let servers = json!({"demo": {"command": env!("CARGO_BIN_EXE_toolwire"), "args": ["demo-server"]}});
    let toolwire = json!({"agent": {"approvals": {"otherwise": "ask"}}});
    home.write("mcp.json", &json!({"mcpServers": servers, "toolwire": toolwire}).to_string());
    let terminal = scripted.chat(&home);
    terminal.enter("What is 1 + 1?");
    scripted.wait_until(gate.reached());
    terminal.enter("y");
    gate.open();
    let screen = terminal.wait("the question", |screen| screen.trim_end().ends_with("n no, and why:"));
    assert!(!screen.contains("✓ calculate"), "{screen}");
    terminal.enter("n");
    terminal.wait_for("✗ calculate");
    terminal.wait_for("Then not.");
    // It waits for the next message instead.
    terminal.wait("it on the line", |screen| screen.trim_end().ends_with("> y"));
}

#[test]
fn two_chats_in_one_conversation_lose_nothing() {
    let scripted = Scripted::new(["one", "two", "three"].map(Said::text));
    let home = Home::new();
    let first = scripted.chat(&home);
    first.enter("first");
    first.wait_for("\none");
    first.wait_for_prompt();
    let second = scripted.chat(&home);
    second.enter("/resume 1");
    second.wait_for("> first");
    second.wait_for_prompt();
    second.enter("from the second");
    second.wait_for("\ntwo");
    first.enter("from the first");
    first.wait("the conflict", |screen| screen.replace('\n', " ").contains("another writer was faster"));
    first.wait_for("`/retry` asks again");
    first.wait_for_prompt();
    first.enter("/retry");
    first.wait_for("\nthree");
    assert_eq!(scripted.said(), ["first", "from the first"]);
    first.wait_for_prompt();
    first.enter("/resume");
    let screen = first.wait_for("goes on with one");
    assert!(screen.contains("4 messages"), "{screen}");
    assert_eq!(scripted.provider.refusals(), []);
}

#[test]
fn a_call_that_a_killed_chat_had_begun_is_told_of() {
    let scripted =
        Scripted::new([Said::default().call("call_1", "echo", r#"{"text": "hi"}"#), Said::text("I see.")]);
    let home = Home::new();
    let arguments = ["--behaviour", "unhinted", "--delay", "600000"];
    let servers = json!({"slow": {"command": misbehaving_server(), "args": arguments}});
    home.write("mcp.json", &json!({"mcpServers": servers, "toolwire": allowed()}).to_string());
    let mut terminal = scripted.chat(&home);
    terminal.enter("say hi");
    terminal.wait_for("echo(text: \"hi\")");
    terminal.signal("KILL");
    terminal.wait_for_end();
    let again = scripted.chat(&home);
    again.wait_for("slow is ready");
    again.enter("/resume 1");
    again.wait_for("`echo` had begun and may have done its work");
    again.wait_for_prompt();
    again.enter("what happened?");
    again.wait_for("I see.");
    let told = scripted.last_request()["messages"].to_string();
    assert!(told.contains("whether it did its work is not known"), "{told}");
    assert_eq!(scripted.provider.refusals(), []);
}

#[test]
fn the_last_message_is_taken_back_asked_again_and_gone_on_with() {
    let scripted = Scripted::new([
        Said::text("one"),
        Said::text("two"),
        Said::text("three"),
        Said::text("four"),
        Said::text("five"),
    ]);
    let home = Home::new();
    let mut terminal = scripted.chat(&home);
    terminal.enter("first");
    terminal.wait_for("\none");
    terminal.wait_for_prompt();
    terminal.enter("second");
    terminal.wait_for("\ntwo");
    terminal.wait_for_prompt();
    terminal.enter("/retry");
    terminal.wait_for("\nthree");
    assert_eq!(scripted.said(), ["first", "second"]);
    terminal.wait_for_prompt();
    terminal.enter("/undo");
    terminal.wait_for("taken back: second");
    terminal.wait_for_prompt();
    terminal.enter("other");
    terminal.wait_for("\nfour");
    assert_eq!(scripted.said(), ["first", "other"]);
    terminal.wait_for_prompt();
    terminal.send(CTRL_D);
    terminal.wait_for_end();

    let again = scripted.chat(&home);
    again.enter("/resume");
    let screen = again.wait_for("goes on with one");
    // The conversation, and what it was before each change.
    assert_eq!(times(&screen, "  first  "), 3, "{screen}");
    again.wait_for_prompt();
    again.enter("/resume 1");
    again.wait_for("> other");
    again.wait_for_prompt();
    again.enter("more");
    again.wait_for("\nfive");
    assert_eq!(scripted.said(), ["first", "other", "more"]);
    assert_eq!(scripted.provider.refusals(), []);
}

#[test]
fn a_server_that_dies_in_a_call_is_told_and_the_answer_goes_on() {
    let scripted = Scripted::new([
        Said::default().call("call_1", "echo", r#"{"text": "hi"}"#),
        Said::text("It went away."),
    ]);
    let home = Home::new();
    home.write("mcp.json", &misbehaving("exits-mid-call", allowed()));
    let terminal = scripted.chat(&home);
    terminal.enter("say hi");
    terminal.wait_for("✗ echo");
    terminal.wait_for("It went away.");
    terminal.wait_for_prompt();
    assert_eq!(scripted.provider.refusals(), []);
}

#[test]
fn the_prompt_is_there_at_once_and_a_message_waits_for_its_servers() {
    let scripted = Scripted::new([Said::text("Here I am.")]);
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
    let scripted = Scripted::new([Said::default().call("call_1", "never", "{}"), Said::text("Done.")]);
    let home = Home::new();
    home.write("mcp.json", &misbehaving("never-answers", allowed()));
    let terminal = scripted.chat(&home);
    terminal.enter("say hi");
    terminal.wait_for("never()");
    terminal.send(CTRL_C);
    terminal.wait_for("stopped");
    terminal.wait_for_prompt();
    // The call has its result in the history, so the provider takes the next message.
    terminal.enter("never mind");
    terminal.wait_for("Done.");
    assert_eq!(scripted.provider.refusals(), []);
}

#[test]
fn the_progress_of_a_call_is_seen() {
    let scripted =
        Scripted::new([Said::default().call("call_1", "echo", r#"{"text": "hi"}"#), Said::text("Done.")]);
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
    let scripted = Scripted::new([Said::default().call("call_1", "ask", &arguments), Said::text("Booked.")]);
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
        Said::default().call(&format!("call_{id}"), "ask", &arguments)
    };
    let scripted = Scripted::new([ask("1"), Said::text("Signed in."), ask("2"), Said::text("Then not.")]);
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

#[test]
fn another_model_goes_on_and_a_new_conversation_begins() {
    let first = Scripted::new([Said::text("I am the first."), Said::text("Begun anew.")]);
    let second = Scripted::of(Api::Anthropic, [Reply::Answer(Said::text("I am the second."))]);
    let home = Home::new();
    let models = json!({
        "one": {"provider": "openai", "model": "m", "apiKey": KEY, "baseUrl": first.provider.base_url()},
        "two": {"provider": "anthropic", "model": "m", "apiKey": KEY, "baseUrl": second.provider.base_url()},
    });
    let servers = json!({
        "demo": {"command": env!("CARGO_BIN_EXE_toolwire"), "args": ["demo-server"]},
        "gone": {"command": "there-is-no-such-program"},
    });
    home.write(
        "mcp.json",
        &json!({"mcpServers": servers, "toolwire": {"model": "one", "models": models}}).to_string(),
    );
    let terminal = Terminal::start(&home, &[], &[]);
    terminal.wait_for("demo is ready");
    terminal.enter("/servers");
    terminal
        .wait("both servers", |screen| screen.contains("demo  ready, 2 tools") && screen.contains("gone  "));
    terminal.wait_for_prompt();
    terminal.enter("who are you?");
    terminal.wait_for("I am the first.");
    terminal.wait_for_prompt();
    terminal.enter("/model");
    terminal.wait_for("configured: `one`, `two`");
    terminal.wait_for_prompt();
    terminal.enter("/model two");
    terminal.wait_for("two answers from here on");
    terminal.wait_for_prompt();
    terminal.enter("and now?");
    terminal.wait_for("I am the second.");
    terminal.wait_for_prompt();
    assert_eq!(second.said(), ["who are you?", "and now?"]);
    terminal.enter("/clear");
    terminal.wait_for("a new conversation");
    terminal.wait_for_prompt();
    terminal.enter("/model one");
    terminal.wait_for("one answers from here on");
    terminal.wait_for_prompt();
    terminal.enter("hello again");
    terminal.wait_for("Begun anew.");
    assert_eq!(first.said(), ["hello again"]);
    assert_eq!((first.provider.refusals(), second.provider.refusals()), (vec![], vec![]));
}

#[test]
fn a_conversation_is_saved_as_a_file_that_people_read() {
    let home = Home::new();
    let terminal = demo(&home);
    terminal.enter("What is 20 + 22?");
    terminal.wait_for("✓ calculate");
    terminal.wait_for_prompt();
    terminal.enter("/save notes.md");
    terminal.wait_for("saved as notes.md");
    terminal.wait_for_prompt();
    terminal.enter("/save notes.md");
    terminal.wait_for("`notes.md` is already there");
    let text = std::fs::read_to_string(home.path().join("notes.md")).unwrap();
    assert!(text.starts_with("# What is 20 + 22?\n\n## You\n\nWhat is 20 + 22?\n"), "{text}");
    assert!(text.contains("> called `calculate` (") && text.contains("42"), "{text}");
}
