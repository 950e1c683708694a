//! `toolwire import` on a home folder with the files of other hosts.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;

use assert_cmd::Command;
use serde_json::{Value, json};

struct Home(PathBuf);

impl Home {
    fn new(name: &str, files: &[(&str, String)]) -> Home {
        let home = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("import").join(name);
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(home.join("project")).unwrap();
        for (path, text) in files {
            let path = home.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Home(home)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"));
        command.current_dir(self.0.join("project")).env("HOME", &self.0).env("NO_COLOR", "1");
        command.env_remove("XDG_CONFIG_HOME").env_remove("TOOLWIRE_CONFIG").arg("import").args(arguments);
        command.output().unwrap()
    }

    fn stdout(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        String::from_utf8(output.stdout).unwrap().replace(self.0.to_str().unwrap(), "~")
    }

    fn target(&self) -> PathBuf {
        self.0.join(".config/toolwire/mcp.json")
    }
}

fn hosts(name: &str) -> Home {
    let claude = json!({"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "files", "--token", "s3cret"], "env": {"KEY": "s3cret"}},
        "broken": {"args": []}}});
    let cursor = r#"{ // comment
        "mcpServers": {"files": {"command": "other"}, "web": {"url": "https://user:s3cret@example.com/mcp?k=s3cret", "x": 1}},}"#;
    let gemini = json!({"theme": "dark", "mcpServers": {
        "g": {"httpUrl": "https://example.org/mcp", "timeout": 5000, "headers": {"A": "$G_TOKEN"}}}});
    let zed = json!({"context_servers": {"z": {"command": {"path": "zed-mcp", "args": []}}, "e": {"settings": {}}}});
    let code = json!({"servers": {"here": {"command": "${workspaceFolder}/run"}}});
    let codex = "[mcp_servers.c]\ncommand = \"uvx\"\nargs = [\"c\"]\nstartup_timeout_sec = 20\n";
    Home::new(
        name,
        &[
            (".config/Claude/claude_desktop_config.json", claude.to_string()),
            (".cursor/mcp.json", cursor.to_owned()),
            (".config/Code/User/mcp.json", code.to_string()),
            (".config/Code/User/settings.json", json!({"editor.fontSize": 12}).to_string()),
            (".config/zed/settings.json", zed.to_string()),
            (".gemini/settings.json", gemini.to_string()),
            (".codex/config.toml", codex.to_owned()),
        ],
    )
}

#[test]
fn disabled_servers_are_marked_and_counted() {
    let servers = json!({"a": {"command": "one", "enabled": false}, "b": {"command": "two"}});
    let zed = json!({"context_servers": {"z": {"command": "three", "enabled": false}}});
    let home = Home::new(
        "disabled",
        &[
            (".cursor/mcp.json", json!({"mcpServers": servers}).to_string()),
            (".config/zed/settings.json", zed.to_string()),
        ],
    );
    let page = home.stdout(&["--from", "cursor,zed"]);
    assert!(page.contains("  + a  one, disabled\n  + b  two\n"), "{page}");
    assert!(
        page.ends_with("3 servers can be added to ~/.config/toolwire/mcp.json, 2 of them disabled\n"),
        "{page}"
    );
    let json: Value = serde_json::from_str(&home.stdout(&["--json", "--from", "cursor"])).unwrap();
    let expected = json!({"name": "a", "state": "new", "disabled": true});
    assert_eq!(json["files"][0]["servers"][0], expected);
}

