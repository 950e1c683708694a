//! What the hub costs, each figure beside its baseline in the same run, as a table in Markdown.
//!
//! `cargo bench -p toolwire-hub --bench calls`. With `TOOLWIRE_TEST_SERVERS` set, `server-everything` is measured too; with
//! Valgrind installed, instructions are counted. The program starts itself for what needs a process of its own.

#![allow(clippy::unwrap_used)]

#[path = "../tests/hub/support.rs"]
mod support;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rmcp::model::CallToolRequestParams;
use rmcp::service::RunningService;
use rmcp::{RoleClient, ServiceExt};
use serde_json::{Map, Value, json};
use support::{Around, launched, misbehaving};
use tokio::runtime::{Builder, Runtime};
use toolwire_contract::{CallOptions, Toolbox};
use toolwire_hub::{NoHost, ServerConfig};
use toolwire_testkit::{InstalledServers, ServerCommand, misbehaving_server, resident_bytes};

/// As the command `toolwire` allocates.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How many goals were missed: the exit code is 1 then.
static MISSED: AtomicUsize = AtomicUsize::new(0);

const TURNS: usize = 41;
const CALLS: usize = 100;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["hold", ref behaviour @ ..] => {
            hold(behaviour);
            return ExitCode::SUCCESS;
        }
        ["starts"] => {
            Builder::new_multi_thread().enable_all().build().unwrap().block_on(starts());
            return ExitCode::SUCCESS;
        }
        ["count", who, calls] => {
            count(who, calls.parse().unwrap());
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    println!("| what | measured | beside it | ratio | goal | |");
    println!("|---|--:|--:|--:|--:|---|");
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(calls(ordinary(), "ordinary", json!({"text": "hello"}), 200));
    if std::env::var_os("TOOLWIRE_TEST_SERVERS").is_some() {
        let everything = InstalledServers::find().everything();
        runtime.block_on(calls(everything, "`server-everything`", json!({"message": "hello"}), 5));
    }
    runtime.block_on(starts());
    memory();
    instructions();
    match MISSED.load(Ordering::Relaxed) {
        0 => ExitCode::SUCCESS,
        missed => {
            println!("\n{missed} goals missed");
            ExitCode::FAILURE
        }
    }
}

fn ordinary() -> ServerCommand {
    ServerCommand { command: misbehaving_server().display().to_string(), args: Vec::new() }
}

/// One line of the table. `holds` says whether the goal is met, where there is one.
fn row(what: &str, measured: String, beside: String, ratio: String, goal: &str, holds: Option<bool>) {
    let verdict = match holds {
        Some(true) => "met",
        Some(false) => {
            MISSED.fetch_add(1, Ordering::Relaxed);
            "**missed**"
        }
        None => "",
    };
    println!("| {what} | {measured} | {beside} | {ratio} | {goal} | {verdict} |");
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// A client of the SDK and nothing else.
struct Bare {
    service: RunningService<RoleClient, ()>,
    child: tokio::process::Child,
}

impl Bare {
    async fn start(launch: &ServerCommand) -> Bare {
        let mut child = tokio::process::Command::from(launch.to_command())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        Bare { service: ().serve(pipes).await.unwrap(), child }
    }

    async fn echo(&self, arguments: &Map<String, Value>) {
        let params = CallToolRequestParams::new("echo").with_arguments(arguments.clone());
        let result = self.service.call_tool(params).await.unwrap();
        assert_ne!(result.is_error, Some(true));
    }

    async fn stop(self) {
        let Bare { service, mut child } = self;
        service.cancel().await.unwrap();
        child.wait().await.unwrap();
    }
}

async fn hub_with(launch: ServerCommand) -> Around {
    let around = Around::start(vec![launched("one", launch)], Arc::new(NoHost));
    around.hub.settled().await;
    around
}

async fn echo(around: &Around, arguments: &Value) {
    around.hub.call("echo", arguments, CallOptions::default()).await.unwrap();
}

/// A call through the hub, beside one of the SDK on a session of its own, in turns; and beside a process for each call.
async fn calls(launch: ServerCommand, name: &str, arguments: Value, spawns: usize) {
    let is_native = name == "ordinary";
    let fields = arguments.as_object().unwrap().clone();
    let bare = Bare::start(&launch).await;
    let around = hub_with(launch.clone()).await;
    let (mut hub_times, mut bare_times) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        for _ in 0..CALLS {
            let start = Instant::now();
            echo(&around, &arguments).await;
            hub_times.push(start.elapsed());
        }
        for _ in 0..CALLS {
            let start = Instant::now();
            bare.echo(&fields).await;
            bare_times.push(start.elapsed());
        }
        // The first turn is for warming up.
        if turn == 0 {
            hub_times.clear();
            bare_times.clear();
        }
    }
    bare.stop().await;
    around.close().await;
    let mut spawned = Vec::new();
    for _ in 0..spawns {
        let start = Instant::now();
        let bare = Bare::start(&launch).await;
        bare.echo(&fields).await;
        bare.stop().await;
        spawned.push(start.elapsed());
    }
    let (hub, bare, spawned) = (median(hub_times), median(bare_times), median(spawned));
    let factor = ratio(hub, bare);
    row(
        &format!("a call, p50 ({name}); beside a bare `rmcp` call"),
        format!("{hub:.1?}"),
        format!("{bare:.1?}"),
        format!("{factor:.2}×"),
        "at most 1.3×",
        Some(factor <= 1.3),
    );
    let factor = ratio(spawned, hub);
    row(
        &format!("a call, p50 ({name}); beside spawn, initialise, call, close"),
        format!("{hub:.1?}"),
        format!("{spawned:.1?}"),
        format!("{factor:.0}× less"),
        if is_native { "at least 50× less, where starting takes time" } else { "at least 50× less" },
        // A server that starts in a millisecond leaves no room for it: the bare SDK has 14×.
        (!is_native).then_some(factor >= 50.0),
    );
}

