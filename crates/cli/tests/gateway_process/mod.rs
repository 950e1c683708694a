//! `toolwire serve` as a process of a test.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

/// Returns the command, with the configuration `mcp.json` of a folder, and without variables that would
/// change it.
pub(crate) fn command(folder: impl AsRef<Path>) -> Command {
    let folder = folder.as_ref();
    let mut command = Command::new(env!("CARGO_BIN_EXE_toolwire"));
    command.current_dir(folder).arg("serve").env("NO_COLOR", "1");
    command.env("XDG_DATA_HOME", folder.join("data")).env("XDG_CONFIG_HOME", folder.join("config"));
    for variable in toolwire_testkit::api_key_variables() {
        command.env_remove(variable);
    }
    for variable in ["TOOLWIRE_CONFIG", "TOOLWIRE_KEY", "OPENAI_BASE_URL"] {
        command.env_remove(variable);
    }
    command
}

/// A running gateway. Dropping this kills it.
pub(crate) struct GatewayProcess {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl GatewayProcess {
    /// Starts a gateway, and waits until it is ready. Its log after that is appended to `gateway.log` in the
    /// folder.
    ///
    /// # Errors
    ///
    /// Returns what it has printed if it ends instead.
    pub(crate) fn start(folder: &Path, listen: &str) -> Result<GatewayProcess, String> {
        let mut command = command(folder);
        command.args(["--listen", listen]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| line.starts_with("ready")) {
            let mut line = String::new();
            if log.read_line(&mut line).unwrap() == 0 {
                let _ = child.wait();
                return Err(format!("the gateway has ended: {lines:?}"));
            }
            lines.push(line);
        }
        let listening = lines.iter().find_map(|line| line.trim_end().strip_prefix("listening on http://"));
        let address = listening.unwrap().parse().unwrap();
        // A full pipe would block the gateway.
        let mut file: File =
            fs::OpenOptions::new().create(true).append(true).open(folder.join("gateway.log")).unwrap();
        thread::spawn(move || io::copy(&mut log, &mut file));
        Ok(GatewayProcess { child, address })
    }

    /// Kills the gateway with SIGKILL.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
