//! A server over HTTP that a test started and that ends with it.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

const LONGEST_START: Duration = Duration::from_secs(60);

/// A process that listens on a port of this machine; it is killed when this is dropped.
pub struct RunningServer {
    /// `http://127.0.0.1:PORT`, without a path.
    pub origin: String,
    child: Child,
    // Held: the server that misbehaves lives until its stdin closes, so it dies with this process however that ends.
    _stdin: Option<ChildStdin>,
}

impl RunningServer {
    /// Starts a program whose first line on stdout is the port it listens on.
    ///
    /// # Panics
    ///
    /// When it cannot be started, or ends without saying its port.
    pub fn that_prints_its_port(mut command: Command) -> RunningServer {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdout = child.stdout.take().expect("it was asked for");
        let mut port = String::new();
        let read = BufReader::new(stdout).read_line(&mut port);
        assert!(read.is_ok() && !port.trim().is_empty(), "{command:?} did not say its port");
        let stdin = child.stdin.take();
        RunningServer { origin: format!("http://127.0.0.1:{}", port.trim()), child, _stdin: stdin }
    }

    /// Starts a program that listens on the port in the variable `PORT`, and waits until it does.
    ///
    /// # Panics
    ///
    /// When it cannot be started, or does not listen within a minute.
    pub fn that_is_given_a_port(command: Command) -> RunningServer {
        RunningServer::on_port(command, free_port())
    }

    /// The same on a port of one's choice: for a server that comes back where it was.
    ///
    /// # Panics
    ///
    /// When it cannot be started, or does not listen within a minute.
    pub fn on_port(mut command: Command, port: u16) -> RunningServer {
        let child = command
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let mut server = RunningServer { origin: format!("http://127.0.0.1:{port}"), child, _stdin: None };
        let deadline = Instant::now() + LONGEST_START;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = server.child.try_wait().expect("it is our child");
            assert!(ended.is_none(), "{command:?} ended with {ended:?}");
            assert!(Instant::now() < deadline, "{command:?} does not listen on {port}");
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

    /// Ends it at once, as a crash would.
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

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("this machine has a free port");
    listener.local_addr().expect("a bound listener has an address").port()
}
