//! Real MCP servers and clients of model APIs, installed by `scripts/servers`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::RunningServer;

/// The folder that holds the installed servers and clients.
pub struct InstalledServers {
    root: PathBuf,
}

/// A program and its arguments, in the form of `mcp.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCommand {
    pub command: String,
    pub args: Vec<String>,
}

impl ServerCommand {
    pub fn to_command(&self) -> Command {
        let mut command = Command::new(&self.command);
        command.args(&self.args);
        command
    }
}

impl InstalledServers {
    /// Returns the servers in `$TOOLWIRE_TEST_SERVERS`, or else in `target/servers` of this workspace.
    ///
    /// # Panics
    ///
    /// When they are not installed: a test that needs them must not pass without them.
    pub fn find() -> InstalledServers {
        let root = root();
        assert_complete(&root);
        InstalledServers { root: root.canonicalize().expect("the folder exists") }
    }

    /// The path of Node.js, version 22 or newer.
    pub fn node(&self) -> PathBuf {
        self.root.join("node")
    }

    /// MCP's conformance suite.
    pub fn conformance(&self) -> ServerCommand {
        self.script("@modelcontextprotocol/conformance", &[])
    }

    /// MCP Inspector.
    pub fn inspector(&self) -> ServerCommand {
        let script = self.package("@modelcontextprotocol/inspector").join("clients/launcher/build/index.js");
        let command = self.node().display().to_string();
        ServerCommand { command, args: vec![script.display().to_string()] }
    }

    /// The folder of an npm package.
    pub fn package(&self, name: &str) -> PathBuf {
        self.root.join("node_modules").join(name)
    }

    /// The path of a Python with MCP's official client.
    pub fn python(&self) -> PathBuf {
        self.root.join("venv/bin/python")
    }

    /// The path of a Python with clients of model APIs.
    pub fn client_python(&self) -> PathBuf {
        self.client_packages().join("venv/bin/python")
    }

    /// The path of a Python with older versions of clients of model APIs.
    ///
    /// # Panics
    ///
    /// When they are not installed.
    pub fn older_client_python(&self) -> PathBuf {
        let folder = self.root.join("clients/older");
        assert!(
            folder.join("pypi.stamp").exists(),
            "{} is not complete: run `scripts/servers` first",
            folder.display()
        );
        folder.join("venv/bin/python")
    }

    /// The folder from which Node.js finds clients of model APIs.
    ///
    /// # Panics
    ///
    /// When they are not installed.
    pub fn client_packages(&self) -> PathBuf {
        let folder = self.root.join("clients");
        assert_complete(&folder);
        folder
    }

    /// The folder with the npm packages for the tests of the page. `scripts/servers --page` installs them
    /// alone.
    ///
    /// # Panics
    ///
    /// When they are not installed.
    pub fn page_packages() -> PathBuf {
        let folder = root().join("page");
        let is_complete = folder.join("npm.stamp").exists();
        assert!(is_complete, "{} is not complete: run `scripts/servers --page` first", folder.display());
        folder.canonicalize().expect("the folder exists")
    }

    /// A Node.js for these packages: the installed one, or else that of the search path.
    pub fn node_of_page_packages() -> PathBuf {
        let node = root().join("node");
        if node.exists() { node.canonicalize().expect("the file exists") } else { PathBuf::from("node") }
    }

    /// `server-everything` on stdio.
    pub fn everything(&self) -> ServerCommand {
        self.script("@modelcontextprotocol/server-everything", &["stdio"])
    }

    /// `server-everything` over streamable HTTP, at `/mcp`.
    pub fn everything_over_http(&self) -> RunningServer {
        RunningServer::start_on_free_port(self.everything_listening("streamableHttp"))
    }

    /// `server-everything` over the deprecated HTTP+SSE transport, at `/sse`.
    pub fn everything_over_sse(&self) -> RunningServer {
        RunningServer::start_on_free_port(self.everything_listening("sse"))
    }

    /// A command that starts `server-everything` over `streamableHttp` or `sse`, on the port in the variable
    /// `PORT`.
    pub fn everything_listening(&self, transport: &str) -> Command {
        self.script("@modelcontextprotocol/server-everything", &[transport]).to_command()
    }

    pub fn filesystem(&self, folder: &Path) -> ServerCommand {
        self.script("@modelcontextprotocol/server-filesystem", &[&folder.display().to_string()])
    }

    /// Stores its memory in the file named by the variable `MEMORY_FILE_PATH`.
    pub fn memory(&self) -> ServerCommand {
        self.script("@modelcontextprotocol/server-memory", &[])
    }

    pub fn time(&self) -> ServerCommand {
        self.program("mcp-server-time", &["--local-timezone", "Europe/Oslo"])
    }

    pub fn git(&self, repository: &Path) -> ServerCommand {
        self.program("mcp-server-git", &["--repository", &repository.display().to_string()])
    }

    fn script(&self, package: &str, args: &[&str]) -> ServerCommand {
        let script = self.package(package).join("dist/index.js").display().to_string();
        let args = std::iter::once(script).chain(args.iter().map(|arg| (*arg).to_owned())).collect();
        ServerCommand { command: self.node().display().to_string(), args }
    }

    fn program(&self, name: &str, args: &[&str]) -> ServerCommand {
        let command = self.root.join("venv/bin").join(name).display().to_string();
        ServerCommand { command, args: args.iter().map(|arg| (*arg).to_owned()).collect() }
    }
}

fn root() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match std::env::var_os("TOOLWIRE_TEST_SERVERS") {
        Some(folder) => workspace.join(folder),
        None => workspace.join("target/servers"),
    }
}

fn assert_complete(folder: &Path) {
    let is_complete = folder.join("npm.stamp").exists() && folder.join("pypi.stamp").exists();
    assert!(is_complete, "{} is not complete: run `scripts/servers` first", folder.display());
}
