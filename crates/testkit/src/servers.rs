//! The servers that `scripts/servers` installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::RunningServer;

/// Where the real servers are.
pub struct Servers {
    root: PathBuf,
}

/// A program and its arguments, as `mcp.json` has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    pub command: String,
    pub args: Vec<String>,
}

impl Launch {
    pub fn to_command(&self) -> Command {
        let mut command = Command::new(&self.command);
        command.args(&self.args);
        command
    }
}

impl Servers {
    /// Those in `$TOOLWIRE_TEST_SERVERS`, else in `target/servers` of this workspace.
    ///
    /// # Panics
    ///
    /// When they are not installed: a test that needs them must not pass without.
    pub fn installed() -> Servers {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = match std::env::var_os("TOOLWIRE_TEST_SERVERS") {
            Some(folder) => workspace.join(folder),
            None => workspace.join("target/servers"),
        };
        let complete = root.join("npm.stamp").exists() && root.join("pypi.stamp").exists();
        assert!(complete, "no servers in {}: run `scripts/servers` first", root.display());
        Servers { root: root.canonicalize().expect("it is there") }
    }

    /// Node 22 or newer.
    pub fn node(&self) -> PathBuf {
        self.root.join("node")
    }

    /// MCP's conformance suite.
    pub fn conformance(&self) -> Launch {
        self.script("@modelcontextprotocol/conformance", &[])
    }

    /// MCP Inspector.
    pub fn inspector(&self) -> Launch {
        let script = self.package("@modelcontextprotocol/inspector").join("clients/launcher/build/index.js");
        let command = self.node().display().to_string();
        Launch { command, args: vec![script.display().to_string()] }
    }

    /// The folder of a package from npm.
    pub fn package(&self, name: &str) -> PathBuf {
        self.root.join("node_modules").join(name)
    }

    /// Python, with MCP's official client.
    pub fn python(&self) -> PathBuf {
        self.root.join("venv/bin/python")
    }

    /// `server-everything` on stdio.
    pub fn everything(&self) -> Launch {
        self.script("@modelcontextprotocol/server-everything", &["stdio"])
    }

    /// `server-everything` over streamable HTTP, at `/mcp`.
    pub fn everything_over_http(&self) -> RunningServer {
        RunningServer::that_is_given_a_port(self.everything_listening("streamableHttp"))
    }

    /// `server-everything` over the older HTTP+SSE, at `/sse`.
    pub fn everything_over_sse(&self) -> RunningServer {
        RunningServer::that_is_given_a_port(self.everything_listening("sse"))
    }

    /// `server-everything` over `streamableHttp` or `sse`, to be started with `PORT` in its environment.
    pub fn everything_listening(&self, transport: &str) -> Command {
        self.script("@modelcontextprotocol/server-everything", &[transport]).to_command()
    }

    pub fn filesystem(&self, folder: &Path) -> Launch {
        self.script("@modelcontextprotocol/server-filesystem", &[&folder.display().to_string()])
    }

    /// Keeps its memory in the file that the variable `MEMORY_FILE_PATH` names.
    pub fn memory(&self) -> Launch {
        self.script("@modelcontextprotocol/server-memory", &[])
    }

    pub fn time(&self) -> Launch {
        self.program("mcp-server-time", &["--local-timezone", "Europe/Oslo"])
    }

    pub fn git(&self, repository: &Path) -> Launch {
        self.program("mcp-server-git", &["--repository", &repository.display().to_string()])
    }

    fn script(&self, package: &str, args: &[&str]) -> Launch {
        let script = self.package(package).join("dist/index.js").display().to_string();
        let args = std::iter::once(script).chain(args.iter().map(|arg| (*arg).to_owned())).collect();
        Launch { command: self.node().display().to_string(), args }
    }

    fn program(&self, name: &str, args: &[&str]) -> Launch {
        let command = self.root.join("venv/bin").join(name).display().to_string();
        Launch { command, args: args.iter().map(|arg| (*arg).to_owned()).collect() }
    }
}
