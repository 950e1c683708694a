//! Parses complete files in the forms that other hosts and users write.

use std::path::Path;
use std::time::Duration;

mod hosts;
mod problems;

use super::*;
use crate::auth::GrantKind;

fn variables(name: &str) -> Option<String> {
    let value = match name {
        "TOKEN" => "s3cret",
        "HOST" => "example.com",
        "EMPTY" => "",
        "BREAK" => "a\nb",
        _ => return None,
    };
    Some(value.to_owned())
}

#[track_caller]
fn parse(text: &str) -> (Config, Vec<String>) {
    let (config, warnings) =
        Config::parse(text, Path::new("mcp.json"), &variables).unwrap_or_else(|error| panic!("{error}"));
    (config, warnings.iter().map(|warning| with_hint(warning, warning.hint())).collect())
}

fn with_hint(message: impl fmt::Display, hint: Option<String>) -> String {
    hint.map_or_else(|| message.to_string(), |hint| format!("{message}\nhint: {hint}"))
}

/// Parses one server; warnings fail the test.
#[track_caller]
fn server(body: &str) -> ServerConfig {
    let (config, warnings) = parse(&format!(r#"{{"mcpServers": {{"s": {body}}}}}"#));
    assert_eq!(warnings, Vec::<String>::new());
    config.servers.into_iter().next().expect("one server")
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    let error = Config::parse(text, Path::new("mcp.json"), &variables).expect_err(text);
    assert_eq!(printed(&error), expected, "{text}");
}

fn printed(error: &ConfigError) -> String {
    let problems: Vec<String> =
        error.problems().iter().map(|problem| with_hint(problem, problem.hint())).collect();
    problems.join("\n")
}

#[track_caller]
fn check_warnings(text: &str, expected: &[&str]) -> Config {
    let (config, warnings) = parse(text);
    assert_eq!(warnings, expected, "{text}");
    config
}

fn stdio(command: &str) -> Transport {
    Transport::Stdio { command: command.to_owned(), args: Vec::new(), env: Vec::new(), cwd: None }
}

fn http(url: &str, kind: HttpKind) -> Transport {
    let url = Url::parse(url).expect("a valid URL");
    Transport::Http { url, headers: Vec::new(), kind, oauth: Some(Box::default()) }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, Secret)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect()
}

#[test]
fn all_keys_of_a_process_are_parsed() {
    let config = server(
        r#"{"command": "npx", "args": ["-y", "pkg", "--token=${TOKEN}", 5], "cwd": "/srv/${HOST}",
            "env": {"A": "${env:TOKEN}", "PORT": 8080, "DEBUG": true, "GONE": null, "E": ""},
            "timeout": "2m", "prefix": "gh", "tools": {"allow": ["get_*", "list_*"], "deny": ["*_secret"]}}"#,
    );
    let expected = ServerConfig {
        name: ServerName("s".to_owned()),
        transport: Transport::Stdio {
            command: "npx".to_owned(),
            args: ["-y", "pkg", "--token=s3cret", "5"].map(str::to_owned).to_vec(),
            env: pairs(&[("A", "s3cret"), ("PORT", "8080"), ("DEBUG", "true"), ("E", "")]),
            cwd: Some(PathBuf::from("/srv/example.com")),
        },
        disabled: false,
        connect_timeout: Duration::from_secs(120),
        extends_connect_timeout: false,
        call_timeout: Duration::from_secs(120),
        user_credentials: None,
        prefix: Some("gh".to_owned()),
        allow: vec![Glob::new("get_*"), Glob::new("list_*")],
        deny: vec![Glob::new("*_secret")],
    };
    assert_eq!(config, expected);
}

