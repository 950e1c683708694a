//! The writer process: appends messages to a conversation and prints each one when it is acknowledged.

use std::io::Write;
use std::process::ExitCode;

use toolwire_contract::Message;
use toolwire_contract::conversations::{Conversations, NewConversation, StoreError};
use toolwire_store::{Redis, RedisOptions, Sqlite, SqliteOptions};

/// The first argument of a writer process.
pub(crate) const SUBCOMMAND: &str = "--write";

/// Runs `--write PLACE CONVERSATION NUMBER MESSAGES`; with `new` as CONVERSATION, it creates one.
pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let [place, conversation, number, messages] = arguments else { panic!("expected four arguments") };
    let messages: u64 = messages.parse().expect("a number of messages");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let outcome = runtime.block_on(async {
        let store = open(place).await?;
        let id = match conversation.as_str() {
            "new" => store.begin(NewConversation::default()).await?.id,
            id => id.parse().expect("a conversation id"),
        };
        for count in 0..messages {
            // Some messages are longer than a page of the file.
            let name = format!("{number}:{count}");
            let text = format!("{name} {}", "x".repeat(usize::try_from(count % 7).unwrap() * 1500));
            let position = store.append(&id, vec![Message::user(&*text).into()], None).await?;
            // A line this short is written to a pipe atomically.
            let mut out = std::io::stdout().lock();
            writeln!(out, "{position} {name}")
                .and_then(|()| out.flush())
                .expect("the parent reads the output");
        }
        Ok::<(), StoreError>(())
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

pub(crate) async fn open(place: &str) -> Result<Box<dyn Conversations>, StoreError> {
    if place.starts_with("redis") {
        Ok(Box::new(Redis::connect(place, RedisOptions::default()).await?))
    } else {
        Ok(Box::new(Sqlite::open(place, SqliteOptions::default()).await?))
    }
}
