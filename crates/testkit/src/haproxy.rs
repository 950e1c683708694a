//! HAProxy for a single test, on a free port.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::ports::free_port;

const INSTALL_HINT: &str = "on Debian and Ubuntu: `apt-get install haproxy`";

const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);

/// A running `haproxy` in front of one server; dropping this kills it.
pub struct HaProxy {
    process: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl HaProxy {
    /// Starts a proxy that reuses its connections to the server for all clients. `options` are lines of the section `defaults`.
    ///
    /// # Panics
    ///
    /// When it cannot be started, or does not listen within a minute.
    pub fn start(server: SocketAddr, options: &[&str]) -> HaProxy {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        for _ in 0..20 {
            let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
            let config = folder.path().join("haproxy.cfg");
            let options = options.join("\n    ");
            let text = format!(
                "global\n    maxconn 200\n    nbthread 1\n\
                 defaults\n    mode http\n    http-reuse always\n    timeout connect 10s\n    timeout client 5m\n    \
                 timeout server 5m\n    {options}\n\
                 listen gateway\n    bind {address}\n    server one {server}\n"
            );
            fs::write(&config, text).expect("the configuration can be written");
            // `-db` keeps it in the foreground, so that it ends with the test.
            let mut process = Command::new("haproxy")
                .args(["-db", "-f"])
                .arg(&config)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| panic!("`haproxy` cannot be run: {error}; {INSTALL_HINT}"));
            // Another process may have taken the port in the meantime.
            if is_listening(&mut process, address) {
                return HaProxy { process, address, _folder: folder };
            }
        }
        panic!("`haproxy` does not start with these options: {options:?}");
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until the proxy accepts connections. Returns false when it ends instead.
fn is_listening(process: &mut Child, address: SocketAddr) -> bool {
    let deadline = Instant::now() + STARTUP_TIMEOUT;
    loop {
        if process.try_wait().expect("the status of a child can be read").is_some() {
            return false;
        }
        if TcpStream::connect(address).is_ok() {
            return true;
        }
        assert!(Instant::now() < deadline, "`haproxy` does not listen on {address}");
        thread::sleep(Duration::from_millis(20));
    }
}
