//! `toolwire convert`.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::{Value, json};

const WEATHER: &str = include_str!("../../../examples/weather.json");

/// Three tools; the second one has an unresolvable reference, so every dialect refuses it.
const ONE_IS_BROKEN: &str = r##"{"tools": [
    {"name": "first", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}},
    {"name": "broken", "inputSchema": {"type": "object", "properties": {"b": {"$ref": "#/$defs/Gone"}}}},
    {"name": "last", "inputSchema": {"type": "object", "properties": {"c": {"type": "string"}}}}
]}"##;

struct Outcome {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Outcome {
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}{}", self.stdout, self.stderr))
    }
}

fn convert(arguments: &[&str], stdin: &str) -> Outcome {
    let output = Command::new(env!("CARGO_BIN_EXE_toolwire"))
        .arg("convert")
        .args(arguments)
        .env("NO_COLOR", "1")
        .write_stdin(stdin)
        .output()
        .unwrap();
    Outcome {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Creates an empty folder for a test.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Returns a list of tools with numbered names.
fn weather_tools(count: usize) -> String {
    let numbered = |number: usize| WEATHER.replacen("get_weather", &format!("get_weather_{number}"), 1);
    format!("[{}]", (0..count).map(numbered).collect::<Vec<_>>().join(","))
}

fn weather_for_openai() -> Value {
    json!({"type": "function", "function": {
        "name": "get_weather",
        "description": "Current weather for a place",
        "parameters": {
            "type": "object",
            "properties": {
                "location": {"type": "string", "description": "City or address"},
                "units": {"type": "string", "enum": ["celsius", "fahrenheit"]}
            },
            "required": ["location"]
        }
    }})
}

fn weather_report() -> Value {
    json!([{
        "tool": "get_weather", "name": "get_weather", "dialect": "openai", "status": "rewritten",
        "changes": [{
            "pointer": "/properties/units", "keyword": "default", "effect": "dropped", "detail": "default \"celsius\""
        }]
    }])
}

#[test]
fn a_single_tool_gives_a_single_definition() {
    for arguments in [&["--to", "openai"][..], &["-", "--to", "openai"]] {
        let outcome = convert(arguments, WEATHER);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
        assert_eq!(outcome.json(), weather_for_openai());
    }
}

#[test]
fn an_incomplete_list_gives_a_warning() {
    let page = format!(r#"{{"result": {{"tools": [{WEATHER}], "nextCursor": "x"}}}}"#);
    let outcome = convert(&["--to", "openai"], &page);
    let expected = "warning: the list has a `nextCursor`: these are not all of the server's tools\n";
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, expected));
}

#[test]
fn more_tools_than_one_request_accepts_give_a_warning() {
    let tools = weather_tools(129);
    let outcome = convert(&["--to", "openai"], &tools);
    let expected = "warning: 129 tools, but one request to `openai` accepts 128; select the ones to send\n";
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, expected));
    assert_eq!(convert(&["--to", "anthropic"], &tools).stderr, "");
}

