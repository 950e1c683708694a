//! Text on a narrow terminal: it is wrapped at words.

use serde_json::json;
use toolwire_testkit::provider::{API_KEY, ModelOutput};

use crate::scripted_model::ScriptedModel;
use crate::terminal::{CTRL_D, Home, Terminal};
use crate::{approve_all, demo_server};

const COLUMNS: u16 = 32;

#[test]
fn notes_commands_and_questions_of_the_chat_are_wrapped_at_words() {
    let home = Home::new();
    home.configure(json!({"mcpServers": demo_server(), "toolwire": approve_all()}));
    let mut terminal = Terminal::run_in_columns(COLUMNS, &home, &["chat"], &[]);
    terminal.wait_for_words("note: using `demo`, which is not a language model");
    terminal.wait_for_words("hint: set a key such as ANTHROPIC_API_KEY, or name a model: `-m ollama/…`");
    terminal.wait_for("demo is ready");
    terminal.wait_for_prompt();
    terminal.enter("/help");
    terminal.wait_for_words("removes the last message and its response");
    terminal.wait_for_words("A message continues on the next line after a backslash, after Alt-Enter and");
    terminal.wait_for_prompt();
    terminal.enter("/approve");
    terminal.wait_for_words("every call needs approval");
    terminal.wait_for_prompt();
    terminal.enter("/approve calculator");
    terminal.wait_for_words("hint: did you mean `calculate`? `/tools` lists all tools");
    terminal.wait_for_prompt();
    terminal.enter("/clear");
    terminal.wait_for_prompt();
    terminal.enter("What is 1 + 1?");
    terminal.wait_for_words("run it? y once · a always for this tool · n no, with a reason:");
    terminal.enter("y");
    terminal.wait_for("✓ calculate");
    terminal.wait_for_prompt();
    terminal.send(CTRL_D);
    assert_eq!(terminal.wait_for_end(), Some(0));
}

#[test]
fn responses_without_colours_are_wrapped_at_words() {
    let sentence = "This sentence is considerably longer than one line.";
    let model = ScriptedModel::new([ModelOutput::text(sentence)]);
    let home = Home::new();
    let base_url = model.provider.base_url();
    let variables = [("OPENAI_BASE_URL", &*base_url), ("OPENAI_API_KEY", API_KEY), ("NO_COLOR", "1")];
    let terminal = Terminal::run_in_columns(COLUMNS, &home, &["chat", "scripted"], &variables);
    terminal.wait_for_prompt();
    terminal.enter("go");
    terminal.wait_for_words(sentence);
    terminal.wait_for_prompt();
}

#[test]
fn arguments_of_a_call_are_wrapped_at_words_and_keep_their_spaces() {
    let arguments = json!({"location": "a  place with a name of rather many words"}).to_string();
    let model = ScriptedModel::new([ModelOutput::default().call("call_1", "get_weather", &arguments)]);
    let home = Home::new();
    home.configure(json!({"mcpServers": demo_server(), "toolwire": approve_all()}));
    let variables = [("OPENAI_BASE_URL", &*model.provider.base_url()), ("OPENAI_API_KEY", API_KEY)];
    let terminal = Terminal::run_in_columns(COLUMNS, &home, &["chat", "scripted"], &variables);
    terminal.wait_for_prompt();
    terminal.enter("go");
    let screen = terminal.wait_for("run it?");
    assert!(
        screen.contains("\n  \"location\": \"a  place with a\n  name of rather many words\"\n"),
        "{screen}"
    );
}

#[test]
fn errors_and_reports_of_other_commands_are_wrapped_at_words() {
    let home = Home::new();
    home.configure(json!({"mcpServers": {"absent": {"command": "no-such-program-here"}}}));
    let mut terminal = Terminal::run_in_columns(COLUMNS, &home, &["ask", "x", "-m", "nowhere/at-all"], &[]);
    terminal.wait_for_words("error: unknown provider `nowhere`");
    assert_eq!(terminal.wait_for_end(), Some(2));
    let mut terminal = Terminal::run_in_columns(COLUMNS, &home, &["convert", "--to", "nowhere"], &[]);
    terminal
        .wait_for_words("[possible values: openai, openai-strict, responses, responses-strict, anthropic,");
    assert_eq!(terminal.wait_for_end(), Some(2));
    let mut terminal = Terminal::run_in_columns(COLUMNS, &home, &["doctor"], &[]);
    assert_eq!(terminal.wait_for_end(), Some(1));
    let screen = terminal.screen();
    let text = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("✗ absent ") && text.contains("`no-such-program-here`"), "{screen}");
}
