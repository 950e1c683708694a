//! Names with a prefix: from the variable, else from the builder, else the server's name; a tool's own stands above all.

use serde_json::json;
use toolwire_toolkit::{BuildError, Server, ServerBuilder, tool};

use crate::support::{list, said, try_call};

/// A tool without a say.
#[tool]
async fn plain_one() {}

/// A tool with a prefix of its own.
#[tool(prefix = "own")]
async fn own_one() {}

/// A tool without any.
#[tool(prefix = "")]
async fn bare_one() {}

/// A tool with another name.
#[tool(name = "renamed")]
async fn named_one() {}

#[track_caller]
fn check(server: &str, variable: Option<&str>, builder: Option<&str>, expected: [&str; 4]) {
    let mut made = Server::builder(server).environment(variable.map(|prefix| ("MCP_TOOL_PREFIX", prefix)));
    if let Some(prefix) = builder {
        made = made.prefix(prefix);
    }
    let made = made.tool(plain_one).tool(own_one).tool(bare_one).tool(named_one).build().unwrap();
    let names: Vec<String> = list(&made).into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, expected);
    for name in names {
        assert_eq!(said(&made, &name, json!({})), json!({"success": true}));
    }
    let plain: Vec<&str> = made.registered().iter().map(|each| each.plain_name.as_str()).collect();
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
fn a_server_s_name_is_made_a_legal_prefix() {
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
fn an_illegal_prefix_is_traced_to_where_it_came_from() {
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

/// Run by the next test, in a process that has the variable.
#[test]
#[ignore = "needs `MCP_TOOL_PREFIX`"]
fn in_a_process_with_the_variable() {
    let server = Server::builder("docs").prefix("b").tool(plain_one).build().unwrap();
    assert_eq!(list(&server)[0].name, "from_outside_plain_one");
}

#[test]
fn the_variable_of_the_process_is_obeyed_with_nothing_to_add() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "names::in_a_process_with_the_variable"])
        .env("MCP_TOOL_PREFIX", "from_outside")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
