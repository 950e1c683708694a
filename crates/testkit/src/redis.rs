//! Redis servers of a test's own, each on a free port, with its data in a folder that goes with it.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A running `redis-server`; dropping it ends it.
pub struct RedisServer {
    process: Child,
    port: u16,
    folder: TempDir,
    options: Vec<String>,
}

impl RedisServer {
    /// A server that keeps nothing on the disk.
    pub fn start() -> RedisServer {
        RedisServer::start_with(&["--save", "", "--appendonly", "no"])
    }

    /// A server with these words on its command line.
    pub fn start_with(options: &[&str]) -> RedisServer {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let folder = tempfile::tempdir().expect("a folder can be made");
        for _ in 0..20 {
            let port = free_port();
            // Another process may have taken the port in between.
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

    /// Ends the server as a crash would.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts it again after [`RedisServer::kill`], on the same port and with the same data.
    pub fn restart(&mut self) {
        self.process = launch(self.port, &self.folder, &self.options).expect("its port is still free");
    }

    /// What `redis-cli` answers to a command.
    pub fn command(&self, words: &[&str]) -> String {
        let port = self.port.to_string();
        let output = Command::new("redis-cli")
            .args(["-p", &port])
            .args(words)
            .output()
            .unwrap_or_else(|error| panic!("`redis-cli` cannot be run: {error}; {HINT}"));
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Three servers that share the slots of one cluster.
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    pub fn start() -> RedisCluster {
        let nodes: Vec<RedisServer> = (0..3)
            .map(|_| {
                let bus = free_port().to_string();
                let options = ["--save", "", "--cluster-enabled", "yes", "--cluster-port", &bus];
                RedisServer::start_with(&options)
            })
            .collect();
        for (node, slots) in nodes.iter().zip([["0", "5460"], ["5461", "10922"], ["10923", "16383"]]) {
            node.command(&["CLUSTER", "ADDSLOTSRANGE", slots[0], slots[1]]);
        }
        let first = &nodes[0];
        for node in &nodes[1..] {
            let bus = node.options.last().expect("a node has a bus");
            first.command(&["CLUSTER", "MEET", "127.0.0.1", &node.port.to_string(), bus]);
        }
        // Nodes get to know each other by gossip, and say so only when they are asked.
        let began = Instant::now();
        let is_ready = |node: &RedisServer| {
            let state = node.command(&["CLUSTER", "INFO"]);
            state.contains("cluster_state:ok") && state.contains("cluster_known_nodes:3")
        };
        while !nodes.iter().all(is_ready) {
            assert!(began.elapsed() < Duration::from_secs(60), "the cluster does not come up");
            thread::sleep(Duration::from_millis(50));
        }
        RedisCluster { nodes }
    }

    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }
}

const HINT: &str = "on Debian and Ubuntu: `apt-get install redis-server`";

/// Starts a server and waits until it says that it is ready; `None` when it ends instead.
fn launch(port: u16, folder: &TempDir, options: &[String]) -> Option<Child> {
    let mut process = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(options)
        .arg("--dir")
        .arg(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("`redis-server` cannot be run: {error}; {HINT}"));
    let mut lines = BufReader::new(process.stdout.take().expect("its output is ours")).lines();
    let is_ready =
        lines.by_ref().map_while(Result::ok).any(|line| line.contains("eady to accept connections"));
    if !is_ready {
        let _ = process.wait();
        return None;
    }
    // Somebody has to go on listening, or the server would wait to be heard.
    thread::spawn(move || lines.for_each(drop));
    Some(process)
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it has an address").port()
}
