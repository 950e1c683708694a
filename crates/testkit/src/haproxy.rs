//! HAProxy for a single test, on a free port.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use tempfile::TempDir;

use crate::ports::free_port;

const INSTALL_HINT: &str = "on Debian and Ubuntu: `apt-get install haproxy`";

/// The folders of servers, which are not in the search path of ordinary users.
const SERVER_FOLDERS: [&str; 2] = ["/usr/local/sbin", "/usr/sbin"];

const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);

/// A running `haproxy`; dropping this kills it.
pub struct HaProxy {
    process: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl HaProxy {
    /// Starts a proxy that reuses its connections to the server for all clients. `options` are lines of the
    /// section `defaults`.
    ///
    /// # Panics
    ///
    /// When it cannot be started, or does not listen within a minute.
    pub fn start(server: SocketAddr, options: &[&str]) -> HaProxy {
        HaProxy::with_servers(&format!("http-reuse always\n    server one {server}"), options)
    }

    /// Starts a proxy in front of several servers, which get the requests in turn. The header `x-served-by`
    /// of a response is the number of the server, from 0. `options` are lines of the section `defaults`.
    ///
    /// # Panics
    ///
    /// When it cannot be started, or does not listen within a minute.
    pub fn in_front_of(servers: &[SocketAddr], options: &[&str]) -> HaProxy {
        let mut lines = "balance roundrobin\n    http-response set-header x-served-by %s".to_owned();
        for (number, server) in servers.iter().enumerate() {
            lines.push_str(&format!("\n    server {number} {server}"));
        }
        HaProxy::with_servers(&lines, options)
    }

    fn with_servers(servers: &str, options: &[&str]) -> HaProxy {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        for _ in 0..20 {
            let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
            let config = folder.path().join("haproxy.cfg");
            // Only this proxy has this path.
            let ready_path = format!("/{}", folder.path().file_name().unwrap_or_default().to_string_lossy());
            let options = options.join("\n    ");
            let text = format!(
                "global\n    maxconn 200\n    nbthread 1\n\
                 defaults\n    mode http\n    timeout connect 10s\n    timeout client 5m\n    \
                 timeout server 5m\n    {options}\n\
                 listen gateway\n    bind {address}\n    monitor-uri {ready_path}\n    {servers}\n"
            );
            fs::write(&config, text).expect("the configuration can be written");
            // `-db` keeps it in the foreground, so that it ends with the test.
            let mut process = Command::new(program())
                .args(["-db", "-f"])
                .arg(&config)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| panic!("`haproxy` cannot be run: {error}; {INSTALL_HINT}"));
            // Another process may have taken the port in the meantime.
            if is_ready(&mut process, address, &ready_path) {
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

/// Returns the path of `haproxy`, or its name if it is not found.
fn program() -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&path).chain(SERVER_FOLDERS.map(PathBuf::from));
    let found = folders.find_map(|folder| Some(folder.join("haproxy")).filter(|program| program.is_file()));
    found.unwrap_or_else(|| PathBuf::from("haproxy"))
}

/// Waits until the proxy serves. Returns false when it ends instead.
fn is_ready(process: &mut Child, address: SocketAddr, ready_path: &str) -> bool {
    let deadline = Instant::now() + STARTUP_TIMEOUT;
    loop {
        if process.try_wait().expect("the status of a child can be read").is_some() {
            return false;
        }
        if serves(address, ready_path).unwrap_or(false) {
            return true;
        }
        assert!(Instant::now() < deadline, "`haproxy` does not listen on {address}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Whether the proxy with this path listens. Another process may have taken the port.
fn serves(address: SocketAddr, ready_path: &str) -> io::Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(format!("GET {ready_path} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut response = [0; 12];
    stream.read_exact(&mut response)?;
    Ok(response.ends_with(b" 200"))
}