#[test]
fn the_servers_of_other_hosts_are_listed_without_secrets() {
    let home = hosts("list");
    let output = home.run(&[]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "hint: add them with `toolwire import --write`\n");
    assert_eq!(
        home.stdout(&[]),
        "Claude Desktop  ~/.config/Claude/claude_desktop_config.json
  + files   npx
  ! broken  skipped: neither `command` nor `url` is set

Cursor  ~/.cursor/mcp.json
  ! files  has the same name as a server of Claude Desktop
  + web    example.com (ignored: `x`)

VS Code  ~/.config/Code/User/mcp.json
  ! here  skipped: `${workspaceFolder}` depends on the folder that is open in the editor

Zed  ~/.config/zed/settings.json
  + z  zed-mcp
  ! e  skipped: an extension of the editor starts the server

Gemini CLI  ~/.gemini/settings.json
  + g  disabled until you set `G_TOKEN`

Codex  ~/.codex/config.toml
  + c  uvx

5 servers can be added to ~/.config/toolwire/mcp.json, 1 of them disabled
"
    );
    assert!(!home.target().exists());
    let json: Value = serde_json::from_str(&home.stdout(&["--json", "--from", "cursor"])).unwrap();
    assert_eq!(json["added"], json!(["files", "web"]));
    assert_eq!(json["files"][0]["servers"][1], json!({"name": "web", "state": "new", "ignored_keys": ["x"]}));
    assert!(!json.to_string().contains("s3cret"), "{json}");
}

#[test]
fn new_servers_are_added_and_the_rest_of_the_file_is_kept() {
    let home = hosts("write");
    let text = "{\n  // mine\n  \"mcpServers\": {\n    \"web\": {\"command\": \"mine\"}, // keep\n  },\n  \"toolwire\": {\"model\": \"demo\"}\n}\n";
    fs::create_dir_all(home.target().parent().unwrap()).unwrap();
    fs::write(home.target(), text).unwrap();
    let written = home.stdout(&["--write"]);
    assert!(written.contains("  ! web    is configured differently; `--overwrite` replaces it"), "{written}");
    assert!(
        written.ends_with("4 servers added to ~/.config/toolwire/mcp.json, 1 of them disabled\n"),
        "{written}"
    );
    let text = fs::read_to_string(home.target()).unwrap();
    assert!(
        text.starts_with(
            "{\n  // mine\n  \"mcpServers\": {\n    \"web\": {\"command\": \"mine\"}, // keep\n"
        ),
        "{text}"
    );
    assert!(text.contains("\"timeout\": \"5000ms\"") && text.contains("\"A\": \"${G_TOKEN}\""), "{text}");
    let again = home.stdout(&["--write"]);
    assert!(again.contains("  = files   is configured already"), "{again}");
    assert!(again.ends_with("0 servers added to ~/.config/toolwire/mcp.json\n"), "{again}");
    let replaced = home.stdout(&["--write", "--overwrite", "--from", "cursor"]);
    assert!(replaced.ends_with("2 servers added to ~/.config/toolwire/mcp.json\n"), "{replaced}");
    let text = fs::read_to_string(home.target()).unwrap();
    assert!(text.contains("// keep") && text.contains("\"command\": \"other\""), "{text}");
}

#[test]
fn a_new_file_is_private() {
    let home = hosts("private");
    home.run(&["--write", "--from", "claude-desktop"]);
    assert_eq!(fs::metadata(home.target()).unwrap().permissions().mode() & 0o777, 0o600);
    let output = Command::new(env!("CARGO_BIN_EXE_toolwire"))
        .args(["tools", "--server", "nope"])
        .current_dir(home.0.join("project"))
        .env("HOME", &home.0)
        .env("NO_COLOR", "1")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("TOOLWIRE_CONFIG")
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("hint: configured servers: `files`"), "{stderr}");
}

