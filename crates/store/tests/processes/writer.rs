//! The writer: adds messages to a conversation, and prints each one when it is acknowledged.

use std::io::Write;
use std::process::ExitCode;

use toolwire_contract::{Conversations, Message, NewConversation, StoreError};
use toolwire_store::{Redis, RedisOptions, Sqlite, SqliteOptions};

/// The first word on the command line of a writer.
pub(crate) const WORD: &str = "--write";

/// `--write PLACE CONVERSATION NUMBER MESSAGES`; `new` begins a conversation.
pub(crate) fn main(words: &[String]) -> ExitCode {
    let [place, conversation, number, messages] = words else { panic!("a writer needs four words") };
    let messages: u64 = messages.parse().expect("a number of messages");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let written = runtime.block_on(async {
        let store = open(place).await?;
        let id = match conversation.as_str() {
            "new" => store.begin(NewConversation::default()).await?.id,
            id => id.parse().expect("the id of a conversation"),
        };
        for count in 0..messages {
            // Some are longer than a page of the file.
            let name = format!("{number}:{count}");
            let text = format!("{name} {}", "x".repeat(usize::try_from(count % 7).unwrap() * 1500));
            let position = store.append(&id, vec![Message::user(&*text).into()], None).await?;
            // A line this short reaches a pipe wholly or not at all.
            let mut out = std::io::stdout().lock();
            writeln!(out, "{position} {name}").and_then(|()| out.flush()).expect("somebody listens");
        }
        Ok::<(), StoreError>(())
    });
    match written {
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
