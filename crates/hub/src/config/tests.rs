//! Whole files, as hosts and people write them.

use crate::{AuthConfig, GrantKind};
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::*;

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
    (config, warnings.iter().map(|warning| told(warning, warning.hint())).collect())
}

fn told(message: impl fmt::Display, hint: Option<String>) -> String {
    hint.map_or_else(|| message.to_string(), |hint| format!("{message}\nhint: {hint}"))
}

/// One server of a file without warnings.
#[track_caller]
fn server(body: &str) -> ServerConfig {
    let (config, warnings) = parse(&format!(r#"{{"mcpServers": {{"s": {body}}}}}"#));
    assert_eq!(warnings, Vec::<String>::new());
    config.servers.into_iter().next().expect("there is one server")
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    let error = Config::parse(text, Path::new("mcp.json"), &variables).expect_err("the case is wrong");
    assert_eq!(told(&error, error.hint()), expected, "{text}");
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
    let url = Url::parse(url).expect("the case has a URL");
    Transport::Http { url, headers: Vec::new(), kind, auth: Auth::default() }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, Secret)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect()
}

#[test]
fn a_process_is_read_with_all_its_keys() {
    let read = server(
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
        call_timeout: Duration::from_secs(120),
        prefix: Some("gh".to_owned()),
        allow: vec![Glob::new("get_*"), Glob::new("list_*")],
        deny: vec![Glob::new("*_secret")],
    };
    assert_eq!(read, expected);
}

#[test]
fn a_server_on_the_network_is_read_with_all_its_keys() {
    let read = server(
        r#"{"type": "sse", "url": "https://${HOST}/mcp?key=${TOKEN}", "headers": {"X-Key": "${TOKEN}"},
            "oauth": {"grant": "client_credentials", "clientId": "id", "clientSecret": "${TOKEN}",
                      "scopes": "read write", "redirectPort": 8080, "clientMetadataUrl": "https://a/b.json"}}"#,
    );
    let Transport::Http { url, headers, kind, auth } = read.transport else { panic!("it has a URL") };
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
    assert_eq!(auth, Auth::OAuth(Box::new(expected)));
}

