//! `tools`, `call`, `doctor` and `check` on configured servers, as a person runs them.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use serde_json::{Value, json};
use toolwire_testkit::misbehaving_server;

struct Outcome {
    code: i32,
    stdout: String,
    stderr: String,
}

/// A folder with an `mcp.json`, in which commands are run.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, servers: Value) -> Folder {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("servers").join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("mcp.json"), json!({"mcpServers": servers}).to_string()).unwrap();
        Folder(folder)
    }

    fn run(&self, arguments: &[&str], stdin: &str) -> Outcome {
        let output = Command::new(env!("CARGO_BIN_EXE_toolwire"))
            .current_dir(&self.0)
            .env("XDG_DATA_HOME", self.0.join("data"))
            .env("NO_COLOR", "1")
            .env_remove("TOOLWIRE_CONFIG")
            .args(arguments)
            .write_stdin(stdin)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Outcome {
            code: output.status.code().unwrap(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

fn server(arguments: &[&str]) -> Value {
    json!({"command": misbehaving_server(), "args": arguments})
}

#[test]
fn the_tools_of_a_server_that_works_are_listed_beside_one_that_does_not() {
    let folder = Folder::new("listed", json!({"good": server(&[]), "bad": {"command": "no-such-command"}}));
    let outcome = folder.run(&["tools", "--json"], "");
    assert_eq!(outcome.code, 1);
    let listed: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((&listed[0]["server"], &listed[0]["tool_count"]), (&json!("good"), &json!(4)));
    assert!(listed[1]["error"].as_str().unwrap().contains("no-such-command"), "{listed}");

    let outcome = folder.run(&["tools", "--server", "good"], "");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("echo") && outcome.stdout.contains("1 of 1 server ready, 4 tools"));

    let outcome = folder.run(&["tools", "--server", "good", "--as", "anthropic"], "");
    let definitions: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(definitions.as_array().unwrap().len(), 4);

    let outcome = folder.run(&["tools", "--server", "god"], "");
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("configured are `good`, `bad`"), "{}", outcome.stderr);
}

#[test]
fn a_call_answers_with_text_or_says_what_was_wrong() {
    let folder = Folder::new("called", json!({"good": server(&[])}));
    let outcome = folder.run(&["call", "echo", r#"{"text": "hello"}"#], "");
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "hello\n"), "{}", outcome.stderr);

    let outcome = folder.run(&["call", "echo", "-", "--json"], r#"{"text": "from outside"}"#);
    let result: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(result["content"][0]["text"], "from outside");

    let outcome = folder.run(&["call", "fail"], "");
    assert_eq!(outcome.code, 1);
    assert!(!outcome.stdout.is_empty());

    let outcome = folder.run(&["call", "ecko", "{}"], "");
    assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""));
    assert!(outcome.stderr.contains("did you mean `echo`?"), "{}", outcome.stderr);

    let outcome = folder.run(&["call", "echo", r#"{"text": {}}"#], "");
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains("at `/text` expected a string"), "{}", outcome.stderr);

    for arguments in ["[1]", "{", "hello"] {
        let outcome = folder.run(&["call", "echo", arguments], "");
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{arguments}");
    }
    let outcome = folder.run(&["call", "wait", r#"{"milliseconds": 60000}"#, "--timeout", "200ms"], "");
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains("did not answer `wait` within 200ms"), "{}", outcome.stderr);
}

#[test]
fn the_doctor_names_what_is_wrong_and_what_to_do() {
    let folder = Folder::new(
        "examined",
        json!({"good": server(&[]), "dead": server(&["--behaviour", "exits-at-once"]), "loud": server(&["--behaviour", "garbage"])}),
    );
    let outcome = folder.run(&["doctor"], "");
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    for words in ["✓ good", "✗ dead", "exit code 3", "stderr: ", "are no messages", "1 thing is wrong"] {
        assert!(outcome.stdout.contains(words), "`{words}` is not in\n{}", outcome.stdout);
    }
    let well = Folder::new("well", json!({"good": server(&[])}));
    let outcome = well.run(&["doctor"], "");
    assert_eq!(outcome.code, 0, "{}", outcome.stdout);
    assert!(outcome.stdout.contains("all is well"));
}

#[test]
fn the_tools_of_servers_are_checked_like_those_of_a_file() {
    let folder = Folder::new("checked", json!({"good": server(&[])}));
    let outcome = folder.run(&["check", "--for", "openai,gemini"], "");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.starts_with("4 tools in 2 dialects"), "{}", outcome.stdout);
}

#[test]
fn a_configuration_that_cannot_be_used_is_named_with_its_place() {
    let folder = Folder::new("broken", json!({"one": {"comand": "x"}}));
    let outcome = folder.run(&["tools"], "");
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
    assert!(outcome.stderr.contains("mcp.json") && outcome.stderr.contains("one"), "{}", outcome.stderr);
    let outcome = folder.run(&["-c", "nowhere.json", "doctor"], "");
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("cannot read `nowhere.json`"), "{}", outcome.stderr);
}