/// Twenty servers, beside the slowest of them alone.
async fn starts() {
    const RUNS: usize = 7;
    let late =
        |delay: usize| misbehaving(&format!("s{delay}"), &["starts-late", "--delay", &delay.to_string()]);
    let plain = |number: usize| misbehaving(&format!("s{number}"), &["ordinary"]);
    let delays: Vec<usize> = (1..=20).map(|number| number * 50).collect();
    let (mut all, mut alone) = (Vec::new(), Vec::new());
    let (mut all_plain, mut alone_plain) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        all.push(ready(delays.iter().map(|delay| late(*delay)).collect()).await);
        alone.push(ready(vec![late(1000)]).await);
        all_plain.push(ready((0..20).map(plain).collect()).await);
        alone_plain.push(ready(vec![plain(0)]).await);
    }
    let (all, alone) = (median(all), median(alone));
    row(
        "20 servers ready that take 50 ms to 1 s to start; beside the slowest alone",
        format!("{all:.0?}"),
        format!("{alone:.0?}"),
        format!("{:.2}×", ratio(all, alone)),
        "at most 1.3× + 50 ms",
        Some(all <= alone.mul_f64(1.3) + Duration::from_millis(50)),
    );
    let (all, alone) = (median(all_plain), median(alone_plain));
    row(
        "20 servers ready that start at once; beside one",
        format!("{all:.1?}"),
        format!("{alone:.1?}"),
        format!("{:.2}×", ratio(all, alone)),
        "at most 1.3× + 50 ms",
        Some(all <= alone.mul_f64(1.3) + Duration::from_millis(50)),
    );
}

async fn ready(servers: Vec<ServerConfig>) -> Duration {
    let count = servers.len();
    let start = Instant::now();
    let around = Around::start(servers, Arc::new(NoHost));
    around.hub.settled().await;
    let taken = start.elapsed();
    assert_eq!(around.hub.missing_servers().len(), 0, "{count} servers: {:?}", around.hub.missing_servers());
    around.close().await;
    taken
}

/// What a process holds that has a hub and nothing to do.
fn memory() {
    const GOAL: u64 = 40_000_000;
    let file = corpus(1500);
    let empty = held_by(&[]);
    let in_megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    for (what, behaviour) in [
        ("1,500 small tools", &["many-tools"][..]),
        ("1,500 tools of the corpus", &["lists-file", "--file", file.to_str().unwrap()]),
    ] {
        let held = held_by(behaviour);
        row(
            &format!("idle memory of a process with a hub, {what}; beside a hub without servers"),
            in_megabytes(held),
            in_megabytes(empty),
            String::new(),
            "under 40 MB",
            Some(held < GOAL),
        );
    }
}

