//! The cost of the store: each call of a key with a limit is counted.

use std::error::Error;

use serde_json::{Value, json};
use toolwire_testkit::{RedisServer, RunningServer};

use crate::client::Client;
use crate::figures::{median, middle, milliseconds};
use crate::load::{self, Request};
use crate::process::{Gateway, Start};
use crate::{REVISIONS, config, echo};

const ROUNDS: usize = 15;
const CALLS: usize = 300;
pub(crate) const KEY: &str = "a-key-for-the-benchmark";

struct Place {
    name: &'static str,
    gateway: Gateway,
    call: Request,
}

pub(crate) async fn print() -> Result<(), Box<dyn Error>> {
    let (server, redis) = (echo::start()?, RedisServer::start());
    let mut places = Vec::new();
    for (name, store, is_counted, is_without_data) in [
        ("key without limits", None, false, true),
        ("counted in memory", None, true, true),
        ("counted in SQLite", None, true, false),
        ("counted in Redis", Some(redis.url()), true, false),
    ] {
        let config = config_with_key(&server, store.as_deref(), is_counted);
        let start = Start { name, is_without_data, ..Start::default() };
        let gateway = Gateway::start_as(&config, &start)?;
        let client = Client { key: Some(KEY), ..Client::new(gateway.address, REVISIONS[1]) };
        let call = client.call().await?;
        places.push(Place { name, gateway, call });
    }
    let mut rounds = Vec::new();
    // The first round only warms up.
    for number in 0..=ROUNDS {
        let mut round = Vec::new();
        for place in &places {
            let before = place.gateway.cpu_time()?;
            let p50 = middle(&load::latencies(&place.call, CALLS).await?);
            let cpu = place.gateway.cpu_time()?.saturating_sub(before);
            round.push((milliseconds(p50), milliseconds(cpu) / CALLS as f64));
        }
        if number > 0 {
            rounds.push(round);
        }
    }
    println!(
        "| one call at a time, {} | p50 | added to a key without limits | CPU time of the gateway | added |\n\
         |---|--:|--:|--:|--:|",
        REVISIONS[1]
    );
    for (number, place) in places.iter().enumerate() {
        let each = |of: fn(&(f64, f64)) -> f64| median(rounds.iter().map(|round| of(&round[number])));
        let added = |of: fn(&(f64, f64)) -> f64| {
            median(rounds.iter().map(|round| of(&round[number]) - of(&round[0])))
        };
        println!(
            "| {} | {:.3} ms | {:.3} ms | {:.3} ms | {:.3} ms |",
            place.name,
            each(|round| round.0),
            added(|round| round.0),
            each(|round| round.1),
            added(|round| round.1),
        );
    }
    println!();
    Ok(())
}

/// Returns the configuration of a gateway with one key. If it has a limit, each of its calls is counted.
pub(crate) fn config_with_key(server: &RunningServer, store: Option<&str>, is_counted: bool) -> Value {
    let mut config = config(server);
    let mut key = json!({"key": KEY});
    if is_counted {
        // More than the benchmark can reach.
        key["requestsPerMinute"] = json!(1_000_000_000);
    }
    // Every gateway with this key can continue the sessions of the others.
    let session_key = "0123456789abcdef0123456789abcdef";
    config["toolwire"]["gateway"] = json!({"keys": {"bench": key}, "sessionKey": session_key});
    if let Some(store) = store {
        config["toolwire"]["store"] = store.into();
    }
    config
}
