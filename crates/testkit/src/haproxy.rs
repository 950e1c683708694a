//! HAProxy for a single test, on a free port.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use tempfile::TempDir;

use crate::ports::lasting_port;

const INSTALL_HINT: &str = "on Debian and Ubuntu: `apt-get install haproxy`";

/// The folders of servers, which are not in the search path of ordinary users.
const SERVER_FOLDERS: [&str; 2] = ["/usr/local/sbin", "/usr/sbin"];

const STARTUP_TIMEOUT: Duration = Duration::from_secs(60);

/// A running `haproxy`; dropping this kills it.
pub struct HaProxy {
    process: Child,
    /// Processes that a reload has replaced; they end with their last connection.
    replaced: Vec<Child>,
    settings: Settings,
}

/// The content of the configuration.
struct Settings {
    address: SocketAddr,
    /// Lines of the section `defaults`.
    options: String,
    /// Lines about the servers.
    servers: String,
    folder: TempDir,
    /// The number of reloads.
    reloads: usize,
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
    /// of a response is the number of the server, from 0. If the servers are checked and none is ready, the
    /// requests are sent to them nevertheless; the header then begins with `unready-`. `options` are lines of
    /// the section `defaults`.
    ///
    /// # Panics
    ///
    /// When it cannot be started, or does not listen within a minute.
    pub fn in_front_of(servers: &[SocketAddr], options: &[&str]) -> HaProxy {
        let mut lines =
            "balance roundrobin\n    option allbackups\n    http-response set-header x-served-by %s"
                .to_owned();
        for (number, server) in servers.iter().enumerate() {
            lines.push_str(&format!(
                "\n    server {number} {server}\n    server unready-{number} {server} no-check backup"
            ));
        }
        HaProxy::with_servers(&lines, options)
    }

    fn with_servers(servers: &str, options: &[&str]) -> HaProxy {
        let mut settings = Settings {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            options: options.join("\n    "),
            servers: servers.to_owned(),
            folder: tempfile::tempdir().expect("a temporary folder can be created"),
            reloads: 0,
        };
        for _ in 0..20 {
            settings.address.set_port(lasting_port());
            let mut process = settings.launch(&[]);
            // Another process may have taken the port in the meantime.
            if is_ready(&mut process, settings.address, &settings.ready_path()) {
                return HaProxy { process, replaced: Vec::new(), settings };
            }
        }
        panic!("`haproxy` does not start with these options: {options:?}");
    }

    pub fn address(&self) -> SocketAddr {
        self.settings.address
    }

    /// Replaces the process by a new one, as is done to load a new configuration. The new one takes over the
    /// socket for new connections, and the old one ends with its last connection.
    ///
    /// # Panics
    ///
    /// When the new one cannot be started, or does not listen within a minute.
    pub fn reload(&mut self) {
        self.replaced.retain_mut(|process| process.try_wait().is_ok_and(|status| status.is_none()));
        self.settings.reloads += 1;
        let (old, socket) = (self.process.id().to_string(), self.settings.socket());
        let mut process = self.settings.launch(&["-x", &socket, "-sf", &old]);
        let is_ready = is_ready(&mut process, self.settings.address, &self.settings.ready_path());
        assert!(is_ready, "`haproxy` ended while it was reloaded");
        self.replaced.push(std::mem::replace(&mut self.process, process));
    }
}

impl Settings {
    /// Returns the path that only this process has.
    fn ready_path(&self) -> String {
        let name = self.folder.path().file_name().unwrap_or_default().to_string_lossy();
        format!("/{name}-{}", self.reloads)
    }

    /// Returns the path of the socket by which the next process gets the sockets of this one.
    fn socket(&self) -> String {
        self.folder.path().join("admin.sock").display().to_string()
    }

    fn launch(&self, arguments: &[&str]) -> Child {
        let Settings { address, options, servers, folder, .. } = self;
        let (ready_path, socket) = (self.ready_path(), self.socket());
        let text = format!(
            "global\n    maxconn 200\n    nbthread 1\n    stats socket {socket} level admin expose-fd listeners\n\
             defaults\n    mode http\n    timeout connect 10s\n    timeout client 5m\n    \
             timeout server 5m\n    {options}\n\
             listen gateway\n    bind {address}\n    monitor-uri {ready_path}\n    {servers}\n"
        );
        let config = folder.path().join("haproxy.cfg");
        fs::write(&config, text).expect("the configuration can be written");
        // `-db` keeps it in the foreground, so that it ends with the test.
        Command::new(program())
            .args(["-db", "-f"])
            .arg(&config)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("`haproxy` cannot be run: {error}; {INSTALL_HINT}"))
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        for process in self.replaced.iter_mut().chain([&mut self.process]) {
            let _ = process.kill();
            let _ = process.wait();
        }
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
