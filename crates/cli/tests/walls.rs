//! The walls between crates: who may know whom.
//!
//! `docs/architecture.md` explains them. A new crate adds its wall here; asking about a crate that is not there fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

/// What reaches outside the process.
const OUTSIDE: [&str; 8] = ["tokio", "reqwest", "hyper", "axum", "rmcp", "rusqlite", "redis", "ureq"];

#[test]
fn the_contract_knows_only_how_to_serialise() {
    let known = workspace().direct("contract").expect("`contract` is in the workspace");
    let allowed = ["serde", "serde_json", "thiserror", "futures-core", "strsim"];
    for name in known {
        assert!(
            allowed.contains(&name.as_str()),
            "`contract` may know only {allowed:?}, but depends on `{name}`"
        );
    }
}

#[test]
fn validation_knows_the_contract_and_json_schema_alone() {
    let known = workspace().direct("validation").expect("`validation` is in the workspace");
    let allowed = ["toolwire-contract", "jsonschema", "serde", "serde_json"];
    for name in known {
        assert!(
            allowed.contains(&name.as_str()),
            "`validation` may know only {allowed:?}, but depends on `{name}`"
        );
    }
}

#[test]
fn dialects_know_no_network_no_runtime_and_no_command() {
    assert_free_of("dialect", &OUTSIDE);
    assert_free_of("dialect", &["toolwire"]);
    assert_free_of("contract", &["dialect", "toolwire"]);
}

#[test]
fn dialects_validation_and_the_contract_are_pure() {
    for member in ["dialect", "validation", "contract"] {
        assert_sources_free_of(member, &["fs", "net", "time", "process", "env", "thread"]);
    }
}

#[test]
fn the_hub_knows_no_command_and_no_store() {
    assert_free_of("hub", &["toolwire", "axum", "rusqlite", "redis"]);
}

#[test]
fn the_store_knows_the_contract_and_its_engines() {
    assert_free_of("store", &["dialect", "hub", "toolwire", "testkit", "rmcp", "reqwest", "hyper", "axum"]);
    for member in ["contract", "dialect", "hub"] {
        assert_free_of(member, &["store"]);
    }
}

#[test]
fn the_models_know_no_mcp_no_agent_and_no_store() {
    assert_free_of("llm", &["hub", "agent", "store", "toolkit", "toolwire", "testkit"]);
    assert_free_of("llm", &["rmcp", "axum", "rusqlite", "redis"]);
    for member in ["contract", "dialect", "hub", "store", "toolkit"] {
        assert_free_of(member, &["llm"]);
    }
}

#[test]
fn the_models_read_no_environment_and_no_files() {
    assert_sources_free_of("llm", &["fs", "process", "env", "thread"]);
}

#[test]
fn the_agent_knows_the_contract_alone() {
    let outside = ["rmcp", "reqwest", "hyper", "axum", "rusqlite", "redis"];
    assert_free_of("agent", &outside);
    assert_free_of("agent", &["dialect", "llm", "hub", "store", "toolkit", "toolwire", "testkit"]);
    for member in ["contract", "dialect", "hub", "store", "toolkit"] {
        assert_free_of(member, &["agent"]);
    }
}

#[test]
fn a_run_decides_and_never_awaits() {
    let folder = workspace().folder("agent").expect("`agent` is in the workspace").join("src");
    let mut sources = vec![folder.join("run.rs"), folder.join("context_window.rs"), folder.join("search.rs")];
    for room in ["run", "context_window", "search"] {
        let entries = fs::read_dir(folder.join(room)).expect("sources can be listed");
        sources.extend(entries.map(|entry| entry.expect("sources can be listed").path()));
    }
    for path in sources {
        let text = fs::read_to_string(&path).expect("a source can be read");
        for word in ["async ", ".await", "tokio", "futures"] {
            assert!(!text.contains(word), "`{}` must not know `{word}`", path.display());
        }
        for module in ["fs", "net", "time", "process", "env", "thread"] {
            assert!(!uses(&text, module), "`{}` must not use `std::{module}`", path.display());
        }
    }
}

#[test]
fn the_toolkit_knows_the_contract_validation_and_its_macros_alone() {
    assert_free_of("toolkit", &["dialect", "hub", "toolwire", "axum", "rusqlite", "redis"]);
    let ours = ["toolwire-contract", "toolwire-toolkit-macros", "toolwire-validation"];
    for name in workspace().direct("toolkit").expect("`toolkit` is in the workspace") {
        // Through the SDK it would be found: the hub has that feature of it on, and features are one for the workspace.
        assert_ne!(name, "reqwest", "`toolkit` serves, it does not ask");
        assert!(
            !name.starts_with("toolwire") || ours.contains(&name.as_str()),
            "`toolkit` may know only {ours:?} of ours, but depends on `{name}`"
        );
    }
}

