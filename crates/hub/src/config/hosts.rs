//! The shapes in which other hosts write servers.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use jsonc_parser::ast::Value as Node;

use super::json::scalar;
use super::problem::SkipReason;
use super::values::ConfigValue;
use crate::transport::is_inherited;

/// The keys of other hosts with the same meaning as one of ours; a name with a dot is a part of that key.
const ALIASES: [(&str, &str); 16] = [
    ("httpUrl", "url"),                         // Gemini CLI
    ("serverUrl", "url"),                       // Windsurf
    ("uri", "url"),                             // goose
    ("cmd", "command"),                         // goose
    ("envs", "env"),                            // goose
    ("http_headers", "headers"),                // Codex
    ("environment", "env"),                     // opencode
    ("includeTools", "tools.allow"),            // Gemini CLI
    ("enabled_tools", "tools.allow"),           // Codex
    ("available_tools", "tools.allow"),         // goose
    ("excludeTools", "tools.deny"),             // Gemini CLI
    ("disabled_tools", "tools.deny"),           // Codex
    ("disabledTools", "tools.deny"),            // Windsurf
    ("startup_timeout_sec", "timeout.connect"), // Codex
    (CONNECTION_TIMEOUT, "timeout.connect"),    // Continue
    ("tool_timeout_sec", "timeout.call"),       // Codex
];

/// In Continue: a number of milliseconds.
const CONNECTION_TIMEOUT: &str = "connectionTimeout";

/// The keys of other hosts that describe or approve a server, and have no effect here.
const IGNORED_KEYS: [&str; 21] = [
    "alwaysAllow",
    "autoApprove",
    "bundled",
    "default_tools_approval_mode",
    "description",
    "dev",
    "display_name",
    "faviconUrl",
    "gallery",
    "icon",
    "iconPath",
    "name",
    "required",
    "sandboxEnabled",
    "serverName",
    "settings",
    "source",
    "sourceFile",
    "title",
    "trust",
    "version",
];

/// The keys of other hosts that have no equivalent here: Codex and goose name variables, and Continue has an
/// object with headers.
const OTHER_KEYS: [&str; 5] =
    ["env_vars", "env_keys", "env_http_headers", "bearer_token_env_var", "requestOptions"];

/// Whether a key is `name` or an alias of it.
pub(super) fn is_spelling_of(key: &str, name: &str) -> bool {
    key == name || ALIASES.contains(&(key, name))
}

/// Whether another host writes this key for a server.
pub(super) fn is_host_key(key: &str) -> bool {
    let mut aliases = ALIASES.iter().map(|(alias, _)| alias);
    aliases.any(|alias| *alias == key) || IGNORED_KEYS.contains(&key) || OTHER_KEYS.contains(&key)
}

/// Returns the objects and lists of servers, in the order of the file.
///
/// `mcpServers` is the common key; VS Code writes `servers`, and `mcp.servers` in its settings; Zed writes
/// `context_servers`, Codex `mcp_servers`, opencode `mcp`, goose `extensions`, and Claude Code
/// `projects.<folder>.mcpServers`.
pub(super) fn server_collections<'a>(
    root: &ConfigValue<'a>,
    current_folder: Option<&Path>,
) -> Vec<ConfigValue<'a>> {
    let mut found = Vec::new();
    for (key, _, value) in root.members() {
        match key {
            "mcpServers" | "servers" | "context_servers" | "mcp_servers" => found.push(value),
            "mcp" => match value.get("servers") {
                Some(servers) => found.push(servers),
                // Gemini CLI has lists of names here.
                None if value.members().all(|(_, _, member)| member.node.as_object().is_some()) => {
                    found.push(value);
                }
                None => {}
            },
            // Gemini CLI has other settings here.
            "extensions" if named_servers(&value).all(|(_, _, server)| server.get("type").is_some()) => {
                found.push(value);
            }
            "projects" => {
                let project = current_folder.and_then(Path::to_str).and_then(|folder| value.get(folder));
                found.extend(project.and_then(|project| project.get("mcpServers")));
            }
            _ => {}
        }
    }
    found.retain(|value| !matches!(value.node, Node::NullKeyword(_)));
    found
}

/// Returns the servers of an object, or of a list, as Continue writes them: the name, its offset, and the
/// server. An entry of a list that only refers to Continue's hub is named by its reference.
pub(super) fn named_servers<'a>(
    servers: &ConfigValue<'a>,
) -> impl Iterator<Item = (Option<&'a str>, usize, ConfigValue<'a>)> {
    let members = servers.members().map(|(name, offset, server)| (Some(name), offset, server));
    let items = servers.items().into_iter().flatten().map(|server| {
        let name = server.get("name").or_else(|| server.get("uses")).and_then(|name| match name.node {
            Node::StringLit(text) => Some(&*text.value),
            _ => None,
        });
        (name, server.at.offset, server)
    });
    members.chain(items)
}

/// Names of servers that a host disables outside their own entries.
#[derive(Default)]
pub(super) struct DisabledNames {
    excluded: HashSet<String>,
    /// If a list exists, all other servers are disabled.
    allowed: Option<HashSet<String>>,
}

