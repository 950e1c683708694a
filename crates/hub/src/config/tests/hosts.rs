//! Files in the shapes of other hosts.

use super::*;

#[track_caller]
fn parse_file(file: &str, text: &str, expected_warnings: &[&str]) -> Config {
    let parsed = Config::parse(text, Path::new(file), &variables);
    let (config, warnings) = parsed.unwrap_or_else(|error| panic!("{file}: {error}"));
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, expected_warnings, "{file}");
    config
}

fn process(command: &str, args: &[&str], env: &[(&str, &str)], cwd: Option<&str>) -> Transport {
    let args = args.iter().map(|argument| (*argument).to_owned()).collect();
    Transport::Stdio { command: command.to_owned(), args, env: pairs(env), cwd: cwd.map(Into::into) }
}

#[track_caller]
fn check_transport(config: &Config, server: &str, expected: &Transport) {
    let transport = config.server(server).map(|server| &server.transport);
    assert_eq!(transport, Some(expected), "{server}");
}

#[test]
fn the_settings_of_zed_are_read() {
    let text = r#"{
        "theme": "One Dark", // not for us
        "context_servers": {
            "new": {"command": "a", "args": ["b"], "env": {"K": "v"}},
            "old": {"source": "custom", "command": {"path": "p", "args": ["x"], "env": {"K": "v"}}, "settings": {}},
            "remote": {"url": "https://a.b/mcp", "enabled": false},
            "installed": {"source": "extension", "enabled": true, "settings": {}}
        }}"#;
    let skipped = "settings.json:7:13: server `installed`: skipped, because an extension of the editor starts the server";
    let config = parse_file("settings.json", text, &[skipped]);
    assert_eq!(config.servers.len(), 3);
    check_transport(&config, "new", &process("a", &["b"], &[("K", "v")], None));
    check_transport(&config, "old", &process("p", &["x"], &[("K", "v")], None));
    assert!(config.server("remote").is_some_and(|server| server.disabled));
}

#[test]
fn the_settings_of_gemini_cli_are_read() {
    let text = r#"{"selectedAuthType": "x", "mcp": {"allowed": ["a", "c"], "excluded": ["c"]}, "mcpServers": {
        "a": {"command": "a", "cwd": "./b", "trust": true, "description": "d", "includeTools": ["one", "two"]},
        "b": {"httpUrl": "https://a.b/mcp", "timeout": 30000, "excludeTools": ["three"]},
        "c": {"command": "${NONE}"}}}"#;
    let config = parse_file(".gemini/settings.json", text, &[]);
    assert_eq!(config.servers[1].call_timeout, Duration::from_secs(30));
    check_transport(&config, "a", &process("a", &[], &[], Some("./b")));
    check_transport(&config, "b", &http("https://a.b/mcp", HttpKind::Auto));
    assert_eq!(config.servers[0].allow, [Glob::new("one"), Glob::new("two")]);
    assert_eq!(config.servers[1].deny, [Glob::new("three")]);
    // `b` is not allowed, and `c` is excluded.
    let disabled: Vec<bool> = config.servers.iter().map(|server| server.disabled).collect();
    assert_eq!(disabled, [false, true, true]);
    let servers = Config::raw_servers(text, Path::new(".gemini/settings.json")).expect("valid");
    assert_eq!(servers[0].1.get("disabled"), None);
    assert_eq!(servers[2].1, serde_json::json!({"command": "${NONE}", "disabled": true}));
}