#[test]
fn the_macros_know_only_syntax() {
    let known = workspace().direct("toolkit-macros").expect("`toolkit-macros` is in the workspace");
    let allowed = ["proc-macro2", "quote", "syn"];
    for name in known {
        assert!(
            allowed.contains(&name.as_str()),
            "`toolkit-macros` may know only {allowed:?}, but depends on `{name}`"
        );
    }
}

#[test]
fn the_toolkit_reads_the_environment_in_one_place() {
    let folder = workspace().folder("toolkit").expect("`toolkit` is in the workspace").join("src");
    let mut folders = vec![folder.clone()];
    let mut readers = Vec::new();
    while let Some(inside) = folders.pop() {
        for entry in fs::read_dir(&inside).expect("sources can be listed") {
            let path = entry.expect("sources can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else if uses(&fs::read_to_string(&path).expect("a source can be read"), "env") {
                readers.push(path.strip_prefix(&folder).expect("it stands in the folder").to_owned());
            }
        }
    }
    assert_eq!(readers, [PathBuf::from("server.rs")], "ADR 0008 allows `MCP_TOOL_PREFIX` there");
}

#[test]
fn the_sdk_is_named_only_where_messages_cross() {
    let of_hub =
        ["transport", "client_service.rs", "session", "session.rs", "raw_capture", "raw_capture.rs", "auth"];
    assert_sdk_only_in("hub", &of_hub);
    assert_sdk_only_in("toolkit", &["transport", "wire.rs"]);
}

/// Fails with the source outside the `allowed` rooms that names the SDK.
#[track_caller]
fn assert_sdk_only_in(member: &str, allowed: &[&str]) {
    let folder = workspace().folder(member).expect("the crate is in the workspace").join("src");
    let mut folders = vec![folder.clone()];
    while let Some(inside) = folders.pop() {
        for entry in fs::read_dir(&inside).expect("sources can be listed") {
            let path = entry.expect("sources can be listed").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let place = path.strip_prefix(&folder).expect("it stands in the folder");
            let room = place.iter().next().and_then(|room| room.to_str()).unwrap_or_default();
            let text = fs::read_to_string(&path).expect("a source can be read");
            let names_it =
                text.lines().any(|line| !line.trim_start().starts_with("//") && line.contains("rmcp::"));
            assert!(
                !names_it || allowed.contains(&room),
                "`{}` of `{member}` names the SDK",
                place.display()
            );
        }
    }
}

#[test]
fn a_use_of_the_outside_is_found_however_it_is_written() {
    for source in [
        "use std::fs;",
        "std::fs::read(path)",
        "use std::{\n    collections::BTreeMap,\n    fs,\n};",
        "use std::{fs::File};",
    ] {
        assert!(uses(source, "fs"), "{source}");
    }
    for source in ["// not std::fs", "use std::fmt;", "use std::{fmt, mem};\nlet fs = 1;", "my::fs()"] {
        assert!(!uses(source, "fs"), "{source}");
    }
}

#[test]
fn a_crate_behind_two_others_is_found_with_the_way_to_it() {
    let workspace = Workspace::read(&serde_json::json!({
        "workspace_members": ["a 1", "b 1"],
        "packages": [
            {"id": "a 1", "name": "toolwire-a", "manifest_path": "/a/Cargo.toml"},
            {"id": "b 1", "name": "toolwire-b", "manifest_path": "/b/Cargo.toml"},
            {"id": "c 1", "name": "c", "manifest_path": "/c/Cargo.toml"},
            {"id": "d 1", "name": "d", "manifest_path": "/d/Cargo.toml"}
        ],
        "resolve": {"nodes": [
            {"id": "a 1", "deps": [{"pkg": "b 1", "dep_kinds": [{"kind": null}]}]},
            {"id": "b 1", "deps": [
                {"pkg": "c 1", "dep_kinds": [{"kind": null}]},
                {"pkg": "d 1", "dep_kinds": [{"kind": "dev"}]}
            ]},
            {"id": "c 1", "deps": []},
            {"id": "d 1", "deps": []}
        ]}
    }));
    assert_eq!(workspace.way("a", "c"), Some(vec!["toolwire-a".into(), "toolwire-b".into(), "c".into()]));
    assert_eq!(workspace.way("a", "d"), None, "a dependency of tests is no dependency");
}

/// Fails with the chain of dependencies that leads from `member` to something it must not know.
#[track_caller]
fn assert_free_of(member: &str, unknown: &[&str]) {
    let workspace = workspace();
    assert!(workspace.member(member).is_some(), "`{member}` is not in the workspace");
    for name in unknown {
        if let Some(way) = workspace.way(member, name) {
            panic!("`{member}` must not know `{name}`, but depends on it: {}", way.join(" → "));
        }
    }
}