#[test]
fn defaults_are_those_of_the_contract() {
    let read = server(r#"{"command": "a"}"#);
    assert_eq!(read, ServerConfig::new(ServerName("s".to_owned()), stdio("a")));
    assert_eq!((read.connect_timeout.as_secs(), read.call_timeout.as_secs()), (30, 60));
    // `null` is as if it were not there.
    assert_eq!(server(r#"{"command": "a", "args": null, "timeout": null, "url": null, "prefix": ""}"#), read);
}

#[test]
fn the_type_is_read_as_hosts_spell_it() {
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
fn a_token_in_the_headers_needs_no_login() {
    let auth = |body: &str| match server(body).transport {
        Transport::Http { auth, .. } => auth,
        Transport::Stdio { .. } => panic!("it has a URL"),
    };
    let header = r#""url": "http://a/", "headers": {"authorization": "Bearer ${TOKEN}"}"#;
    assert_eq!(auth(&format!("{{{header}}}")), Auth::Off);
    assert_eq!(auth(&format!(r#"{{{header}, "oauth": true}}"#)), Auth::default());
    assert_eq!(auth(r#"{"url": "http://a/", "oauth": false}"#), Auth::Off);
    assert_eq!(auth(r#"{"url": "http://a/", "oauth": {}}"#), Auth::default());
}

#[test]
fn files_of_other_hosts_are_taken() {
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
fn our_own_part_is_handed_on_expanded() {
    let config = check_warnings(
        r#"{"$schema": "https://a/b", "toolwire": {"model": "a/b", "keys": ["${TOKEN}", 1.50, null, true]}}"#,
        &[],
    );
    let expected: Value = serde_json::from_str(r#"{"model": "a/b", "keys": ["s3cret", 1.50, null, true]}"#)
        .expect("the case is JSON");
    assert_eq!(config.toolwire, Some(expected));
    check_error(
        r#"{"toolwire": {"keys": ["${NONE}"]}}"#,
        "mcp.json:1:24: key `toolwire.keys[0]`: variable `NONE` is not set\nhint: set it, or give a fallback: `${NONE:-…}`",
    );
}

#[test]
fn a_disabled_server_is_kept_and_misses_no_variable() {
    let config = check_warnings(
        r#"{"mcpServers": {"a": {"disabled": true, "command": "${NONE}", "env": {"K": "${NONE}"}},
                           "b": {"url": "${NONE}", "disabled": true}, "c": {"command": "c", "disabled": false}}}"#,
        &[],
    );
    assert_eq!(config.servers.iter().map(|server| server.disabled).collect::<Vec<_>>(), [true, true, false]);
}

#[test]
fn unknown_keys_are_named_with_the_nearest_known_one() {
    check_warnings(
        "{\n  \"mcpServers\": {\"gh\": {\n    \"command\": \"a\", \"timout\": 5, \"zzz\": 1,\n    \"tools\": {\"denied\": []}\n  }},\n  \"inputs\": []\n}",
        &[
            "mcp.json:6:3: unknown key `inputs`",
            "mcp.json:3:21: server `gh`: unknown key `timout`\nhint: is it meant to be `timeout`?",
            "mcp.json:3:34: server `gh`: unknown key `zzz`",
            "mcp.json:4:15: server `gh`, key `tools`: unknown key `denied`\nhint: is it meant to be `deny`?",
        ],
    );
    check_warnings(
        r#"{"mcpServers": {"a": {"url": "http://a/", "oauth": {"clientID": "x"}}}}"#,
        &[
            "mcp.json:1:53: server `a`, key `oauth`: unknown key `clientID`\nhint: is it meant to be `clientId`?",
        ],
    );
}

#[test]
fn what_stands_twice_counts_as_it_stands_last() {
    let config = check_warnings(
        r#"{"mcpServers": {"a": {"command": "1"}, "b": {"command": "2"}}, "servers": {"a": {"command": "3", "command": "4", "env": {"K": "1", "K": "2"}}}}"#,
        &[
            "mcp.json:1:98: server `a`, key `command`: stands twice; the later one counts",
            "mcp.json:1:137: server `a`, key `env.K`: stands twice; the later one counts",
            "mcp.json:1:76: server `a`: stands twice; the later one counts",
        ],
    );
    let names: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["b", "a"]);
    let expected =
        Transport::Stdio { command: "4".to_owned(), args: Vec::new(), env: pairs(&[("K", "2")]), cwd: None };
    assert_eq!(config.servers[1].transport, expected);
}

#[test]
fn keys_of_the_other_transport_are_reported() {
    check_warnings(
        r#"{"mcpServers": {"a": {"command": "a", "headers": {}}, "b": {"url": "http://b/", "env": {}},
                           "c": {"type": "http", "command": "a", "url": "http://c/"}}}"#,
        &[
            "mcp.json:1:50: server `a`, key `headers`: has no use for a server that is reached by `command`",
            "mcp.json:1:88: server `b`, key `env`: has no use for a server that is reached by `url`",
            "mcp.json:2:61: server `c`, key `command`: has no use for a server that is reached by `url`",
        ],
    );
}

#[test]
fn a_timeout_that_looks_like_milliseconds_is_reported() {
    let config = check_warnings(
        r#"{"mcpServers": {"a": {"command": "a", "timeout": 60000}, "b": {"command": "b", "timeout": "60000s"}}}"#,
        &[
            "mcp.json:1:50: server `a`, key `timeout`: 60000 seconds is long\nhint: a number is seconds here; if these are milliseconds, write \"60000ms\"",
        ],
    );
    assert_eq!(config.servers[0].call_timeout, Duration::from_secs(60_000));
}

#[test]
fn faults_name_file_server_and_key() {
    let one = |body: &str| format!(r#"{{"mcpServers": {{"gh": {body}}}}}"#);
    let cases: [(String, &str); 33] = [
        (one("5"), "mcp.json:1:17: server `gh`: must be an object, not a number"),
        (
            one("{}"),
            "mcp.json:1:17: server `gh`: neither `command` nor `url` says how to reach the server\nhint: give `command` for a process, `url` for a server on the network",
        ),
        (
            one(r#"{"serverUrl": "http://a/"}"#),
            "mcp.json:1:17: server `gh`: neither `command` nor `url` says how to reach the server\nhint: is `serverUrl` meant to be `url`?",
        ),
        (
            one(r#"{"comand": "a"}"#),
            "mcp.json:1:17: server `gh`: neither `command` nor `url` says how to reach the server\nhint: is `comand` meant to be `command`?",
        ),
        (
            one(r#"{"command": "a", "url": "http://a/"}"#),
            "mcp.json:1:17: server `gh`: both `command` and `url` are there\nhint: remove one, or say by `type` which one counts",
        ),
        (
            one(r#"{"command": "a", "type": "http"}"#),
            "mcp.json:1:48: server `gh`, key `type`: `http` needs a `url`, and there is none",
        ),
        (
            one(r#"{"url": "http://a/", "type": "stdio"}"#),
            "mcp.json:1:52: server `gh`, key `type`: `stdio` needs a `command`, and there is none",
        ),
        (
            one(r#"{"url": "http://a/", "type": "ws"}"#),
            "mcp.json:1:52: server `gh`, key `type`: `ws` is not `stdio`, `http`, `streamable-http` or `sse`\nhint: leave `type` out: `command` and `url` say it, and which HTTP a URL speaks is found out",
        ),
        (one(r#"{"command": ["a"]}"#), "mcp.json:1:35: server `gh`, key `command`: must be text, not a list"),
        (one(r#"{"command": " "}"#), "mcp.json:1:35: server `gh`, key `command`: must not be empty"),
        (one(r#"{"command": "${EMPTY}"}"#), "mcp.json:1:35: server `gh`, key `command`: must not be empty"),
        (
            one(r#"{"command": "a", "args": "b"}"#),
            "mcp.json:1:48: server `gh`, key `args`: must be a list of texts, not text",
        ),
        (
            one(r#"{"command": "a", "args": ["b", {}]}"#),
            "mcp.json:1:54: server `gh`, key `args[1]`: must be text, not an object",
        ),
        (
            one(r#"{"command": "a", "args": ["\u0000"]}"#),
            "mcp.json:1:17: server `gh`: a NUL character cannot be handed to a process",
        ),
        (
            one(r#"{"command": "a", "env": []}"#),
            "mcp.json:1:47: server `gh`, key `env`: must be an object, not a list",
        ),
        (
            one(r#"{"command": "a", "env": {"A=B": "c"}}"#),
            "mcp.json:1:47: server `gh`, key `env`: `A=B` cannot be the name of an environment variable",
        ),
        (
            one(r#"{"command": "a", "env": {"K": "${NONE}"}}"#),
            "mcp.json:1:53: server `gh`, key `env.K`: variable `NONE` is not set\nhint: set it, or give a fallback: `${NONE:-…}`",
        ),
        (
            one(r#"{"command": "a", "env": {"K": "${input:gh-token}"}}"#),
            "mcp.json:1:53: server `gh`, key `env.K`: variable `input:gh-token` is not set\nhint: nobody is asked for inputs here: name an environment variable, such as `${GH_TOKEN}`",
        ),
        (
            one(r#"{"command": "a", "args": ["${TOKEN"]}"#),
            "mcp.json:1:49: server `gh`, key `args[0]`: `${` has no closing brace\nhint: write `$${` for a plain `${`",
        ),
        (
            one(r#"{"url": "localhost:80/mcp"}"#),
            "mcp.json:1:31: server `gh`, key `url`: not a URL of a server: it begins with neither `http://` nor `https://`\nhint: write it whole, such as `https://example.com/mcp`",
        ),
        (
            one(r#"{"url": "/mcp"}"#),
            "mcp.json:1:31: server `gh`, key `url`: not a URL of a server: relative URL without a base\nhint: write it whole, such as `https://example.com/mcp`",
        ),
        (
            one(r#"{"url": "http://a/", "headers": {"a b": "c"}}"#),
            "mcp.json:1:55: server `gh`, key `headers`: `a b` cannot be the name of a header",
        ),
        (
            one(r#"{"url": "http://a/", "headers": {"a": "${BREAK}"}}"#),
            "mcp.json:1:55: server `gh`, key `headers.a`: a header cannot have this value: it holds a line break or another control character",
        ),
        (
            one(r#"{"url": "http://a/", "oauth": {"grant": "password"}}"#),
            "mcp.json:1:63: server `gh`, key `oauth.grant`: `password` is not `authorization_code` or `client_credentials`",
        ),
        (
            one(r#"{"url": "http://a/", "oauth": {"grant": "client_credentials", "clientId": "a"}}"#),
            "mcp.json:1:53: server `gh`, key `oauth`: `client_credentials` needs a `clientSecret`, and there is none",
        ),
        (
            one(r#"{"url": "http://a/", "oauth": {"callbackPort": 0}}"#),
            "mcp.json:1:70: server `gh`, key `oauth.callbackPort`: must be a port: a whole number from 1 to 65535",
        ),
        (
            one(r#"{"command": "a", "timeout": "soon"}"#),
            "mcp.json:1:51: server `gh`, key `timeout`: `soon` is no time between 1ms and 24h\nhint: write seconds, or a text such as \"30s\", \"500ms\" or \"2m\"",
        ),
        (
            one(r#"{"command": "a", "disabled": "yes"}"#),
            "mcp.json:1:52: server `gh`, key `disabled`: must be true or false, not text",
        ),
        (
            one(r#"{"command": "a", "prefix": "1st"}"#),
            "mcp.json:1:50: server `gh`, key `prefix`: `1st` cannot begin the name of a tool: it takes up to 32 letters, digits, `_` and `-`, and no digit or `-` first",
        ),
        (
            one(r#"{"command": "a", "tools": {"allow": "*"}}"#),
            "mcp.json:1:59: server `gh`, key `tools.allow`: must be a list of texts, not text",
        ),
        (
            r#"{"mcpServers": []}"#.to_owned(),
            "mcp.json:1:16: key `mcpServers`: must be an object, not a list",
        ),
        (
            r#"{"mcpServers": {" ": {"command": "a"}}}"#.to_owned(),
            "mcp.json:1:17: server ` `: a server's name must be text without control characters",
        ),
        (
            r#"{"mcp_servers": {}}"#.to_owned(),
            "mcp.json:1:1: no servers: there is no key `mcpServers`\nhint: is `mcp_servers` meant to be `mcpServers`?",
        ),
    ];
    for (text, expected) in cases {
        check_error(&text, expected);
    }
}

#[test]
fn what_is_not_json_is_shown_by_line_and_column() {
    let hint = "\nhint: JSON with comments and trailing commas is taken";
    let cases = [
        ("", "mcp.json:1:1: not JSON: there is nothing in it"),
        ("// nothing\n", "mcp.json:2:1: not JSON: there is nothing in it"),
        (
            "{\n  \"mcpServers\": {\n    \"ä\": {\"command\" \"a\"}\n",
            "mcp.json:3:21: not JSON: expected colon after the string or word in object property",
        ),
        ("{\"a\": 1", "mcp.json:1:1: not JSON: unterminated object"),
        ("{\"a\": 1 \"b\": 2}", "mcp.json:1:8: not JSON: expected comma"),
        ("{'a': 1}", "mcp.json:1:2: not JSON: single-quoted strings are not allowed"),
        ("{a: 1}", "mcp.json:1:2: not JSON: expected string for object property"),
        ("{} {}", "mcp.json:1:4: not JSON: text cannot contain more than one JSON value"),
    ];
    for (text, expected) in cases {
        check_error(text, &format!("{expected}{hint}"));
    }
    check_error("[]", "mcp.json:1:1: must be an object, not a list");
    let deep = "[".repeat(100_000);
    assert!(Config::parse(&deep, Path::new("mcp.json"), &variables).is_err());
}

#[test]
fn nothing_secret_shows_in_debug() {
    let (config, _) = parse(
        r#"{"mcpServers": {
            "a": {"command": "run", "args": ["--token", "${TOKEN}"], "env": {"KEY": "${TOKEN}"}},
            "b": {"url": "https://me:${TOKEN}@${HOST}/mcp?key=${TOKEN}#${TOKEN}", "headers": {"Authorization": "${TOKEN}"},
                  "oauth": {"clientId": "id", "clientSecret": "${TOKEN}", "privateKey": "${TOKEN}"}}},
            "toolwire": {"key": "${TOKEN}"}}"#,
    );
    let debug = format!("{config:?} {config:#?}");
    assert!(!debug.contains("s3cret"), "{debug}");
    for seen in ["run", "KEY", "https://example.com/mcp…", "Authorization", "id"] {
        assert!(debug.contains(seen), "{seen} is in {debug}");
    }
}

#[test]
fn nothing_secret_shows_in_errors() {
    for body in [
        r#"{"url": "${TOKEN}"}"#,
        r#"{"url": "${TOKEN}:${TOKEN}"}"#,
        r#"{"url": "https://${TOKEN}:${TOKEN}/"}"#,
        r#"{"url": "http://a/", "headers": {"a": "${TOKEN}\n"}}"#,
        r#"{"command": "a", "args": ["${TOKEN}\u0000"]}"#,
        r#"{"command": "a", "env": {"K": "${TOKEN}${NONE}"}}"#,
    ] {
        let text = format!(r#"{{"mcpServers": {{"gh": {body}}}}}"#);
        let error = Config::parse(&text, Path::new("mcp.json"), &variables).expect_err("the case is wrong");
        let told = format!("{error} {error:?} {:?}", error.hint());
        assert!(!told.contains("s3cret"), "{told}");
    }
}

#[test]
fn globs_choose_tools_by_the_servers_own_names() {
    let read = server(r#"{"command": "a", "tools": {"allow": ["get_*"], "deny": ["*_secret"]}}"#);
    let admitted = ["get_issue", "get_secret", "list"].map(|tool| read.admits(tool));
    assert_eq!(admitted, [true, false, false]);
    let denying = server(r#"{"command": "a", "tools": {"deny": ["a"]}}"#);
    assert_eq!(["a", "b"].map(|tool| denying.admits(tool)), [false, true]);
    assert_eq!(json!(server(r#"{"command": "a"}"#).admits("")), json!(true));
}

/// Each block of JSON in the guide is read; what is printed about it stands in the block of text that follows, if any.
#[test]
fn the_guide_shows_what_is_really_printed() {
    let guide = include_str!("../../../../docs/guide/configuration.md");
    let mut blocks = guide.split("```").skip(1).step_by(2).peekable();
    let mut told_of = 0;
    while let Some(block) = blocks.next() {
        let Some(json) = block.strip_prefix("json\n") else { continue };
        let expected = blocks.peek().and_then(|next| next.strip_prefix("text\n")).unwrap_or_default();
        let printed = match Config::parse(json, Path::new("mcp.json"), &variables) {
            Err(error) => format!("error: {}\n", told(&error, error.hint())),
            Ok((_, warnings)) => warnings
                .iter()
                .map(|warning| format!("warning: {}\n", told(warning, warning.hint())))
                .collect(),
        };
        assert_eq!(printed, expected, "{json}");
        told_of += usize::from(!expected.is_empty());
    }
    assert!(told_of >= 5, "the guide shows errors and warnings");
}
