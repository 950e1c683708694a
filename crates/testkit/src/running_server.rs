//! An HTTP server process that a test starts and that ends with the test.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::ports::free_port;

const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);

/// A process that listens on a local port; dropping this kills it.
pub struct RunningServer {
    /// `http://127.0.0.1:PORT`, without a path.
    pub origin: String,
    child: Child,
    // Kept open: the misbehaving server runs until its stdin closes, so it also ends when this process
    // crashes.
    _stdin: Option<ChildStdin>,
}

impl RunningServer {
    /// Starts a program that prints the port it listens on as its first line on stdout.
    ///
    /// # Panics
    ///
    /// When it cannot be started, or ends without printing its port.
    pub fn start_printing_port(mut command: Command) -> RunningServer {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut port = String::new();
        let read = BufReader::new(stdout).read_line(&mut port);
        assert!(read.is_ok() && !port.trim().is_empty(), "{command:?} did not print its port");
        let stdin = child.stdin.take();
        RunningServer { origin: format!("http://127.0.0.1:{}", port.trim()), child, _stdin: stdin }
    }

    /// Starts a program that listens on the port in the variable `PORT`, and waits until it accepts
    /// connections.
    ///
    /// # Panics
    ///
    /// When it cannot be started, or does not listen within a minute.
    pub fn start_on_free_port(command: Command) -> RunningServer {
        RunningServer::start_on_port(command, free_port())
    }

    /// Like [`RunningServer::start_on_free_port`], on a given port: for a server that restarts on the same
    /// port.
    ///
    /// # Panics
    ///
    /// When it cannot be started, or does not listen within a minute.
    pub fn start_on_port(mut command: Command, port: u16) -> RunningServer {
        let child = command
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let mut server = RunningServer { origin: format!("http://127.0.0.1:{port}"), child, _stdin: None };
        let deadline = Instant::now() + STARTUP_TIMEOUT;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = server.child.try_wait().expect("the status of a child can be read");
            assert!(ended.is_none(), "{command:?} ended with {ended:?}");
            assert!(Instant::now() < deadline, "{command:?} does not listen on port {port}");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    pub fn port(&self) -> u16 {
        let port = self.origin.rsplit(':').next().expect("an origin ends with a port");
        port.parse().expect("an origin ends with a port")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process, as a crash would end it.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.kill();
    }
}
