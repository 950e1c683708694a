//! Twenty servers, ten thousand calls, and servers that are killed during calls. There must be no wrong
//! result, no lost result, no leak, and no repeated effect of a tool that is not repeatable: each server
//! records its effects before it responds.
//!
//! `cargo bench -p toolwire-hub --bench soak`, with `-- --seed N --calls N` for another run. The seed
//! determines the order of calls and kills, but not their timing. The exit code is 1 if there is a violation.

#![allow(clippy::unwrap_used)]

#[path = "../tests/hub/support.rs"]
mod support;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use support::{NoHost, TestHub, listening, misbehaving, with_variable};
use toolwire_contract::toolbox::CallError;
use toolwire_hub::config::HttpKind;
use toolwire_hub::{Phase, ServerConfig};
use toolwire_testkit::{
    RunningServer, misbehaving_server, open_file_count, processes_with_variable, resident_bytes,
};

/// The behaviours of the server processes. Those without hints respond slowly, so that they are killed during
/// calls, and these calls must not be retried.
const STDIO_BEHAVIOURS: [&[&str]; 16] = [
    &["ordinary"],
    &["ordinary"],
    &["ordinary"],
    &["ordinary"],
    &["unhinted", "--delay", "20"],
    &["unhinted", "--delay", "20"],
    &["unhinted", "--delay", "20"],
    &["unhinted", "--delay", "20"],
    &["garbage"],
    &["garbage"],
    &["duplicate-ids"],
    &["duplicate-ids"],
    &["floods-notifications", "--count", "50"],
    &["writes-stderr", "--count", "20"],
    &["forks-a-child"],
    &["ignores-sigterm"],
];
const HTTP_BEHAVIOURS: [&str; 4] = ["ordinary", "unhinted", "streams", "sse"];

const CALLERS: usize = 8;
const ROUNDS: usize = 10;
const KILLS_PER_ROUND: usize = 6;
/// The hub does not restart a server for a minute if it dies five times within two minutes. Another test
/// covers that.
const MAX_KILLS_PER_SERVER: usize = 4;

/// The time after a kill in which calls may fail because of it: the longest pause before a restart, and the
/// restart.
const MAX_RECOVERY_TIME: Duration = Duration::from_secs(20);
/// The time after which a result counts as lost. It is longer than the timeout of a call, which the hub must
/// enforce.
const RESULT_TIMEOUT: Duration = Duration::from_secs(90);
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The allowed growth of resources after the first round.
const MAX_MEMORY_GROWTH_BYTES: u64 = 16 << 20;
/// The number of pooled connections depends on the load: one per caller and remote server.
const MAX_FILE_GROWTH: usize = CALLERS * HTTP_BEHAVIOURS.len();
const MAX_TASK_GROWTH: usize = 2 * CALLERS * HTTP_BEHAVIOURS.len();

/// The key of correct results in the tally; the other keys are error codes.
const CORRECT: &str = "correct";

/// The variable that identifies the processes of one server.
const MARK: &str = "TOOLWIRE_SOAK";

fn main() -> ExitCode {
    let (seed, calls) = (option("--seed", 20_261), option("--calls", 10_000) as usize);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let violations = runtime.block_on(soak(seed, calls));
    for violation in violations.iter().take(20) {
        println!("violation: {violation}");
    }
    match violations.len() {
        0 => ExitCode::SUCCESS,
        count => {
            println!("{count} violations (seed {seed})");
            ExitCode::FAILURE
        }
    }
}

fn option(name: &str, default: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments
        .nth(1)
        .map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("`{name}` needs a number")))
}

/// Pseudorandom numbers from a seed.
struct SeededNumbers(u64);

