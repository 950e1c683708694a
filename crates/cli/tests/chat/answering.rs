//! Answers as they come, and stopping them.

use serde_json::json;
use toolwire_testkit::provider::{API_KEY, Api, Gate, ModelOutput, ScriptedResponse};

use crate::scripted::{Scripted, gated};
use crate::terminal::{CTRL_C, ENTER, Home, Terminal};
use crate::{demo, times};

#[test]
fn an_answer_is_rendered_while_it_comes() {
    let gate = Gate::new();
    let text = "# Title\n\nSome **bold** text.\n\n- one\n- two\n";
    let scripted = Scripted::playing([gated(ModelOutput::text(text), 6, &gate)]);
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
    let said = ModelOutput::text("Forty-two.").thinking("Let me see.");
    let scripted = Scripted::of(Api::DeepSeek, [ScriptedResponse::Output(said)]);
    let home = Home::new();
    let endpoint = json!({"provider": "deepseek", "model": "m", "apiKey": API_KEY, "baseUrl": scripted.provider.base_url()});
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
        gated(ModelOutput::text("This is the beginning of it."), 4, &gate),
        ScriptedResponse::Output(ModelOutput::text("Another answer.")),
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
    assert_eq!(scripted.provider.rejections(), []);
}

#[test]
fn ctrl_c_twice_leaves_an_answer() {
    let scripted = Scripted::playing([ScriptedResponse::Hang]);
    let home = Home::new();
    let mut terminal = scripted.chat(&home);
    terminal.enter("are you there?");
    terminal.wait_for("waiting for the model");
    terminal.send(CTRL_C);
    terminal.wait_for("stopped · Ctrl-C again exits");
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
        let scripted = Scripted::playing([gated(ModelOutput::text(&text), 40, &gate)]);
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
