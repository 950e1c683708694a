//! The question whether a call may run.

use serde_json::json;
use toolwire_testkit::misbehaving_server;
use toolwire_testkit::provider::ModelOutput;

use crate::approve_all;
use crate::scripted_model::ScriptedModel;
use crate::terminal::Home;

/// U+202E reverses the order of the characters that follow it, so that `\u{202e}gpj.exe` looks like
/// `exe.jpg`.
#[test]
fn the_question_names_the_server_and_escapes_invisible_characters() {
    let arguments = json!({"file": "\u{202e}gpj.exe"}).to_string();
    let model = ScriptedModel::new([
        ModelOutput::default().call("call_1", "open_file", &arguments),
        ModelOutput::text("Then not."),
    ]);
    let home = Home::new();
    let schema = json!({"type": "object", "properties": {"file": {"type": "string"}}});
    let tool = json!({"name": "open_file", "title": "Open \u{202e}elif a", "inputSchema": schema});
    home.write("tools.json", &json!([tool]).to_string());
    let arguments = ["--behaviour", "lists-file", "--file", "tools.json"];
    let servers = json!({"demo": {"command": misbehaving_server(), "args": arguments}});
    home.configure(json!({"mcpServers": servers, "toolwire": approve_all()}));
    let terminal = model.chat(&home);
    terminal.enter("show the picture");
    terminal
        .wait_for_words("approve: `open_file` (Open \\u202eelif a) of server `demo` needs your approval:");
    terminal.wait_for("\n  \"file\": \"\\u202egpj.exe\"\n");
    terminal.wait_for("run it?");
    terminal.enter("n");
    terminal.wait_for("Then not.");
    terminal.wait_for_prompt();
    let output = terminal.output();
    assert!(!output.contains('\u{202e}'), "{output:?}");
    assert_eq!(model.provider.rejections(), []);
}
