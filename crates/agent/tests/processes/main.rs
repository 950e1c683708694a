//! Agents in processes of their own: one that pauses and another that goes on, and ones that are killed at work.
//!
//! The program runs itself again as the agent, so what is tested is never older than the tests. Words on the command line
//! choose tests. `TOOLWIRE_KILLS=200 cargo test -p toolwire-agent --test processes` is the long run.

#![allow(clippy::unwrap_used)]

mod agent;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::Runtime;
use toolwire_agent::mend;
use toolwire_contract::{Block, Conversations, Message, NewConversation};
use toolwire_store::{Sqlite, SqliteOptions};
use toolwire_testkit::check_messages;

/// How often an agent is killed when nobody says otherwise.
const KILLS: u64 = 20;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = agent::main(&words) {
        return code;
    }
    if words.iter().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let tests: [(&str, fn()); 2] = [
        ("a_paused_run_goes_on_in_another_process", a_paused_run_goes_on_in_another_process),
        ("a_killed_agent_loses_nothing_and_goes_on", a_killed_agent_loses_nothing_and_goes_on),
    ];
    for (name, test) in tests {
        if chosen.is_empty() || chosen.iter().any(|word| name.contains(word)) {
            println!("test {name} ...");
            test();
            println!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}

/// The run of one process that is never paused, and the same run in three processes, end in the same messages.
fn a_paused_run_goes_on_in_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let (file, effects) = (folder.path().join("run.json"), folder.path().join("effects"));
    let words = |word: &str| {
        let words = [word, file.to_str().unwrap(), effects.to_str().unwrap()].map(str::to_owned);
        String::from_utf8(start(&words).wait_with_output().unwrap().stdout).unwrap()
    };
    let at_once = words(agent::AT_ONCE);
    fs::remove_file(&effects).unwrap();
    assert_eq!(words(agent::PAUSE), "waits for first, second\n");
    assert!(!effects.exists(), "nothing is done before a person agreed");
    assert_eq!(words(agent::GO_ON), at_once);
    assert_eq!(fs::read_to_string(&effects).unwrap(), "first\n", "the person agreed to the first alone");
    assert!(at_once.contains("I would rather not"), "{at_once}");
}

/// Kills an agent at random points, again and again. What was acknowledged must be there, the conversation must be one that
/// models take, nothing is done twice, and the next agent goes on from there.
fn a_killed_agent_loses_nothing_and_goes_on() {
    let kills =
        std::env::var("TOOLWIRE_KILLS").map_or(KILLS, |text| text.parse().expect("a number of kills"));
    let folder = tempfile::tempdir().unwrap();
    let (place, effects) = (folder.path().join("conversations.db"), folder.path().join("effects"));
    let runtime = Runtime::new().unwrap();
    let store = runtime.block_on(Sqlite::open(&place, SqliteOptions::default())).unwrap();
    let id = runtime.block_on(store.begin(NewConversation::default())).unwrap().id;
    let mut chance = Chance::new();
    println!("  {kills} kills, seed {}", chance.0);
    let words =
        [agent::WORK, place.to_str().unwrap(), id.as_str(), effects.to_str().unwrap()].map(str::to_owned);
    let mut acknowledged: BTreeMap<u64, String> = BTreeMap::new();
    let mut broken_off = 0;
    for number in 0..kills {
        let mut worker = Worker::start(&words);
        // Now and then before it has begun at all, else while it is at work: after some messages and a moment.
        if chance.below(8) > 0 {
            worker.wait_for(1 + chance.below(12));
        }
        thread::sleep(Duration::from_micros(chance.below(4_000)));
        acknowledged.extend(worker.kill());
        let kept = runtime.block_on(store.load(&id, 0)).unwrap();
        let messages: Vec<Arc<Message>> = kept.entries.into_iter().map(|entry| entry.message).collect();
        for (position, digest) in &acknowledged {
            let message = &messages[usize::try_from(*position).unwrap() - 1];
            assert_eq!(&agent::digest(message), digest, "message {position} after kill {number}");
        }
        let mended = mend(messages.clone());
        check_messages(&mended).unwrap_or_else(|problem| panic!("after kill {number}: {problem}"));
        broken_off += u64::from(has_open_calls(&messages));
        check_effects(&effects);
    }
    // The last one is left alone until it has answered.
    let mut worker = Worker::start(&words);
    worker.wait_for(8);
    worker.kill();
    println!("  {} messages acknowledged, {broken_off} kills while calls were open", acknowledged.len());
    assert!(acknowledged.len() as u64 > kills);
    assert!(kills < 20 || broken_off > 0, "no kill was while calls were open: the test tests nothing");
}

fn has_open_calls(messages: &[Arc<Message>]) -> bool {
    let blocks = || messages.iter().flat_map(|message| &message.content);
    let calls = blocks().filter(|block| matches!(block, Block::Call { .. })).count();
    calls > blocks().filter(|block| matches!(block, Block::Result { .. })).count()
}

/// Each work has a name of its own, and is done once at the most.
fn check_effects(effects: &Path) {
    let text = fs::read_to_string(effects).unwrap_or_default();
    let mut done = BTreeSet::new();
    for line in text.lines() {
        assert!(done.insert(line), "`{line}` was done twice");
    }
}

fn start(words: &[String]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

/// A process that works, and says what was acknowledged: the position of each message, and its digest.
struct Worker {
    process: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    heard: Vec<(u64, String)>,
}

impl Worker {
    fn start(words: &[String]) -> Worker {
        let mut process = start(words);
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Worker { process, lines, heard: Vec::new() }
    }

    fn hear(&mut self) -> bool {
        let Some(Ok(line)) = self.lines.next() else { return false };
        let (position, digest) = line.split_once(' ').expect("a line is a position and a digest");
        self.heard.push((position.parse().unwrap(), digest.to_owned()));
        true
    }

    fn wait_for(&mut self, messages: u64) {
        for _ in 0..messages {
            assert!(self.hear(), "the agent ended by itself");
        }
    }

    /// Ends it with SIGKILL, and takes what it had said until then.
    fn kill(mut self) -> Vec<(u64, String)> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        while self.hear() {}
        self.heard
    }
}

/// Numbers that nobody can foresee; the seed is printed. (Xorshift.)
struct Chance(u64);

impl Chance {
    fn new() -> Chance {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Chance(now.as_nanos() as u64 | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
