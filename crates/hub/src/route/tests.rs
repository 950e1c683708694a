//! Names and ways, for servers that come, go and collide.

use proptest::prelude::*;
use serde_json::json;
use toolwire_dialect::{Dialect, Options, Toolset, is_valid_tool_name};

use super::*;
use crate::{Glob, config::Transport};

fn server(name: &str) -> ServerConfig {
    let transport =
        Transport::Stdio { command: "a".to_owned(), args: Vec::new(), env: Vec::new(), cwd: None };
    ServerConfig::new(ServerName::new(name).expect("the case has a name"), transport)
}

fn prefixed(name: &str, prefix: &str) -> ServerConfig {
    ServerConfig { prefix: Some(prefix.to_owned()), ..server(name) }
}

fn tools(names: &[&str]) -> Vec<Tool> {
    names.iter().map(|name| Tool::new(*name, json!({"type": "object"}))).collect()
}

fn build(servers: &[(ServerConfig, Option<Vec<Tool>>)], known: &mut Known) -> Routes {
    let servers: Vec<ServerTools<'_>> =
        servers.iter().map(|(server, tools)| ServerTools { server, tools: tools.as_deref() }).collect();
    Routes::build(&servers, [], known)
}

/// Each offered name, with the way to it.
fn shown(routes: &Routes) -> Vec<(&str, &str, &str)> {
    let each = routes.offered();
    each.map(|(tool, route)| {
        assert_eq!(routes.lookup(&tool.name), Some(route), "{}", tool.name);
        (tool.name.as_str(), route.server.as_str(), route.tool.as_str())
    })
    .collect()
}

#[track_caller]
fn check(servers: &[(ServerConfig, &[&str])], expected: &[(&str, &str, &str)]) {
    let mut servers: Vec<(ServerConfig, Option<Vec<Tool>>)> =
        servers.iter().map(|(server, names)| (server.clone(), Some(tools(names)))).collect();
    assert_eq!(shown(&build(&servers, &mut Known::default())), expected);
    // In whatever order servers and tools come, the list is the same.
    servers.reverse();
    for list in servers.iter_mut().filter_map(|(_, tools)| tools.as_mut()) {
        list.reverse();
    }
    assert_eq!(shown(&build(&servers, &mut Known::default())), expected);
}

#[test]
fn names_that_do_not_collide_stay_as_they_are() {
    check(
        &[(server("git"), &["log", "diff"]), (server("files"), &["read"])],
        &[("read", "files", "read"), ("diff", "git", "diff"), ("log", "git", "log")],
    );
}

