//! The cost of storing a message and of loading a conversation of 1,000 messages. The baseline in the same
//! run is a plain file with one line of the same JSON per message.
//!
//! The benchmark starts its own Redis server, once without persistence and once with a disk sync for every
//! write.

#![allow(clippy::unwrap_used)]

use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::Write;
use std::path::Path;

use divan::Bencher;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use toolwire_contract::Message;
use toolwire_contract::conversations::{ConversationId, Conversations, Entry, NewConversation, NewEntry};
use toolwire_contract::model::Usage;
use toolwire_store::{Redis, RedisOptions, Sqlite, SqliteOptions};
use toolwire_testkit::RedisServer;

const MESSAGES: u64 = 1000;
const SYNCED: [&str; 6] = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"];

fn main() {
    let bytes: usize = (0..MESSAGES).map(|number| json_of(&entry(number).message).len()).sum();
    println!("{MESSAGES} messages, {bytes} bytes of JSON");
    divan::main();
}

/// Returns an entry of a typical conversation: a question, a call, its result, a response.
fn entry(number: u64) -> NewEntry {
    let words = |count: usize| "The tide turns at nine, \"roughly\", near Bergen. ".repeat(count);
    let message = match number % 4 {
        0 => json!({"role": "user", "content": [{"type": "text", "text": words(2)}]}),
        1 => json!({"role": "assistant", "content": [
            {"type": "text", "text": "I will look it up."},
            {"type": "tool_use", "id": format!("call_{number}"), "name": "get_tides",
             "input": {"place": "Bergen", "days": 3, "units": ["m", "ft"]}}]}),
        2 => {
            json!({"role": "user", "content": [{"type": "tool_result", "toolUseId": format!("call_{}", number - 1),
            "content": [{"type": "text", "text": words(40)}],
            "structuredContent": {"heights": [0.31, 1.42, 0.29, 1.38], "place": "Bergen"}}]})
        }
        _ => json!({"role": "assistant", "content": [{"type": "text", "text": words(12)}]}),
    };
    let is_response = number % 2 == 1;
    NewEntry {
        message: Message::try_from(message).unwrap().into(),
        model: is_response.then(|| "demo".to_owned()),
        usage: is_response.then(|| Usage { input_tokens: 900, output_tokens: 60, ..Usage::default() }),
    }
}

fn json_of(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

fn begin(runtime: &Runtime, store: &dyn Conversations, messages: u64) -> ConversationId {
    runtime.block_on(async {
        let id = store.begin(NewConversation::default()).await.unwrap().id;
        store.append(&id, (0..messages).map(entry).collect(), None).await.unwrap();
        id
    })
}

fn sqlite(runtime: &Runtime, folder: &TempDir) -> Sqlite {
    let path = folder.path().join("conversations.db");
    runtime.block_on(Sqlite::open(path, SqliteOptions::default())).unwrap()
}

fn redis(runtime: &Runtime, server: &RedisServer) -> Redis {
    runtime.block_on(Redis::connect(&server.url(), RedisOptions::default())).unwrap()
}

fn append_each(bencher: Bencher<'_, '_>, store: &dyn Conversations, runtime: &Runtime) {
    let id = begin(runtime, store, 0);
    let mut number = 0;
    bencher
        .with_inputs(|| {
            number += 1;
            entry(number)
        })
        .bench_local_values(|entry| runtime.block_on(store.append(&id, vec![entry], None)).unwrap());
}

fn load_all(bencher: Bencher<'_, '_>, store: &dyn Conversations, runtime: &Runtime) {
    let id = begin(runtime, store, MESSAGES);
    bencher.bench_local(|| {
        let transcript = runtime.block_on(store.load(&id, 0)).unwrap();
        assert_eq!(transcript.entries.len() as u64, MESSAGES);
        transcript
    });
}

#[divan::bench_group(sample_count = 200, sample_size = 1)]
mod append_one {
    use super::*;

    #[divan::bench]
    fn plain_file_synced(bencher: Bencher<'_, '_>) {
        let folder = tempfile::tempdir().unwrap();
        let mut file =
            OpenOptions::new().create(true).append(true).open(folder.path().join("lines")).unwrap();
        let mut number = 0;
        bencher
            .with_inputs(|| {
                number += 1;
                entry(number).message
            })
            .bench_local_values(|message| {
                file.write_all(format!("{}\n", json_of(&message)).as_bytes()).unwrap();
                file.sync_data().unwrap();
            });
    }

    #[divan::bench]
    fn sqlite_file(bencher: Bencher<'_, '_>) {
        let (runtime, folder) = (Runtime::new().unwrap(), tempfile::tempdir().unwrap());
        append_each(bencher, &sqlite(&runtime, &folder), &runtime);
    }

    #[divan::bench]
    fn redis_in_memory(bencher: Bencher<'_, '_>) {
        let (runtime, server) = (Runtime::new().unwrap(), RedisServer::start());
        append_each(bencher, &redis(&runtime, &server), &runtime);
    }

    #[divan::bench]
    fn redis_synced(bencher: Bencher<'_, '_>) {
        let (runtime, server) = (Runtime::new().unwrap(), RedisServer::start_with(&SYNCED));
        append_each(bencher, &redis(&runtime, &server), &runtime);
    }
}

#[divan::bench_group(sample_count = 100, sample_size = 1)]
mod load_1000 {
    use super::*;

    #[divan::bench]
    fn plain_file(bencher: Bencher<'_, '_>) {
        let (runtime, folder) = (Runtime::new().unwrap(), tempfile::tempdir().unwrap());
        let path = folder.path().join("lines");
        let store = sqlite(&runtime, &folder);
        let id = begin(&runtime, &store, MESSAGES);
        let mut file = File::create(&path).unwrap();
        for entry in runtime.block_on(store.load(&id, 0)).unwrap().entries {
            writeln!(file, "{}", json_of(&entry)).unwrap();
        }
        bencher.bench_local(|| read_lines(&path));
    }

    fn read_lines(path: &Path) -> Vec<Entry> {
        let text = fs::read_to_string(black_box(path)).unwrap();
        let entries: Vec<Entry> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(entries.len() as u64, MESSAGES);
        entries
    }

    #[divan::bench]
    fn sqlite_file(bencher: Bencher<'_, '_>) {
        let (runtime, folder) = (Runtime::new().unwrap(), tempfile::tempdir().unwrap());
        load_all(bencher, &sqlite(&runtime, &folder), &runtime);
    }

    /// Includes opening the file, as in a new process.
    #[divan::bench]
    fn sqlite_file_reopened(bencher: Bencher<'_, '_>) {
        let (runtime, folder) = (Runtime::new().unwrap(), tempfile::tempdir().unwrap());
        let id = begin(&runtime, &sqlite(&runtime, &folder), MESSAGES);
        bencher.bench_local(|| {
            let store = sqlite(&runtime, &folder);
            runtime.block_on(store.load(&id, 0)).unwrap()
        });
    }

    #[divan::bench]
    fn redis_in_memory(bencher: Bencher<'_, '_>) {
        let (runtime, server) = (Runtime::new().unwrap(), RedisServer::start());
        load_all(bencher, &redis(&runtime, &server), &runtime);
    }
}