#[test]
fn the_toml_of_codex_is_read() {
    let text = r#"
        model = "gpt-5"
        [mcp_servers.local]
        command = "npx"
        args = ["-y", "server"]
        env = { K = "v" }
        env_vars = ["TOKEN", "NONE"]
        startup_timeout_sec = 20
        tool_timeout_sec = 1.5
        enabled_tools = ["one"]
        disabled_tools = ["two"]
        [mcp_servers.remote]
        url = "https://a.b/mcp"
        bearer_token_env_var = "TOKEN"
        http_headers = { A = "b" }
        env_http_headers = { C = "HOST" }
        enabled = false
        since = 2026-01-01
    "#;
    let unknown = "config.toml: server `remote`: unknown key `since`";
    let config = parse_file("config.toml", text, &[unknown]);
    let (local, remote) = (config.server("local").expect("local"), config.server("remote").expect("remote"));
    check_transport(
        &config,
        "local",
        &process("npx", &["-y", "server"], &[("TOKEN", "s3cret"), ("K", "v")], None),
    );
    assert_eq!(
        (local.connect_timeout, local.call_timeout),
        (Duration::from_secs(20), Duration::from_millis(1500))
    );
    assert!(!local.extends_connect_timeout && remote.extends_connect_timeout);
    assert_eq!((&local.allow, &local.deny), (&vec![Glob::new("one")], &vec![Glob::new("two")]));
    let Transport::Http { headers, oauth: None, .. } = &remote.transport else { panic!("{remote:?}") };
    assert_eq!(*headers, pairs(&[("A", "b"), ("C", "example.com"), ("Authorization", "Bearer s3cret")]));
    assert!(remote.disabled);

    let error = Config::parse("[a\n", Path::new("a.toml"), &variables).expect_err("invalid TOML").to_string();
    assert!(error.starts_with("a.toml:1:3: invalid TOML: "), "{error}");
    let text = "[mcp_servers.a]\nurl = 'https://a/'\nbearer_token_env_var = 'NONE'\n";
    let error = Config::parse(text, Path::new("a.toml"), &variables).expect_err("a missing variable");
    assert_eq!(
        error.to_string(),
        "a.toml: server `a`, key `bearer_token_env_var`: variable `NONE` is not set"
    );
    assert_eq!(error.problems()[0].hint().as_deref(), Some("set the environment variable `NONE`"));
}

