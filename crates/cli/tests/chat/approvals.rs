//! The question whether a call may run.

use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde_json::json;
use toolwire_testkit::misbehaving_server;
use toolwire_testkit::provider::{API_KEY, ModelOutput};

use crate::scripted_model::ScriptedModel;
use crate::terminal::{Home, Terminal};
use crate::{approve_all, demo_server};

/// Generous, because the machine may be busy; a passing test never waits this long.
const TIMEOUT: Duration = Duration::from_secs(60);

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

/// The call of `mark` writes to a pipe, and returns when the test has read it.
#[test]
fn an_approved_call_runs_while_another_one_is_asked_about() {
    let sum = r#"{"operator": "add", "argument1": 1, "argument2": 1}"#;
    let both = ModelOutput::default().call("call_1", "calculate", sum).call("call_2", "mark", "{}");
    let model = ScriptedModel::new([both, ModelOutput::text("Both are done.")]);
    let home = Home::new();
    let pipe = home.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let script = r#"while read -r line; do
        id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
        case "$line" in
            *'"initialize"'*) result='"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"m","version":"1"}}' ;;
            *'"tools/list"'*) result='"result":{"tools":[{"name":"mark","inputSchema":{"type":"object"}}]}' ;;
            *'"tools/call"'*) echo running >"$PIPE"; result='"result":{"content":[{"type":"text","text":"marked"}]}' ;;
            *) result='"error":{"code":-32601,"message":"no such method"}' ;;
        esac
        if [ -n "$id" ]; then printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$result"; fi
    done"#;
    let mut servers = demo_server();
    servers["marker"] = json!({"command": "sh", "args": ["-c", script], "env": {"PIPE": pipe}});
    home.configure(json!({"mcpServers": servers, "toolwire": approve_all()}));
    let variables = [("OPENAI_BASE_URL", &*model.provider.base_url()), ("OPENAI_API_KEY", API_KEY)];
    let terminal = Terminal::start(&home, &["-m", "scripted", "--allow", "mark"], &variables);
    terminal.wait_for_prompt();
    terminal.enter("do both");
    terminal.wait_for_words("of server `demo` needs your approval");
    terminal.wait_for("run it?");
    let (sender, written) = channel();
    thread::spawn(move || sender.send(std::fs::read_to_string(pipe)));
    assert_eq!(written.recv_timeout(TIMEOUT).unwrap().unwrap(), "running\n");
    terminal.enter("y");
    let screen = terminal.wait_for("Both are done.");
    assert!(screen.contains("✓ mark()") && screen.contains("✓ calculate("), "{screen}");
    assert_eq!(model.provider.rejections(), []);
}