#[test]
fn colliding_names_get_the_servers_prefix() {
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
fn a_configured_prefix_is_always_there() {
    check(
        &[(prefixed("github", "gh"), &["search", "log"]), (prefixed("files", "f-"), &["read"])],
        &[("f-read", "files", "read"), ("gh_log", "github", "log"), ("gh_search", "github", "search")],
    );
    // It does not give way to a name that looks like it, and it does not touch the bare name of another.
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
fn names_that_no_api_takes_are_rewritten() {
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
fn odd_server_names_make_plain_prefixes() {
    let names = ["My Server!", "1password", "天気", "@scope/pkg", &"long".repeat(20)];
    let servers: Vec<(ServerConfig, Option<Vec<Tool>>)> =
        names.iter().map(|name| (server(name), Some(tools(&["x"])))).collect();
    let routes = build(&servers, &mut Known::default());
    let offered: Vec<&str> = shown(&routes).into_iter().map(|(name, _, _)| name).collect();
    let expected =
        ["_1password_x", "scope_pkg_x", "My_Server_x", "longlonglonglonglonglong_x", "server_4531ec4e_x"];
    assert_eq!(offered, expected);
}

#[test]
fn prefixes_that_come_out_alike_are_told_apart() {
    check(
        &[(server("my server"), &["x"]), (server("my_server"), &["x"]), (server("c"), &["my_server_x"])],
        &[
            ("my_server_x", "c", "my_server_x"),
            ("my_server_x_b5e44e4f", "my server", "x"),
            ("my_server_x_8245dc91", "my_server", "x"),
        ],
    );
    // One prefix for two servers, and one tool on both.
    check(
        &[(prefixed("a", "p"), &["x", "y"]), (prefixed("b", "p"), &["x"])],
        &[("p_x_a60b9e7e", "a", "x"), ("p_y", "a", "y"), ("p_x_9bfe91a4", "b", "x")],
    );
}

#[test]
fn the_hubs_own_names_are_kept_for_it() {
    check(&[(server("a"), &["read_result"])], &[("a_read_result", "a", "read_result")]);
}

#[test]
fn a_server_that_spells_names_in_two_cases_keeps_both() {
    check(&[(server("a"), &["Get", "get"])], &[("Get", "a", "Get"), ("get", "a", "get")]);
}

#[test]
fn allow_and_deny_choose_before_names_are_given() {
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
    let routes = build(&[(server("s"), Some(list.clone()))], &mut Known::default());
    assert_eq!(shown(&routes), [("a", "s", "a"), ("b", "s", "b")]);
    assert_eq!(routes.tools()[1], list[0]);
    let doubled: Vec<&str> = routes.doubled().iter().map(|route| route.tool.as_str()).collect();
    assert_eq!(doubled, ["b"]);
}

#[test]
fn tools_are_handed_on_whole() {
    let tool: Tool =
        serde_json::from_str(r#"{"name":"a/b","title":"T","inputSchema":{"z":1,"a":2},"execution":{"x":1}}"#)
            .expect("the case is a tool");
    let routes = build(&[(server("s"), Some(vec![tool.clone()]))], &mut Known::default());
    assert_eq!(routes.tools()[0], Tool { name: routes.tools()[0].name.clone(), ..tool });
}

#[test]
fn names_stay_when_the_other_server_goes_away() {
    let mut known = Known::default();
    let (git, files) = (server("git"), server("files"));
    let (of_git, of_files) = (tools(&["search", "log"]), tools(&["search"]));
    let both =
        build(&[(git.clone(), Some(of_git.clone())), (files.clone(), Some(of_files.clone()))], &mut known);
    let expected =
        [("files_search", "files", "search"), ("log", "git", "log"), ("git_search", "git", "search")];
    assert_eq!(shown(&both), expected);

    let alone = build(&[(git.clone(), Some(of_git.clone())), (files.clone(), None)], &mut known);
    assert_eq!(shown(&alone), expected[1..]);
    // The way to a tool of a server that is away is known: its server can say why it is away.
    assert_eq!(alone.lookup("files_search").map(|route| route.server.as_str()), Some("files"));

    // Gone from the configuration, it no longer counts.
    let left = build(&[(git, Some(of_git))], &mut known);
    assert_eq!(shown(&left), [("log", "git", "log"), ("search", "git", "search")]);
    assert_eq!(left.lookup("files_search"), None);
}

#[test]
fn a_name_that_was_offered_still_finds_its_tool() {
    let mut known = Known::default();
    let (git, files) = (server("git"), server("files"));
    build(&[(git.clone(), Some(tools(&["search"]))), (files.clone(), None)], &mut known);
    let both = build(&[(git, Some(tools(&["search"]))), (files, Some(tools(&["search"])))], &mut known);
    assert_eq!(shown(&both), [("files_search", "files", "search"), ("git_search", "git", "search")]);
    let route = Route { server: ServerName::new("git").expect("it is a name"), tool: "search".to_owned() };
    assert_eq!(both.lookup("search"), Some(&route));
}

#[test]
fn collisions_of_an_earlier_life_are_remembered() {
    let mut known = Known::default();
    let (git, files) = (server("git"), server("files"));
    known.remember(&files.name, ["search"]);
    let routes = build(&[(git, Some(tools(&["search"]))), (files, None)], &mut known);
    assert_eq!(shown(&routes), [("git_search", "git", "search")]);
}

#[test]
fn unknown_names_get_near_ones() {
    let routes = build(
        &[
            (server("git"), Some(tools(&["search", "create_issue"]))),
            (server("files"), Some(tools(&["search"]))),
        ],
        &mut Known::default(),
    );
    assert_eq!(routes.nearest("search"), ["files_search", "git_search"]);
    assert_eq!(routes.nearest("create_isue"), ["create_issue"]);
    assert_eq!(routes.nearest("zzz"), Vec::<String>::new());
}

#[test]
fn a_server_of_ever_new_names_is_forgotten_in_part() {
    let mut known = Known::default();
    let flood = server("flood");
    for round in 0..25 {
        let names: Vec<String> = (0..1_000).map(|index| format!("t{round}_{index}")).collect();
        let list: Vec<Tool> = names.iter().map(|name| Tool::new(name, json!({}))).collect();
        assert_eq!(build(&[(flood.clone(), Some(list))], &mut known).tools().len(), 1_000);
    }
    assert!(known.tools[&flood.name].len() <= REMEMBERED_PER_SERVER);
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
    fn names_are_legal_unique_and_keep_through_every_dialect(
        lists in prop::collection::btree_map(
            "[ab]{1,2}|a b|a_b|天",
            (prop::option::of("[ab]_?"), prop::collection::vec(any_name(), 0..6)),
            1..5,
        ),
        away in any::<[bool; 5]>(),
    ) {
        let servers: Vec<(ServerConfig, Option<Vec<Tool>>)> = lists
            .iter()
            .map(|(name, (prefix, names))| {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                (ServerConfig { prefix: prefix.clone(), ..server(name) }, Some(tools(&names)))
            })
            .collect();
        let mut known = Known::default();
        let routes = build(&servers, &mut known);
        let mut seen = BTreeSet::new();
        for (tool, route) in routes.offered() {
            let name = &tool.name;
            prop_assert!(is_valid_tool_name(name), "{name}");
            prop_assert!(seen.insert(name.clone()), "{name} is there twice");
            prop_assert_eq!(routes.lookup(name), Some(route));
        }
        for dialect in [Dialect::OpenAi, Dialect::Gemini, Dialect::Bedrock] {
            for report in Toolset::new(routes.tools(), dialect, &Options::default()).reports() {
                prop_assert_eq!(&report.name, &report.tool);
            }
        }

        // Whoever goes away, the others keep their names and their order.
        let fewer: Vec<(ServerConfig, Option<Vec<Tool>>)> = servers
            .iter()
            .zip(away)
            .map(|((server, tools), away)| (server.clone(), tools.clone().filter(|_| !away)))
            .collect();
        let left = build(&fewer, &mut known);
        let is_left = |(_, route): &(&Tool, &Route)| {
            fewer.iter().any(|(server, tools)| server.name == route.server && tools.is_some())
        };
        let expected: Vec<(&Tool, &Route)> = routes.offered().filter(is_left).collect();
        prop_assert_eq!(left.offered().collect::<Vec<_>>(), expected);
    }
}