#[test]
fn input_without_tools_is_rejected() {
    for (text, message) in [
        (r#"{"tools": {}}"#, "`tools` is not an array"),
        ("{}", "expected a tool, found an empty object"),
        (r#"{"jsonrpc": "2.0", "id": 1, "error": {"message": "boom"}}"#, "a server response with an `error`"),
        ("null", "expected a tool"),
    ] {
        let outcome = convert(&["--to", "openai"], text);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{text}");
        assert!(outcome.stderr.contains(message), "{text}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("line 1, column 1"), "{text}: {}", outcome.stderr);
    }
}

#[test]
fn every_form_of_a_list_gives_an_array() {
    let forms = [
        format!("[{WEATHER}]"),
        format!(r#"{{"tools": [{WEATHER}]}}"#),
        format!(r#"{{"jsonrpc": "2.0", "id": 1, "result": {{"tools": [{WEATHER}], "nextCursor": null}}}}"#),
        format!("\u{feff}[{WEATHER}]"),
    ];
    for form in forms {
        let outcome = convert(&["--to", "openai"], &form);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
        assert_eq!(outcome.json(), json!([weather_for_openai()]));
    }
}

#[test]
fn an_empty_list_gives_an_empty_array() {
    let outcome = convert(&["--to", "openai"], "[]");
    assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (0, "[]\n", ""));
}

#[test]
fn compact_output_is_one_line() {
    let outcome = convert(&["--to", "openai", "--compact"], WEATHER);
    assert_eq!(outcome.stdout, format!("{}\n", weather_for_openai()));
}

#[test]
fn the_default_output_is_indented() {
    let outcome = convert(&["--to", "openai"], WEATHER);
    assert_eq!(outcome.stdout, format!("{}\n", serde_json::to_string_pretty(&weather_for_openai()).unwrap()));
}

#[test]
fn a_strict_definition_requires_every_property_and_allows_no_others() {
    let definition = convert(&["--to", "openai-strict"], WEATHER).json();
    let function = &definition["function"];
    assert_eq!(function["strict"], json!(true));
    assert_eq!(function["parameters"]["required"], json!(["location", "units"]));
    assert_eq!(function["parameters"]["additionalProperties"], json!(false));
}

#[test]
fn defaults_can_be_kept_or_described() {
    let kept = convert(&["--to", "openai", "--defaults", "keep"], WEATHER).json();
    assert_eq!(kept["function"]["parameters"]["properties"]["units"]["default"], json!("celsius"));
    let described = convert(&["--to", "openai", "--defaults", "describe"], WEATHER).json();
    let units = &described["function"]["parameters"]["properties"]["units"];
    assert_eq!(units.get("default"), None);
    assert!(units["description"].as_str().unwrap().contains("celsius"), "{units}");
}

#[test]
fn a_report_on_stdout_replaces_the_definitions() {
    let outcome = convert(&["--to", "openai", "--report", "-"], WEATHER);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert_eq!(outcome.json(), weather_report());
    assert_eq!(
        convert(&["--to", "openai", "--report", "-", "--compact"], WEATHER).stdout,
        format!("{}\n", weather_report())
    );
}

#[test]
fn a_report_can_be_written_to_a_file() {
    let folder = folder("report_in_a_file");
    let path = folder.join("report.json");
    fs::write(&path, "old content").unwrap();
    let outcome = convert(&["--to", "openai", "--report", path.to_str().unwrap()], WEATHER);
    assert_eq!(outcome.json(), weather_for_openai());
    assert_eq!(serde_json::from_slice::<Value>(&fs::read(&path).unwrap()).unwrap(), weather_report());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no temporary file is left");
}

#[cfg(unix)]
#[test]
fn a_report_to_a_stream_does_not_replace_the_file_behind_it() {
    use std::process::{Command, Stdio};

    let folder = folder("report_to_a_stream");
    let (tools, log) = (folder.join("tools.json"), folder.join("log"));
    fs::write(&tools, ONE_IS_BROKEN).unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_toolwire"))
        .args(["convert", tools.to_str().unwrap(), "--to", "openai", "--compact", "--report", "/dev/stderr"])
        .stdout(Stdio::null())
        .stderr(fs::OpenOptions::new().create(true).append(true).open(&log).unwrap())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
    let written = fs::read_to_string(&log).unwrap();
    assert!(written.starts_with(r#"[{"tool":"first","#), "{written}");
    assert!(written.contains("\nerror: tool 2 of 3, `broken`, is refused"), "{written}");
}

#[test]
fn nothing_is_printed_if_the_report_cannot_be_written() {
    let folder = folder("report_nowhere");
    let path = folder.join("missing").join("report.json");
    let outcome = convert(&["--to", "openai", "--report", path.to_str().unwrap()], WEATHER);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""));
    assert!(outcome.stderr.starts_with("error: cannot write `"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("\nhint: "), "{}", outcome.stderr);
}

#[test]
fn a_refused_tool_is_omitted_and_reported() {
    let outcome = convert(&["--to", "openai"], ONE_IS_BROKEN);
    assert_eq!(outcome.code, 1);
    let definitions = outcome.json();
    let names: Vec<&Value> =
        definitions.as_array().unwrap().iter().map(|definition| &definition["function"]["name"]).collect();
    assert_eq!(names, ["first", "last"]);
    let start = "error: tool 2 of 3, `broken`, is refused for `openai`: ";
    assert!(outcome.stderr.starts_with(start), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("/properties/b"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("\nhint: "), "{}", outcome.stderr);
}

#[test]
fn a_refused_tool_is_in_the_report_with_its_reason() {
    let outcome = convert(&["--to", "openai", "--report", "-"], ONE_IS_BROKEN);
    assert_eq!(outcome.code, 1);
    let reports = outcome.json();
    assert_eq!(reports.as_array().unwrap().len(), 3);
    assert_eq!(reports[1]["status"], json!("refused"));
    assert!(reports[1]["reason"]["message"].is_string(), "{reports}");
}

#[test]
fn the_hint_has_the_number_of_the_refused_tools() {
    let broken =
        |name: &str| json!({"name": name, "inputSchema": {"type": "object", "$ref": "#/$defs/Gone"}});
    let path = folder("refused-tools").join("tools.json");
    for (tools, expected) in
        [(json!([broken("a")]), "accept it\n"), (json!([broken("a"), broken("b")]), "accept them\n")]
    {
        fs::write(&path, tools.to_string()).unwrap();
        let outcome = convert(&["--to", "openai", path.to_str().unwrap()], "");
        assert!(outcome.stderr.ends_with(expected), "{}", outcome.stderr);
    }
    // Every dialect refuses a definition for another API, so `check` does not help.
    fs::write(&path, convert(&["--to", "anthropic"], WEATHER).stdout).unwrap();
    let outcome = convert(&["--to", "openai", path.to_str().unwrap()], "");
    assert!(
        outcome.stderr.ends_with("hint: `--report -` prints the reasons as JSON\n"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_single_refused_tool_prints_nothing() {
    let tool = r##"{"name": "broken", "inputSchema": {"type": "object", "properties": {"b": {"$ref": "#/$defs/Gone"}}}}"##;
    let outcome = convert(&["--to", "openai"], tool);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""));
    assert!(
        outcome.stderr.starts_with("error: tool `broken` is refused for `openai`: "),
        "{}",
        outcome.stderr
    );
}

#[test]
fn definitions_can_be_read_back() {
    for dialect in ["openai", "responses", "anthropic", "gemini", "bedrock", "mcp"] {
        let converted = convert(&["--to", dialect, "--defaults", "keep"], &format!("[{WEATHER}]"));
        assert_eq!(converted.code, 0, "{}", converted.stderr);
        let back = convert(&["--from", dialect, "--to", "openai"], &converted.stdout);
        assert_eq!(back.json(), json!([weather_for_openai()]), "{dialect}");
    }
}

#[test]
fn definitions_of_other_dialects_are_not_read_as_mcp_tools() {
    for dialect in ["openai", "responses", "anthropic", "gemini", "bedrock"] {
        let converted = convert(&["--to", dialect], &format!("[{WEATHER}]"));
        let outcome = convert(&["--to", "anthropic"], &converted.stdout);
        assert_eq!(outcome.code, 1, "{dialect}: {}", outcome.stdout);
        let hint = format!("`toolwire convert --from {dialect} --to mcp` converts it");
        assert!(outcome.stderr.contains(&hint), "{dialect}: {}", outcome.stderr);
    }
    let without_arguments = convert(&["--to", "anthropic"], r#"[{"name": "ping", "description": "d"}]"#);
    assert_eq!(without_arguments.code, 0, "{}", without_arguments.stderr);
}

#[track_caller]
fn check_unreadable(input: &str, position: &str) {
    let outcome = convert(&["--to", "openai"], input);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
    let first = outcome.stderr.lines().next().unwrap();
    assert!(first.starts_with("error: cannot read standard input: "), "{first}");
    assert!(first.ends_with(position), "{first}");
    assert!(outcome.stderr.contains("\nhint: "), "{}", outcome.stderr);
}

#[test]
fn invalid_json_is_reported_with_its_position() {
    check_unreadable("[\n  {\"name\" 1}\n]", "at line 2, column 11");
    check_unreadable("[{\"name\": \"天気\" 1}]", "at line 1, column 16");
    check_unreadable("", "at line 1, column 1");
    check_unreadable("[1, 2,", "at line 1, column 7");
}

#[cfg(unix)]
#[test]
fn a_closed_output_pipe_is_not_an_error() {
    use std::process::{Command, Stdio};

    let path = folder("closed_output_pipe").join("tools.json");
    // Enough definitions to fill any pipe.
    fs::write(&path, weather_tools(2000)).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_toolwire"))
        .args(["convert", path.to_str().unwrap(), "--to", "mistral"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""));
}