#[test]
fn missing_variables_do_not_make_the_configuration_invalid() {
    let code = json!({
        "inputs": [{"id": "region", "default": "eu"}, {"id": "token"}],
        "servers": {
            "a": {"command": "a", "args": ["${input:region}"], "envFile": "~/a.env"},
            "b": {"url": "${BASE}/mcp", "headers": {"X": "${input:token}", "Y": "${input:token}"}},
            "c": {"command": "${command:pick}"}}});
    let opencode =
        json!({"mcp": {"o": {"type": "local", "command": ["o"], "environment": {"K": "{env:HOME}"}}}});
    let home = Home::new(
        "variables",
        &[
            (".config/Code/User/mcp.json", code.to_string()),
            (".config/opencode/opencode.json", opencode.to_string()),
            (
                ".codex/config.toml",
                "[mcp_servers.x]\nurl = 'https://a/'\nbearer_token_env_var = 'NONE'\n".into(),
            ),
            (
                ".cursor/mcp.json",
                json!({"mcpServers": {"e": {"command": "e", "envFile": "e.env"}}}).to_string(),
            ),
            ("a.env", "A=1\n".to_owned()),
            ("e.env", "E=1\n".to_owned()),
        ],
    );
    assert_eq!(
        home.stdout(&["--write"]),
        "Cursor  ~/.cursor/mcp.json
  + e  e

VS Code  ~/.config/Code/User/mcp.json
  + a  a
  + b  disabled until you set `BASE`, `TOKEN`
  ! c  skipped: key `command`: `${command:pick}` is available only in VS Code

Codex  ~/.codex/config.toml
  + x  disabled until you set `NONE`

opencode  ~/.config/opencode/opencode.json
  + o  o

5 servers added to ~/.config/toolwire/mcp.json, 2 of them disabled
"
    );
    let written: Value = serde_json::from_str(&fs::read_to_string(home.target()).unwrap()).unwrap();
    let servers = &written["mcpServers"];
    assert_eq!(servers["a"], json!({"command": "a", "args": ["eu"], "envFile": "~/a.env"}));
    assert_eq!(servers["e"]["envFile"], home.0.join("e.env").to_str().unwrap());
    assert_eq!(servers["o"]["environment"]["K"], "${env:HOME}");
    assert_eq!((&servers["b"]["disabled"], &servers["x"]["disabled"]), (&json!(true), &json!(true)));
    let again: Value = serde_json::from_str(&home.stdout(&["--json"])).unwrap();
    assert_eq!(again["added"], json!([]));
    assert_eq!(
        again["files"][1]["servers"][1],
        json!({"name": "b", "state": "configured", "reason": "is configured already",
               "disabled": true, "missing_variables": ["BASE", "TOKEN"]})
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"));
    command.args(["tools", "--server", "nope"]).current_dir(home.0.join("project")).env("HOME", &home.0);
    command.env_remove("XDG_CONFIG_HOME").env_remove("TOOLWIRE_CONFIG").env("NO_COLOR", "1");
    let stderr = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(stderr.starts_with("error: unknown server `nope`"), "{stderr}");
}

#[test]
fn a_name_is_added_only_once() {
    let home = Home::new(
        "twice",
        &[(".cursor/mcp.json", json!({"mcpServers": {"a": {"command": "c"}}}).to_string())],
    );
    let project = home.0.join("project");
    let claude = json!({
        "mcpServers": {"a": {"command": "user"}},
        "projects": {project.to_str().unwrap(): {"mcpServers": {"a": {"command": "project"}}}}});
    fs::write(home.0.join(".claude.json"), claude.to_string()).unwrap();
    let listed = home.stdout(&["--write"]);
    assert!(
        listed.contains("  + a  user\n  ! a  has the same name as a server of Claude Code\n"),
        "{listed}"
    );
    assert!(listed.ends_with("1 server added to ~/.config/toolwire/mcp.json\n"), "{listed}");
    fs::write(home.target(), r#"{"mcpServers": {"a": {"command": "mine"}}}"#).unwrap();
    let listed = home.stdout(&["--write", "--overwrite"]);
    assert!(listed.ends_with("1 server added to ~/.config/toolwire/mcp.json\n"), "{listed}");
    assert!(fs::read_to_string(home.target()).unwrap().contains("\"user\""));
}

#[test]
fn the_target_is_the_configuration_that_is_used() {
    let home = hosts("target");
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"));
    command.args(["import", "--write", "--from", "codex"]).current_dir(home.0.join("project"));
    command
        .env("HOME", &home.0)
        .env_remove("XDG_CONFIG_HOME")
        .env("TOOLWIRE_CONFIG", home.0.join("own.json"));
    assert!(command.output().unwrap().status.success());
    assert!(home.0.join("own.json").exists() && !home.target().exists());

    fs::write(home.0.join("project/mcp.json"), "{}").unwrap();
    let output = home.run(&["--write", "--from", "codex"]);
    let stderr = String::from_utf8(output.stderr).unwrap().replace(home.0.to_str().unwrap(), "~");
    assert_eq!(
        stderr,
        "note: in this folder, `mcp.json` is used instead of ~/.config/toolwire/mcp.json\n\
         hint: add them there with `toolwire import --write --config mcp.json`\n"
    );
}

#[test]
fn a_failed_write_leaves_nothing_behind() {
    let home = hosts("full");
    let mut command = std::process::Command::new("sh");
    // Files may not grow beyond 0 bytes.
    command.args(["-c", "ulimit -f 0; exec \"$0\" import --write", env!("CARGO_BIN_EXE_toolwire")]);
    command.current_dir(home.0.join("project")).env("HOME", &home.0).env_remove("XDG_CONFIG_HOME");
    let output = command.env_remove("TOOLWIRE_CONFIG").output().unwrap();
    assert!(!output.status.success());
    assert!(!home.target().exists());
}

#[test]
fn yaml_files_are_imported() {
    let goose = "\
extensions:
  developer: {enabled: true, type: builtin, name: developer, bundled: true}
  fetch:
    enabled: true
    type: stdio
    name: Fetch
    cmd: uvx
    args:
    - mcp-server-fetch
    envs: {}
    env_keys:
    - FETCH_TOKEN
    timeout: 300
    bundled: null
    available_tools: []
GOOSE_PROVIDER: openai
";
    let assistant = "\
name: Local
schema: v1
mcpServers:
  - name: sqlite
    command: npx
    args: [-y, mcp-sqlite]
    connectionTimeout: 5000
  - uses: owner/block
";
    let block = "name: Block\nmcpServers:\n  - name: web\n    url: https://example.com/mcp\n";
    let home = Home::new(
        "yaml",
        &[
            (".config/goose/config.yaml", goose.to_owned()),
            (".continue/config.yaml", assistant.to_owned()),
            (".continue/mcpServers/web.yaml", block.to_owned()),
        ],
    );
    assert_eq!(
        home.stdout(&["--write"]),
        "Continue  ~/.continue/mcpServers/web.yaml
  + web  example.com

Continue  ~/.continue/config.yaml
  + sqlite       npx
  ! owner/block  skipped: its definition is on the hub of Continue

goose  ~/.config/goose/config.yaml
  ! developer  skipped: it is a part of goose
  + fetch      disabled until you set `FETCH_TOKEN`

3 servers added to ~/.config/toolwire/mcp.json, 1 of them disabled
"
    );
    let written: Value = serde_json::from_str(&fs::read_to_string(home.target()).unwrap()).unwrap();
    let fetch = json!({
        "enabled": true, "type": "stdio", "name": "Fetch", "args": ["mcp-server-fetch"], "env_keys": ["FETCH_TOKEN"],
        "timeout": 300, "command": "uvx", "disabled": true,
    });
    assert_eq!(written["mcpServers"]["fetch"], fetch);
    assert_eq!(written["mcpServers"]["sqlite"]["connectionTimeout"], 5000);
}

#[test]
fn files_that_cannot_be_read_are_reported() {
    let home = Home::new(
        "unreadable",
        &[
            (".cursor/mcp.json", "{".to_owned()),
            (".continue/config.yaml", "name: n\nmcpServers: [\n".to_owned()),
            (".config/goose/config.yaml", "extensions: {}\n".to_owned()),
        ],
    );
    let output = home.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        home.stdout(&[]),
        "Cursor  ~/.cursor/mcp.json
  ! ~/.cursor/mcp.json:1:1: invalid JSON: unterminated object

Continue  ~/.continue/config.yaml
  ! ~/.continue/config.yaml:3:1: invalid YAML: while parsing a node, did not find expected node content

0 servers can be added to ~/.config/toolwire/mcp.json
"
    );
    let empty = Home::new("empty", &[]);
    assert_eq!(empty.stdout(&[]), "no configurations of other hosts found\n");
    assert_eq!(empty.run(&["--from", "nope"]).status.code(), Some(2));
}
