//! Streaming, stopping and rendering responses.

use serde_json::json;
use toolwire_testkit::provider::{API_KEY, Api, Gate, ModelOutput, ScriptedResponse};

use crate::scripted_model::{ScriptedModel, gated};
use crate::terminal::{CTRL_C, ENTER, Home, Terminal};
use crate::{count, demo};

#[test]
fn a_response_is_rendered_while_it_streams() {
    let gate = Gate::new();
    let text = "# Title\n\nSome **bold** text.\n\n- one\n- two\n";
    let model = ScriptedModel::with_responses([gated(ModelOutput::text(text), 6, &gate)]);
    let home = Home::new();
    let terminal = model.chat(&home);
    terminal.enter("go");
    model.wait_for(gate.reached());
    // Five chunks of five characters were sent.
    let screen = terminal.wait_for("Some bold");
    assert!(screen.contains("\nTitle\n") && !screen.contains("two"), "{screen}");
    gate.open();
    let screen = terminal.wait_for("• two");
    assert!(!screen.contains("**") && count(&screen, "Title") == 1, "{screen}");
    let screen = terminal.wait_for_prompt();
    assert!(screen.contains("scripted · 17 tokens"), "{screen}");
}

#[test]
fn code_has_colours_unless_they_are_disabled() {
    let code = "```python\nimport os  # the system\nname = 'x'\n```\n";
    for (variable, has_colours) in [("UNRELATED", true), ("NO_COLOR", false)] {
        let model = ScriptedModel::new([ModelOutput::text(code)]);
        let home = Home::new();
        let base_url = model.provider.base_url();
        let variables = [("OPENAI_BASE_URL", &*base_url), ("OPENAI_API_KEY", API_KEY), (variable, "1")];
        let terminal = Terminal::start(&home, &["scripted"], &variables);
        terminal.wait_for_prompt();
        terminal.enter("go");
        terminal.wait_for("name = 'x'");
        terminal.wait_for_prompt();
        let colours = ["import os", "'x'", "os "].map(|text| terminal.colour(text));
        let coloured = |index| if has_colours { vt100::Color::Idx(index) } else { vt100::Color::Default };
        assert_eq!(colours, [coloured(5), coloured(2), vt100::Color::Default], "{variable}");
        assert_eq!(terminal.is_dim("# the system"), has_colours);
    }
}

#[test]
fn only_thinking_is_dimmed() {
    let output = ModelOutput::text("Forty-two.").thinking("Let me see.");
    let model = ScriptedModel::with_api(Api::DeepSeek, [ScriptedResponse::Output(output)]);
    let home = Home::new();
    let base_url = model.provider.base_url();
    let endpoint = json!({"provider": "deepseek", "model": "m", "apiKey": API_KEY, "baseUrl": base_url});
    home.configure(json!({"mcpServers": {}, "toolwire": {"models": {"thinker": endpoint}}}));
    let terminal = Terminal::start(&home, &["thinker"], &[]);
    terminal.wait_for_prompt();
    terminal.enter("what is it?");
    terminal.wait_for("Forty-two.");
    terminal.wait_for_prompt();
    assert_eq!((terminal.is_dim("Let me see."), terminal.is_dim("Forty-two.")), (true, false));
}

#[test]
fn ctrl_c_stops_a_response_and_keeps_its_beginning() {
    let gate = Gate::new();
    let model = ScriptedModel::with_responses([
        gated(ModelOutput::text("This is the beginning of it."), 4, &gate),
        ScriptedResponse::Output(ModelOutput::text("Another answer.")),
    ]);
    let home = Home::new();
    let terminal = model.chat(&home);
    terminal.enter("go on and on");
    terminal.wait_for("This is the beg");
    // Text typed during a response is kept for the prompt and not mixed into the response.
    terminal.send("typed ahead");
    terminal.send(CTRL_C);
    terminal.wait_for("stopped");
    let screen = terminal.wait_for("> typed ahead");
    assert!(!screen.contains("begtyped") && count(&screen, "typed ahead") == 1, "{screen}");
    terminal.send(ENTER);
    terminal.wait_for("Another answer.");
    assert_eq!(model.user_messages(), ["go on and on", "typed ahead"]);
    let history = model.last_request();
    let response = &history["messages"][1];
    assert_eq!(response["role"], "assistant");
    assert!(response["content"].to_string().contains("This is the beg"), "{response}");
    assert_eq!(model.provider.rejections(), []);
}

#[test]
fn ctrl_c_twice_exits_during_a_response() {
    let model = ScriptedModel::with_responses([ScriptedResponse::Hang]);
    let home = Home::new();
    let mut terminal = model.chat(&home);
    terminal.enter("are you there?");
    terminal.wait_for("waiting for the model");
    assert_eq!(terminal.press_until_end(CTRL_C), Some(130));
}

#[test]
fn sigterm_restores_the_terminal_modes() {
    let home = Home::new();
    let mut terminal = demo(&home);
    let initial = terminal.initial_modes();
    assert_ne!(terminal.modes(), initial, "the line editor reads single keys");
    terminal.send("half a messa");
    terminal.wait_for("> half a messa");
    terminal.signal("TERM");
    assert_eq!(terminal.wait_for_end(), Some(143));
    assert_eq!(terminal.modes(), initial);
}

#[test]
fn resizing_during_a_response_loses_and_repeats_nothing() {
    let words: Vec<String> = (1..=60).map(|number| format!("word{number:02}")).collect();
    let text = words.join(" ");
    for columns in [120, 37] {
        let gate = Gate::new();
        let model = ScriptedModel::with_responses([gated(ModelOutput::text(&text), 40, &gate)]);
        let home = Home::new();
        let terminal = model.chat(&home);
        terminal.enter("go");
        model.wait_for(gate.reached());
        let before = terminal.wait_for("word28");
        terminal.resize(20, columns);
        gate.open();
        terminal.wait_for("word60");
        let after = terminal.wait_for_prompt();
        let text_on_screen: String = after.split_whitespace().collect();
        for word in &words {
            // Like some terminals, this one truncates lines when it becomes narrower, so only words that
            // were written after the resize must be complete.
            let min = usize::from(columns > 80 || !before.contains(word));
            assert!((min..=1).contains(&count(&text_on_screen, word)), "{word} at {columns}:\n{after}");
        }
    }
}
