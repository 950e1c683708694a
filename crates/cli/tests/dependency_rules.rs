//! Rules for the dependencies between crates.
//!
//! `docs/architecture.md` explains them. Each new crate adds its rules here. A rule for a crate that does not
//! exist fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

/// Crates that do I/O.
const IO_CRATES: [&str; 8] = ["tokio", "reqwest", "hyper", "axum", "rmcp", "rusqlite", "redis", "ureq"];

/// Modules of `std` that do I/O or depend on the environment.
const STD_IO: [&str; 6] = ["fs", "net", "time", "process", "env", "thread"];

#[test]
fn the_contract_depends_only_on_serialization() {
    assert_depends_only_on("contract", &["serde", "serde_json", "thiserror", "futures-core", "strsim"]);
}

#[test]
fn validation_depends_only_on_the_contract_and_json_schema() {
    assert_depends_only_on(
        "validation",
        &["toolwire-contract", "jsonschema", "percent-encoding", "serde", "serde_json"],
    );
}

#[test]
fn markdown_depends_only_on_its_parser() {
    assert_depends_only_on("markdown", &["pulldown-cmark"]);
    assert_sources_free_of("markdown", &STD_IO);
}

#[test]
fn dialects_do_no_io() {
    assert_free_of("dialect", &IO_CRATES);
    assert_free_of("dialect", &["toolwire"]);
    assert_free_of("contract", &["dialect", "toolwire"]);
}

#[test]
fn the_sources_of_dialect_validation_and_contract_do_no_io() {
    for member in ["dialect", "validation", "contract"] {
        assert_sources_free_of(member, &STD_IO);
    }
}

#[test]
fn the_hub_depends_on_no_command_and_no_store() {
    assert_free_of("hub", &["toolwire", "axum", "rusqlite", "redis"]);
}

#[test]
fn the_store_depends_only_on_the_contract_and_its_backends() {
    assert_free_of("store", &["dialect", "hub", "toolwire", "testkit", "rmcp", "reqwest", "hyper", "axum"]);
    for member in ["contract", "dialect", "hub"] {
        assert_free_of(member, &["store"]);
    }
}

#[test]
fn llm_depends_on_no_mcp_no_agent_and_no_store() {
    assert_free_of("llm", &["hub", "agent", "store", "toolkit", "toolwire", "testkit"]);
    assert_free_of("llm", &["rmcp", "axum", "rusqlite", "redis"]);
    for member in ["contract", "dialect", "hub", "store", "toolkit"] {
        assert_free_of(member, &["llm"]);
    }
}

#[test]
fn llm_reads_no_environment_and_no_files() {
    assert_sources_free_of("llm", &["fs", "process", "env", "thread"]);
}

#[test]
fn the_agent_depends_only_on_the_contract() {
    assert_free_of("agent", &["rmcp", "reqwest", "hyper", "axum", "rusqlite", "redis"]);
    assert_free_of("agent", &["dialect", "llm", "hub", "store", "toolkit", "toolwire", "testkit"]);
    for member in ["contract", "dialect", "hub", "store", "toolkit"] {
        assert_free_of(member, &["agent"]);
    }
}

#[test]
fn the_page_does_no_io() {
    assert_free_of("page", &IO_CRATES);
    assert_free_of("page", &["gateway", "agent", "llm", "hub", "store", "toolkit", "toolwire", "testkit"]);
    assert_sources_free_of("page", &["fs", "net", "process", "env", "thread"]);
}

#[test]
fn the_gateway_depends_on_no_provider_no_mcp_and_no_store() {
    assert_free_of("gateway", &["rmcp", "reqwest", "axum", "rusqlite", "redis"]);
    assert_free_of("gateway", &["llm", "hub", "store", "toolkit", "toolwire", "testkit"]);
    for member in ["contract", "dialect", "hub", "store", "toolkit", "agent", "llm"] {
        assert_free_of(member, &["gateway"]);
    }
    assert_sources_free_of("gateway", &["fs", "process", "env", "thread"]);
}

