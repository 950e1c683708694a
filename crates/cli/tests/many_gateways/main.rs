//! Three gateways behind HAProxy, with a Redis Cluster of three shards, while gateways are killed, nodes of
//! Redis restarted and failed over, and HAProxy reloaded.
//!
//! Clients send requests of all kinds. In the end, the test checks that everything that was acknowledged
//! exists, that no effect has happened twice, and that each client has got a right response or a clean error.
//! The number of requests is `TOOLWIRE_REQUESTS`; `TOOLWIRE_SEED` repeats the random choices of a run.

#![allow(clippy::unwrap_used)]

mod client;
mod disturbances;
mod effects;
#[path = "../gateway_process/mod.rs"]
mod gateway_process;
mod ledger;
mod model;
mod random;
mod verification;
mod works;
mod world;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;

/// The number of clients that send requests at the same time.
const CLIENTS: usize = 8;

/// The number of requests without `TOOLWIRE_REQUESTS`.
const REQUESTS: usize = 300;

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("`{name}` must be a number, not `{value}`")))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_and_no_effect_happens_twice() {
    let planned = variable("TOOLWIRE_REQUESTS").map_or(REQUESTS, |number| number as usize);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = variable("TOOLWIRE_SEED").unwrap_or(time);
    println!("TOOLWIRE_SEED={seed}");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("many-gateways");
    let (world, servers) = world::start(&folder, planned).await;
    let world = Arc::new(world);
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(works::work(world.clone(), seed.wrapping_add(number as u64)));
    }
    let world::Servers { providers, effects, mut redis, mut gateways, mut proxy } = servers;
    let of_gateways = {
        let world = world.clone();
        let seed = seed.wrapping_add(1_000);
        tokio::spawn(async move {
            world.disturbances.disturb_gateways(&mut gateways, &mut proxy, seed).await;
            (gateways, proxy)
        })
    };
    let of_redis = {
        let world = world.clone();
        let seed = seed.wrapping_add(2_000);
        tokio::spawn(async move {
            world.disturbances.disturb_redis(&mut redis, seed).await;
            redis
        })
    };
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    world.disturbances.stop();
    let _servers = (of_gateways.await.unwrap(), of_redis.await.unwrap());
    let seconds = world.start.elapsed().as_secs();
    let counts = verification::verify(&world, &effects).await;
    println!("{} requests in {seconds} s; {:?}", world.sent(), world.disturbances.counts());
    let ledger = world.ledger();
    println!("{:#?}\n{:#?}\n{counts}", ledger.outcomes, ledger.works);
    for provider in &providers {
        assert_eq!(provider.rejections(), []);
    }
    assert!(world.disturbances.are_complete(), "{:?}", world.disturbances.counts());
    assert_eq!(works::missing(&ledger), Vec::<&str>::new(), "never happened");
    let violations = ledger.violations.join("\n- ");
    assert_eq!(ledger.violation_count, 0, "TOOLWIRE_SEED={seed}\n- {violations}");
}