impl DisabledNames {
    /// Gemini CLI writes `mcp.excluded` and `mcp.allowed`, and Claude Code has two lists per project: of its
    /// own servers, and of those in the `.mcp.json` of the project.
    pub(super) fn of(root: &ConfigValue<'_>, current_folder: Option<&Path>) -> DisabledNames {
        let names = |list: ConfigValue<'_>| -> Option<HashSet<String>> {
            Some(list.items()?.filter_map(|item| Some(scalar(item.node)?.into_owned())).collect())
        };
        let mcp = root.get("mcp");
        let list = |key| mcp.as_ref().and_then(|mcp| mcp.get(key)).and_then(names);
        let project = || root.get("projects")?.get(current_folder?.to_str()?);
        let of_project = project().into_iter().flat_map(|project| {
            let lists = ["disabledMcpServers", "disabledMcpjsonServers"];
            lists.into_iter().filter_map(move |key| project.get(key)).filter_map(names).flatten()
        });
        DisabledNames {
            excluded: list("excluded").into_iter().flatten().chain(of_project).collect(),
            allowed: list("allowed"),
        }
    }

    pub(super) fn contains(&self, server: &str) -> bool {
        self.excluded.contains(server)
            || self.allowed.as_ref().is_some_and(|allowed| !allowed.contains(server))
    }
}

/// Whether the file is only for MCP, so that another key at its top is a mistake. Other hosts have the
/// servers in the file of all their settings.
pub(super) fn is_only_for_mcp(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    // Continue describes each of its files at the top.
    name.contains("mcp") && !name.ends_with(".yaml") && !name.ends_with(".yml")
}

/// Whether a number in the key is in milliseconds: in `timeout` in the files of Gemini CLI and opencode.
pub(super) fn has_milliseconds(file: &Path, key: &str) -> bool {
    let folder = file.parent().and_then(Path::file_name);
    key == CONNECTION_TIMEOUT
        || folder.is_some_and(|name| name == ".gemini")
        || file.file_stem().is_some_and(|name| name == "opencode")
}

/// Returns the folder that `${workspaceFolder}` means: the folder of the file, or its parent if the file is
/// in a folder such as `.vscode`.
pub(super) fn workspace_folder(file: &Path) -> Option<PathBuf> {
    let file = std::path::absolute(file).ok()?;
    let folder = file.parent()?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let is_settings_folder =
        [".vscode", ".cursor", ".gemini", ".codex", ".zed", ".continue"].contains(&&*name);
    Some(folder.parent().filter(|_| is_settings_folder).unwrap_or(folder).to_owned())
}

/// The environment variable that replaces an input of VS Code: `GITHUB_TOKEN` for `${input:github-token}`,
/// but `INPUT_PATH` for `${input:path}`, because `PATH` has another meaning.
pub(super) fn input_variable(id: &str) -> String {
    let name = id.to_uppercase().replace(['-', '.'], "_");
    if is_inherited(&name) { format!("INPUT_{name}") } else { name }
}

/// The parts of `command`, which Zed also writes as an object, and opencode as an array with the arguments.
pub(super) struct Command<'a> {
    pub(super) program: ConfigValue<'a>,
    pub(super) args: Vec<ConfigValue<'a>>,
    pub(super) env: Option<ConfigValue<'a>>,
}

impl<'a> Command<'a> {
    pub(super) fn new(value: ConfigValue<'a>) -> Command<'a> {
        let mut items: Vec<ConfigValue<'a>> = value.items().into_iter().flatten().collect();
        if !items.is_empty() {
            return Command { program: items.remove(0), args: items, env: None };
        }
        match value.get("path") {
            Some(program) => {
                let args = value.get("args").and_then(|args| Some(args.items()?.collect()));
                Command { program, args: args.unwrap_or_default(), env: value.get("env") }
            }
            None => Command { program: value, args: Vec::new(), env: None },
        }
    }
}

/// The types of goose's extensions that are not MCP servers, or not separate ones.
const GOOSE_TYPES: [&str; 4] = ["builtin", "platform", "frontend", "inline_python"];

/// Returns the reason if an entry cannot be started here. An extension of Zed has a command that is unknown,
/// goose contains some of its servers, and Continue downloads definitions that are named by `uses`.
pub(super) fn skip_reason(server: &ConfigValue<'_>) -> Option<SkipReason> {
    let text = |key| match server.get(key)?.node {
        Node::StringLit(text) => Some(text.value.clone()),
        _ => None,
    };
    if !is_bare(server) {
        return (text("source")? == "extension").then_some(SkipReason::EditorExtension);
    }
    let kind = text("type").unwrap_or_default();
    if GOOSE_TYPES.contains(&&*kind) {
        Some(SkipReason::PartOfGoose)
    } else if text("uses").is_some() {
        Some(SkipReason::OnContinueHub)
    } else {
        let is_extension = server.get("settings").is_some() || text("source")? == "extension";
        is_extension.then_some(SkipReason::EditorExtension)
    }
}

fn is_bare(server: &ConfigValue<'_>) -> bool {
    server.get("command").is_none() && server.get("url").is_none()
}
