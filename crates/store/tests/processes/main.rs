//! Processes that share a store, and processes that are killed while they write.
//!
//! The program runs itself again as the writer, so what is tested is never older than the tests. Words on the command line
//! choose tests. `TOOLWIRE_STORE_KILLS=200 cargo test -p toolwire-store --test processes` is the long run.

#![allow(clippy::unwrap_used)]

mod writer;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::Runtime;
use toolwire_contract::{ConversationId, Conversations, Message, NewConversation};
use toolwire_testkit::RedisServer;

/// How often a writer is killed when nobody says otherwise.
const KILLS: u64 = 20;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == writer::WORD) {
        return writer::main(&words[1..]);
    }
    if words.iter().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let tests: [(&str, fn()); 5] = [
        ("many_processes_make_one_new_file", many_processes_make_one_new_file),
        ("two_processes_lose_and_reorder_nothing_in_a_file", two_processes_in_a_file),
        ("two_processes_lose_and_reorder_nothing_in_redis", two_processes_in_redis),
        ("a_killed_process_loses_nothing_in_a_file", kills_in_a_file),
        ("a_killed_process_loses_nothing_in_redis", kills_in_redis),
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

fn many_processes_make_one_new_file() {
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
        let of_one = writer.finish();
        assert!(of_one.is_sorted(), "a writer's own messages are in its order");
        assert_eq!(of_one.len(), 100);
        acknowledged.extend(of_one);
    }
    let kept: BTreeMap<u64, String> = kept(place, &id);
    assert_eq!(acknowledged, kept);
    assert_eq!(kept.len(), 200);
}

fn kills_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conversations.db");
    let kills =
        std::env::var("TOOLWIRE_STORE_KILLS").map_or(KILLS, |text| text.parse().expect("a number of kills"));
    kill_often(&path.display().to_string(), kills);
    check_integrity(&path);
}

fn check_integrity(path: &Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let verdict: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    connection.execute_batch("INSERT INTO word (word) VALUES ('integrity-check')").unwrap();
}

fn kills_in_redis() {
    let server = RedisServer::start();
    kill_often(&server.url(), KILLS);
}

/// Kills a writer at random points, again and again. What it was told to be kept must be there, at its place, and the
/// next writer goes on from there.
fn kill_often(place: &str, kills: u64) {
    let id = begin(place);
    let mut chance = Chance::new();
    println!("  {kills} kills, seed {}", chance.0);
    let mut acknowledged: BTreeMap<u64, String> = BTreeMap::new();
    for number in 0..kills {
        let mut writer = Writer::start(place, id.as_str(), number, u64::MAX);
        // Now and then before it has begun at all, else while it is at work: after some messages and a moment.
        if chance.below(8) > 0 {
            writer.wait_for(1 + chance.below(20));
        }
        thread::sleep(Duration::from_micros(chance.below(3000)));
        acknowledged.extend(writer.kill());
        let kept = kept(place, &id);
        for (position, text) in &acknowledged {
            assert_eq!(kept.get(position), Some(text), "after kill {number}");
        }
        // A message may have been kept without its writer living to hear of it: one for each kill.
        let unheard = kept.len() - acknowledged.len();
        assert!(unheard as u64 <= number + 1, "{unheard} messages that nobody wrote");
    }
    println!("  {} messages acknowledged, {} kept", acknowledged.len(), kept(place, &id).len());
    assert!(acknowledged.len() as u64 > kills);
}

fn begin(place: &str) -> ConversationId {
    Runtime::new().unwrap().block_on(async {
        writer::open(place).await.unwrap().begin(NewConversation::default()).await.unwrap().id
    })
}

/// The names of the messages by their numbers, which must be without gaps.
fn kept(place: &str, id: &ConversationId) -> BTreeMap<u64, String> {
    let transcript = Runtime::new().unwrap().block_on(async {
        let store: Box<dyn Conversations> = writer::open(place).await.unwrap();
        store.load(id, 0).await.unwrap()
    });
    assert!(transcript.entries.iter().map(|entry| entry.sequence).eq(1..=transcript.conversation.messages));
    transcript.entries.into_iter().map(|entry| (entry.sequence, name_of(&entry.message))).collect()
}

/// The first word of a message, which is its name.
fn name_of(message: &Message) -> String {
    let value = serde_json::to_value(message).unwrap();
    value["content"][0]["text"].as_str().unwrap().split(' ').next().unwrap().to_owned()
}

/// A process that writes, and says what was acknowledged.
struct Writer {
    process: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    heard: Vec<(u64, String)>,
}

impl Writer {
    fn start(place: &str, conversation: &str, number: u64, messages: u64) -> Writer {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([writer::WORD, place, conversation, &number.to_string(), &messages.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Writer { process, lines, heard: Vec::new() }
    }

    fn hear(&mut self) -> bool {
        let Some(Ok(line)) = self.lines.next() else { return false };
        let (position, text) = line.split_once(' ').expect("a line is a position and a name");
        self.heard.push((position.parse().unwrap(), text.to_owned()));
        true
    }

    fn wait_for(&mut self, messages: u64) {
        for _ in 0..messages {
            assert!(self.hear(), "the writer ended by itself");
        }
    }

    /// Waits until it has written everything.
    fn finish(mut self) -> Vec<(u64, String)> {
        while self.hear() {}
        assert!(self.process.wait().unwrap().success());
        self.heard
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