#[test]
fn the_yaml_of_goose_is_read() {
    let text = "\
extensions:
  developer:
    enabled: true
    type: builtin
    name: developer
    description: ''
    display_name: Developer
    timeout: 300
    bundled: true
    available_tools: []
  fetch:
    enabled: true
    type: stdio
    name: Fetch
    description: Reads pages
    cmd: uvx
    args:
    - mcp-server-fetch
    - --timeout=20
    envs:
      LEVEL: 3
    env_keys:
    - TOKEN
    timeout: 120
    bundled: null
    available_tools:
    - fetch
  remote:
    enabled: false
    type: streamable_http
    name: remote
    description: ''
    uri: https://a.b/mcp
    envs: {}
    env_keys: []
    headers:
      Authorization: Bearer ${TOKEN}
    timeout: 300
    bundled: null
    available_tools: []
GOOSE_PROVIDER: anthropic
GOOSE_MODEL: claude-sonnet-4-5
";
    let skipped = "goose/config.yaml:2:3: server `developer`: skipped, because it is a part of goose";
    let config = parse_file("goose/config.yaml", text, &[skipped]);
    assert_eq!(config.servers.len(), 2);
    let env = [("TOKEN", "s3cret"), ("LEVEL", "3")];
    check_transport(&config, "fetch", &process("uvx", &["mcp-server-fetch", "--timeout=20"], &env, None));
    let fetch = &config.servers[0];
    assert_eq!((fetch.call_timeout, &fetch.allow), (Duration::from_secs(120), &vec![Glob::new("fetch")]));
    let remote = &config.servers[1];
    let Transport::Http { url, headers, kind: HttpKind::Streamable, .. } = &remote.transport else {
        panic!("{remote:?}")
    };
    assert_eq!((url.as_str(), headers), ("https://a.b/mcp", &pairs(&[("Authorization", "Bearer s3cret")])));
    assert!(remote.disabled && remote.allow.is_empty());

    let problems = [
        (
            text.replace("- TOKEN", "- NONE"),
            "c.yaml:23:7: server `fetch`, key `env_keys[0]`: variable `NONE` is not set",
        ),
        (
            text.replace("uvx", "[]"),
            "c.yaml:16:10: server `fetch`, key `cmd`: must be a string, not an array",
        ),
        (text.replace("    cmd: uvx", "   cmd: uvx"), "c.yaml:16:4: invalid YAML: "),
    ];
    for (text, expected) in problems {
        let error = Config::parse(&text, Path::new("c.yaml"), &variables).expect_err("a problem").to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    // Gemini CLI has other settings under this key.
    let text = r#"{"mcpServers": {"a": {"command": "a"}}, "extensions": {"disabled": ["x"]}}"#;
    assert_eq!(parse_file("settings.json", text, &[]).servers.len(), 1);
}

#[test]
fn the_yaml_of_continue_is_read() {
    let text = "\
name: Local Assistant
version: 1.0.0
schema: v1
models:
  - name: Sonnet
    provider: anthropic
    apiKey: ${{ secrets.ANTHROPIC_API_KEY }}
# Servers
mcpServers:
  - name: SQLite
    command: npx
    args: [-y, mcp-sqlite, \"data base.db\"]
    env:
      KEY: ${{ secrets.TOKEN }}
    cwd: /data
    connectionTimeout: 5000
  - name: web
    type: streamable-http
    url: https://a.b/mcp
    requestOptions:
      headers:
        Authorization: Bearer ${{ secrets.TOKEN }}
  - uses: owner/block
    with: {KEY: x}
";
    let skipped =
        "mcp.yaml:23:5: server `owner/block`: skipped, because its definition is on the hub of Continue";
    let config = parse_file("mcp.yaml", text, &[skipped]);
    assert_eq!(config.servers.len(), 2);
    let args = ["-y", "mcp-sqlite", "data base.db"];
    check_transport(&config, "SQLite", &process("npx", &args, &[("KEY", "s3cret")], Some("/data")));
    assert_eq!(config.servers[0].connect_timeout, Duration::from_secs(5));
    let Transport::Http { headers, .. } = &config.servers[1].transport else { panic!() };
    assert_eq!(*headers, pairs(&[("Authorization", "Bearer s3cret")]));
    let servers = Config::raw_servers(text, Path::new("config.yaml")).expect("valid");
    assert_eq!(servers.len(), 3);
    assert_eq!(servers[0].1["env"]["KEY"], "${{ secrets.TOKEN }}");

    let text = "mcpServers:\n  - name: a\n    command: a\n    comand: b\n  - command: b\n";
    let error = Config::parse(text, Path::new("c.yml"), &variables).expect_err("no name");
    assert_eq!(error.to_string(), "c.yml:5:5: key `mcpServers[1]`: the server has no `name`");
    assert_eq!(error.problems()[0].hint().as_deref(), Some("add `name`, such as `- name: files`"));
    let text = text.replace("  - command: b\n", "");
    parse_file("c.yml", &text, &["c.yml:4:5: server `a`: unknown key `comand`"]);
}

#[test]
fn the_projects_of_claude_code_are_read() {
    let folder = std::env::current_dir().expect("a folder");
    let text = serde_json::json!({
        "numStartups": 3,
        "mcpServers": {"everywhere": {"type": "stdio", "command": "a"}, "off": {"command": "d"}, "on": {"command": "e"}},
        "projects": {
            folder.to_str().expect("UTF-8"): {
                "allowedTools": [],
                "mcpServers": {"here": {"command": "b"}, "rejected": {"command": "f"}},
                "disabledMcpServers": ["off"],
                "disabledMcpjsonServers": ["rejected"],
            },
            "/elsewhere": {"mcpServers": {"there": {"command": "c"}}, "disabledMcpServers": ["on"]},
        },
    });
    let config = parse_file(".claude.json", &text.to_string(), &[]);
    let names: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["everywhere", "off", "on", "here", "rejected"]);
    let disabled = config.servers.iter().filter(|server| server.disabled);
    assert_eq!(disabled.map(|server| server.name.as_str()).collect::<Vec<_>>(), ["off", "rejected"]);
}

#[test]
fn other_spellings_are_read() {
    let text = r#"{"mcpServers": {
        "windsurf": {"serverUrl": "https://a.b/mcp", "disabledTools": ["x"]},
        "cline": {"type": "streamableHttp", "url": "https://a.b/mcp", "autoApprove": [], "disabled": false},
        "opencode": {"type": "local", "command": ["npx", "-y", "s"], "environment": {"K": "v"}, "enabled": true},
        "continue": {"name": "n", "url": "https://a.b/mcp", "requestOptions": {"headers": {"A": "b"}}}}}"#;
    let config = parse_file("mcp.json", text, &[]);
    check_transport(&config, "windsurf", &http("https://a.b/mcp", HttpKind::Auto));
    check_transport(&config, "cline", &http("https://a.b/mcp", HttpKind::Streamable));
    check_transport(&config, "opencode", &process("npx", &["-y", "s"], &[("K", "v")], None));
    let Transport::Http { headers, .. } = &config.servers[3].transport else { panic!() };
    assert_eq!(*headers, pairs(&[("A", "b")]));
    let text = r#"{"editor.fontSize": 12, "mcp": {"servers": {"vs": {"command": "a"}}, "inputs": []}}"#;
    check_transport(&parse_file("settings.json", text, &[]), "vs", &process("a", &[], &[], None));
    let text = r#"{"mcp": {"oc": {"type": "local", "command": ["a", "b"], "timeout": 5000}}}"#;
    let config = parse_file("opencode.json", text, &[]);
    check_transport(&config, "oc", &process("a", &["b"], &[], None));
    assert_eq!(config.servers[0].connect_timeout, Duration::from_secs(5));
}

