//! Agents in separate processes: one pauses and another continues, and some are killed.
//!
//! The test starts its own executable as the agent. Arguments on the command line select tests by name. For a
//! long test, run `TOOLWIRE_KILLS=200 cargo test -p toolwire-agent --test processes`.

#![allow(clippy::unwrap_used)]

mod agent;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;
use toolwire_agent::run::normalize;
use toolwire_contract::conversations::{Conversations, NewConversation};
use toolwire_contract::{Block, Message};
use toolwire_store::{Sqlite, SqliteOptions};
use toolwire_testkit::{Random, check_messages};

/// The number of kills unless `TOOLWIRE_KILLS` is set.
const DEFAULT_KILLS: u64 = 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(code) = agent::main(&arguments) {
        return code;
    }
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let tests: [(&str, fn()); 2] = [
        ("a_paused_run_continues_in_another_process", a_paused_run_continues_in_another_process),
        ("a_killed_agent_loses_nothing_and_continues", a_killed_agent_loses_nothing_and_continues),
    ];
    for (name, test) in tests {
        if filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str())) {
            println!("test {name} ...");
            test();
            println!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}

/// A run in one process has the same messages as the same run that is paused and continued in another
/// process.
fn a_paused_run_continues_in_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let (file, effects) = (folder.path().join("run.json"), folder.path().join("effects"));
    let output = |command: &str| {
        let arguments = [command, file.to_str().unwrap(), effects.to_str().unwrap()].map(str::to_owned);
        String::from_utf8(start(&arguments).wait_with_output().unwrap().stdout).unwrap()
    };
    let uninterrupted = output(agent::UNINTERRUPTED);
    fs::remove_file(&effects).unwrap();
    assert_eq!(output(agent::PAUSE), "pending: first, second\n");
    assert!(!effects.exists(), "no call runs without approval");
    assert_eq!(output(agent::CONTINUE), uninterrupted);
    assert_eq!(fs::read_to_string(&effects).unwrap(), "first\n", "only the first call was approved");
    assert!(uninterrupted.contains("I would rather not"), "{uninterrupted}");
}

/// Kills agents at random points. After each kill, acknowledged messages must be stored, the conversation
/// must be valid, no call with an effect may have been made twice, and the next agent continues.
fn a_killed_agent_loses_nothing_and_continues() {
    let kills = std::env::var("TOOLWIRE_KILLS")
        .map_or(DEFAULT_KILLS, |text| text.parse().expect("a number of kills"));
    let folder = tempfile::tempdir().unwrap();
    let (database, effects) = (folder.path().join("conversations.db"), folder.path().join("effects"));
    let runtime = Runtime::new().unwrap();
    let store = runtime.block_on(Sqlite::open(&database, SqliteOptions::default())).unwrap();
    let id = runtime.block_on(store.begin(NewConversation::default())).unwrap().id;
    let mut random = Random::from_time();
    println!("  {kills} kills, seed {}", random.seed());
    let arguments =
        [agent::WORK, database.to_str().unwrap(), id.as_str(), effects.to_str().unwrap()].map(str::to_owned);
    let mut acknowledged: BTreeMap<u64, String> = BTreeMap::new();
    let mut kills_during_calls = 0;
    for number in 0..kills {
        let mut worker = Worker::start(&arguments);
        // Some are killed during startup, most of them after some messages.
        if random.below(8) > 0 {
            worker.wait_for(1 + random.below(12));
        }
        thread::sleep(Duration::from_micros(random.below(4_000)));
        acknowledged.extend(worker.kill());
        let stored = runtime.block_on(store.load(&id, 0)).unwrap();
        let messages: Vec<Arc<Message>> = stored.entries.into_iter().map(|entry| entry.message).collect();
        for (position, digest) in &acknowledged {
            let message = &messages[usize::try_from(*position).unwrap() - 1];
            assert_eq!(&agent::digest(message), digest, "message {position} after kill {number}");
        }
        check_messages(&normalize(messages.clone()))
            .unwrap_or_else(|problem| panic!("after kill {number}: {problem}"));
        kills_during_calls += u64::from(has_open_calls(&messages));
        check_effects(&effects);
    }
    // The last agent is killed only after it has finished a turn.
    let mut worker = Worker::start(&arguments);
    worker.wait_for(8);
    worker.kill();
    println!("  {} messages acknowledged, {kills_during_calls} kills during calls", acknowledged.len());
    assert!(acknowledged.len() as u64 > kills);
    assert!(kills < 20 || kills_during_calls > 0, "no agent was killed during a call");
}

fn has_open_calls(messages: &[Arc<Message>]) -> bool {
    let blocks = || messages.iter().flat_map(|message| &message.content);
    let calls = blocks().filter(|block| matches!(block, Block::Call { .. })).count();
    calls > blocks().filter(|block| matches!(block, Block::Result { .. })).count()
}

/// Each call of `work` has a unique name, so each line must be unique.
fn check_effects(effects: &Path) {
    let text = fs::read_to_string(effects).unwrap_or_default();
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        assert!(seen.insert(line), "`{line}` took effect twice");
    }
}

fn start(arguments: &[String]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

/// An agent process that prints the position and the digest of each stored message.
struct Worker {
    process: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    stored: Vec<(u64, String)>,
}

impl Worker {
    fn start(arguments: &[String]) -> Worker {
        let mut process = start(arguments);
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Worker { process, lines, stored: Vec::new() }
    }

    /// Reads one line; `false` at the end of the output.
    fn read_line(&mut self) -> bool {
        let Some(Ok(line)) = self.lines.next() else { return false };
        let (position, digest) = line.split_once(' ').expect("a position and a digest");
        self.stored.push((position.parse().unwrap(), digest.to_owned()));
        true
    }

    fn wait_for(&mut self, messages: u64) {
        for _ in 0..messages {
            assert!(self.read_line(), "the agent exited");
        }
    }

    /// Kills the process with SIGKILL and returns the messages that it reported as stored.
    fn kill(mut self) -> Vec<(u64, String)> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        while self.read_line() {}
        self.stored
    }
}