fn held_by(behaviour: &[&str]) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("hold")
        .args(behaviour)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    // Long enough for what was needed only to start.
    std::thread::sleep(Duration::from_secs(2));
    let held = resident_bytes(child.id()).unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
    held
}

/// The process that is looked at.
fn hold(behaviour: &[&str]) {
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let servers = if behaviour.is_empty() { Vec::new() } else { vec![misbehaving("many", behaviour)] };
    let expected = if behaviour.is_empty() { 1 } else { 1501 };
    let around = runtime.block_on(async {
        let around = Around::start(servers, Arc::new(NoHost));
        around.hub.settled().await;
        around
    });
    assert_eq!(around.hub.tools().len(), expected, "{:#?}", around.hub.status()[0].quarantined);
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    runtime.block_on(around.close());
}

/// A file with this many tools of the committed corpus, which has their shapes; texts of a usual length stand where theirs
/// were.
fn corpus(count: usize) -> PathBuf {
    let packed =
        std::fs::File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/shapes.jsonl.gz"));
    let lines = BufReader::new(flate2::read::GzDecoder::new(packed.unwrap())).lines();
    let mut names = BTreeSet::new();
    let tools = lines.flat_map(|line| {
        let mut server: Value = serde_json::from_str(&line.unwrap()).unwrap();
        server["tools"].as_array_mut().unwrap().drain(..).collect::<Vec<Value>>()
    });
    let mut tools: Vec<Value> =
        tools.filter(|tool| is_whole(tool) && names.insert(tool["name"].to_string())).take(count).collect();
    for tool in &mut tools {
        tool["description"] = "what it does, when to use it and what it gives back. ".repeat(4).into();
        for property in
            tool["inputSchema"]["properties"].as_object_mut().into_iter().flat_map(Map::values_mut)
        {
            if let Value::Object(schema) = property {
                schema.insert("description".into(), "what this argument is for, with an example".into());
            }
        }
    }
    assert_eq!(tools.len(), count);
    let file = support::scratch().join("tools.json");
    std::fs::write(&file, serde_json::to_vec(&tools).unwrap()).unwrap();
    file
}

/// Whether the tool would be offered: the corpus has some that nobody can call.
fn is_whole(tool: &Value) -> bool {
    let set = toolwire_dialect::Toolset::from_json(
        &tool.to_string(),
        toolwire_dialect::Dialect::OpenAi,
        &toolwire_dialect::Options::default(),
    );
    set.is_ok_and(|set| set.reports().iter().all(|report| report.status != toolwire_dialect::Status::Refused))
}

/// Instructions of a call, counted where a busy machine changes nothing: the difference between many calls and few.
fn instructions() {
    let of_calls = |who: &str, calls: usize| -> Option<u64> {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(std::env::current_exe().unwrap())
            .args(["count", who, &calls.to_string()])
            .output()
            .ok()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        said.rsplit("Collected : ").next()?.split_whitespace().next()?.parse().ok()
    };
    let a_call = |who: &str| Some((of_calls(who, 600)? - of_calls(who, 100)?) / 500);
    let (Some(hub), Some(bare)) = (a_call("hub"), a_call("bare")) else { return };
    row(
        "instructions a call; beside a bare `rmcp` call",
        hub.to_string(),
        bare.to_string(),
        format!("{:.2}×", hub as f64 / bare as f64),
        "",
        None,
    );
}

/// The process whose instructions are counted: one thread, so that none waits for another.
fn count(who: &str, calls: usize) {
    let runtime: Runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let arguments = json!({"text": "hello"});
    runtime.block_on(async {
        if who == "hub" {
            let around = hub_with(ordinary()).await;
            for _ in 0..calls {
                echo(&around, &arguments).await;
            }
            around.close().await;
        } else {
            let bare = Bare::start(&ordinary()).await;
            for _ in 0..calls {
                bare.echo(arguments.as_object().unwrap()).await;
            }
            bare.stop().await;
        }
    });
}