#[test]
fn the_variables_of_vs_code_have_values() {
    let text = r#"{
        "inputs": [{"type": "promptString", "id": "token", "password": true},
                   {"type": "promptString", "id": "region", "default": "eu"},
                   {"type": "promptString", "id": "home", "default": "default"}],
        "servers": {"a": {"command": "${workspaceFolder}${/}run", "args": ["${workspaceFolderBasename}", "${userHome}"],
                          "env": {"T": "${input:token}", "R": "${input:region}", "H": "${input:home}"}}}}"#;
    let with_home = |name: &str| if name == "HOME" { Some("/home/me".to_owned()) } else { variables(name) };
    let (config, warnings) =
        Config::parse(text, Path::new("/w/project/.vscode/mcp.json"), &with_home).expect("valid");
    assert!(warnings.is_empty(), "{warnings:?}");
    let expected = process(
        "/w/project/run",
        &["project", "/home/me"],
        &[("T", "s3cret"), ("R", "eu"), ("H", "default")],
        None,
    );
    check_transport(&config, "a", &expected);

    check_error(
        r#"{"servers": {"a": {"command": "${input:api-key}", "args": ["${command:pick}"]}}}"#,
        "mcp.json:1:31: server `a`, key `command`: no value for the input `api-key`\nhint: set the environment variable `API_KEY`\n\
         mcp.json:1:60: server `a`, key `args[0]`: `${command:pick}` is available only in VS Code\nhint: write the value instead",
    );
}

#[test]
fn an_env_file_adds_variables() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("keys.env"), "A=file\nB='from file'\n").expect("written");
    let file = folder.path().join("mcp.json");
    let parse = |text: &str| Config::parse(text, &file, &variables);
    for path in ["keys.env", "${workspaceFolder}/keys.env"] {
        let text = format!(
            r#"{{"servers": {{"a": {{"command": "a", "envFile": "{path}", "env": {{"A": "own"}}}}}}}}"#
        );
        let (config, _) = parse(&text).expect("valid");
        check_transport(&config, "a", &process("a", &[], &[("B", "from file"), ("A", "own")], None));
    }
    let missing = r#"{"servers": {"a": {"command": "a", "envFile": "none"}}}"#;
    let error = parse(missing).expect_err("a missing file");
    let expected = format!("cannot read `{}`: the file does not exist", folder.path().join("none").display());
    assert!(error.to_string().ends_with(&expected), "{error}");
    assert!(parse(&missing.replace("\"command\"", "\"disabled\": true, \"command\"")).is_ok());
}

#[test]
fn raw_servers_are_unchanged() {
    let text = r#"{"context_servers": {"a": {"command": "${NONE}", "n": 1.50}}}"#;
    let servers = Config::raw_servers(text, Path::new("settings.json")).expect("valid");
    assert_eq!(servers.len(), 1);
    assert_eq!(
        (servers[0].0.as_str(), servers[0].1.to_string().as_str()),
        ("a", r#"{"command":"${NONE}","n":1.50}"#)
    );
    let text = r#"{"mcp": {"inputs": [{"id": "a", "default": "${x}"}, {"id": "b"}],
        "servers": {"a": {"args": ["${input:a}", "${input:b}"], "envFile": "keys.env"}}}}"#;
    let servers = Config::raw_servers(text, Path::new("/w/.vscode/settings.json")).expect("valid");
    let expected = serde_json::json!({"args": ["$${x}", "${input:b}"], "envFile": "/w/keys.env"});
    assert_eq!(servers, [("a".to_owned(), expected)]);
    assert!(Config::raw_servers("{", Path::new("settings.json")).is_err());
    assert_eq!(Config::raw_servers("{}", Path::new("settings.json")), Ok(Vec::new()));
}
