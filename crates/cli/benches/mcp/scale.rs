//! One, two and three gateways with one Redis. All gateways share one processor; the load, the server and
//! Redis use another one. So either the processor of the gateways is the limit, or their CPU time per call
//! shows what each additional gateway costs.

use std::error::Error;
use std::process::Command;

use futures::future::try_join_all;
use toolwire_testkit::RedisServer;

use crate::client::Client;
use crate::figures::{median, milliseconds};
use crate::load::{self, Request};
use crate::process::{Gateway, Start, cpu_time_of};
use crate::store::{KEY, config_with_key};
use crate::{REVISIONS, echo};

const ROUNDS: usize = 5;
const CALLS: usize = 2_400;
const CONNECTIONS: usize = 24;
const GATEWAYS: usize = 3;

/// The processor of the gateways, and the one of everything else.
const OF_GATEWAYS: &str = "0";
const OF_OTHERS: &str = "1";

/// The measurements of a round.
struct Round {
    per_second: f64,
    /// The calls for each second of CPU time of the gateways.
    per_cpu_second: f64,
    gateways: f64,
    redis: f64,
}

pub(crate) async fn print() -> Result<(), Box<dyn Error>> {
    if std::thread::available_parallelism()?.get() < 2 {
        println!("`scale` requires two processors");
        return Ok(());
    }
    let this = std::process::id().to_string();
    let pinned = Command::new("taskset").args(["-a", "-c", "-p", OF_OTHERS, &this]).output()?;
    if !pinned.status.success() {
        return Err(String::from_utf8_lossy(&pinned.stderr).into());
    }
    // The server and Redis inherit the processor of this process.
    let (server, redis) = (echo::start()?, RedisServer::start());
    let redis_process = process_of(&redis)?;
    let config = config_with_key(&server, Some(&redis.url()), true);
    let start = Start { name: "scale", processors: Some(OF_GATEWAYS), ..Start::default() };
    let gateways: Vec<Gateway> =
        (0..GATEWAYS).map(|_| Gateway::start_as(&config, &start)).collect::<Result<_, _>>()?;
    let client = |gateway: &Gateway| Client { key: Some(KEY), ..Client::new(gateway.address, REVISIONS[1]) };
    // This revision has no sessions, so concurrent calls may have the same id.
    let mut calls: Vec<Request> = Vec::new();
    for gateway in &gateways {
        calls.push(client(gateway).call().await?);
    }
    let mut rounds = Vec::new();
    // The first round only warms up.
    for number in 0..=ROUNDS {
        let mut round = Vec::new();
        for count in 1..=GATEWAYS {
            round.push(measure(&gateways[..count], &calls[..count], redis_process).await?);
        }
        if number > 0 {
            rounds.push(round);
        }
    }
    println!(
        "| {} calls at a time, {} | calls/s | CPU time of the gateways per call | calls per second of CPU time | relative to one | CPU time of Redis per call |\n\
         |---|--:|--:|--:|--:|--:|",
        CONNECTIONS, REVISIONS[1]
    );
    for count in 0..GATEWAYS {
        let each = |of: fn(&Round) -> f64| median(rounds.iter().map(|round| of(&round[count])));
        let relative =
            median(rounds.iter().map(|round| round[count].per_cpu_second / round[0].per_cpu_second));
        println!(
            "| {} | {:.0} | {:.3} ms | {:.0} | {:.1} % | {:.4} ms |",
            if count == 0 { "1 gateway".to_owned() } else { format!("{} gateways", count + 1) },
            each(|round| round.per_second),
            each(|round| round.gateways),
            each(|round| round.per_cpu_second),
            relative * 100.0,
            each(|round| round.redis),
        );
    }
    Ok(())
}

async fn measure(gateways: &[Gateway], calls: &[Request], redis: u32) -> Result<Round, Box<dyn Error>> {
    let cpu_time = || -> Result<f64, Box<dyn Error>> {
        gateways.iter().map(|gateway| Ok(milliseconds(gateway.cpu_time()?))).sum()
    };
    let (before, redis_before) = (cpu_time()?, milliseconds(cpu_time_of(redis)?));
    let (connections, each) = (CONNECTIONS / gateways.len(), CALLS / gateways.len());
    let loads = try_join_all(calls.iter().map(|call| load::run(call, connections, each))).await?;
    let used = cpu_time()? - before;
    let made = loads.iter().map(|load| load.requests).sum::<usize>() as f64;
    let elapsed = loads.iter().map(|load| load.elapsed.as_secs_f64()).fold(0.0, f64::max);
    Ok(Round {
        per_second: made / elapsed,
        per_cpu_second: made / used * 1000.0,
        gateways: used / made,
        redis: (milliseconds(cpu_time_of(redis)?) - redis_before) / made,
    })
}

fn process_of(redis: &RedisServer) -> Result<u32, Box<dyn Error>> {
    let information = redis.command(&["INFO", "server"]);
    let line = information.lines().find_map(|line| line.strip_prefix("process_id:"));
    Ok(line.ok_or("no process")?.trim().parse()?)
}
