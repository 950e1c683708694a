//! Files with mistakes.

use super::*;

#[test]
fn errors_name_the_file_the_server_and_the_key() {
    let with_server = |body: &str| format!(r#"{{"mcpServers": {{"gh": {body}}}}}"#);
    let cases: [(String, &str); 39] = [
        (with_server("5"), "mcp.json:1:17: server `gh`: must be an object, not a number"),
        (
            with_server("{}"),
            "mcp.json:1:17: server `gh`: neither `command` nor `url` is set\nhint: set `command` for a local process, or `url` for a remote server",
        ),
        (
            with_server(r#"{"baseUrl": "http://a/"}"#),
            "mcp.json:1:17: server `gh`: neither `command` nor `url` is set\nhint: did you mean `url` instead of `baseUrl`?",
        ),
        (
            with_server(r#"{"comand": "a"}"#),
            "mcp.json:1:17: server `gh`: neither `command` nor `url` is set\nhint: did you mean `command` instead of `comand`?",
        ),
        (
            with_server(r#"{"command": "a", "url": "http://a/"}"#),
            "mcp.json:1:17: server `gh`: both `command` and `url` are set\nhint: remove one of them, or set `type`",
        ),
        (
            with_server(r#"{"command": "a", "type": "http"}"#),
            "mcp.json:1:48: server `gh`, key `type`: type `http` requires `url`",
        ),
        (
            with_server(r#"{"url": "http://a/", "type": "stdio"}"#),
            "mcp.json:1:52: server `gh`, key `type`: type `stdio` requires `command`",
        ),
        (
            with_server(r#"{"url": "http://a/", "type": "ws"}"#),
            "mcp.json:1:52: server `gh`, key `type`: unknown type `ws`; expected `stdio`, `http`, `streamable-http` or `sse`\nhint: remove `type`; the transport is detected from `command` or `url`",
        ),
        (
            with_server(r#"{"command": {"a": 1}}"#),
            "mcp.json:1:35: server `gh`, key `command`: must be a string, not an object",
        ),
        (with_server(r#"{"command": " "}"#), "mcp.json:1:35: server `gh`, key `command`: must not be empty"),
        (
            with_server(r#"{"command": "${EMPTY}"}"#),
            "mcp.json:1:35: server `gh`, key `command`: must not be empty",
        ),
        (
            with_server(r#"{"command": "a", "args": "b"}"#),
            "mcp.json:1:48: server `gh`, key `args`: must be an array of strings, not a string",
        ),
        (
            with_server(r#"{"command": "a", "args": ["b", {}]}"#),
            "mcp.json:1:54: server `gh`, key `args[1]`: must be a string, not an object",
        ),
        (
            with_server(r#"{"command": "a", "args": ["\u0000"]}"#),
            "mcp.json:1:17: server `gh`: a NUL character cannot be passed to a process",
        ),
        (
            with_server(r#"{"command": "a", "env": []}"#),
            "mcp.json:1:47: server `gh`, key `env`: must be an object, not an array",
        ),
        (
            with_server(r#"{"command": "a", "env": {"A=B": "c"}}"#),
            "mcp.json:1:47: server `gh`, key `env`: invalid environment variable name `A=B`",
        ),
        (
            with_server(r#"{"command": "a", "env": {"K": "${NONE}"}}"#),
            "mcp.json:1:53: server `gh`, key `env.K`: variable `NONE` is not set\nhint: set it, or add a fallback: `${NONE:-…}`",
        ),
        (
            with_server(r#"{"command": "a", "env": {"K": "${input:gh-token}"}}"#),
            "mcp.json:1:53: server `gh`, key `env.K`: no value for the input `gh-token`\nhint: set the environment variable `GH_TOKEN`",
        ),
        (
            with_server(r#"{"command": "a", "args": ["${TOKEN"]}"#),
            "mcp.json:1:49: server `gh`, key `args[0]`: `${` has no closing brace\nhint: write `$${` for a literal `${`",
        ),
        (
            with_server(r#"{"url": "localhost:80/mcp"}"#),
            "mcp.json:1:31: server `gh`, key `url`: invalid URL: it must start with `http://` or `https://`\nhint: write the complete URL, such as `https://example.com/mcp`",
        ),
        (
            with_server(r#"{"url": "/mcp"}"#),
            "mcp.json:1:31: server `gh`, key `url`: invalid URL: relative URL without a base\nhint: write the complete URL, such as `https://example.com/mcp`",
        ),
        (
            with_server(r#"{"url": "http://a/", "headers": {"a b": "c"}}"#),
            "mcp.json:1:55: server `gh`, key `headers`: invalid header name `a b`",
        ),
        (
            with_server(r#"{"url": "http://a/", "headers": {"a": "${BREAK}"}}"#),
            "mcp.json:1:55: server `gh`, key `headers.a`: invalid header value: it contains a line break or another control character",
        ),
        (
            with_server(r#"{"url": "http://a/", "oauth": {"grant": "password"}}"#),
            "mcp.json:1:63: server `gh`, key `oauth.grant`: unknown grant `password`; expected `authorization_code` or `client_credentials`",
        ),
        (
            with_server(r#"{"url": "http://a/", "oauth": {"grant": "client_credentials", "clientId": "a"}}"#),
            "mcp.json:1:53: server `gh`, key `oauth`: grant `client_credentials` requires `clientSecret`",
        ),
        (
            with_server(r#"{"url": "http://a/", "oauth": {"callbackPort": 0}}"#),
            "mcp.json:1:70: server `gh`, key `oauth.callbackPort`: must be a port number from 1 to 65535",
        ),
        (
            with_server(r#"{"url": "http://a/", "auth": "user"}"#),
            "mcp.json:1:52: server `gh`, key `auth`: unknown value `user`; expected `shared` or `per-user`",
        ),
        (
            with_server(r#"{"command": "a", "auth": "per-user"}"#),
            "mcp.json:1:48: server `gh`, key `auth`: the credentials of users require a remote server\nhint: set `url` instead of `command`, or remove `auth`",
        ),
        (
            with_server(r#"{"url": "http://a/", "auth": "per-user", "oauth": false}"#),
            "mcp.json:1:52: server `gh`, key `auth`: users cannot sign in, because the server has a token or other credentials\nhint: remove `oauth` and the header `Authorization`, or set `forwardHeaders`",
        ),
        (
            with_server(r#"{"url": "http://a/", "forwardHeaders": ["x-a"]}"#),
            "mcp.json:1:62: server `gh`, key `forwardHeaders`: requires `\"auth\": \"per-user\"`",
        ),
        (
            with_server(r#"{"url": "http://a/", "auth": "per-user", "forwardHeaders": ["Authorization"]}"#),
            "mcp.json:1:82: server `gh`, key `forwardHeaders`: the header `authorization` cannot be forwarded\nhint: use a header of its own, such as `{\"authorization\": \"x-github-authorization\"}`",
        ),
        (
            with_server(
                r#"{"url": "http://a/", "auth": "per-user", "forwardHeaders": {"Mcp-Session-Id": "x-a"}}"#,
            ),
            "mcp.json:1:82: server `gh`, key `forwardHeaders`: the header `mcp-session-id` cannot be forwarded\nhint: use a header of its own, such as `{\"authorization\": \"x-github-authorization\"}`",
        ),
        (
            with_server(r#"{"command": "a", "timeout": "soon"}"#),
            "mcp.json:1:51: server `gh`, key `timeout`: `soon` is not a duration between 1ms and 24h\nhint: write a number of seconds, or a string such as \"30s\", \"500ms\" or \"2m\"",
        ),
        (
            with_server(r#"{"command": "a", "disabled": "yes"}"#),
            "mcp.json:1:52: server `gh`, key `disabled`: must be a boolean, not a string",
        ),
        (
            with_server(r#"{"command": "a", "prefix": "1st"}"#),
            "mcp.json:1:50: server `gh`, key `prefix`: invalid prefix `1st`; use up to 32 letters, digits, `_` and `-`, and do not start with a digit or `-`",
        ),
        (
            with_server(r#"{"command": "a", "tools": {"allow": "*"}}"#),
            "mcp.json:1:59: server `gh`, key `tools.allow`: must be an array of strings, not a string",
        ),
        (
            r#"{"mcpServers": []}"#.to_owned(),
            "mcp.json:1:16: key `mcpServers`: must be an object, not an array",
        ),
        (
            r#"{"mcpServers": {" ": {"command": "a"}}}"#.to_owned(),
            "mcp.json:1:17: server ` `: invalid server name: it must not be blank or contain control characters",
        ),
        (
            r#"{"mcpServer": {}}"#.to_owned(),
            "mcp.json:1:1: missing key `mcpServers`\nhint: did you mean `mcpServers` instead of `mcpServer`?",
        ),
    ];
    for (text, expected) in cases {
        check_error(&text, expected);
    }
}

#[test]
fn a_syntax_error_names_the_line_and_the_column() {
    let hint = "\nhint: comments and trailing commas are allowed";
    let cases = [
        ("", "mcp.json:1:1: invalid JSON: the file is empty"),
        ("// nothing\n", "mcp.json:2:1: invalid JSON: the file is empty"),
        (
            "{\n  \"mcpServers\": {\n    \"ä\": {\"command\" \"a\"}\n",
            "mcp.json:3:21: invalid JSON: expected colon after the string or word in object property",
        ),
        ("{\"a\": 1", "mcp.json:1:1: invalid JSON: unterminated object"),
        ("{\"a\": 1 \"b\": 2}", "mcp.json:1:8: invalid JSON: expected comma"),
        ("{'a': 1}", "mcp.json:1:2: invalid JSON: single-quoted strings are not allowed"),
        ("{a: 1}", "mcp.json:1:2: invalid JSON: expected string for object property"),
        ("{} {}", "mcp.json:1:4: invalid JSON: text cannot contain more than one JSON value"),
    ];
    for (text, expected) in cases {
        check_error(text, &format!("{expected}{hint}"));
    }
    check_error("[]", "mcp.json:1:1: must be an object, not an array");
    let deep = "[".repeat(100_000);
    assert!(Config::parse(&deep, Path::new("mcp.json"), &variables).is_err());
}

#[test]
fn errors_contain_no_secrets() {
    for body in [
        r#"{"url": "${TOKEN}"}"#,
        r#"{"url": "${TOKEN}:${TOKEN}"}"#,
        r#"{"url": "https://${TOKEN}:${TOKEN}/"}"#,
        r#"{"url": "http://a/", "headers": {"a": "${TOKEN}\n"}}"#,
        r#"{"command": "a", "args": ["${TOKEN}\u0000"]}"#,
        r#"{"command": "a", "env": {"K": "${TOKEN}${NONE}"}}"#,
    ] {
        let text = format!(r#"{{"mcpServers": {{"gh": {body}}}}}"#);
        let error =
            Config::parse(&text, Path::new("mcp.json"), &variables).expect_err("an invalid configuration");
        let printed = format!("{error} {error:?} {}", printed(&error));
        assert!(!printed.contains("s3cret"), "{printed}");
    }
}

#[test]
fn all_problems_are_reported_together() {
    check_error(
        r#"{"mcpServers": {
            "a": {"command": "", "args": ["${ONE}", 1, "${TWO}"], "env": {"K": [], "L": "${THREE}"}, "timeout": "soon"},
            "b": {}, "c": {"url": "x", "headers": {"H": "${FOUR}"}}, "d": {"command": "d"}}, "toolwire": ["${FIVE}"]}"#,
        "mcp.json:2:30: server `a`, key `command`: must not be empty\n\
         mcp.json:2:43: server `a`, key `args[0]`: variable `ONE` is not set\nhint: set it, or add a fallback: `${ONE:-…}`\n\
         mcp.json:2:56: server `a`, key `args[2]`: variable `TWO` is not set\nhint: set it, or add a fallback: `${TWO:-…}`\n\
         mcp.json:2:80: server `a`, key `env.K`: must be a string, not an array\n\
         mcp.json:2:89: server `a`, key `env.L`: variable `THREE` is not set\nhint: set it, or add a fallback: `${THREE:-…}`\n\
         mcp.json:2:113: server `a`, key `timeout`: `soon` is not a duration between 1ms and 24h\nhint: write a number of seconds, or a string such as \"30s\", \"500ms\" or \"2m\"\n\
         mcp.json:3:13: server `b`: neither `command` nor `url` is set\nhint: set `command` for a local process, or `url` for a remote server\n\
         mcp.json:3:57: server `c`, key `headers.H`: variable `FOUR` is not set\nhint: set it, or add a fallback: `${FOUR:-…}`\n\
         mcp.json:3:35: server `c`, key `url`: invalid URL: relative URL without a base\nhint: write the complete URL, such as `https://example.com/mcp`\n\
         mcp.json:3:107: key `toolwire[0]`: variable `FIVE` is not set\nhint: set it, or add a fallback: `${FIVE:-…}`",
    );
}
