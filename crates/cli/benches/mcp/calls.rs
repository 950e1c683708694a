//! A call through a gateway, compared with the same call of the server.

use std::error::Error;
use std::time::Duration;

use toolwire_testkit::{InstalledServers, RunningServer};

use crate::client::Client;
use crate::figures::{median, middle, milliseconds};
use crate::instructions::Counter;
use crate::load::{self, Request};
use crate::process::{Gateway, cpu_time_of};
use crate::{REVISIONS, address, agentgateway, config, echo};

const ROUNDS: usize = 15;
const CALLS: usize = 300;
/// The number of calls whose instructions are counted.
const COUNTED_CALLS: usize = 2_000;

/// How calls reach the server.
struct Way {
    name: &'static str,
    call: Request,
    /// The process between the client and the server.
    proxy: Option<u32>,
}

/// The measurements of a round.
struct Round {
    p50: Duration,
    server: Duration,
    proxy: Duration,
}

impl Round {
    fn cpu(&self) -> Duration {
        self.server + self.proxy
    }
}

pub(crate) async fn print_echo() -> Result<(), Box<dyn Error>> {
    print_server("echo server of the toolkit", &echo::start()?, &REVISIONS).await
}

/// Prints the calls of `server-everything`, which only has the older revision.
pub(crate) async fn print_everything() -> Result<(), Box<dyn Error>> {
    if std::env::var_os("TOOLWIRE_TEST_SERVERS").is_none() {
        return Ok(());
    }
    let server = InstalledServers::find().everything_over_http();
    print_server("`server-everything`", &server, &REVISIONS[..1]).await
}

async fn print_server(name: &str, server: &RunningServer, revisions: &[&str]) -> Result<(), Box<dyn Error>> {
    println!(
        "| {name}, one call at a time | p50 | ratio | CPU time: server | proxy | ratio | instructions: server | proxy | ratio |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|"
    );
    let gateway = Gateway::start(&config(server))?;
    let other = agentgateway::start(server)?;
    for &revision in revisions {
        let call = Client::new(address(server)?, revision).call().await?;
        let mut ways = vec![Way { name: "direct", call, proxy: None }];
        let call = Client::new(gateway.address, revision).call().await?;
        ways.push(Way { name: "Toolwire", call, proxy: Some(gateway.process()) });
        // agentgateway may not support the revision.
        if let Some(other) = &other
            && let Ok(call) = Client::new(address(other)?, revision).call().await
            && load::latencies(&call, 1).await.is_ok()
        {
            ways.push(Way { name: "agentgateway", call, proxy: Some(other.pid()) });
        }
        print_ways(revision, server.pid(), &ways).await?;
    }
    println!();
    Ok(())
}

async fn print_ways(revision: &str, server: u32, ways: &[Way]) -> Result<(), Box<dyn Error>> {
    let mut rounds = Vec::new();
    // The first round only warms up.
    for number in 0..=ROUNDS {
        let mut round = Vec::new();
        for way in ways {
            round.push(measure(way, server).await?);
        }
        if number > 0 {
            rounds.push(round);
        }
    }
    let mut direct_instructions = None;
    for (number, way) in ways.iter().enumerate() {
        let each = |of: fn(&Round) -> f64| median(rounds.iter().map(|round| of(&round[number])));
        let relative = |of: fn(&Round) -> Duration| {
            median(rounds.iter().map(|round| of(&round[number]).as_secs_f64() / of(&round[0]).as_secs_f64()))
        };
        let counted = instructions(way, server).await?;
        let direct = *direct_instructions.get_or_insert(counted);
        let thousands =
            |count: Option<f64>| count.map_or("–".to_owned(), |count| format!("{:.0} k", count / 1e3));
        let ratio = counted.zip(direct).map(|(counted, direct)| counted.total() / direct.total());
        println!(
            "| {revision}, {} | {:.3} ms | {:.2}× | {:.3} ms | {:.3} ms | {:.2}× | {} | {} | {} |",
            way.name,
            each(|round| milliseconds(round.p50)),
            relative(|round| round.p50),
            each(|round| milliseconds(round.server) / CALLS as f64),
            each(|round| milliseconds(round.proxy) / CALLS as f64),
            relative(Round::cpu),
            thousands(counted.map(|counted| counted.server)),
            thousands(counted.map(|counted| counted.proxy)),
            ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}×")),
        );
    }
    Ok(())
}

async fn measure(way: &Way, server: u32) -> Result<Round, Box<dyn Error>> {
    let of_proxy = || way.proxy.map_or(Ok(Duration::ZERO), cpu_time_of);
    let (server_before, proxy_before) = (cpu_time_of(server)?, of_proxy()?);
    let times = load::latencies(&way.call, CALLS).await?;
    Ok(Round {
        p50: middle(&times),
        server: cpu_time_of(server)?.saturating_sub(server_before),
        proxy: of_proxy()?.saturating_sub(proxy_before),
    })
}

/// The instructions of one call.
#[derive(Clone, Copy)]
struct Counted {
    server: f64,
    proxy: f64,
}

impl Counted {
    fn total(self) -> f64 {
        self.server + self.proxy
    }
}

async fn instructions(way: &Way, server: u32) -> Result<Option<Counted>, Box<dyn Error>> {
    let Some(of_server) = Counter::start(server).await else { return Ok(None) };
    let of_proxy = match way.proxy {
        Some(proxy) => Counter::start(proxy).await,
        None => None,
    };
    load::latencies(&way.call, COUNTED_CALLS).await?;
    let server = of_server.stop();
    let proxy = of_proxy.map_or(Some(0.0), Counter::stop);
    let per_call = |count: f64| count / COUNTED_CALLS as f64;
    Ok(server
        .zip(proxy)
        .filter(|(server, _)| *server > 0.0)
        .map(|(server, proxy)| Counted { server: per_call(server), proxy: per_call(proxy) }))
}
