//! Files attached to messages.

use toolwire_testkit::provider::ModelOutput;

use crate::demo;
use crate::scripted_model::ScriptedModel;
use crate::terminal::{CTRL_D, ENTER, Home, TAB, Terminal};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";

#[test]
fn files_are_attached_by_their_path_in_a_message_or_by_command() {
    let model = ScriptedModel::new(["one", "two", "three"].map(ModelOutput::text));
    let home = Home::new();
    home.write("my notes.md", "Low tide is at six.");
    std::fs::write(home.path().join("photo.png"), PNG).unwrap();
    let mut terminal = model.chat(&home);
    terminal.enter("Install @scope/package for me@photo.png, please.");
    terminal.wait_for("one");
    terminal.wait_for_prompt();
    assert_eq!(model.user_messages(), ["Install @scope/package for me@photo.png, please."]);

    terminal.send("Describe @ph");
    terminal.send(TAB);
    terminal.wait_for("> Describe @photo.png");
    terminal.enter(" and @\"my notes.md\".");
    terminal.wait_for("attached: photo.png (image/png, 29 bytes)");
    terminal.wait_for("attached: my notes.md (text, 19 bytes)");
    terminal.wait_for("two");
    terminal.wait_for_prompt();
    let content = model.last_request()["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert_eq!(content[0]["text"], "Attached file `photo.png`:");
    assert!(content[1]["image_url"]["url"].as_str().unwrap().starts_with("data:image/png;base64,iVBOR"));
    assert_eq!(content[2]["text"], "Attached file `my notes.md`:\n```\nLow tide is at six.\n```");
    assert_eq!(content[3]["text"], "Describe @photo.png and @\"my notes.md\".");

    terminal.send("/attach my");
    terminal.send(TAB);
    terminal.wait_for("> /attach my\\ notes.md");
    terminal.send(ENTER);
    terminal.wait_for("sent with the next message");
    terminal.wait_for_prompt();
    terminal.enter("And this?");
    terminal.wait_for("three");
    terminal.wait_for_prompt();
    let content = model.last_request()["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert_eq!(content, "Attached file `my notes.md`:\n```\nLow tide is at six.\n```\nAnd this?");
    assert_eq!(model.provider.rejections(), []);

    terminal.enter("/save saved.md");
    terminal.wait_for("saved as saved.md");
    let saved = std::fs::read_to_string(home.path().join("saved.md")).unwrap();
    assert!(saved.contains("> attached photo.png (image/png, 29 bytes)\n"), "{saved}");
    terminal.wait_for_prompt();
    terminal.send(CTRL_D);
    assert_eq!(terminal.wait_for_end(), Some(0));
    let resumed = Terminal::start(&home, &["demo", "--continue"], &[]);
    resumed.wait_for("[attached: my notes.md (text, 19 bytes)]");
}

#[test]
fn a_message_with_a_file_that_cannot_be_sent_is_not_sent() {
    let home = Home::new();
    home.write("empty.txt", "");
    std::fs::write(home.path().join("photo.png"), PNG).unwrap();
    let terminal = demo(&home);
    terminal.enter("What is in @empty.txt?");
    terminal.wait_for("cannot attach `empty.txt`: the file is empty");
    terminal.wait_for_prompt();
    terminal.enter("What is in @photo.png?");
    terminal.wait_for("`photo.png` cannot be sent to `demo`: the model does not accept image/png");
    terminal.wait_for_prompt();
    terminal.enter("/attach missing.txt");
    terminal.wait_for("cannot attach `missing.txt`: no such file or directory");
    terminal.wait_for_prompt();
    terminal.enter("/undo");
    terminal.wait_for("the conversation is empty");
}