#[test]
fn all_keys_of_a_remote_server_are_parsed() {
    let config = server(
        r#"{"type": "sse", "url": "https://${HOST}/mcp?key=${TOKEN}", "headers": {"X-Key": "${TOKEN}"},
            "oauth": {"grant": "client_credentials", "clientId": "id", "clientSecret": "${TOKEN}",
                      "scopes": "read write", "redirectPort": 8080, "clientMetadataUrl": "https://a/b.json"}}"#,
    );
    let Transport::Http { url, headers, kind, oauth } = config.transport else {
        panic!("not an HTTP transport")
    };
    assert_eq!((url.as_str(), kind), ("https://example.com/mcp?key=s3cret", HttpKind::Sse));
    assert_eq!(headers, pairs(&[("X-Key", "s3cret")]));
    let expected = AuthConfig {
        grant: GrantKind::ClientCredentials,
        client_id: Some("id".to_owned()),
        client_secret: Some(Secret::new("s3cret")),
        private_key: None,
        client_metadata_url: Some("https://a/b.json".to_owned()),
        scopes: vec!["read".to_owned(), "write".to_owned()],
        redirect_port: Some(8080),
    };
    assert_eq!(oauth, Some(Box::new(expected)));
}

#[test]
fn missing_keys_have_default_values() {
    let config = server(r#"{"command": "a"}"#);
    assert_eq!(config, ServerConfig::new(ServerName("s".to_owned()), stdio("a")));
    assert_eq!((config.connect_timeout.as_secs(), config.call_timeout.as_secs()), (30, 60));
    // `null` is the same as a missing key.
    assert_eq!(
        server(r#"{"command": "a", "args": null, "timeout": null, "url": null, "prefix": ""}"#),
        config
    );
}

#[test]
fn every_common_spelling_of_a_type_is_accepted() {
    let cases = [
        (r#"{"command": "a", "type": "stdio"}"#, stdio("a")),
        (r#"{"url": "http://a/"}"#, http("http://a/", HttpKind::Auto)),
        (r#"{"url": "http://a/", "type": "http"}"#, http("http://a/", HttpKind::Auto)),
        (r#"{"url": "http://a/", "type": "streamable-http"}"#, http("http://a/", HttpKind::Streamable)),
        (r#"{"url": "http://a/", "type": "streamable_http"}"#, http("http://a/", HttpKind::Streamable)),
        (r#"{"url": "http://a/", "type": "streamableHttp"}"#, http("http://a/", HttpKind::Streamable)),
        (r#"{"url": "http://a/", "type": "SSE"}"#, http("http://a/", HttpKind::Sse)),
    ];
    for (body, transport) in cases {
        assert_eq!(server(body).transport, transport, "{body}");
    }
}

#[test]
fn a_configured_authorization_header_turns_oauth_off() {
    let oauth = |body: &str| match server(body).transport {
        Transport::Http { oauth, .. } => oauth,
        Transport::Stdio { .. } => panic!("not an HTTP transport"),
    };
    let header = r#""url": "http://a/", "headers": {"authorization": "Bearer ${TOKEN}"}"#;
    assert_eq!(oauth(&format!("{{{header}}}")), None);
    assert_eq!(oauth(&format!(r#"{{{header}, "oauth": true}}"#)), Some(Box::default()));
    assert_eq!(oauth(r#"{"url": "http://a/", "oauth": false}"#), None);
    assert_eq!(oauth(r#"{"url": "http://a/", "oauth": {}}"#), Some(Box::default()));
}

#[test]
fn files_of_other_hosts_are_accepted() {
    let vs_code = "\u{feff}{
        // A comment.
        \"servers\": { /* and another */
            \"time\": {\"type\": \"stdio\", \"command\": \"uvx\", \"args\": [\"mcp-server-time\",],},
            \"web\": {\"type\": \"http\", \"url\": \"https://a.b/mcp\"},
        },
    }\r\n";
    let config = check_warnings(vs_code, &[]);
    let names: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["time", "web"]);
    assert_eq!(
        config.server("web").map(|server| &server.transport),
        Some(&http("https://a.b/mcp", HttpKind::Auto))
    );

    let empty = check_warnings(r#"{"mcpServers": {}}"#, &[]);
    assert_eq!(empty, Config { servers: Vec::new(), toolwire: None });
}

#[test]
fn variables_in_the_toolwire_key_are_expanded() {
    let config = check_warnings(
        r#"{"$schema": "https://a/b", "toolwire": {"model": "a/b", "keys": ["${TOKEN}", 1.50, null, true]}}"#,
        &[],
    );
    let expected: Value = serde_json::from_str(r#"{"model": "a/b", "keys": ["s3cret", 1.50, null, true]}"#)
        .expect("valid JSON");
    assert_eq!(config.toolwire, Some(expected));
    check_error(
        r#"{"toolwire": {"keys": ["${NONE}"]}}"#,
        "mcp.json:1:24: key `toolwire.keys[0]`: variable `NONE` is not set\nhint: set it, or add a fallback: `${NONE:-…}`",
    );
}

#[test]
fn a_disabled_server_is_included_and_may_use_unset_variables() {
    let config = check_warnings(
        r#"{"mcpServers": {"a": {"disabled": true, "command": "${NONE}", "env": {"K": "${NONE}"}},
                           "b": {"url": "${NONE}", "disabled": true}, "c": {"command": "c", "disabled": false},
                           "d": {"command": "${NONE}", "enabled": false}, "e": {"command": "e", "enabled": true}}}"#,
        &[],
    );
    assert_eq!(
        config.servers.iter().map(|server| server.disabled).collect::<Vec<_>>(),
        [true, true, false, true, false]
    );
}

#[test]
fn a_warning_about_an_unknown_key_suggests_a_similar_key() {
    check_warnings(
        "{\n  \"mcpServers\": {\"gh\": {\n    \"command\": \"a\", \"timout\": 5, \"zzz\": 1,\n    \"tools\": {\"denied\": []}\n  }},\n  \"extra\": []\n}",
        &[
            "mcp.json:6:3: unknown key `extra`",
            "mcp.json:3:21: server `gh`: unknown key `timout`\nhint: did you mean `timeout`?",
            "mcp.json:3:34: server `gh`: unknown key `zzz`",
            "mcp.json:4:15: server `gh`, key `tools`: unknown key `denied`\nhint: did you mean `deny`?",
        ],
    );
    check_warnings(
        r#"{"mcpServers": {"a": {"url": "http://a/", "oauth": {"clientID": "x"}}}}"#,
        &["mcp.json:1:53: server `a`, key `oauth`: unknown key `clientID`\nhint: did you mean `clientId`?"],
    );
}

#[test]
fn the_last_value_of_a_duplicate_key_is_used() {
    let config = check_warnings(
        r#"{"mcpServers": {"a": {"command": "1"}, "b": {"command": "2"}}, "servers": {"a": {"command": "3", "command": "4", "env": {"K": "1", "K": "2"}}}}"#,
        &[
            "mcp.json:1:98: server `a`, key `command`: duplicate key; the last value is used",
            "mcp.json:1:137: server `a`, key `env.K`: duplicate key; the last value is used",
            "mcp.json:1:76: server `a`: duplicate key; the last value is used",
        ],
    );
    let names: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["b", "a"]);
    let expected =
        Transport::Stdio { command: "4".to_owned(), args: Vec::new(), env: pairs(&[("K", "2")]), cwd: None };
    assert_eq!(config.servers[1].transport, expected);
}

#[test]
fn keys_of_the_other_transport_cause_warnings() {
    check_warnings(
        r#"{"mcpServers": {"a": {"command": "a", "headers": {}}, "b": {"url": "http://b/", "env": {}},
                           "c": {"type": "http", "command": "a", "url": "http://c/"}}}"#,
        &[
            "mcp.json:1:50: server `a`, key `headers`: ignored, because the server is configured with `command`",
            "mcp.json:1:88: server `b`, key `env`: ignored, because the server is configured with `url`",
            "mcp.json:2:61: server `c`, key `command`: ignored, because the server is configured with `url`",
        ],
    );
}

#[test]
fn a_timeout_that_looks_like_milliseconds_causes_a_warning() {
    let config = check_warnings(
        r#"{"mcpServers": {"a": {"command": "a", "timeout": 60000}, "b": {"command": "b", "timeout": "60000s"}}}"#,
        &[
            "mcp.json:1:50: server `a`, key `timeout`: 60000 seconds is unusually long\nhint: a number is in seconds; for milliseconds, write \"60000ms\"",
        ],
    );
    assert_eq!(config.servers[0].call_timeout, Duration::from_secs(60_000));
}

#[test]
fn debug_output_contains_no_secrets() {
    let (config, _) = parse(
        r#"{"mcpServers": {
            "a": {"command": "run", "args": ["--token", "${TOKEN}"], "env": {"KEY": "${TOKEN}"}},
            "b": {"url": "https://me:${TOKEN}@${HOST}/mcp?key=${TOKEN}#${TOKEN}", "headers": {"Authorization": "${TOKEN}"},
                  "oauth": {"clientId": "id", "clientSecret": "${TOKEN}", "privateKey": "${TOKEN}"}}},
            "toolwire": {"key": "${TOKEN}"}}"#,
    );
    let debug = format!("{config:?} {config:#?}");
    assert!(!debug.contains("s3cret"), "{debug}");
    for visible in ["run", "KEY", "https://example.com/mcp…", "Authorization", "id"] {
        assert!(debug.contains(visible), "{visible} is not in {debug}");
    }
}

#[test]
fn allow_and_deny_match_the_names_on_the_server() {
    let config = server(r#"{"command": "a", "tools": {"allow": ["get_*"], "deny": ["*_secret"]}}"#);
    let allowed = ["get_issue", "get_secret", "list"].map(|tool| config.allows_tool(tool));
    assert_eq!(allowed, [true, false, false]);
    let denying = server(r#"{"command": "a", "tools": {"deny": ["a"]}}"#);
    assert_eq!(["a", "b"].map(|tool| denying.allows_tool(tool)), [false, true]);
    assert!(server(r#"{"command": "a"}"#).allows_tool(""));
}

/// Parses each JSON block of the guide; the text block after it, if any, must be the output.
#[test]
fn the_guide_quotes_the_actual_messages() {
    let guide = include_str!("../../../../../docs/guide/configuration.md");
    let mut blocks = guide.split("```").skip(1).step_by(2).peekable();
    let mut checked = 0;
    while let Some(block) = blocks.next() {
        let Some(json) = block.strip_prefix("json\n") else { continue };
        let expected = blocks.peek().and_then(|next| next.strip_prefix("text\n")).unwrap_or_default();
        let printed = match Config::parse(json, Path::new("mcp.json"), &variables) {
            Err(error) => format!("error: {}\n", printed(&error)),
            Ok((_, warnings)) => warnings
                .iter()
                .map(|warning| format!("warning: {}\n", with_hint(warning, warning.hint())))
                .collect(),
        };
        assert_eq!(printed, expected, "{json}");
        checked += usize::from(!expected.is_empty());
    }
    assert!(checked >= 5, "the guide quotes errors and warnings");
}

#[test]
fn a_server_has_the_credentials_of_each_user() {
    assert_eq!(server(r#"{"url": "http://a/", "auth": "shared"}"#).user_credentials, None);
    let login = server(r#"{"url": "http://a/", "auth": "per-user"}"#);
    assert_eq!(login.user_credentials, Some(UserCredentials::Login));
    let header = |name: &str, from: &str| ForwardedHeader { name: name.to_owned(), from: from.to_owned() };
    let same = server(r#"{"url": "http://a/", "auth": "per-user", "forwardHeaders": ["X-Token", "x-org"]}"#);
    let expected = vec![header("x-token", "x-token"), header("x-org", "x-org")];
    assert_eq!(same.user_credentials, Some(UserCredentials::Headers(expected)));
    let other = server(
        r#"{"url": "http://a/", "auth": "per-user", "forwardHeaders": {"Authorization": "X-GitHub-Authorization"}}"#,
    );
    let expected = vec![header("authorization", "x-github-authorization")];
    assert_eq!(other.user_credentials, Some(UserCredentials::Headers(expected)));
}
