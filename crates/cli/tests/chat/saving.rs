//! Saving a conversation as a file.

use std::os::unix::fs::PermissionsExt as _;

use toolwire_contract::conversations::Transcript;
use toolwire_contract::{Block, Content};
use toolwire_testkit::provider::ModelOutput;

use crate::demo;
use crate::scripted_model::ScriptedModel;
use crate::terminal::{Home, Terminal};

#[test]
fn a_conversation_is_saved_as_markdown() {
    let home = Home::new();
    let terminal = demo(&home);
    terminal.enter("What is 20 + 22?");
    terminal.wait_for("✓ calculate");
    terminal.wait_for_prompt();
    terminal.enter("/save notes.md");
    terminal.wait_for("saved as notes.md");
    terminal.wait_for_prompt();
    terminal.enter("/save notes.md");
    terminal.wait_for("`notes.md` already exists");
    let text = std::fs::read_to_string(home.path().join("notes.md")).unwrap();
    assert!(text.starts_with("# What is 20 + 22?\n\n## You\n\nWhat is 20 + 22?\n"), "{text}");
    assert!(text.contains("> called `calculate` (") && text.contains("42"), "{text}");
}

/// The answer contains a sequence that clears the screen, in its two forms, and DEL.
#[test]
fn saved_conversations_are_private_and_have_no_control_characters() {
    let answer = "one\x1b[2Jtwo\u{9b}2Jthree\u{7f}";
    let model = ScriptedModel::new([ModelOutput::text(answer)]);
    let home = Home::new();
    let terminal = model.chat(&home);
    terminal.enter("hello");
    terminal.wait_for("three");
    terminal.wait_for_prompt();
    for name in ["saved.md", "saved.json"] {
        terminal.enter(&format!("/save {name}"));
        terminal.wait_for(&format!("saved as {name}"));
        terminal.wait_for_prompt();
        let file = home.path().join(name);
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
        let text = std::fs::read_to_string(&file).unwrap();
        let controls: Vec<char> = text.chars().filter(|c| c.is_control() && *c != '\n').collect();
        assert_eq!(controls, [], "{text:?}");
    }
    let read = |name: &str| std::fs::read_to_string(home.path().join(name)).unwrap();
    let markdown = read("saved.md");
    assert!(markdown.ends_with("\none\u{fffd}[2Jtwo\u{fffd}2Jthree\u{fffd}\n"), "{markdown:?}");
    let saved = Transcript::from_json(&read("saved.json")).unwrap();
    assert_eq!(saved.entries[1].message.content, [Block::Content(Content::text(answer))]);
}

#[test]
fn a_conversation_that_is_not_stored_can_be_saved() {
    let home = Home::new();
    home.write("notes.txt", "This is not a database.");
    home.write("config.json", r#"{"toolwire": {"store": "notes.txt"}}"#);
    let terminal = Terminal::start(&home, &["config.json"], &[]);
    terminal.wait_for("the conversation is not stored");
    terminal.wait_for_prompt();
    terminal.enter("/save");
    terminal.wait_for("the conversation is empty");
    terminal.wait_for_prompt();
    terminal.enter("hello there");
    terminal.wait_for("not a language model");
    terminal.wait_for_prompt();
    terminal.enter("/save saved.md");
    terminal.wait_for("saved as saved.md");
    terminal.wait_for_prompt();
    terminal.enter("/save saved.json");
    terminal.wait_for("saved as saved.json");
    let read = |name: &str| std::fs::read_to_string(home.path().join(name)).unwrap();
    assert!(read("saved.md").starts_with("# hello there\n\n## You\n\nhello there\n\n## demo\n"));
    assert!(read("notes.txt").starts_with("This is not a database"));
    let saved = Transcript::from_json(&read("saved.json")).unwrap();
    assert_eq!((saved.conversation.title.as_deref(), saved.entries.len()), (Some("hello there"), 2));
}
