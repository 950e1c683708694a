//! Redis servers for a single test, each on a free port and with a temporary folder for its data.

mod sentinels;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;

use tempfile::TempDir;

use crate::ports::lasting_port;
pub use sentinels::{RedisSentinel, RedisSentinels};

/// A running `redis-server`; dropping this kills it.
pub struct RedisServer {
    process: Child,
    port: u16,
    folder: TempDir,
    options: Vec<String>,
}

impl RedisServer {
    /// Starts a server that writes nothing to disk.
    pub fn start() -> RedisServer {
        RedisServer::start_with(&["--save", "", "--appendonly", "no"])
    }

    /// Starts a server with these command-line options.
    pub fn start_with(options: &[&str]) -> RedisServer {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        for _ in 0..20 {
            let port = lasting_port();
            // Another process may have taken the port in the meantime.
            if let Some(process) = launch(port, &folder, &options) {
                return RedisServer { process, port, folder, options };
            }
        }
        panic!("`redis-server {}` does not start", options.join(" "));
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Kills the server, as a crash would end it.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Sends a signal to the process, such as `STOP`.
    pub fn signal(&self, signal: &str) {
        let id = self.process.id().to_string();
        let status = Command::new("kill").args([&format!("-{signal}"), &id]).status();
        assert!(status.is_ok_and(|status| status.success()), "the signal {signal} cannot be sent");
    }

    /// Starts the server again after [`RedisServer::kill`], on the same port and with the same data.
    pub fn restart(&mut self) {
        self.process = launch(self.port, &self.folder, &self.options).expect("its port is still free");
    }

    /// Runs a command with `redis-cli` and returns the response.
    pub fn command(&self, arguments: &[&str]) -> String {
        let password = self.options.iter().position(|option| option == "--requirepass");
        let password = password.and_then(|position| self.options.get(position + 1));
        run_command(self.port, password.map(String::as_str), arguments)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a command at a server with `redis-cli` and returns the response.
fn run_command(port: u16, password: Option<&str>, arguments: &[&str]) -> String {
    let mut command = Command::new("redis-cli");
    command.args(["-p", &port.to_string()]).args(arguments);
    if let Some(password) = password {
        command.env("REDISCLI_AUTH", password);
    }
    let output =
        command.output().unwrap_or_else(|error| panic!("`redis-cli` cannot be run: {error}; {INSTALL_HINT}"));
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

const INSTALL_HINT: &str = "on Debian and Ubuntu: `apt-get install redis-server`";

/// Starts a server and waits until it logs that it is ready. Returns `None` when it ends instead.
fn launch(port: u16, folder: &TempDir, options: &[String]) -> Option<Child> {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]).args(options);
    command.arg("--dir").arg(folder.path());
    launch_until(command, "eady to accept connections")
}

/// Starts a server and waits for a line of its log with this text. Returns `None` when it ends instead.
fn launch_until(mut command: Command, text: &str) -> Option<Child> {
    let mut process = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("`redis-server` cannot be run: {error}; {INSTALL_HINT}"));
    let mut lines = BufReader::new(process.stdout.take().expect("stdout is piped")).lines();
    let is_ready = lines.by_ref().map_while(Result::ok).any(|line| line.contains(text));
    if !is_ready {
        let _ = process.wait();
        return None;
    }
    // A full pipe would block the server.
    thread::spawn(move || lines.for_each(drop));
    Some(process)
}