impl SeededNumbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// The servers, and a record of the calls and kills.
struct SoakTest {
    hub: TestHub,
    names: Vec<String>,
    http: Mutex<Vec<RunningServer>>,
    kills: Mutex<Vec<(usize, Instant)>>,
    tally: Mutex<BTreeMap<&'static str, usize>>,
    /// The calls to each server, and whether they returned a result.
    calls: Mutex<Vec<(usize, String, bool)>>,
    effects: PathBuf,
    violations: Mutex<Vec<String>>,
}

async fn soak(seed: u64, calls: usize) -> Vec<String> {
    let before = Resources::now();
    let effects = support::scratch().join("effects");
    let (servers, http) = servers(&effects);
    let names: Vec<String> = servers.iter().map(|server| server.name.to_string()).collect();
    let started = Instant::now();
    let hub = TestHub::start(servers, Arc::new(NoHost));
    hub.inner.settled().await;
    println!(
        "{} servers, {calls} calls from {CALLERS} callers, seed {seed}; ready in {:.1?}\n",
        names.len(),
        started.elapsed()
    );
    println!("| calls | results | failed by a kill | kills | resident MB | open files | tasks |");
    println!("|--:|--:|--:|--:|--:|--:|--:|");
    let test = Arc::new(SoakTest {
        hub,
        names,
        http: Mutex::new(http),
        kills: Mutex::default(),
        tally: Mutex::default(),
        calls: Mutex::default(),
        effects,
        violations: Mutex::default(),
    });
    let mut numbers = SeededNumbers(seed);
    let mut first = None;
    let mut last = Resources::now();
    for round in 0..ROUNDS {
        test.clone().round(calls / ROUNDS, round, &mut numbers).await;
        test.wait_until_ready().await;
        last = Resources::now();
        test.print(&last);
        first.get_or_insert(last);
    }
    let tally = test.tally.lock().unwrap().clone();
    let outcomes: usize = tally.values().sum();
    let first = first.unwrap();
    test.expect(outcomes == calls / ROUNDS * ROUNDS, format!("{outcomes} outcomes of {calls} calls"));
    test.expect(
        last.memory_bytes <= first.memory_bytes + MAX_MEMORY_GROWTH_BYTES,
        format!("memory grew from {} to {} bytes", first.memory_bytes, last.memory_bytes),
    );
    test.expect(
        last.files <= first.files + MAX_FILE_GROWTH,
        format!("open files grew from {} to {}", first.files, last.files),
    );
    test.expect(
        last.tasks <= first.tasks + MAX_TASK_GROWTH,
        format!("tasks grew from {} to {}", first.tasks, last.tasks),
    );
    println!("\noutcomes: {tally:?}; {:.1?} in total", started.elapsed());
    test.compare_effects();
    let test = Arc::into_inner(test).expect("all callers are done");
    // This also checks for remaining processes.
    test.hub.close().await;
    drop(test.http);
    let mut violations = test.violations.into_inner().unwrap();
    if let Err(now) = before.wait_until_reached().await {
        violations.push(format!("resources leaked: {now:?}, before {before:?}"));
    }
    for index in 0..test.names.len() {
        let remaining = processes_with_variable(MARK, &mark(index));
        if !remaining.is_empty() {
            violations.push(format!("processes of `{}` remain: {remaining:?}", test.names[index]));
        }
    }
    violations
}

fn servers(effects: &Path) -> (Vec<ServerConfig>, Vec<RunningServer>) {
    let stdio = STDIO_BEHAVIOURS.iter().enumerate().map(|(index, behaviour)| {
        let arguments = [behaviour, &["--effects", effects.to_str().unwrap()][..]].concat();
        with_variable(misbehaving(&format!("s{index:02}"), &arguments), MARK, &mark(index))
    });
    let running: Vec<RunningServer> =
        HTTP_BEHAVIOURS.iter().map(|behaviour| listen(behaviour, 0, effects)).collect();
    let http = running.iter().zip(HTTP_BEHAVIOURS).enumerate().map(|(index, (server, behaviour))| {
        let (path, kind) = match behaviour {
            "sse" => ("/sse", HttpKind::Sse),
            _ => ("/mcp", HttpKind::Streamable),
        };
        listening(&format!("h{index:02}"), &server.url(path), kind)
    });
    let servers = stdio.chain(http).map(|mut server| {
        server.prefix = Some(server.name.to_string());
        server
    });
    (servers.collect(), running)
}

