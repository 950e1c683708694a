//! Names and routes for servers that connect, disconnect and collide.

use proptest::prelude::*;
use serde_json::json;
use toolwire_dialect::names::is_valid_tool_name;
use toolwire_dialect::{Dialect, Options, Toolset};

use super::*;
use toolwire_contract::Glob;

use crate::config::Transport;

fn server(name: &str) -> ServerConfig {
    let transport =
        Transport::Stdio { command: "a".to_owned(), args: Vec::new(), env: Vec::new(), cwd: None };
    ServerConfig::new(ServerName::new(name).expect("a valid name"), transport)
}

fn prefixed(name: &str, prefix: &str) -> ServerConfig {
    ServerConfig { prefix: Some(prefix.to_owned()), ..server(name) }
}

fn tools(names: &[&str]) -> Vec<Tool> {
    names.iter().map(|name| Tool::new(*name, json!({"type": "object"}))).collect()
}

fn build(servers: &[(ServerConfig, Option<Vec<Tool>>)], history: &mut ToolHistory) -> Routes {
    let servers: Vec<ServerTools<'_>> =
        servers.iter().map(|(server, tools)| ServerTools { server, tools: tools.as_deref() }).collect();
    Routes::build(&servers, [], history)
}

/// Returns each offered name with its route.
fn offered(routes: &Routes) -> Vec<(&str, &str, &str)> {
    let offered = routes.offered();
    offered
        .map(|(tool, route)| {
            assert_eq!(routes.lookup(&tool.name), Some(route), "{}", tool.name);
            (tool.name.as_str(), route.server.as_str(), route.tool.as_str())
        })
        .collect()
}

#[track_caller]
fn check(servers: &[(ServerConfig, &[&str])], expected: &[(&str, &str, &str)]) {
    let mut servers: Vec<(ServerConfig, Option<Vec<Tool>>)> =
        servers.iter().map(|(server, names)| (server.clone(), Some(tools(names)))).collect();
    assert_eq!(offered(&build(&servers, &mut ToolHistory::default())), expected);
    // The order of servers and tools does not matter.
    servers.reverse();
    for list in servers.iter_mut().filter_map(|(_, tools)| tools.as_mut()) {
        list.reverse();
    }
    assert_eq!(offered(&build(&servers, &mut ToolHistory::default())), expected);
}

#[test]
fn names_that_do_not_collide_are_unchanged() {
    check(
        &[(server("git"), &["log", "diff"]), (server("files"), &["read"])],
        &[("read", "files", "read"), ("diff", "git", "diff"), ("log", "git", "log")],
    );
}

#[test]
fn colliding_names_get_the_name_of_the_server_as_a_prefix() {
    check(
        &[(server("git"), &["search", "log"]), (server("files"), &["search"]), (server("web"), &["Search"])],
        &[
            ("files_search", "files", "search"),
            ("log", "git", "log"),
            ("git_search", "git", "search"),
            ("web_Search", "web", "Search"),
        ],
    );
}

#[test]
fn a_configured_prefix_is_always_used() {
    check(
        &[(prefixed("github", "gh"), &["search", "log"]), (prefixed("files", "f-"), &["read"])],
        &[("f-read", "files", "read"), ("gh_log", "github", "log"), ("gh_search", "github", "search")],
    );
    // The prefixed name wins over an equal name of another tool, and the unprefixed name stays free.
    check(
        &[(prefixed("github", "gh"), &["search"]), (server("web"), &["gh_search", "search"])],
        &[
            ("gh_search", "github", "search"),
            ("web_gh_search", "web", "gh_search"),
            ("search", "web", "search"),
        ],
    );
}

#[test]
fn names_that_apis_reject_are_rewritten() {
    let long = "x".repeat(70);
    check(
        &[(server("a"), &["issues/create", "2fa", "", &long])],
        &[
            ("_e1f5f175", "a", ""),
            ("_2fa_1cedb5c5", "a", "2fa"),
            ("issues_create_cd37fee4", "a", "issues/create"),
            ("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_3461711e", "a", &long),
        ],
    );
}

