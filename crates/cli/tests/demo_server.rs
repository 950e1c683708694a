//! The demo server, as the default without configuration and as the command `demo-server`.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Creates a folder without a configuration; commands run in it.
fn empty_folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("demo").join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn toolwire(folder: &PathBuf, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"));
    command
        .current_dir(folder)
        .env("XDG_DATA_HOME", folder.join("data"))
        .env("XDG_CONFIG_HOME", folder.join("config"))
        .env("NO_COLOR", "1")
        .env_remove("TOOLWIRE_CONFIG")
        .env_remove("MCP_TOOL_PREFIX")
        .args(arguments);
    command
}

/// Runs the command and returns the exit code, standard output and standard error.
fn run(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn names(listed: &str) -> Vec<String> {
    let listed: Value = serde_json::from_str(listed).unwrap();
    let tools = listed[0]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_demo_server_is_used_and_announced_without_configuration() {
    let folder = empty_folder("nothing");
    let (code, stdout, stderr) = run(&mut toolwire(&folder, &["tools", "--json"]));
    assert_eq!((code, names(&stdout)), (0, vec!["calculate".to_owned(), "get_weather".to_owned()]));
    assert!(
        stderr.contains("no servers are configured") && stderr.contains("hint: write an mcp.json"),
        "{stderr}"
    );
}

#[test]
fn the_demo_tools_return_results() {
    let folder = empty_folder("results");
    for (tool, arguments, code, value) in [
        (
            "calculate",
            json!({"operator": "add", "argument1": 25, "argument2": 17}),
            0,
            json!({"expression": "25 + 17", "result": 42}),
        ),
        (
            "calculate",
            json!({"operator": "divide", "argument1": 1, "argument2": 8}),
            0,
            json!({"expression": "1 / 8", "result": 0.125}),
        ),
        ("calculate", json!({"operator": "divide", "argument1": 1, "argument2": 0}), 1, Value::Null),
        (
            "get_weather",
            json!({"location": "Oslo"}),
            0,
            json!({"location": "Oslo", "temperature": 19, "units": "celsius", "conditions": "foggy",
                   "humidity": 59, "source": "generated data of the demo server"}),
        ),
        ("get_weather", json!({"location": " "}), 1, Value::Null),
    ] {
        let mut call = toolwire(&folder, &["call", tool, &arguments.to_string(), "--json"]);
        let (exit, stdout, stderr) = run(&mut call);
        let result: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}{stderr}"));
        assert_eq!((exit, &result["structuredContent"]["value"]), (code, &value), "{tool} {arguments}");
        assert_eq!(result["isError"].as_bool().unwrap_or_default(), code == 1);
    }
}

#[test]
fn the_demo_tools_convert_without_loss() {
    let (code, stdout, _) = run(&mut toolwire(&empty_folder("clean"), &["check", "--json"]));
    let reports: Value = serde_json::from_str(&stdout).unwrap();
    let reports = reports.as_array().unwrap();
    assert_eq!((code, reports.len()), (0, 2 * 17));
    for report in reports {
        assert!(matches!(report["status"].as_str(), Some("exact" | "rewritten")), "{report:#}");
    }
}

#[test]
fn tool_names_get_the_prefix_from_the_environment() {
    let mut listing = toolwire(&empty_folder("prefix"), &["tools", "--json"]);
    let (_, stdout, _) = run(listing.env("MCP_TOOL_PREFIX", "try"));
    assert_eq!(names(&stdout), ["try_calculate", "try_get_weather"]);
}

#[test]
fn an_invalid_prefix_is_reported_by_the_server_and_by_its_client() {
    let folder = empty_folder("invalid-prefix");
    let error = "error: invalid prefix `a b` from the variable `MCP_TOOL_PREFIX`";
    let hint = "hint: use letters, digits, `_` and `-` in the variable `MCP_TOOL_PREFIX`, or an empty string for no \
                prefix";
    let (code, stdout, stderr) =
        run(toolwire(&folder, &["demo-server"]).env("MCP_TOOL_PREFIX", "a b").stdin(Stdio::null()));
    assert_eq!((code, stdout, stderr), (2, String::new(), format!("{error}\n{hint}\n")));

    let environment = json!({"MCP_TOOL_PREFIX": "a b"});
    let server =
        json!({"command": env!("CARGO_BIN_EXE_toolwire"), "args": ["demo-server"], "env": environment});
    fs::write(folder.join("mcp.json"), json!({"mcpServers": {"demo": server}}).to_string()).unwrap();
    let (code, stdout, stderr) = run(&mut toolwire(&folder, &["tools"]));
    assert_eq!((code, &*stdout), (1, "0 of 1 server ready, 0 tools\n"));
    assert_eq!(
        stderr,
        format!(
            "error: server `demo` failed: the process exited with code 2 before the session started\n  \
             {error}\n  {hint}\n\
             hint: run its command in a terminal: stderr usually shows the reason\n"
        )
    );
}

#[cfg(unix)]
#[test]
fn the_demo_server_serves_http_until_it_gets_a_signal() {
    let folder = empty_folder("http");
    let mut serving = toolwire(&folder, &["demo-server", "--http", "127.0.0.1:0"]);
    let mut server = serving.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().trim_end_matches(';');
    let config = folder.join("http.json");
    fs::write(&config, json!({"mcpServers": {"remote": {"url": url}}}).to_string()).unwrap();
    let call = json!({"operator": "multiply", "argument1": 6, "argument2": 7}).to_string();
    let (code, stdout, stderr) =
        run(&mut toolwire(&folder, &["-c", config.to_str().unwrap(), "call", "calculate", &call]));
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("42"), "{stdout}");
    let stopped = Command::new("kill").arg(server.id().to_string()).status().unwrap();
    assert!(stopped.success());
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn an_invalid_address_is_a_usage_error() {
    let (code, _, stderr) =
        run(&mut toolwire(&empty_folder("address"), &["demo-server", "--http", "nowhere"]));
    assert_eq!(code, 2);
    assert!(
        stderr.contains("`nowhere` is not a valid address to listen on") && stderr.contains("127.0.0.1:8788"),
        "{stderr}"
    );
}