#[track_caller]
fn assert_sources_free_of(member: &str, unknown: &[&str]) {
    let folder = workspace().folder(member).expect("the crate is in the workspace");
    let mut folders = vec![folder.join("src")];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("sources can be listed") {
            let path = entry.expect("sources can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                seen += 1;
                let text = fs::read_to_string(&path).expect("a source can be read");
                for name in unknown {
                    assert!(!uses(&text, name), "`{member}` must not use `std::{name}`: {}", path.display());
                }
            }
        }
    }
    assert!(seen > 0, "`{member}` has no sources");
}

/// Whether Rust code names `std::<module>`, on its own or in a list of imports.
fn uses(source: &str, module: &str) -> bool {
    let code: String = source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    code.split("std::").skip(1).any(|rest| {
        let list = rest.trim_start().strip_prefix('{').and_then(|list| list.split("};").next());
        let named = list.map_or_else(|| vec![rest], |list| list.split([',', '{']).collect());
        let first_word = |text: &str| -> String {
            text.trim_start()
                .chars()
                .take_while(|character| character.is_alphanumeric() || *character == '_')
                .collect()
        };
        named.iter().any(|text| first_word(text) == module)
    })
}

struct Workspace {
    /// Package name by id.
    names: BTreeMap<String, String>,
    folders: BTreeMap<String, PathBuf>,
    /// Direct dependencies that are in the built crate, by id.
    known: BTreeMap<String, BTreeSet<String>>,
    members: BTreeSet<String>,
}

fn workspace() -> &'static Workspace {
    // Asking Cargo takes seconds, and its answer is the same for all tests.
    static WORKSPACE: LazyLock<Workspace> = LazyLock::new(read_workspace);
    &WORKSPACE
}

fn read_workspace() -> Workspace {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--all-features", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Workspace::read(&serde_json::from_slice(&output.stdout).expect("cargo writes JSON"))
}

impl Workspace {
    fn read(metadata: &Value) -> Self {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut workspace = Self {
            names: BTreeMap::new(),
            folders: BTreeMap::new(),
            known: BTreeMap::new(),
            members: list(&metadata["workspace_members"]).iter().map(text).collect(),
        };
        for package in list(&metadata["packages"]) {
            let manifest = PathBuf::from(text(&package["manifest_path"]));
            workspace.names.insert(text(&package["id"]), text(&package["name"]));
            workspace
                .folders
                .extend(manifest.parent().map(|folder| (text(&package["id"]), folder.to_owned())));
        }
        for node in list(&metadata["resolve"]["nodes"]) {
            let is_built =
                |dependency: &Value| list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            let dependencies =
                list(&node["deps"]).iter().filter(|one| is_built(one)).map(|one| text(&one["pkg"])).collect();
            workspace.known.insert(text(&node["id"]), dependencies);
        }
        workspace
    }

    /// The member in `crates/<folder>`, whose package name adds a prefix.
    fn member(&self, folder: &str) -> Option<&String> {
        let name = format!("toolwire-{folder}");
        self.members.iter().find(|id| self.names.get(*id) == Some(&name))
    }

    fn folder(&self, member: &str) -> Option<PathBuf> {
        self.folders.get(self.member(member)?).cloned()
    }

    /// The names of what a member depends on itself.
    fn direct(&self, member: &str) -> Option<BTreeSet<String>> {
        let known = self.known.get(self.member(member)?)?;
        Some(known.iter().filter_map(|id| self.names.get(id).cloned()).collect())
    }

    /// The shortest chain of dependencies from a member to a package: one of ours by its folder, or a foreign one.
    fn way(&self, member: &str, unknown: &str) -> Option<Vec<String>> {
        let ours = format!("toolwire-{unknown}");
        let mut ways: Vec<Vec<&String>> = vec![vec![self.member(member)?]];
        let mut seen = BTreeSet::new();
        while !ways.is_empty() {
            let mut longer = Vec::new();
            for way in ways {
                for id in way.last().and_then(|last| self.known.get(*last)).into_iter().flatten() {
                    if !seen.insert(id) {
                        continue;
                    }
                    let way: Vec<&String> = way.iter().copied().chain([id]).collect();
                    let name = self.names.get(id).map(String::as_str).unwrap_or_default();
                    if name == unknown || name == ours {
                        return Some(way.iter().filter_map(|id| self.names.get(*id).cloned()).collect());
                    }
                    longer.push(way);
                }
            }
            ways = longer;
        }
        None
    }
}