#[test]
fn special_characters_in_a_server_name_are_not_in_its_prefix() {
    let names = ["My Server!", "1password", "天気", "@scope/pkg", &"long".repeat(20)];
    let servers: Vec<(ServerConfig, Option<Vec<Tool>>)> =
        names.iter().map(|name| (server(name), Some(tools(&["x"])))).collect();
    let routes = build(&servers, &mut ToolHistory::default());
    let offered: Vec<&str> = offered(&routes).into_iter().map(|(name, _, _)| name).collect();
    let expected =
        ["_1password_x", "scope_pkg_x", "My_Server_x", "longlonglonglonglonglong_x", "server_4531ec4e_x"];
    assert_eq!(offered, expected);
}

#[test]
fn equal_prefixes_of_different_servers_get_a_hash() {
    check(
        &[(server("my server"), &["x"]), (server("my_server"), &["x"]), (server("c"), &["my_server_x"])],
        &[
            ("my_server_x", "c", "my_server_x"),
            ("my_server_x_b5e44e4f", "my server", "x"),
            ("my_server_x_8245dc91", "my_server", "x"),
        ],
    );
    // Two servers with the same configured prefix and the same tool.
    check(
        &[(prefixed("a", "p"), &["x", "y"]), (prefixed("b", "p"), &["x"])],
        &[("p_x_a60b9e7e", "a", "x"), ("p_y", "a", "y"), ("p_x_9bfe91a4", "b", "x")],
    );
}

#[test]
fn names_of_the_hubs_own_tools_are_reserved() {
    check(&[(server("a"), &["read_result"])], &[("a_read_result", "a", "read_result")]);
}

#[test]
fn names_of_one_server_may_differ_only_in_case() {
    check(&[(server("a"), &["Get", "get"])], &[("Get", "a", "Get"), ("get", "a", "get")]);
}

#[test]
fn allow_and_deny_apply_before_names_are_assigned() {
    let mut git = server("git");
    git.deny = vec![Glob::new("sea*")];
    let mut files = server("files");
    files.allow = vec![Glob::new("search")];
    check(
        &[(git, &["search", "log"]), (files, &["search", "log"])],
        &[("search", "files", "search"), ("log", "git", "log")],
    );
}

#[test]
fn a_tool_listed_twice_is_offered_once() {
    let mut list = tools(&["b", "a", "b"]);
    list[0].description = Some("first".to_owned());
    let routes = build(&[(server("s"), Some(list.clone()))], &mut ToolHistory::default());
    assert_eq!(offered(&routes), [("a", "s", "a"), ("b", "s", "b")]);
    assert_eq!(routes.tools()[1], list[0]);
}

