//! A Redis Cluster for a single test.

use std::thread;
use std::time::{Duration, Instant};

use crate::RedisServer;
use crate::ports::lasting_port;

/// The slots of each shard.
const SLOTS: [[&str; 2]; 3] = [["0", "5460"], ["5461", "10922"], ["10923", "16383"]];

/// The maximum wait for a change in the cluster.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The time in ms after which the other nodes consider a node as failed.
const NODE_TIMEOUT: &str = "4000";

/// A cluster of three servers that share the slots, and perhaps a replica of each.
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts three servers that write nothing to disk.
    pub fn start() -> RedisCluster {
        RedisCluster::start_nodes(3, &[])
    }

    /// Starts three servers and a replica of each. They write each change to disk before they confirm it.
    pub fn start_with_replicas() -> RedisCluster {
        let durable = ["--appendonly", "yes", "--appendfsync", "always"];
        // A replica takes over however long it was disconnected.
        let failover = ["--cluster-node-timeout", NODE_TIMEOUT, "--cluster-replica-validity-factor", "0"];
        let replication = ["--repl-diskless-sync-delay", "0"];
        let cluster = RedisCluster::start_nodes(6, &[&durable[..], &failover, &replication].concat());
        for (replica, master) in cluster.nodes[3..].iter().zip(&cluster.nodes) {
            let id = master.command(&["CLUSTER", "MYID"]);
            let replicate = || replica.command(&["CLUSTER", "REPLICATE", &id]) == "OK";
            wait_until("the replica knows its master", replicate);
        }
        cluster.wait_until_replicated();
        cluster
    }

    fn start_nodes(count: usize, options: &[&str]) -> RedisCluster {
        let buses: Vec<String> = (0..count).map(|_| lasting_port().to_string()).collect();
        let start = |bus: &String| {
            let cluster = ["--save", "", "--cluster-enabled", "yes", "--cluster-port", bus];
            RedisServer::start_with(&[&cluster[..], options].concat())
        };
        let nodes: Vec<RedisServer> = buses.iter().map(start).collect();
        for (node, slots) in nodes.iter().zip(SLOTS) {
            node.command(&["CLUSTER", "ADDSLOTSRANGE", slots[0], slots[1]]);
        }
        for (node, bus) in nodes.iter().zip(&buses).skip(1) {
            nodes[0].command(&["CLUSTER", "MEET", "127.0.0.1", &node.port().to_string(), bus]);
        }
        let cluster = RedisCluster { nodes };
        // Nodes learn about each other by gossip; only polling shows when they are done.
        let all_nodes = format!("cluster_known_nodes:{count}");
        wait_until("the cluster starts", || {
            let is_ready = |state: String| state.contains("cluster_state:ok") && state.contains(&all_nodes);
            cluster.nodes.iter().all(|node| is_ready(node.command(&["CLUSTER", "INFO"])))
        });
        cluster
    }

    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// Returns the URLs of all nodes.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::url).collect()
    }

    /// Returns each master with its replica.
    ///
    /// # Panics
    ///
    /// When a node does not run.
    pub fn shards(&self) -> Vec<(usize, usize)> {
        let master_of = |node: &RedisServer| {
            let role = node.command(&["ROLE"]);
            let mut lines = role.lines();
            (lines.next() == Some("slave")).then(|| lines.nth(1).and_then(|port| port.parse().ok()))?
        };
        let replicas = self.nodes.iter().enumerate().filter_map(|(replica, node)| {
            let port: u16 = master_of(node)?;
            Some((self.nodes.iter().position(|node| node.port() == port)?, replica))
        });
        replicas.collect()
    }

    /// Kills a node, as a crash would end it.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    /// Starts a node again after [`RedisCluster::kill`].
    pub fn restart(&mut self, node: usize) {
        self.nodes[node].restart();
    }

    /// Makes a replica take over from its master. The master first waits until the replica has all changes.
    ///
    /// # Panics
    ///
    /// When this does not happen within two minutes.
    pub fn fail_over_to(&self, replica: usize) {
        let mut last = Instant::now();
        self.nodes[replica].command(&["CLUSTER", "FAILOVER"]);
        wait_until("the replica takes over", || {
            // The other masters may refuse to vote for some time after an earlier failover.
            if last.elapsed() > Duration::from_secs(10) {
                last = Instant::now();
                self.nodes[replica].command(&["CLUSTER", "FAILOVER"]);
            }
            self.is_master(replica)
        });
    }

    /// Waits until a node is a master.
    ///
    /// # Panics
    ///
    /// When this does not happen within two minutes.
    pub fn wait_until_master(&self, node: usize) {
        wait_until("the replica takes over", || self.is_master(node));
    }

    fn is_master(&self, node: usize) -> bool {
        self.nodes[node].command(&["ROLE"]).starts_with("master")
    }

    /// Waits until all nodes work, and each replica has the data of its master.
    ///
    /// # Panics
    ///
    /// When this does not happen within two minutes.
    pub fn wait_until_replicated(&self) {
        wait_until("the cluster is complete", || {
            let is_ok = |node: &RedisServer| {
                let info = node.command(&["CLUSTER", "INFO"]);
                info.contains("cluster_state:ok")
                    && info.contains("cluster_slots_ok:16384")
                    && !node.command(&["CLUSTER", "NODES"]).contains("fail")
            };
            let has_data = |&(_, replica): &(usize, usize)| {
                self.nodes[replica].command(&["INFO", "replication"]).contains("master_link_status:up")
            };
            let shards = self.shards();
            shards.len() == SLOTS.len() && shards.iter().all(has_data) && self.nodes.iter().all(is_ok)
        });
    }
}

fn wait_until(event: &str, mut has_happened: impl FnMut() -> bool) {
    let started = Instant::now();
    while !has_happened() {
        assert!(started.elapsed() < TIMEOUT, "timeout while waiting: {event}");
        thread::sleep(Duration::from_millis(50));
    }
}
