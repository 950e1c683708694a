//! A master with a replica, and three sentinels that replace it.

use std::fs;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{RedisServer, launch_until, run_command};
use crate::ports::lasting_port;

/// The time without a response after which a master is replaced. It is not shorter, because a busy
/// machine must not cause failovers that no test requested.
const DOWN_AFTER_MS: u32 = 2_000;

/// The time after which a failover that was requested must have been abandoned.
const RETRY_AFTER: Duration = Duration::from_secs(20);

const TIMEOUT: Duration = Duration::from_secs(300);

/// Two servers that Redis Sentinel watches as `mymaster`. Dropping this kills all processes.
pub struct RedisSentinels {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisSentinel>,
    password: Option<&'static str>,
    sentinel_password: Option<&'static str>,
}

/// One sentinel; dropping this kills it.
pub struct RedisSentinel {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Drop for RedisSentinel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl RedisSentinels {
    pub fn start() -> RedisSentinels {
        RedisSentinels::start_with(None, None)
    }

    /// Starts servers with passwords.
    pub fn start_with(
        password: Option<&'static str>,
        sentinel_password: Option<&'static str>,
    ) -> RedisSentinels {
        let mut options = vec!["--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"];
        if let Some(password) = password {
            options.extend(["--requirepass", password, "--masterauth", password]);
        }
        let master = RedisServer::start_with(&options);
        let master_port = master.port().to_string();
        let replica = RedisServer::start_with(&options);
        replica.command(&["REPLICAOF", "127.0.0.1", &master_port]);
        let servers = vec![master, replica];
        // Sentinels find the replica at the master.
        wait("a connected replica", || info(&servers[1], "master_link_status").as_deref() == Some("up"));
        let mut config = format!(
            "sentinel monitor mymaster 127.0.0.1 {master_port} 2\n\
             sentinel down-after-milliseconds mymaster {DOWN_AFTER_MS}\n\
             sentinel failover-timeout mymaster 5000\n"
        );
        if let Some(password) = password {
            config.push_str(&format!("sentinel auth-pass mymaster \"{password}\"\n"));
        }
        if let Some(password) = sentinel_password {
            config.push_str(&format!("requirepass \"{password}\"\nsentinel sentinel-pass \"{password}\"\n"));
        }
        let sentinels = (0..3).map(|_| RedisSentinel::start(&config)).collect();
        let started = RedisSentinels { servers, sentinels, password, sentinel_password };
        started.until_ready();
        started
    }

    /// Returns the URL for a store, with the passwords.
    pub fn url(&self) -> String {
        let password = self.password.map(|password| format!(":{password}@")).unwrap_or_default();
        let query = self.sentinel_password.map(|password| format!("?sentinel_password={password}"));
        let (sentinels, query) = (self.addresses(), query.unwrap_or_default());
        format!("redis+sentinel://{password}{sentinels}/mymaster{query}")
    }

