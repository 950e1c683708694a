//! Prefixes of tool names: of the tool, else from the variable, else of the builder, else the server's name.

use serde_json::json;
use toolwire_toolkit::{BuildError, Server, ServerBuilder, tool};

use crate::support::{list, outcome_of, try_call};

/// A tool without settings.
#[tool]
async fn plain_one() {}

/// A tool with its own prefix.
#[tool(prefix = "own")]
async fn own_one() {}

/// A tool without a prefix.
#[tool(prefix = "")]
async fn bare_one() {}

/// A tool with another name.
#[tool(name = "renamed")]
async fn named_one() {}

#[track_caller]
fn check(server: &str, variable: Option<&str>, builder: Option<&str>, expected: [&str; 4]) {
    let mut server = Server::builder(server).environment(variable.map(|prefix| ("MCP_TOOL_PREFIX", prefix)));
    if let Some(prefix) = builder {
        server = server.prefix(prefix);
    }
    let server = server.tool(plain_one).tool(own_one).tool(bare_one).tool(named_one).build().unwrap();
    let names: Vec<String> = list(&server).into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, expected);
    for name in names {
        assert_eq!(outcome_of(&server, &name, json!({})), json!({"success": true}));
    }
    let plain: Vec<&str> = server.registered().iter().map(|each| each.plain_name.as_str()).collect();
    assert_eq!(plain, ["plain_one", "own_one", "bare_one", "renamed"]);
}

#[test]
fn the_variable_overrides_the_builder_and_the_builder_overrides_the_name() {
    let own = "own_own_one";
    let bare = "bare_one";
    check("docs", None, None, ["docs_plain_one", own, bare, "docs_renamed"]);
    check("docs", None, Some("b"), ["b_plain_one", own, bare, "b_renamed"]);
    check("docs", None, Some(""), ["plain_one", own, bare, "renamed"]);
    check("docs", Some("v"), None, ["v_plain_one", own, bare, "v_renamed"]);
    check("docs", Some("v"), Some("b"), ["v_plain_one", own, bare, "v_renamed"]);
    check("docs", Some("v"), Some(""), ["v_plain_one", own, bare, "v_renamed"]);
    check("docs", Some(""), None, ["plain_one", own, bare, "renamed"]);
    check("docs", Some(""), Some("b"), ["plain_one", own, bare, "renamed"]);
    check("docs", Some(""), Some(""), ["plain_one", own, bare, "renamed"]);
}

#[test]
fn an_illegal_server_name_is_normalized_to_a_prefix() {
    check(
        "my docs (1)",
        None,
        None,
        ["my_docs__1_plain_one", "own_own_one", "bare_one", "my_docs__1_renamed"],
    );
    check("…", None, None, ["plain_one", "own_own_one", "bare_one", "renamed"]);
}

#[test]
fn duplicate_tool_names_are_rejected() {
    let error = Server::builder("a")
        .environment::<&str, &str>([])
        .tool(plain_one)
        .tool(plain_one)
        .build()
        .err()
        .unwrap();
    assert_eq!(error, BuildError::DuplicateName { name: "a_plain_one".into() });
    assert_eq!(error.to_string(), "duplicate tool name `a_plain_one`");
}

#[test]
fn an_illegal_name_is_rejected() {
    let long = "a".repeat(120);
    let error = Server::builder("a")
        .environment([("MCP_TOOL_PREFIX", long.as_str())])
        .tool(plain_one)
        .build()
        .err()
        .unwrap();
    assert_eq!(error.to_string(), format!("invalid name `{long}_plain_one` for the tool `plain_one`"));
    assert_eq!(error.hint(), "use at most 128 letters, digits, `_` and `-`");
}

#[test]
fn an_illegal_prefix_is_reported_with_its_source() {
    let error = |builder: ServerBuilder| {
        let error = builder.tool(plain_one).build().err().unwrap();
        [error.to_string(), error.hint()]
    };
    assert_eq!(
        error(Server::builder("a").prefix("b").environment([("MCP_TOOL_PREFIX", "a b")])),
        [
            "invalid prefix `a b` from the variable `MCP_TOOL_PREFIX`",
            "use letters, digits, `_` and `-` in the variable `MCP_TOOL_PREFIX`, or an empty string for no prefix",
        ]
    );
    assert_eq!(
        error(Server::builder("a").prefix("b.c").environment::<&str, &str>([])),
        [
            "invalid prefix `b.c` from the server's builder",
            "use letters, digits, `_` and `-` in the server's builder, or an empty string for no prefix",
        ]
    );
}

/// Rust prints the `Debug` form of an error that `main` returns.
#[test]
fn the_debug_form_of_a_build_error_is_a_sentence_with_its_hint() {
    let builder = Server::builder("a").environment([("MCP_TOOL_PREFIX", "a b")]);
    let error = builder.tool(plain_one).build().err().unwrap();
    assert_eq!(
        format!("Error: {error:?}"),
        "Error: invalid prefix `a b` from the variable `MCP_TOOL_PREFIX`; use letters, digits, `_` and `-` in the \
         variable `MCP_TOOL_PREFIX`, or an empty string for no prefix"
    );
}

#[test]
fn an_unknown_name_gets_suggestions() {
    let server = Server::builder("docs")
        .environment::<&str, &str>([])
        .tool(plain_one)
        .tool(named_one)
        .build()
        .unwrap();
    let error = try_call(&server, "plain_one", json!({})).unwrap_err();
    assert!(error.to_lowercase().contains("did you mean `docs_plain_one`?"), "{error}");
    let error = try_call(&server, "zzz", json!({})).unwrap_err();
    assert!(error.to_lowercase().contains("use one of the listed tools"), "{error}");
}

/// Runs in a process with the variable, started by the next test.
#[test]
#[ignore = "needs `MCP_TOOL_PREFIX`"]
fn in_a_process_with_the_variable() {
    let server = Server::builder("docs").prefix("b").tool(plain_one).build().unwrap();
    assert_eq!(list(&server)[0].name, "from_outside_plain_one");
}

#[test]
fn the_environment_of_the_process_is_read_by_default() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "names::in_a_process_with_the_variable"])
        .env("MCP_TOOL_PREFIX", "from_outside")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
}
