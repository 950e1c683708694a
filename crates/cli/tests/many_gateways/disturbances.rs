//! Disturbances of the gateways, of Redis and of HAProxy while clients send requests.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::block_in_place;
use toolwire_testkit::{HaProxy, RedisCluster};

use crate::gateway_process::GatewayProcess;
use crate::random::Random;

/// The time for which requests may fail after Redis works again: gateways and HAProxy need time to notice it.
const RECOVERY: Duration = Duration::from_secs(20);

/// The maximum wait for a gateway that does not start while Redis is unavailable.
const START_TIMEOUT: Duration = Duration::from_secs(180);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    GatewayKilled,
    ProxyReloaded,
    /// A master is killed, and starts again before another node takes over.
    MasterRestarted,
    /// A replica takes over from a master that works.
    ShardMoved,
    /// A master is killed, and its replica takes over.
    ShardFailedOver,
}

const OF_GATEWAYS: [Kind; 3] = [Kind::GatewayKilled, Kind::ProxyReloaded, Kind::GatewayKilled];
const OF_REDIS: [Kind; 3] = [Kind::ShardFailedOver, Kind::MasterRestarted, Kind::ShardMoved];

struct Disturbance {
    kind: Kind,
    /// The number of the gateway.
    gateway: Option<usize>,
    start: Instant,
    /// `None` as long as it lasts.
    end: Option<Instant>,
}

/// All disturbances so far.
#[derive(Default)]
pub(crate) struct Disturbances {
    all: Mutex<Vec<Disturbance>>,
    is_over: AtomicBool,
}

impl Disturbances {
    fn lock(&self) -> MutexGuard<'_, Vec<Disturbance>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a disturbance, and returns its number.
    fn begin(&self, kind: Kind, gateway: Option<usize>) -> usize {
        let mut all = self.lock();
        all.push(Disturbance { kind, gateway, start: Instant::now(), end: None });
        all.len() - 1
    }

    fn end(&self, number: usize) {
        self.lock()[number].end = Some(Instant::now());
    }

    /// Whether a gateway was killed or did not run at some time; any gateway if none is given.
    pub(crate) fn killed(&self, gateway: Option<usize>, from: Instant, to: Instant) -> bool {
        self.lock().iter().any(|disturbance| {
            disturbance.kind == Kind::GatewayKilled
                && (gateway.is_none() || gateway == disturbance.gateway)
                && disturbance.start <= to
                && disturbance.end.is_none_or(|end| end >= from)
        })
    }

    /// Whether a part of Redis was unavailable at some time, or shortly before.
    pub(crate) fn disturbed_redis(&self, from: Instant, to: Instant) -> bool {
        self.lock().iter().any(|disturbance| {
            OF_REDIS.contains(&disturbance.kind)
                && disturbance.start <= to
                && disturbance.end.is_none_or(|end| end + RECOVERY >= from)
        })
    }

    /// Returns how often each kind has ended.
    pub(crate) fn counts(&self) -> BTreeMap<Kind, usize> {
        let mut counts = BTreeMap::new();
        for disturbance in self.lock().iter().filter(|disturbance| disturbance.end.is_some()) {
            *counts.entry(disturbance.kind).or_default() += 1;
        }
        counts
    }

    /// Whether each kind has happened.
    pub(crate) fn are_complete(&self) -> bool {
        let counts = self.counts();
        OF_GATEWAYS.iter().chain(&OF_REDIS).all(|kind| counts.contains_key(kind))
    }

    /// Ends the disturbances.
    pub(crate) fn stop(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Kills gateways and reloads the proxy, one after the other, until [`Disturbances::stop`].
    pub(crate) async fn disturb_gateways(&self, gateways: &mut Gateways, proxy: &mut HaProxy, seed: u64) {
        let mut random = Random::new(seed);
        for round in 0.. {
            tokio::time::sleep(Duration::from_millis(200 + random.below(800) as u64)).await;
            if self.is_over() {
                return;
            }
            match OF_GATEWAYS[round % OF_GATEWAYS.len()] {
                Kind::ProxyReloaded => {
                    let disturbance = self.begin(Kind::ProxyReloaded, None);
                    block_in_place(|| proxy.reload());
                    self.end(disturbance);
                }
                kind => {
                    let gateway = random.below(gateways.running.len());
                    let disturbance = self.begin(kind, Some(gateway));
                    gateways.running[gateway].process.kill();
                    tokio::time::sleep(Duration::from_millis(random.below(300) as u64)).await;
                    gateways.start_again(gateway).await;
                    self.end(disturbance);
                }
            }
        }
    }

    /// Restarts masters of Redis and moves shards, one after the other, until [`Disturbances::stop`].
    pub(crate) async fn disturb_redis(&self, redis: &mut RedisCluster, seed: u64) {
        let mut random = Random::new(seed);
        for round in 0.. {
            tokio::time::sleep(Duration::from_millis(300 + random.below(1_200) as u64)).await;
            if self.is_over() {
                return;
            }
            let kind = OF_REDIS[round % OF_REDIS.len()];
            let shards = block_in_place(|| redis.shards());
            let (master, replica) = *random.choose(&shards);
            let disturbance = self.begin(kind, None);
            block_in_place(|| {
                match kind {
                    Kind::ShardMoved => redis.fail_over_to(replica),
                    Kind::MasterRestarted => {
                        redis.kill(master);
                        redis.restart(master);
                    }
                    _ => {
                        redis.kill(master);
                        redis.wait_until_master(replica);
                        redis.restart(master);
                    }
                }
                redis.wait_until_replicated();
            });
            self.end(disturbance);
        }
    }
}

/// The gateways, each with a folder of its own.
pub(crate) struct Gateways {
    running: Vec<RunningGateway>,
}

struct RunningGateway {
    process: GatewayProcess,
    folder: PathBuf,
}

impl Gateways {
    /// Starts a gateway in each of the folders.
    pub(crate) fn start(folders: Vec<PathBuf>) -> Gateways {
        let start = |folder: PathBuf| {
            let listen = format!("127.0.0.1:{}", toolwire_testkit::lasting_port());
            RunningGateway { process: GatewayProcess::start(&folder, &listen).unwrap(), folder }
        };
        Gateways { running: folders.into_iter().map(start).collect() }
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.running.iter().map(|gateway| gateway.process.address).collect()
    }

    /// Starts a gateway that was killed. It does not start while Redis is unavailable.
    async fn start_again(&mut self, number: usize) {
        let RunningGateway { process, folder } = &mut self.running[number];
        let listen = process.address.to_string();
        let since = Instant::now();
        loop {
            match block_in_place(|| GatewayProcess::start(folder, &listen)) {
                Ok(started) => {
                    *process = started;
                    return;
                }
                Err(problem) => assert!(since.elapsed() < START_TIMEOUT, "{problem}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