fn listen(behaviour: &str, port: u16, effects: &Path) -> RunningServer {
    let mut command = Command::new(misbehaving_server());
    command.args(["--http", &format!("127.0.0.1:{port}"), "--behaviour", behaviour, "--delay", "20"]);
    command.arg("--effects").arg(effects);
    RunningServer::start_printing_port(command)
}

/// Whether the tools of a server have hints that they are repeatable.
fn is_repeatable(server: usize) -> bool {
    let behaviour = STDIO_BEHAVIOURS
        .get(server)
        .map_or_else(|| HTTP_BEHAVIOURS[server - STDIO_BEHAVIOURS.len()], |arguments| arguments[0]);
    behaviour != "unhinted"
}

fn mark(index: usize) -> String {
    format!("{}-{index}", std::process::id())
}

impl SoakTest {
    /// Makes calls, and kills servers at the same time.
    async fn round(self: Arc<SoakTest>, calls: usize, round: usize, numbers: &mut SeededNumbers) {
        let done = Arc::new(AtomicUsize::new(0));
        let calls_per_caller = calls / CALLERS;
        let mut tasks = tokio::task::JoinSet::new();
        for caller in 0..CALLERS {
            let count = if caller == 0 { calls - calls_per_caller * (CALLERS - 1) } else { calls_per_caller };
            let servers: Vec<usize> = (0..count).map(|_| numbers.below(self.names.len())).collect();
            let (test, done) = (self.clone(), done.clone());
            tasks.spawn(async move {
                for (number, server) in servers.into_iter().enumerate() {
                    test.call(server, &format!("round {round}, caller {caller}, call {number}, to {server}"))
                        .await;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for kill in 0..KILLS_PER_ROUND {
            let calls_before = calls * (kill + 1) / (KILLS_PER_ROUND + 1);
            while done.load(Ordering::Relaxed) < calls_before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let victim = loop {
                let server = numbers.below(self.names.len());
                let kill_count =
                    self.kills.lock().unwrap().iter().filter(|(killed, _)| *killed == server).count();
                if kill_count < MAX_KILLS_PER_SERVER {
                    break server;
                }
            };
            self.kill(victim);
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                self.expect(false, format!("a caller failed: {error}"));
            }
        }
    }

    async fn call(&self, server: usize, text: &str) {
        let tool = format!("{}_echo", self.names[server]);
        let start = Instant::now();
        let call = self.hub.call_within(CALL_TIMEOUT, &tool, json!({"text": text}));
        let outcome = match tokio::time::timeout(RESULT_TIMEOUT, call).await {
            Err(_) => {
                self.expect(false, format!("no result of `{text}`"));
                self.calls.lock().unwrap().push((server, text.to_owned(), false));
                return;
            }
            Ok(Ok(result)) => {
                let echo = support::text(&result);
                self.expect(echo == text, format!("the result of `{text}` is `{echo}`"));
                CORRECT
            }
            Ok(Err(error)) => {
                self.expect_recent_kill(server, start, text, &error);
                error.code()
            }
        };
        self.calls.lock().unwrap().push((server, text.to_owned(), outcome == CORRECT));
        *self.tally.lock().unwrap().entry(outcome).or_default() += 1;
    }

    /// Compares the effects that the servers recorded with the calls and their results.
    fn compare_effects(&self) {
        let written = std::fs::read_to_string(&self.effects).unwrap();
        let mut effects: HashMap<&str, usize> = HashMap::new();
        for line in written.lines() {
            *effects.entry(line).or_default() += 1;
        }
        let calls = self.calls.lock().unwrap();
        let mut retries = 0;
        for (server, text, has_result) in calls.iter() {
            let count = effects.remove(text.as_str()).unwrap_or(0);
            let max = if is_repeatable(*server) { 3 } else { 1 };
            self.expect(count <= max, format!("`{text}` took effect {count} times"));
            self.expect(count > 0 || !has_result, format!("`{text}` returned a result without an effect"));
            retries += count.saturating_sub(1);
        }
        self.expect(effects.is_empty(), format!("effects without a call: {effects:?}"));
        let not_repeatable = calls.iter().filter(|(server, ..)| !is_repeatable(*server)).count();
        println!(
            "{} effects; {retries} retries of repeatable calls; none of {not_repeatable} others",
            written.lines().count()
        );
    }

    fn expect_recent_kill(&self, server: usize, start: Instant, text: &str, error: &CallError) {
        let is_allowed = matches!(error, CallError::OutcomeUnknown { .. } | CallError::Unavailable { .. });
        let kills = self.kills.lock().unwrap();
        let was_killed =
            kills.iter().any(|(killed, at)| *killed == server && *at + MAX_RECOVERY_TIME >= start);
        drop(kills);
        self.expect(is_allowed && was_killed, format!("`{text}` failed: {error}"));
    }

    /// Kills a server without any cleanup, as a crash would. A remote server is restarted on the same port;
    /// the hub must restart the others.
    fn kill(&self, server: usize) {
        self.kills.lock().unwrap().push((server, Instant::now()));
        if let Some(index) = server.checked_sub(STDIO_BEHAVIOURS.len()) {
            let mut http = self.http.lock().unwrap();
            http[index].kill();
            http[index] = listen(HTTP_BEHAVIOURS[index], http[index].port(), &self.effects);
            return;
        }
        for process in
            processes_with_variable(MARK, &mark(server)).iter().filter(|process| process.name != "sleep")
        {
            let _ = Command::new("kill").args(["-KILL", &process.pid.to_string()]).status();
        }
    }

    /// Waits until every server is ready.
    async fn wait_until_ready(&self) {
        let deadline = Instant::now() + RESULT_TIMEOUT;
        while self.hub.inner.status().iter().any(|status| status.phase != Phase::Ready) {
            if Instant::now() > deadline {
                self.expect(false, format!("not all servers are ready: {:?}", self.unavailable()));
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn unavailable(&self) -> Vec<(String, Phase)> {
        let status = self.hub.inner.status().into_iter();
        status
            .filter(|server| server.phase != Phase::Ready)
            .map(|server| (server.name, server.phase))
            .collect()
    }

    fn print(&self, resources: &Resources) {
        let tally = self.tally.lock().unwrap();
        let correct = tally.get(CORRECT).copied().unwrap_or(0);
        let all: usize = tally.values().sum();
        println!(
            "| {all} | {correct} | {} | {} | {:.1} | {} | {} |",
            all - correct,
            self.kills.lock().unwrap().len(),
            resources.memory_bytes as f64 / 1e6,
            resources.files,
            resources.tasks
        );
    }

    fn expect(&self, holds: bool, violation: String) {
        if !holds {
            self.violations.lock().unwrap().push(violation);
        }
    }
}

/// The resources of this process.
#[derive(Clone, Copy, Debug)]
struct Resources {
    memory_bytes: u64,
    files: usize,
    tasks: usize,
}

impl Resources {
    fn now() -> Resources {
        let process = std::process::id();
        Resources {
            memory_bytes: resident_bytes(process).unwrap(),
            files: open_file_count(process).unwrap(),
            tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        }
    }

    /// Compares tasks and files, except the pipe of the watchdog and the files that the runtime opens for
    /// children.
    async fn wait_until_reached(&self) -> Result<(), Resources> {
        const SHARED_FILES: usize = 4;
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let now = Resources::now();
            if now.tasks <= self.tasks && now.files <= self.files + SHARED_FILES {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(now);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
