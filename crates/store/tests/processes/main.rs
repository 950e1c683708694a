//! Processes that share a store, and processes that are killed while they write.
//!
//! The test program starts itself as the writer, so both are always the same build. Arguments select tests.
//! `TOOLWIRE_STORE_KILLS=200 cargo test -p toolwire-store --test processes` is a longer run.

#![allow(clippy::unwrap_used)]

mod writer;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;
use toolwire_contract::Message;
use toolwire_contract::conversations::{ConversationId, Conversations, NewConversation};
use toolwire_testkit::{Random, RedisServer};

/// The default number of kills.
const DEFAULT_KILLS: u64 = 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == writer::SUBCOMMAND) {
        return writer::main(&arguments[1..]);
    }
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let selected: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|argument| !argument.starts_with('-')).collect();
    let tests: [(&str, fn()); 5] = [
        ("many_processes_create_one_file", many_processes_create_one_file),
        ("two_processes_lose_and_reorder_no_message_in_a_file", two_processes_in_a_file),
        ("two_processes_lose_and_reorder_no_message_in_redis", two_processes_in_redis),
        ("a_killed_process_loses_no_message_in_a_file", kills_in_a_file),
        ("a_killed_process_loses_no_message_in_redis", kills_in_redis),
    ];
    for (name, test) in tests {
        if selected.is_empty() || selected.iter().any(|part| name.contains(part)) {
            println!("test {name} ...");
            test();
            println!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}

fn many_processes_create_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("conversations.db").display().to_string();
    let writers: Vec<Writer> = (0..8).map(|number| Writer::start(&place, "new", number, 1)).collect();
    for writer in writers {
        assert_eq!(writer.finish().len(), 1);
    }
    let listed = Runtime::new()
        .unwrap()
        .block_on(async { writer::open(&place).await.unwrap().list(100, None).await.unwrap().conversations });
    assert_eq!(listed.iter().map(|conversation| conversation.messages).collect::<Vec<_>>(), [1; 8]);
}

fn two_processes_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    two_processes(&folder.path().join("conversations.db").display().to_string());
}

fn two_processes_in_redis() {
    let server = RedisServer::start();
    two_processes(&server.url());
}

fn two_processes(place: &str) {
    let id = begin(place);
    let writers: Vec<Writer> = (0..2).map(|number| Writer::start(place, id.as_str(), number, 100)).collect();
    let mut acknowledged = BTreeMap::new();
    for writer in writers {
        let written = writer.finish();
        assert!(written.is_sorted(), "the messages of a writer are out of order");
        assert_eq!(written.len(), 100);
        acknowledged.extend(written);
    }
    let stored: BTreeMap<u64, String> = stored_names(place, &id);
    assert_eq!(acknowledged, stored);
    assert_eq!(stored.len(), 200);
}

fn kills_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conversations.db");
    let kills = std::env::var("TOOLWIRE_STORE_KILLS")
        .map_or(DEFAULT_KILLS, |text| text.parse().expect("a number of kills"));
    kill_repeatedly(&path.display().to_string(), kills);
    check_integrity(&path);
}

fn check_integrity(path: &Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let result: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(result, "ok");
    // This FTS5 command checks the search index.
    connection.execute_batch("INSERT INTO word (word) VALUES ('integrity-check')").unwrap();
}

fn kills_in_redis() {
    let server = RedisServer::start();
    kill_repeatedly(&server.url(), DEFAULT_KILLS);
}

/// Kills a writer repeatedly at random points. Every acknowledged message must be stored at its position, and
/// the next writer continues from there.
fn kill_repeatedly(place: &str, kills: u64) {
    let id = begin(place);
    let mut random = Random::from_time();
    println!("  {kills} kills, seed {}", random.seed());
    let mut acknowledged: BTreeMap<u64, String> = BTreeMap::new();
    for number in 0..kills {
        let mut writer = Writer::start(place, id.as_str(), number, u64::MAX);
        // Some writers are killed before the first write, the others after some messages and a short time.
        if random.below(8) > 0 {
            writer.wait_for(1 + random.below(20));
        }
        thread::sleep(Duration::from_micros(random.below(3000)));
        acknowledged.extend(writer.kill());
        let stored = stored_names(place, &id);
        for (position, text) in &acknowledged {
            assert_eq!(stored.get(position), Some(text), "after kill {number}");
        }
        // Per kill, one message may have been stored before its acknowledgement arrived.
        let unacknowledged = stored.len() - acknowledged.len();
        assert!(unacknowledged as u64 <= number + 1, "{unacknowledged} messages too many");
    }
    println!("  {} messages acknowledged, {} stored", acknowledged.len(), stored_names(place, &id).len());
    assert!(acknowledged.len() as u64 > kills);
}

fn begin(place: &str) -> ConversationId {
    Runtime::new().unwrap().block_on(async {
        writer::open(place).await.unwrap().begin(NewConversation::default()).await.unwrap().id
    })
}

/// Returns the names of the messages by sequence number, which must have no gaps.
fn stored_names(place: &str, id: &ConversationId) -> BTreeMap<u64, String> {
    let transcript = Runtime::new().unwrap().block_on(async {
        let store: Box<dyn Conversations> = writer::open(place).await.unwrap();
        store.load(id, 0).await.unwrap()
    });
    assert!(transcript.entries.iter().map(|entry| entry.sequence).eq(1..=transcript.conversation.messages));
    transcript.entries.into_iter().map(|entry| (entry.sequence, name_of(&entry.message))).collect()
}

/// Returns the first word of a message, which is its name.
fn name_of(message: &Message) -> String {
    let value = serde_json::to_value(message).unwrap();
    value["content"][0]["text"].as_str().unwrap().split(' ').next().unwrap().to_owned()
}

/// A process that writes and prints each acknowledged message.
struct Writer {
    process: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    acknowledged: Vec<(u64, String)>,
}

impl Writer {
    fn start(place: &str, conversation: &str, number: u64, messages: u64) -> Writer {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([writer::SUBCOMMAND, place, conversation, &number.to_string(), &messages.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Writer { process, lines, acknowledged: Vec::new() }
    }

    fn read_line(&mut self) -> bool {
        let Some(Ok(line)) = self.lines.next() else { return false };
        let (position, text) = line.split_once(' ').expect("a position and a name");
        self.acknowledged.push((position.parse().unwrap(), text.to_owned()));
        true
    }

    fn wait_for(&mut self, messages: u64) {
        for _ in 0..messages {
            assert!(self.read_line(), "the writer exited");
        }
    }

    /// Waits until everything is written.
    fn finish(mut self) -> Vec<(u64, String)> {
        while self.read_line() {}
        assert!(self.process.wait().unwrap().success());
        self.acknowledged
    }

    /// Kills the process with SIGKILL and returns the acknowledged messages.
    fn kill(mut self) -> Vec<(u64, String)> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        while self.read_line() {}
        self.acknowledged
    }
}
