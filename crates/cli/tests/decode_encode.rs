//! `toolwire decode` and `toolwire encode`, run by a user or by a program through a pipe.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

fn toolwire(command: &str, dialect: &str) -> Command {
    let tools = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/weather.json");
    let mut process = Command::new(env!("CARGO_BIN_EXE_toolwire"));
    process.args([command, "--dialect", dialect, "--tools"]).arg(tools).env("NO_COLOR", "1");
    process
}

/// Runs the command on these lines and returns its output, one value per line.
#[track_caller]
fn run(command: &str, dialect: &str, lines: &[u8]) -> Vec<Value> {
    let output =
        assert_cmd::Command::from_std(toolwire(command, dialect)).write_stdin(lines).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn decode_removes_the_null_of_an_optional_property() {
    let lines = br#"{"name":"get_weather","arguments":{"location":"Oslo","units":null}}"#;
    let call = json!({"name": "get_weather", "arguments": {"location": "Oslo"}});
    assert_eq!(run("decode", "openai-strict", lines), [call]);
}

#[test]
fn encode_adds_null_for_an_optional_property() {
    let lines = br#"{"name":"get_weather","arguments":{"location":"Oslo"}}"#;
    let call = json!({"name": "get_weather", "arguments": {"location": "Oslo", "units": null}});
    assert_eq!(run("encode", "openai-strict", lines), [call]);
}

#[test]
fn arguments_may_be_json_text() {
    let lines = br#"{"name":"get_weather","arguments":"{\"location\":\"Oslo\"}"}"#;
    let call = json!({"name": "get_weather", "arguments": {"location": "Oslo"}});
    assert_eq!(run("decode", "openai", lines), [call]);
}

#[test]
fn repairs_are_listed() {
    let lines = br#"{"name":"get_weather","arguments":"\"{\\\"location\\\":\\\"Oslo\\\"}\""}"#;
    let outputs = run("decode", "openai", lines);
    assert_eq!(outputs[0]["arguments"], json!({"location": "Oslo"}));
    assert_eq!(outputs[0]["repairs"].as_array().map(Vec::len), Some(1), "{}", outputs[0]);
}

#[test]
fn every_line_gets_one_output_line() {
    let lines = b"not json\n\n{\"name\":\"get_weather\",\"arguments\":{\"location\":\"A\"}}\r\n\xff\n[]\n\
        {\"name\":\"get_wether\",\"arguments\":{}}\n{\"name\":\"get_weather\",\"arguments\":[1]}\n\
        {\"name\":\"get_weather\",\"arguments\":\"{\"}\n{\"name\":\"get_weather\",\"arguments\":{\"units\":\"kelvin\"}}";
    let outputs = run("decode", "openai", lines);
    let codes: Vec<&str> =
        outputs.iter().map(|output| output["error"]["code"].as_str().unwrap_or("a call")).collect();
    assert_eq!(
        codes,
        [
            "bad_line",
            "bad_line",
            "a call",
            "bad_line",
            "bad_line",
            "unknown_tool",
            "not_an_object",
            "not_json",
            "invalid_arguments"
        ]
    );
    let message = outputs[5]["error"]["message"].as_str().unwrap();
    assert!(message.contains("did you mean `get_weather`"), "{message}");
}

#[test]
fn an_error_names_every_violation() {
    let outputs = run("decode", "openai", br#"{"name":"get_weather","arguments":{"units":"kelvin"}}"#);
    let error = &outputs[0]["error"];
    let pointers: Vec<&Value> =
        error["violations"].as_array().unwrap().iter().map(|violation| &violation["pointer"]).collect();
    assert_eq!(pointers.len(), 2, "{error}");
    assert!(pointers.contains(&&json!("/units")), "{error}");
    let message = error["message"].as_str().unwrap();
    for part in ["location", "/units", "celsius", "kelvin"] {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

#[test]
fn output_is_flushed_after_every_line() {
    let mut child =
        toolwire("decode", "openai").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for city in ["Oslo", "Lima"] {
        writeln!(stdin, r#"{{"name":"get_weather","arguments":{{"location":"{city}"}}}}"#).unwrap();
        let mut line = String::new();
        // Without a flush after each line, this read would block forever.
        stdout.read_line(&mut line).unwrap();
        let expected = json!({"name": "get_weather", "arguments": {"location": city}});
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), expected);
    }
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[cfg(unix)]
#[test]
fn an_interrupted_command_exits_with_130() {
    let mut child =
        toolwire("decode", "openai").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    // The first output line shows that the process is ready.
    writeln!(stdin, "hello").unwrap();
    stdout.read_line(&mut String::new()).unwrap();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn numbers_keep_their_digits() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let tools = folder.join("digits.json");
    let tool = r#"{"name":"pay","inputSchema":{"type":"object","properties":{"amount":{"type":"number"}}}}"#;
    std::fs::write(&tools, tool).unwrap();
    let line = r#"{"name":"pay","arguments":{"amount":12345678901234567890.10}}"#;
    for command in ["decode", "encode"] {
        let mut process = Command::new(env!("CARGO_BIN_EXE_toolwire"));
        process.args([command, "--dialect", "openai", "--tools"]).arg(&tools);
        let output = assert_cmd::Command::from_std(process).write_stdin(line).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{line}\n"));
    }
}