    /// Returns the addresses of the sentinels, separated by commas.
    pub fn addresses(&self) -> String {
        let addresses: Vec<String> =
            self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port)).collect();
        addresses.join(",")
    }

    /// Returns the server that the sentinels name as the master.
    pub fn master(&self) -> &RedisServer {
        &self.servers[self.master_index()]
    }

    /// Runs a command at the first sentinel and returns the response.
    pub fn command(&self, arguments: &[&str]) -> String {
        run_command(self.sentinels[0].port, self.sentinel_password, arguments)
    }

    /// Replaces the master, and waits until all servers and sentinels know the new one. Nothing may be
    /// written meanwhile, because the old master would confirm it.
    pub fn fail_over(&self) {
        self.until_replicated();
        let old = self.master().port();
        let mut requested: Option<Instant> = None;
        wait("another master", || {
            if self.master().port() != old {
                return true;
            }
            // The sentinels refuse this while the previous failover is not complete, and may abandon a
            // failover. The request is not repeated at once, because that could replace the new master.
            if requested.is_none_or(|requested| requested.elapsed() > RETRY_AFTER)
                && self.command(&["SENTINEL", "FAILOVER", "mymaster"]) == "OK"
            {
                requested = Some(Instant::now());
            }
            false
        });
        self.until_ready();
    }

    /// Waits until the replica has everything that the master has stored.
    pub fn until_replicated(&self) {
        let (master, replica) = (self.master_index(), 1 - self.master_index());
        wait("the writes at the replica", || {
            let sent = info(&self.servers[master], "master_repl_offset");
            sent.is_some() && sent == info(&self.servers[replica], "slave_repl_offset")
        });
    }

    /// Kills the master, as a crash would end it, and returns its number. Does not wait for the new one.
    pub fn kill_master(&mut self) -> usize {
        let master = self.master_index();
        self.servers[master].kill();
        master
    }

    /// Starts a killed server again, which becomes a replica of the new master.
    pub fn restart(&mut self, server: usize) {
        self.servers[server].restart();
        self.until_ready();
    }

    /// Stops the process of the master without closing its connections, and returns its number.
    pub fn pause_master(&self) -> usize {
        let master = self.master_index();
        self.servers[master].signal("STOP");
        master
    }

    /// Continues a stopped process, which becomes a replica of the new master.
    pub fn resume(&self, server: usize) {
        self.servers[server].signal("CONT");
        self.until_ready();
    }

    fn master_index(&self) -> usize {
        let response = self.command(&["SENTINEL", "get-master-addr-by-name", "mymaster"]);
        let port = response.lines().last().and_then(|port| port.parse().ok());
        let index = self.servers.iter().position(|server| Some(server.port()) == port);
        index.unwrap_or_else(|| panic!("the sentinel names an unknown master: {response}"))
    }

    /// Waits until the sentinels know each other, agree about the master, and can replace it.
    fn until_ready(&self) {
        wait("sentinels that agree", || {
            let (master, replica) = (self.master_index(), 1 - self.master_index());
            let (master, replica) = (&self.servers[master], &self.servers[replica]);
            let knows = |sentinel: &RedisSentinel| {
                let command =
                    |arguments: &[&str]| run_command(sentinel.port, self.sentinel_password, arguments);
                let named = command(&["SENTINEL", "get-master-addr-by-name", "mymaster"]);
                let quorum = command(&["SENTINEL", "CKQUORUM", "mymaster"]);
                let replicas = command(&["SENTINEL", "REPLICAS", "mymaster"]);
                let field = |name: &str| replicas.lines().skip_while(|line| *line != name).nth(1);
                named.lines().last() == Some(master.port().to_string().as_str())
                    && quorum.starts_with("OK 3 ")
                    && field("flags") == Some("slave")
            };
            info(master, "role").as_deref() == Some("master")
                && info(replica, "master_link_status").as_deref() == Some("up")
                && info(replica, "master_port") == Some(master.port().to_string())
                && self.sentinels.iter().all(knows)
        });
    }
}

impl RedisSentinel {
    /// Starts a sentinel with these lines in its configuration, of which one names the master that it
    /// watches.
    pub fn start(config: &str) -> RedisSentinel {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let file = folder.path().join("sentinel.conf");
        for _ in 0..20 {
            let port = lasting_port();
            // Sentinels write their state to the file.
            let text = format!("port {port}\nbind 127.0.0.1\ndir {}\n{config}", folder.path().display());
            fs::write(&file, text).expect("the folder can be written to");
            let mut command = Command::new("redis-server");
            command.arg(&file).arg("--sentinel");
            if let Some(process) = launch_until(command, "+monitor master") {
                return RedisSentinel { process, port, _folder: folder };
            }
        }
        panic!("`redis-server --sentinel` does not start");
    }
}

/// Returns a value of the replication of a server.
fn info(server: &RedisServer, name: &str) -> Option<String> {
    let text = server.command(&["INFO", "replication"]);
    let value = text.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
    value.map(str::to_owned)
}

fn wait(what: &str, mut is_done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_done() {
        assert!(started.elapsed() < TIMEOUT, "waited for {what} for {TIMEOUT:?}");
        thread::sleep(Duration::from_millis(50));
    }
}
