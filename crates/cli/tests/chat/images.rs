//! Images of results: drawn on terminals that support it, otherwise saved.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use toolwire_testkit::provider::{API_KEY, Gate, ModelOutput, ScriptedResponse};

use crate::allow_all;
use crate::scripted_model::{ScriptedModel, gated};
use crate::terminal::{Home, Terminal};

/// A PNG image of one red pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/// A server with the tool `picture`, whose result has this content.
fn picture_server(content: &Value) -> Value {
    let tool =
        json!({"name": "picture", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
    let script = format!(
        r#"while read -r line; do
            id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
            case "$line" in
                *'"initialize"'*) result='"result":{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"pictures","version":"1"}}}}' ;;
                *'"tools/list"'*) result='"result":{{"tools":[{tool}]}}' ;;
                *'"tools/call"'*) result='"result":{{"content":{content}}}' ;;
                *) result='"error":{{"code":-32601,"message":"no such method"}}' ;;
            esac
            if [ -n "$id" ]; then printf '{{"jsonrpc":"2.0","id":%s,%s}}\n' "$id" "$result"; fi
        done"#
    );
    json!({"mcpServers": {"pictures": {"command": "sh", "args": ["-c", script]}}, "toolwire": allow_all()})
}

/// Starts a chat in which the model calls `picture`, and sends a message.
fn chat(home: &Home, model: &ScriptedModel, content: &Value, variables: &[(&str, &str)]) -> Terminal {
    home.configure(picture_server(content));
    let base_url = model.provider.base_url();
    let provider = [("OPENAI_BASE_URL", &*base_url), ("OPENAI_API_KEY", API_KEY)];
    let terminal = Terminal::start(home, &["scripted"], &[&provider, variables].concat());
    terminal.wait_for_prompt();
    terminal.enter("Show it.");
    terminal
}

fn model() -> ScriptedModel {
    ScriptedModel::new([
        ModelOutput::default().call("call_1", "picture", "{}"),
        ModelOutput::text("There it is."),
    ])
}

#[test]
fn an_image_is_drawn_in_the_protocol_of_the_terminal() {
    let image = json!([{"type": "image", "data": PNG, "mimeType": "image/png"}]);
    for (variable, drawing) in [
        (("TERM", "xterm-kitty"), format!("\x1b_Ga=T,f=100,q=2,c=1,r=1,m=0;{PNG}\x1b\\")),
        (
            ("TERM_PROGRAM", "iTerm.app"),
            format!("\x1b]1337;File=inline=1;size=70;width=1;height=1;preserveAspectRatio=1:{PNG}\x07"),
        ),
        (("TOOLWIRE_IMAGES", "sixel"), "#180@$-\x1b\\".to_owned()),
    ] {
        let (home, model) = (Home::new(), model());
        let terminal = chat(&home, &model, &image, &[variable]);
        terminal.wait_for("There it is.");
        let output = terminal.output();
        let position = output.find(&drawing).unwrap_or_else(|| panic!("no {drawing:?} in {output:?}"));
        assert!(output[..position].contains("picture") && output[position..].contains("There it is."));
        assert!(!home.data().join("images").exists());
        assert_eq!(model.provider.rejections(), []);
    }
}

#[test]
fn a_terminal_that_draws_no_images_gets_the_path_of_the_saved_file() {
    // The declared type and the name are those of the server; neither is used.
    let image = json!([
        {"type": "resource", "resource": {"uri": "file:///../../evil.sh", "mimeType": "text/x-sh", "blob": PNG}},
        {"type": "image", "data": "bm90IGFuIGltYWdlGxtb", "mimeType": "image/png"},
    ]);
    let (home, model) = (Home::new(), model());
    let terminal = chat(&home, &model, &image, &[("TOOLWIRE_IMAGES", "off")]);
    terminal.wait_for("There it is.");
    let screen = terminal.screen().replace('\n', "");
    let saved: Vec<_> =
        std::fs::read_dir(home.data().join("images")).unwrap().map(|file| file.unwrap()).collect();
    assert_eq!(saved.len(), 1);
    let name = saved[0].file_name().into_string().unwrap();
    assert!(name.ends_with(".png") && screen.contains("image:") && screen.contains(&name), "{screen}");
    assert_eq!(saved[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read(saved[0].path()).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn the_support_of_sixels_is_detected_and_typed_keys_are_kept() {
    let image = json!([{"type": "image", "data": PNG, "mimeType": "image/png"}]);
    let gate = Gate::new();
    let call = ModelOutput::default().call("call_1", "picture", "{}");
    let model = ScriptedModel::with_responses([
        gated(call, 0, &gate),
        ScriptedResponse::Output(ModelOutput::text("There it is.")),
    ]);
    let home = Home::new();
    let terminal = chat(&home, &model, &image, &[]);
    model.wait_for(gate.reached());
    // The reply is there before the query, so that the test does not depend on time.
    terminal.send("next\x1b[?62;4;22c one");
    gate.open();
    terminal.wait_for("There it is.");
    let output = terminal.output();
    assert!(output.contains("\x1b[c") && output.contains("#180@$-\x1b\\"), "{output:?}");
    terminal.wait_until("the typed text on the prompt", |screen| screen.trim_end().ends_with("> next one"));
}

#[test]
fn a_terminal_without_a_reply_gets_the_path() {
    let image = json!([{"type": "image", "data": PNG, "mimeType": "image/png"}]);
    let (home, model) = (Home::new(), model());
    let terminal = chat(&home, &model, &image, &[]);
    terminal.wait_for("image: ");
    terminal.wait_for("There it is.");
}

#[test]
fn a_single_call_draws_its_images_or_saves_them() {
    let image = json!([{"type": "image", "data": PNG, "mimeType": "image/png"}]);
    let home = Home::new();
    home.configure(picture_server(&image));
    let mut terminal = Terminal::run(&home, &["call", "picture"], &[("TERM", "xterm-kitty")]);
    assert_eq!(terminal.wait_for_end(), Some(0));
    let drawing = format!("\x1b_Ga=T,f=100,q=2,c=1,r=1,m=0;{PNG}\x1b\\");
    assert!(terminal.output().contains(&drawing), "{:?}", terminal.output());
    let mut terminal = Terminal::run(&home, &["call", "picture"], &[]);
    assert_eq!(terminal.wait_for_end(), Some(0));
    let output = terminal.output();
    assert!(output.contains("image: ") && !output.contains("\x1b_G"), "{output:?}");
    assert_eq!(std::fs::read_dir(home.data().join("images")).unwrap().count(), 1);
}

#[test]
fn ask_draws_images_on_a_terminal() {
    let image = json!([{"type": "image", "data": PNG, "mimeType": "image/png"}]);
    let (home, model) = (Home::new(), model());
    home.configure(picture_server(&image));
    let base_url = model.provider.base_url();
    let variables = [("OPENAI_BASE_URL", &*base_url), ("OPENAI_API_KEY", API_KEY), ("TERM", "xterm-kitty")];
    let mut terminal = Terminal::run(&home, &["ask", "Show it.", "-m", "scripted"], &variables);
    assert_eq!(terminal.wait_for_end(), Some(0));
    let output = terminal.output();
    let drawing = format!("\x1b_Ga=T,f=100,q=2,c=1,r=1,m=0;{PNG}\x1b\\");
    let position = output.find(&drawing).unwrap_or_else(|| panic!("no {drawing:?} in {output:?}"));
    assert!(output[position..].contains("There it is."), "{output:?}");
}