#[test]
fn the_run_of_an_agent_never_awaits() {
    for part in ["run", "context_window", "search"] {
        let is_in_part = |source: &&Source| source.top_level() == part || source.path == format!("{part}.rs");
        let sources = sources("agent");
        let in_part: Vec<&Source> = sources.iter().filter(is_in_part).collect();
        assert!(!in_part.is_empty(), "`agent` has no module `{part}`");
        for Source { path, text } in in_part {
            for word in ["async ", ".await", "tokio", "futures"] {
                assert!(!text.contains(word), "`{path}` must not use `{word}`");
            }
            for module in STD_IO {
                assert!(!uses(text, module), "`{path}` must not use `std::{module}`");
            }
        }
    }
}

#[test]
fn the_toolkit_depends_only_on_the_contract_validation_and_its_macros() {
    assert_free_of("toolkit", &["dialect", "hub", "toolwire", "axum", "rusqlite", "redis"]);
    let ours = ["toolwire-contract", "toolwire-toolkit-macros", "toolwire-validation"];
    for name in workspace().direct("toolkit").expect("`toolkit` is in the workspace") {
        // Only direct dependencies are checked: the hub enables a feature of the SDK that needs `reqwest`,
        // and Cargo unifies features across the workspace.
        assert_ne!(name, "reqwest", "`toolkit` must not depend on an HTTP client");
        assert!(
            !name.starts_with("toolwire") || ours.contains(&name.as_str()),
            "`toolkit` may depend only on {ours:?} of this workspace, but depends on `{name}`"
        );
    }
}

#[test]
fn the_mcp_server_depends_only_on_the_contract_and_the_toolkit() {
    assert_free_of("mcp-server", &["dialect", "hub", "agent", "llm", "store", "gateway", "toolwire", "axum"]);
    let ours = ["toolwire-contract", "toolwire-toolkit"];
    for name in workspace().direct("mcp-server").expect("`mcp-server` is in the workspace") {
        assert!(
            !name.starts_with("toolwire") || ours.contains(&name.as_str()),
            "`mcp-server` may depend only on {ours:?} of this workspace, but depends on `{name}`"
        );
    }
    assert_sources_free_of("mcp-server", &["fs", "net", "process", "env", "thread"]);
}

#[test]
fn the_macros_depend_only_on_syntax_crates() {
    assert_depends_only_on("toolkit-macros", &["proc-macro2", "quote", "syn"]);
}

#[test]
fn the_toolkit_reads_the_environment_in_one_place() {
    let sources = sources("toolkit");
    let readers: Vec<&str> =
        sources.iter().filter(|source| uses(&source.text, "env")).map(|source| &*source.path).collect();
    assert_eq!(readers, ["server.rs"], "ADR 0008 allows `MCP_TOOL_PREFIX` there");
}

#[test]
fn the_sdk_is_used_only_in_transport_modules() {
    assert_sdk_only_in(
        "hub",
        &["transport", "client_service.rs", "session", "session.rs", "raw_capture", "raw_capture.rs", "auth"],
    );
    assert_sdk_only_in("toolkit", &["transport", "wire.rs"]);
}

/// Fails if a source outside the `allowed` modules uses the SDK.
#[track_caller]
fn assert_sdk_only_in(member: &str, allowed: &[&str]) {
    for source in sources(member) {
        let uses_sdk =
            source.text.lines().any(|line| !line.trim_start().starts_with("//") && line.contains("rmcp::"));
        let is_allowed = allowed.contains(&source.top_level());
        assert!(!uses_sdk || is_allowed, "`{}` of `{member}` uses the SDK", source.path);
    }
}

