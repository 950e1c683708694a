//! The hosts whose configurations can be imported, and where their files are.

use std::path::PathBuf;

/// An MCP host.
pub(super) struct Host {
    /// The value of `--from`.
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    /// The files, each in a folder. A path that ends with `*` means all JSON and YAML files of a folder.
    files: &'static [(Folder, &'static str)],
}

#[derive(Clone, Copy)]
enum Folder {
    Home,
    /// The folder of the user's settings: `~/.config`, `~/Library/Application Support` or `%APPDATA%`.
    Settings,
    /// `~/.config`, also on macOS; `%APPDATA%` on Windows.
    Config,
}

use Folder::{Config, Home, Settings};

const fn host(id: &'static str, name: &'static str, files: &'static [(Folder, &'static str)]) -> Host {
    Host { id, name, files }
}

pub(super) const GEMINI_CLI: &str = "gemini-cli";
pub(super) const OPENCODE: &str = "opencode";
pub(super) const GOOSE: &str = "goose";

pub(super) const HOSTS: [Host; 16] = [
    host("claude-desktop", "Claude Desktop", &[(Settings, "Claude/claude_desktop_config.json")]),
    host("claude-code", "Claude Code", &[(Home, ".claude.json")]),
    host("cursor", "Cursor", &[(Home, ".cursor/mcp.json")]),
    host("vscode", "VS Code", &[(Settings, "Code/User/mcp.json"), (Settings, "Code/User/settings.json")]),
    host("windsurf", "Windsurf", &[(Home, ".codeium/windsurf/mcp_config.json")]),
    host("zed", "Zed", &[(Config, "zed/settings.json")]),
    host("continue", "Continue", &[(Home, ".continue/mcpServers/*"), (Home, ".continue/config.yaml")]),
    host(GEMINI_CLI, "Gemini CLI", &[(Home, ".gemini/settings.json")]),
    host("codex", "Codex", &[(Home, ".codex/config.toml")]),
    host(
        "cline",
        "Cline",
        &[(Settings, "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json")],
    ),
    host(OPENCODE, "opencode", &[(Config, "opencode/opencode.json"), (Config, "opencode/opencode.jsonc")]),
    host(GOOSE, "goose", &[(Config, "goose/config.yaml"), (Config, "Block/goose/config/config.yaml")]),
    host("copilot-cli", "Copilot CLI", &[(Home, ".copilot/mcp-config.json")]),
    host("lm-studio", "LM Studio", &[(Home, ".lmstudio/mcp.json")]),
    host("kiro", "Kiro", &[(Home, ".kiro/settings/mcp.json")]),
    host("amazon-q", "Amazon Q", &[(Home, ".aws/amazonq/mcp.json")]),
];

impl Host {
    /// Returns the files that exist.
    pub(super) fn existing_files(&self) -> Vec<PathBuf> {
        let paths = self.files.iter().filter_map(|(folder, path)| Some(folder.path()?.join(path)));
        paths.flat_map(matching_files).filter(|path| path.is_file()).collect()
    }
}

impl Folder {
    fn path(self) -> Option<PathBuf> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = || variable(if cfg!(windows) { "USERPROFILE" } else { "HOME" });
        match self {
            Home => home(),
            Settings if cfg!(target_os = "macos") => Some(home()?.join("Library/Application Support")),
            Settings | Config if cfg!(windows) => variable("APPDATA"),
            Settings | Config => variable("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config"))),
        }
    }
}

fn matching_files(path: PathBuf) -> Vec<PathBuf> {
    let Some(folder) = path.parent().filter(|_| path.ends_with("*")) else { return vec![path] };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_supported = |path: &PathBuf| {
        let extension = path.extension().unwrap_or_default();
        ["json", "yaml", "yml"].iter().any(|supported| extension == *supported)
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_supported).collect();
    files.sort();
    files
}
