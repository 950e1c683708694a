//! The overhead of the hub, as a Markdown table. Each number is compared with a baseline from the same run.
//!
//! `cargo bench -p toolwire-hub --bench calls`. With `TOOLWIRE_TEST_SERVERS` set, `server-everything` is
//! measured too; with Valgrind installed, instructions are counted. The program runs itself for measurements
//! that need their own process.

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
use support::{NoHost, TestHub, launched, misbehaving};
use tokio::runtime::{Builder, Runtime};
use toolwire_contract::toolbox::{CallOptions, Toolbox};
use toolwire_hub::ServerConfig;
use toolwire_testkit::{InstalledServers, ServerCommand, misbehaving_server, resident_bytes};

/// The same allocator as the command `toolwire`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The number of missed goals. If there are any, the exit code is 1.
static MISSED_GOALS: AtomicUsize = AtomicUsize::new(0);

const ROUNDS: usize = 41;
const CALLS_PER_ROUND: usize = 100;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["hold", ref behaviour @ ..] => {
            hold_hub(behaviour);
            return ExitCode::SUCCESS;
        }
        ["starts"] => {
            Builder::new_multi_thread().enable_all().build().unwrap().block_on(starts());
            return ExitCode::SUCCESS;
        }
        ["count", client, calls] => {
            count(client, calls.parse().unwrap());
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    println!("| case | measured | baseline | ratio | goal | |");
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
    match MISSED_GOALS.load(Ordering::Relaxed) {
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

/// Prints one line of the table. `is_met` is `None` if there is no goal.
fn row(case: &str, measured: String, baseline: String, ratio: String, goal: &str, is_met: Option<bool>) {
    let verdict = match is_met {
        Some(true) => "met",
        Some(false) => {
            MISSED_GOALS.fetch_add(1, Ordering::Relaxed);
            "**missed**"
        }
        None => "",
    };
    println!("| {case} | {measured} | {baseline} | {ratio} | {goal} | {verdict} |");
}

fn ratio(time: Duration, baseline: Duration) -> f64 {
    time.as_secs_f64() / baseline.as_secs_f64()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// A client that uses only the SDK.
struct BareClient {
    service: RunningService<RoleClient, ()>,
    child: tokio::process::Child,
}

impl BareClient {
    async fn start(command: &ServerCommand) -> BareClient {
        let mut child = tokio::process::Command::from(command.to_command())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pipes = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        BareClient { service: ().serve(pipes).await.unwrap(), child }
    }

    async fn echo(&self, arguments: &Map<String, Value>) {
        let params = CallToolRequestParams::new("echo").with_arguments(arguments.clone());
        let result = self.service.call_tool(params).await.unwrap();
        assert_ne!(result.is_error, Some(true));
    }

    async fn stop(self) {
        let BareClient { service, mut child } = self;
        service.cancel().await.unwrap();
        child.wait().await.unwrap();
    }
}

async fn start_hub(command: ServerCommand) -> TestHub {
    let hub = TestHub::start(vec![launched("one", command)], Arc::new(NoHost));
    hub.inner.settled().await;
    hub
}

async fn echo(hub: &TestHub, arguments: &Value) {
    hub.inner.call("echo", arguments, CallOptions::default()).await.unwrap();
}

/// Compares a call through the hub with a call of the SDK, alternately, and with one process per call.
async fn calls(command: ServerCommand, name: &str, arguments: Value, spawns: usize) {
    let is_native = name == "ordinary";
    let fields = arguments.as_object().unwrap().clone();
    let bare = BareClient::start(&command).await;
    let hub = start_hub(command.clone()).await;
    let (mut hub_times, mut bare_times) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for _ in 0..CALLS_PER_ROUND {
            let start = Instant::now();
            echo(&hub, &arguments).await;
            hub_times.push(start.elapsed());
        }
        for _ in 0..CALLS_PER_ROUND {
            let start = Instant::now();
            bare.echo(&fields).await;
            bare_times.push(start.elapsed());
        }
        // The first round is a warm-up.
        if round == 0 {
            hub_times.clear();
            bare_times.clear();
        }
    }
    bare.stop().await;
    hub.close().await;
    let mut spawned = Vec::new();
    for _ in 0..spawns {
        let start = Instant::now();
        let bare = BareClient::start(&command).await;
        bare.echo(&fields).await;
        bare.stop().await;
        spawned.push(start.elapsed());
    }
    let (hub, bare, spawned) = (median(hub_times), median(bare_times), median(spawned));
    let factor = ratio(hub, bare);
    row(
        &format!("a call, p50 ({name}); compared with a bare `rmcp` call"),
        format!("{hub:.1?}"),
        format!("{bare:.1?}"),
        format!("{factor:.2}×"),
        "at most 1.3×",
        Some(factor <= 1.3),
    );
    let factor = ratio(spawned, hub);
    row(
        &format!("a call, p50 ({name}); compared with spawn, initialize, call, close"),
        format!("{hub:.1?}"),
        format!("{spawned:.1?}"),
        format!("{factor:.0}× less"),
        if is_native { "at least 50× less, if starting takes time" } else { "at least 50× less" },
        // A server that starts in a millisecond cannot reach the goal: the bare SDK reaches 14×.
        (!is_native).then_some(factor >= 50.0),
    );
}

/// Compares starting twenty servers with starting the slowest of them.
async fn starts() {
    const RUNS: usize = 7;
    let late =
        |delay: usize| misbehaving(&format!("s{delay}"), &["starts-late", "--delay", &delay.to_string()]);
    let plain = |number: usize| misbehaving(&format!("s{number}"), &["ordinary"]);
    let delays: Vec<usize> = (1..=20).map(|number| number * 50).collect();
    let (mut all, mut alone) = (Vec::new(), Vec::new());
    let (mut all_plain, mut alone_plain) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        all.push(time_until_ready(delays.iter().map(|delay| late(*delay)).collect()).await);
        alone.push(time_until_ready(vec![late(1000)]).await);
        all_plain.push(time_until_ready((0..20).map(plain).collect()).await);
        alone_plain.push(time_until_ready(vec![plain(0)]).await);
    }
    let (all, alone) = (median(all), median(alone));
    row(
        "20 servers that take 50 ms to 1 s to start are ready; compared with the slowest",
        format!("{all:.0?}"),
        format!("{alone:.0?}"),
        format!("{:.2}×", ratio(all, alone)),
        "at most 1.3× + 50 ms",
        Some(all <= alone.mul_f64(1.3) + Duration::from_millis(50)),
    );
    let (all, alone) = (median(all_plain), median(alone_plain));
    row(
        "20 servers that start immediately are ready; compared with one",
        format!("{all:.1?}"),
        format!("{alone:.1?}"),
        format!("{:.2}×", ratio(all, alone)),
        "at most 1.3× + 50 ms",
        Some(all <= alone.mul_f64(1.3) + Duration::from_millis(50)),
    );
}

async fn time_until_ready(servers: Vec<ServerConfig>) -> Duration {
    let count = servers.len();
    let start = Instant::now();
    let hub = TestHub::start(servers, Arc::new(NoHost));
    hub.inner.settled().await;
    let elapsed = start.elapsed();
    assert_eq!(hub.inner.missing_servers().len(), 0, "{count} servers: {:?}", hub.inner.missing_servers());
    hub.close().await;
    elapsed
}

/// Measures the memory of a process with an idle hub.
fn memory() {
    const MAX_BYTES: u64 = 40_000_000;
    let file = corpus(1500);
    let empty = memory_of(&[]);
    let in_megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    for (tools, behaviour) in [
        ("1,500 small tools", &["many-tools"][..]),
        ("1,500 tools of the corpus", &["lists-file", "--file", file.to_str().unwrap()]),
    ] {
        let used = memory_of(behaviour);
        row(
            &format!("idle memory of a process with a hub, {tools}; compared with a hub without servers"),
            in_megabytes(used),
            in_megabytes(empty),
            String::new(),
            "under 40 MB",
            Some(used < MAX_BYTES),
        );
    }
}

fn memory_of(behaviour: &[&str]) -> u64 {
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
    // Long enough for the process to release memory that only the startup needed.
    std::thread::sleep(Duration::from_secs(2));
    let used = resident_bytes(child.id()).unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
    used
}

/// Runs in the process whose memory is measured.
fn hold_hub(behaviour: &[&str]) {
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let servers = if behaviour.is_empty() { Vec::new() } else { vec![misbehaving("many", behaviour)] };
    let expected = if behaviour.is_empty() { 1 } else { 1501 };
    let hub = runtime.block_on(async {
        let hub = TestHub::start(servers, Arc::new(NoHost));
        hub.inner.settled().await;
        hub
    });
    assert_eq!(hub.inner.tools().len(), expected, "{:#?}", hub.inner.status()[0].quarantined);
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    runtime.block_on(hub.close());
}

/// Creates a file with tools of the corpus. The corpus has only their structure, so descriptions of typical
/// length are added.
fn corpus(count: usize) -> PathBuf {
    let file =
        std::fs::File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/shapes.jsonl.gz"));
    let lines = BufReader::new(flate2::read::GzDecoder::new(file.unwrap())).lines();
    let mut names = BTreeSet::new();
    let tools = lines.flat_map(|line| {
        let mut server: Value = serde_json::from_str(&line.unwrap()).unwrap();
        server["tools"].as_array_mut().unwrap().drain(..).collect::<Vec<Value>>()
    });
    let mut tools: Vec<Value> =
        tools.filter(|tool| is_valid(tool) && names.insert(tool["name"].to_string())).take(count).collect();
    for tool in &mut tools {
        tool["description"] = "what it does, when to use it and what it returns. ".repeat(4).into();
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

/// Whether the tool would be offered. The corpus has some invalid tools.
fn is_valid(tool: &Value) -> bool {
    let toolset = toolwire_dialect::Toolset::from_json(
        &tool.to_string(),
        toolwire_dialect::Dialect::OpenAi,
        &toolwire_dialect::Options::default(),
    );
    toolset.is_ok_and(|toolset| {
        toolset.reports().iter().all(|report| report.status != toolwire_dialect::Status::Refused)
    })
}

/// Counts the instructions per call, as the difference between many calls and few. A busy machine does not
/// affect the count.
fn instructions() {
    let count = |client: &str, calls: usize| -> Option<u64> {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(std::env::current_exe().unwrap())
            .args(["count", client, &calls.to_string()])
            .output()
            .ok()?;
        let report = String::from_utf8_lossy(&output.stderr).into_owned();
        report.rsplit("Collected : ").next()?.split_whitespace().next()?.parse().ok()
    };
    let per_call = |client: &str| Some((count(client, 600)? - count(client, 100)?) / 500);
    let (Some(hub), Some(bare)) = (per_call("hub"), per_call("bare")) else { return };
    row(
        "instructions per call; compared with a bare `rmcp` call",
        hub.to_string(),
        bare.to_string(),
        format!("{:.2}×", hub as f64 / bare as f64),
        "",
        None,
    );
}

/// Runs in the process whose instructions are counted, with one thread, so that no thread waits for another.
fn count(client: &str, calls: usize) {
    let runtime: Runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let arguments = json!({"text": "hello"});
    runtime.block_on(async {
        if client == "hub" {
            let hub = start_hub(ordinary()).await;
            for _ in 0..calls {
                echo(&hub, &arguments).await;
            }
            hub.close().await;
        } else {
            let bare = BareClient::start(&ordinary()).await;
            for _ in 0..calls {
                bare.echo(arguments.as_object().unwrap()).await;
            }
            bare.stop().await;
        }
    });
}