#[test]
fn all_forms_of_imports_are_found() {
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
fn an_indirect_dependency_is_found_with_its_chain() {
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
    assert_eq!(
        workspace.dependency_chain("a", "c"),
        Some(vec!["toolwire-a".into(), "toolwire-b".into(), "c".into()])
    );
    assert_eq!(workspace.dependency_chain("a", "d"), None, "dev-dependencies do not count");
}

/// Fails with the chain of dependencies if `member` depends on one of these packages, directly or indirectly.
#[track_caller]
fn assert_free_of(member: &str, forbidden: &[&str]) {
    let workspace = workspace();
    assert!(workspace.member(member).is_some(), "`{member}` is not in the workspace");
    for name in forbidden {
        if let Some(chain) = workspace.dependency_chain(member, name) {
            panic!("`{member}` must not depend on `{name}`: {}", chain.join(" → "));
        }
    }
}

/// Fails if a source of the member uses one of these modules of `std`.
#[track_caller]
fn assert_sources_free_of(member: &str, modules: &[&str]) {
    for source in sources(member) {
        for module in modules {
            assert!(!uses(&source.text, module), "`{member}` must not use `std::{module}`: {}", source.path);
        }
    }
}

/// Fails if the member depends directly on a package that is not in the list.
#[track_caller]
fn assert_depends_only_on(member: &str, allowed: &[&str]) {
    for name in workspace().direct(member).expect("the crate is in the workspace") {
        let is_allowed = allowed.contains(&name.as_str());
        assert!(is_allowed, "`{member}` may depend only on {allowed:?}, but depends on `{name}`");
    }
}

/// A source file of a crate, with its path below `src`.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// Returns the file or folder directly below `src`.
    fn top_level(&self) -> &str {
        self.path.split('/').next().unwrap_or_default()
    }
}

/// Reads all Rust sources of a member.
#[track_caller]
fn sources(member: &str) -> Vec<Source> {
    let root = workspace().folder(member).expect("the crate is in the workspace").join("src");
    let mut folders = vec![root.clone()];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("sources can be listed") {
            let path = entry.expect("sources can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source can be read");
                let relative = path.strip_prefix(&root).expect("a path below `src`");
                sources.push(Source { path: relative.to_string_lossy().replace('\\', "/"), text });
            }
        }
    }
    assert!(!sources.is_empty(), "`{member}` has no sources");
    sources
}

/// Whether Rust code uses `std::<module>`, as a path or in a list of imports.
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
    /// Direct dependencies without dev- and build-dependencies, by id.
    dependencies: BTreeMap<String, BTreeSet<String>>,
    members: BTreeSet<String>,
}

fn workspace() -> &'static Workspace {
    // Cargo takes seconds, and its output is the same for all tests.
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
            dependencies: BTreeMap::new(),
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
            let is_normal =
                |dependency: &Value| list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            let dependencies = list(&node["deps"])
                .iter()
                .filter(|each| is_normal(each))
                .map(|each| text(&each["pkg"]))
                .collect();
            workspace.dependencies.insert(text(&node["id"]), dependencies);
        }
        workspace
    }

    /// Returns the id of the member in `crates/<folder>`; its package name has a prefix.
    fn member(&self, folder: &str) -> Option<&String> {
        let name = format!("toolwire-{folder}");
        self.members.iter().find(|id| self.names.get(*id) == Some(&name))
    }

    fn folder(&self, member: &str) -> Option<PathBuf> {
        self.folders.get(self.member(member)?).cloned()
    }

    /// Returns the names of a member's direct dependencies.
    fn direct(&self, member: &str) -> Option<BTreeSet<String>> {
        let dependencies = self.dependencies.get(self.member(member)?)?;
        Some(dependencies.iter().filter_map(|id| self.names.get(id).cloned()).collect())
    }

    /// Returns the shortest chain of dependencies from a member to a package, which is given by its name or,
    /// in this workspace, by its folder.
    fn dependency_chain(&self, member: &str, package: &str) -> Option<Vec<String>> {
        let prefixed = format!("toolwire-{package}");
        let mut chains: Vec<Vec<&String>> = vec![vec![self.member(member)?]];
        let mut seen = BTreeSet::new();
        while !chains.is_empty() {
            let mut longer = Vec::new();
            for chain in chains {
                for id in chain.last().and_then(|last| self.dependencies.get(*last)).into_iter().flatten() {
                    if !seen.insert(id) {
                        continue;
                    }
                    let chain: Vec<&String> = chain.iter().copied().chain([id]).collect();
                    let name = self.names.get(id).map(String::as_str).unwrap_or_default();
                    if name == package || name == prefixed {
                        return Some(chain.iter().filter_map(|id| self.names.get(*id).cloned()).collect());
                    }
                    longer.push(chain);
                }
            }
            chains = longer;
        }
        None
    }
}
