//! Twenty servers, ten thousand calls, and servers that are killed while they work: no wrong answer, no lost answer, no growth,
//! and no effect twice that must not be: each server writes down what it does before it answers.
//!
//! `cargo bench -p toolwire-hub --bench soak`, with `-- --seed N --calls N` after it for another run. The order of calls and
//! kills comes from the seed; when each of them happens is the machine's. The exit code is 1 on any violation.

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
use support::{Around, listening, misbehaving, text, with_variable};
use toolwire_contract::CallError;
use toolwire_hub::{HttpKind, NoHost, Phase, ServerConfig};
use toolwire_testkit::{
    RunningServer, misbehaving_server, open_file_count, processes_with_variable, resident_bytes,
};

/// What the servers on stdio do wrong, beside dying. Those without hints take their time, so that they die within calls, and
/// those calls must not be made again.
const STDIO: [&[&str]; 16] = [
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
const HTTP: [&str; 4] = ["ordinary", "unhinted", "streams", "sse"];

const CALLERS: usize = 8;
const ROUNDS: usize = 10;
/// In a round. A server that dies five times within two minutes is left alone for a minute, so no one server dies more often
/// than four times in a run: that rest is a test of its own.
const KILLS: usize = 6;
const MOST_KILLS: usize = 4;

/// How long after a kill a call may be told of it: the longest pause before a restart, and the restart.
const AFTERMATH: Duration = Duration::from_secs(20);
/// An answer that has not come by then is lost. Above the limit of each call, which is the hub's to keep.
const LOST: Duration = Duration::from_secs(90);
const CALL: Duration = Duration::from_secs(60);

/// What may be held more at the end than after the first tenth.
const MORE_RESIDENT: u64 = 16 << 20;
/// Connections that are kept for the next call come and go with the load: one for each caller and server on the network.
const MORE_FILES: usize = CALLERS * HTTP.len();
const MORE_TASKS: usize = 2 * CALLERS * HTTP.len();

/// The variable that tells the processes of one server.
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

fn option(name: &str, otherwise: u64) -> u64 {
    let mut words = std::env::args().skip_while(|word| word != name);
    words
        .nth(1)
        .map_or(otherwise, |value| value.parse().unwrap_or_else(|_| panic!("`{name}` needs a number")))
}

/// Numbers that look random and are the same for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// The servers, and what was done to them.
struct World {
    around: Around,
    names: Vec<String>,
    http: Mutex<Vec<RunningServer>>,
    kills: Mutex<Vec<(usize, Instant)>>,
    tally: Mutex<BTreeMap<&'static str, usize>>,
    /// What was asked of each server, and whether it was answered.
    asked: Mutex<Vec<(usize, String, bool)>>,
    effects: PathBuf,
    violations: Mutex<Vec<String>>,
}

async fn soak(seed: u64, calls: usize) -> Vec<String> {
    let before = Held::now();
    let effects = support::scratch().join("effects");
    let (servers, http) = servers(&effects);
    let names: Vec<String> = servers.iter().map(|server| server.name.to_string()).collect();
    let started = Instant::now();
    let around = Around::start(servers, Arc::new(NoHost));
    around.hub.settled().await;
    println!(
        "{} servers, {calls} calls from {CALLERS} callers, seed {seed}; ready in {:.1?}\n",
        names.len(),
        started.elapsed()
    );
    println!("| calls | answered | told of a kill | kills | resident MB | open files | tasks |");
    println!("|--:|--:|--:|--:|--:|--:|--:|");
    let world = Arc::new(World {
        around,
        names,
        http: Mutex::new(http),
        kills: Mutex::default(),
        tally: Mutex::default(),
        asked: Mutex::default(),
        effects,
        violations: Mutex::default(),
    });
    let mut numbers = Numbers(seed);
    let mut first = None;
    let mut last = Held::now();
    for round in 0..ROUNDS {
        world.clone().round(calls / ROUNDS, round, &mut numbers).await;
        world.is_whole_again().await;
        last = Held::now();
        world.print(&last);
        first.get_or_insert(last);
    }
    let tally = world.tally.lock().unwrap().clone();
    let answers: usize = tally.values().sum();
    let first = first.unwrap();
    world.expect(answers == calls / ROUNDS * ROUNDS, format!("{answers} answers to {calls} calls"));
    world.expect(
        last.resident <= first.resident + MORE_RESIDENT,
        format!("memory grew from {} to {} bytes", first.resident, last.resident),
    );
    world.expect(
        last.files <= first.files + MORE_FILES,
        format!("{} files were open, then {}", first.files, last.files),
    );
    world.expect(
        last.tasks <= first.tasks + MORE_TASKS,
        format!("{} tasks ran, then {}", first.tasks, last.tasks),
    );
    println!("\nanswers: {tally:?}; {:.1?} in all", started.elapsed());
    world.compare_effects();
    let world = Arc::into_inner(world).expect("all callers are done");
    // It looks for processes that are left, too.
    world.around.close().await;
    drop(world.http);
    let mut violations = world.violations.into_inner().unwrap();
    if let Err(held) = before.is_reached_again().await {
        violations.push(format!("more is held than before the hub: {held:?}, before {before:?}"));
    }
    for index in 0..world.names.len() {
        let left = processes_with_variable(MARK, &mark(index));
        if !left.is_empty() {
            violations.push(format!("processes are left of `{}`: {left:?}", world.names[index]));
        }
    }
    violations
}

fn servers(effects: &Path) -> (Vec<ServerConfig>, Vec<RunningServer>) {
    let stdio = STDIO.iter().enumerate().map(|(index, behaviour)| {
        let arguments = [behaviour, &["--effects", effects.to_str().unwrap()][..]].concat();
        with_variable(misbehaving(&format!("s{index:02}"), &arguments), MARK, &mark(index))
    });
    let running: Vec<RunningServer> = HTTP.iter().map(|behaviour| listen(behaviour, 0, effects)).collect();
    let http = running.iter().zip(HTTP).enumerate().map(|(index, (server, behaviour))| {
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

/// Whether the tools of a server say that they may be called twice.
fn is_repeatable(server: usize) -> bool {
    let behaviour = STDIO.get(server).map_or_else(|| HTTP[server - STDIO.len()], |words| words[0]);
    behaviour != "unhinted"
}

fn mark(index: usize) -> String {
    format!("{}-{index}", std::process::id())
}

impl World {
    /// Calls, and kills between them.
    async fn round(self: Arc<World>, calls: usize, round: usize, numbers: &mut Numbers) {
        let done = Arc::new(AtomicUsize::new(0));
        let each = calls / CALLERS;
        let mut tasks = tokio::task::JoinSet::new();
        for caller in 0..CALLERS {
            let count = if caller == 0 { calls - each * (CALLERS - 1) } else { each };
            let chosen: Vec<usize> = (0..count).map(|_| numbers.below(self.names.len())).collect();
            let (world, done) = (self.clone(), done.clone());
            tasks.spawn(async move {
                for (number, server) in chosen.into_iter().enumerate() {
                    world
                        .call(server, &format!("round {round}, caller {caller}, call {number}, to {server}"))
                        .await;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for kill in 0..KILLS {
            let due = calls * (kill + 1) / (KILLS + 1);
            while done.load(Ordering::Relaxed) < due {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let victim = loop {
                let server = numbers.below(self.names.len());
                let deaths =
                    self.kills.lock().unwrap().iter().filter(|(killed, _)| *killed == server).count();
                if deaths < MOST_KILLS {
                    break server;
                }
            };
            self.kill(victim);
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                self.expect(false, format!("a caller ended: {error}"));
            }
        }
    }

    async fn call(&self, server: usize, words: &str) {
        let tool = format!("{}_echo", self.names[server]);
        let asked = Instant::now();
        let answer =
            tokio::time::timeout(LOST, self.around.call_within(CALL, &tool, json!({"text": words}))).await;
        let kind = match answer {
            Err(_) => {
                self.expect(false, format!("no answer to `{words}`"));
                self.asked.lock().unwrap().push((server, words.to_owned(), false));
                return;
            }
            Ok(Ok(result)) => {
                let answer = text(&result);
                self.expect(answer == words, format!("`{words}` was answered with `{answer}`"));
                "right"
            }
            Ok(Err(error)) => {
                self.is_told_of_a_kill(server, asked, words, &error);
                error.code()
            }
        };
        self.asked.lock().unwrap().push((server, words.to_owned(), kind == "right"));
        *self.tally.lock().unwrap().entry(kind).or_default() += 1;
    }

    /// What the servers did, beside what they were asked and what they answered.
    fn compare_effects(&self) {
        let written = std::fs::read_to_string(&self.effects).unwrap();
        let mut effects: HashMap<&str, usize> = HashMap::new();
        for line in written.lines() {
            *effects.entry(line).or_default() += 1;
        }
        let asked = self.asked.lock().unwrap();
        let mut again = 0;
        for (server, words, answered) in asked.iter() {
            let count = effects.remove(words.as_str()).unwrap_or(0);
            let most = if is_repeatable(*server) { 3 } else { 1 };
            self.expect(count <= most, format!("`{words}` was done {count} times"));
            self.expect(count > 0 || !answered, format!("`{words}` was answered and not done"));
            again += count.saturating_sub(1);
        }
        self.expect(effects.is_empty(), format!("nobody asked for {effects:?}"));
        let once = asked.iter().filter(|(server, ..)| !is_repeatable(*server)).count();
        println!(
            "{} effects; {again} calls that may be repeated were; none of {once} others",
            written.lines().count()
        );
    }

    fn is_told_of_a_kill(&self, server: usize, asked: Instant, words: &str, error: &CallError) {
        let allowed = matches!(error, CallError::OutcomeUnknown { .. } | CallError::Unavailable { .. });
        let kills = self.kills.lock().unwrap();
        let was_killed = kills.iter().any(|(killed, at)| *killed == server && *at + AFTERMATH >= asked);
        drop(kills);
        self.expect(allowed && was_killed, format!("`{words}` failed: {error}"));
    }

    /// As a crash would: nothing of the process gets a say. One on the network is started again where it was; the others
    /// are the hub's to bring back.
    fn kill(&self, server: usize) {
        self.kills.lock().unwrap().push((server, Instant::now()));
        if let Some(index) = server.checked_sub(STDIO.len()) {
            let mut http = self.http.lock().unwrap();
            http[index].kill();
            http[index] = listen(HTTP[index], http[index].port(), &self.effects);
            return;
        }
        for process in
            processes_with_variable(MARK, &mark(server)).iter().filter(|process| process.name != "sleep")
        {
            let _ = Command::new("kill").args(["-KILL", &process.pid.to_string()]).status();
        }
    }

    /// Waits until every server is back.
    async fn is_whole_again(&self) {
        let deadline = Instant::now() + LOST;
        while self.around.hub.status().iter().any(|status| status.phase != Phase::Ready) {
            if Instant::now() > deadline {
                self.expect(false, format!("not all servers came back: {:?}", self.away()));
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn away(&self) -> Vec<(String, Phase)> {
        let status = self.around.hub.status().into_iter();
        status.filter(|each| each.phase != Phase::Ready).map(|each| (each.name, each.phase)).collect()
    }

    fn print(&self, held: &Held) {
        let tally = self.tally.lock().unwrap();
        let (all, right): (usize, usize) = (tally.values().sum(), tally.get("right").copied().unwrap_or(0));
        println!(
            "| {all} | {right} | {} | {} | {:.1} | {} | {} |",
            all - right,
            self.kills.lock().unwrap().len(),
            held.resident as f64 / 1e6,
            held.files,
            held.tasks
        );
    }

    fn expect(&self, holds: bool, otherwise: String) {
        if !holds {
            self.violations.lock().unwrap().push(otherwise);
        }
    }
}

/// What this process holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    resident: u64,
    files: usize,
    tasks: usize,
}

impl Held {
    fn now() -> Held {
        let process = std::process::id();
        Held {
            resident: resident_bytes(process).unwrap(),
            files: open_file_count(process).unwrap(),
            tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        }
    }

    /// Tasks and files, but for the pipe of the watchdog and what the runtime opens to hear of children.
    async fn is_reached_again(&self) -> Result<(), Held> {
        const SHARED: usize = 4;
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let now = Held::now();
            if now.tasks <= self.tasks && now.files <= self.files + SHARED {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(now);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