#[test]
fn all_fields_of_a_tool_are_preserved() {
    let tool: Tool =
        serde_json::from_str(r#"{"name":"a/b","title":"T","inputSchema":{"z":1,"a":2},"execution":{"x":1}}"#)
            .expect("a valid tool");
    let routes = build(&[(server("s"), Some(vec![tool.clone()]))], &mut ToolHistory::default());
    assert_eq!(routes.tools()[0], Tool { name: routes.tools()[0].name.clone(), ..tool });
}

#[test]
fn names_do_not_change_while_another_server_is_unavailable() {
    let mut history = ToolHistory::default();
    let (git, files) = (server("git"), server("files"));
    let (git_tools, file_tools) = (tools(&["search", "log"]), tools(&["search"]));
    let both = build(
        &[(git.clone(), Some(git_tools.clone())), (files.clone(), Some(file_tools.clone()))],
        &mut history,
    );
    let expected =
        [("files_search", "files", "search"), ("log", "git", "log"), ("git_search", "git", "search")];
    assert_eq!(offered(&both), expected);

    let alone = build(&[(git.clone(), Some(git_tools.clone())), (files.clone(), None)], &mut history);
    assert_eq!(offered(&alone), expected[1..]);
    // The route to a tool of an unavailable server remains, so that the error can name the reason.
    assert_eq!(alone.lookup("files_search").map(|route| route.server.as_str()), Some("files"));

    // A server that is no longer configured has no effect.
    let remaining = build(&[(git, Some(git_tools))], &mut history);
    assert_eq!(offered(&remaining), [("log", "git", "log"), ("search", "git", "search")]);
    assert_eq!(remaining.lookup("files_search"), None);
}

#[test]
fn a_former_name_still_has_a_route() {
    let mut history = ToolHistory::default();
    let (git, files) = (server("git"), server("files"));
    build(&[(git.clone(), Some(tools(&["search"]))), (files.clone(), None)], &mut history);
    let both = build(&[(git, Some(tools(&["search"]))), (files, Some(tools(&["search"])))], &mut history);
    assert_eq!(offered(&both), [("files_search", "files", "search"), ("git_search", "git", "search")]);
    let route = Route { server: ServerName::new("git").expect("a valid name"), tool: "search".to_owned() };
    assert_eq!(both.lookup("search"), Some(&route));
}

#[test]
fn collisions_before_a_restart_still_affect_names() {
    let mut history = ToolHistory::default();
    let (git, files) = (server("git"), server("files"));
    history.add(&files.name, ["search"]);
    let routes = build(&[(git, Some(tools(&["search"]))), (files, None)], &mut history);
    assert_eq!(offered(&routes), [("git_search", "git", "search")]);
}

#[test]
fn similar_names_are_suggested_for_an_unknown_name() {
    let routes = build(
        &[
            (server("git"), Some(tools(&["search", "create_issue"]))),
            (server("files"), Some(tools(&["search"]))),
        ],
        &mut ToolHistory::default(),
    );
    assert_eq!(routes.nearest("search"), ["files_search", "git_search"]);
    assert_eq!(routes.nearest("create_isue"), ["create_issue"]);
    assert_eq!(routes.nearest("zzz"), Vec::<String>::new());
}

#[test]
fn the_history_of_a_server_with_always_new_tools_is_limited() {
    let mut history = ToolHistory::default();
    let flood = server("flood");
    for round in 0..25 {
        let names: Vec<String> = (0..1_000).map(|index| format!("t{round}_{index}")).collect();
        let list: Vec<Tool> = names.iter().map(|name| Tool::new(name, json!({}))).collect();
        assert_eq!(build(&[(flood.clone(), Some(list))], &mut history).tools().len(), 1_000);
    }
    assert!(history.tools[&flood.name].len() <= MAX_TOOLS_PER_SERVER);
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab]{1,2}",
        "[ab]_[ab]",
        "[ABab]/[ab]",
        "[a-c]{60,70}",
        Just("read_result".to_owned()),
        ".{0,5}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(7),
        ..ProptestConfig::default()
    })]

    #[test]
    fn names_are_legal_unique_and_unchanged_by_every_dialect(
        lists in prop::collection::btree_map(
            "[ab]{1,2}|a b|a_b|天",
            (prop::option::of("[ab]_?"), prop::collection::vec(any_name(), 0..6)),
            1..5,
        ),
        unavailable in any::<[bool; 5]>(),
    ) {
        let servers: Vec<(ServerConfig, Option<Vec<Tool>>)> = lists
            .iter()
            .map(|(name, (prefix, names))| {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                (ServerConfig { prefix: prefix.clone(), ..server(name) }, Some(tools(&names)))
            })
            .collect();
        let mut history = ToolHistory::default();
        let routes = build(&servers, &mut history);
        let mut seen = BTreeSet::new();
        for (tool, route) in routes.offered() {
            let name = &tool.name;
            prop_assert!(is_valid_tool_name(name), "{name}");
            prop_assert!(seen.insert(name.clone()), "{name} is not unique");
            prop_assert_eq!(routes.lookup(name), Some(route));
        }
        for dialect in [Dialect::OpenAi, Dialect::Gemini, Dialect::Bedrock] {
            for report in Toolset::new(routes.tools(), dialect, &Options::default()).reports() {
                prop_assert_eq!(&report.name, &report.tool);
            }
        }

        // If servers become unavailable, the names and the order of the others do not change.
        let fewer: Vec<(ServerConfig, Option<Vec<Tool>>)> = servers
            .iter()
            .zip(unavailable)
            .map(|((server, tools), unavailable)| (server.clone(), tools.clone().filter(|_| !unavailable)))
            .collect();
        let remaining = build(&fewer, &mut history);
        let is_available = |(_, route): &(&Tool, &Route)| {
            fewer.iter().any(|(server, tools)| server.name == route.server && tools.is_some())
        };
        let expected: Vec<(&Tool, &Route)> = routes.offered().filter(is_available).collect();
        prop_assert_eq!(remaining.offered().collect::<Vec<_>>(), expected);
    }
}
