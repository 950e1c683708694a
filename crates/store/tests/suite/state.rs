//! Cases for the state of a gateway's clients.

use std::sync::Arc;
use std::time::Duration;

use toolwire_contract::state::{Claim, HeldWrite, StateKey, StateStore};
use toolwire_store::{InMemoryState, SqliteState};

use crate::backends::Backend;

/// A time in which no test ends.
const LONG: Duration = Duration::from_secs(86_400);

impl Backend {
    /// Opens the state twice, as two processes would. State in memory is that of one process.
    async fn open_state_twice(&self) -> [Arc<dyn StateStore>; 2] {
        match self {
            Backend::Sqlite { folder } => {
                let path = folder.path().join("a/state.db");
                [Arc::new(SqliteState::new(path.clone())), Arc::new(SqliteState::new(path))]
            }
            Backend::Memory { .. } => {
                let state = Arc::new(InMemoryState::new());
                [state.clone(), state]
            }
            _ => [Arc::new(self.connect().await), Arc::new(self.connect().await)],
        }
    }
}

fn key(owner: &str, id: &str) -> StateKey {
    StateKey::new(owner, id).unwrap()
}

pub(crate) async fn a_document_belongs_to_its_owner(backend: &Backend) {
    let [one, other] = backend.open_state_twice().await;
    let mine = key("key_a", "resp_1");
    assert_eq!(one.get(&mine).await, Ok(None));
    let text = "{\"text\":\"é\u{1F600}\\u0000\"}".to_owned() + &"x".repeat(1_000_000);
    one.put(&mine, text.clone(), LONG).await.unwrap();
    assert_eq!(other.get(&mine).await, Ok(Some(text)));
    for foreign in [key("key_b", "resp_1"), key("key_a", "resp_2"), key("key", "a_resp_1")] {
        assert_eq!(other.get(&foreign).await, Ok(None));
        assert_eq!(other.remove(&foreign).await, Ok(false));
    }
    other.put(&mine, "new".to_owned(), LONG).await.unwrap();
    assert_eq!(one.get(&mine).await, Ok(Some("new".to_owned())));
    assert_eq!(one.remove(&mine).await, Ok(true));
    assert_eq!((other.get(&mine).await, other.remove(&mine).await), (Ok(None), Ok(false)));
}

pub(crate) async fn a_document_expires(backend: &Backend) {
    let [one, other] = backend.open_state_twice().await;
    let (short, long) = (key("a", "short"), key("a", "long"));
    one.put(&long, "long".to_owned(), LONG).await.unwrap();
    one.put(&short, "short".to_owned(), Duration::from_millis(1)).await.unwrap();
    while other.get(&short).await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
    assert_eq!(one.remove(&short).await, Ok(false));
    // The expiry is that of the last write.
    one.put(&short, "again".to_owned(), LONG).await.unwrap();
    assert_eq!(other.get(&short).await, Ok(Some("again".to_owned())));
    assert_eq!(other.get(&long).await, Ok(Some("long".to_owned())));
}

fn claim(id: &str, holder: &str, lifetime: Duration) -> Claim {
    Claim { key: key("a", id), holder: holder.to_owned(), lifetime }
}

pub(crate) async fn only_one_holder_has_a_claim(backend: &Backend) {
    let stores = backend.open_state_twice().await;
    let tasks = (0..50).map(|number| {
        let store = stores[number % 2].clone();
        tokio::spawn(async move { store.claim(&claim("1", &format!("h{number}"), LONG)).await.unwrap() })
    });
    let mut holders = Vec::new();
    for (number, task) in tasks.collect::<Vec<_>>().into_iter().enumerate() {
        if task.await.unwrap() {
            holders.push(format!("h{number}"));
        }
    }
    let [holder] = &holders[..] else { panic!("{holders:?}") };
    let [one, other] = stores;
    assert_eq!(other.claim(&claim("1", holder, LONG)).await, Ok(true), "the holder may claim it again");
    assert_eq!(other.claim(&claim("2", "x", LONG)).await, Ok(true), "another right");
    one.release(&claim("1", "x", LONG)).await.unwrap();
    assert_eq!(one.claim(&claim("1", "x", LONG)).await, Ok(false), "only the holder releases it");
    one.release(&claim("1", holder, LONG)).await.unwrap();
    assert_eq!(one.claim(&claim("1", "x", Duration::from_millis(1))).await, Ok(true));
    while !other.claim(&claim("1", "y", LONG)).await.unwrap() {
        tokio::task::yield_now().await;
    }
    assert_eq!(other.get(&key("a", "1")).await, Ok(None), "a claim is not a document");
}

fn write(document: Option<&str>, position: u64, entries: &[&str]) -> HeldWrite {
    HeldWrite {
        document: document.map(str::to_owned),
        lifetime: LONG,
        position,
        entries: entries.iter().map(|entry| (*entry).to_owned()).collect(),
        log_lifetime: LONG,
    }
}

pub(crate) async fn only_the_holder_of_a_claim_writes(backend: &Backend) {
    let [one, other] = backend.open_state_twice().await;
    let (first, second) = (claim("run", "first", LONG), claim("run", "second", LONG));
    let log = async |position, limit| other.log(&first.key, position, limit).await.unwrap();
    let nothing = write(Some("a"), 0, &["0"]);
    assert_eq!(one.write_held(&first, nothing.clone()).await, Ok(false), "nobody has the claim");
    assert_eq!(one.claim(&first).await, Ok(true));
    assert_eq!(other.write_held(&second, nothing).await, Ok(false));
    assert_eq!((other.get(&first.key).await, log(0, 9).await), (Ok(None), Vec::new()));
    assert_eq!(one.write_held(&first, write(Some("a"), 0, &["0", "é1"])).await, Ok(true));
    assert_eq!(one.write_held(&first, write(None, 2, &["2", "3"])).await, Ok(true));
    assert_eq!(other.get(&first.key).await, Ok(Some("a".to_owned())));
    assert_eq!(log(0, 100).await, ["0", "é1", "2", "3"]);
    assert_eq!(
        (log(1, 2).await, log(4, 5).await, log(0, 0).await),
        (vec!["é1".into(), "2".into()], vec![], vec![])
    );
    // A write that is repeated, or that replaces the end of the log.
    assert_eq!(one.write_held(&first, write(None, 2, &["2", "3"])).await, Ok(true));
    assert_eq!(log(0, 100).await, ["0", "é1", "2", "3"]);
    assert_eq!(one.write_held(&first, write(Some("b"), 3, &["new"])).await, Ok(true));
    assert_eq!(one.write_held(&first, write(None, 0, &[])).await, Ok(true), "renews the claim only");
    assert_eq!(log(0, 100).await, ["0", "é1", "2", "new"]);
    // Another holder takes the right.
    other.seize(&second).await.unwrap();
    assert_eq!(one.write_held(&first, write(Some("c"), 4, &["late"])).await, Ok(false));
    assert_eq!(one.claim(&first).await, Ok(false));
    assert_eq!(other.write_held(&second, write(None, 4, &["4"])).await, Ok(true));
    assert_eq!(
        (one.get(&first.key).await, log(3, 9).await),
        (Ok(Some("b".to_owned())), vec!["new".into(), "4".into()])
    );
    // After the other one has finished too, the first one still has lost the right.
    other.release(&second).await.unwrap();
    assert_eq!(one.write_held(&first, write(Some("c"), 4, &["late"])).await, Ok(false));
    // A document of another kind does not change the log, and removing the document removes the log.
    one.put(&first.key, "d".to_owned(), LONG).await.unwrap();
    assert_eq!(log(4, 1).await, ["4"]);
    assert_eq!(other.log(&key("b", "run"), 0, 9).await, Ok(Vec::new()));
    assert_eq!(one.remove(&first.key).await, Ok(true));
    assert_eq!(log(0, 9).await, Vec::<String>::new());
}

pub(crate) async fn a_claim_and_a_log_expire(backend: &Backend) {
    let [one, other] = backend.open_state_twice().await;
    let short = claim("short", "first", Duration::from_millis(1));
    assert_eq!(one.claim(&short).await, Ok(true));
    let long = claim("short", "second", LONG);
    while !other.claim(&long).await.unwrap() {
        tokio::task::yield_now().await;
    }
    assert_eq!(one.write_held(&short, write(None, 0, &["x"])).await, Ok(false));
    let entry = HeldWrite { log_lifetime: Duration::from_millis(1), ..write(Some("{}"), 0, &["x"]) };
    assert_eq!(other.write_held(&long, entry).await, Ok(true));
    while !other.log(&long.key, 0, 9).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(one.get(&long.key).await, Ok(Some("{}".to_owned())));
    assert_eq!(other.write_held(&long, write(None, 0, &["y"])).await, Ok(true));
    assert_eq!(one.log(&long.key, 0, 9).await, Ok(vec!["y".to_owned()]));
}

pub(crate) async fn unfinished_work_is_listed_when_it_is_due(backend: &Backend) {
    let [one, other] = backend.open_state_twice().await;
    assert_eq!(one.due(9).await, Ok(Vec::new()));
    let (first, second, later) = (key("a", "first"), key("b", "second"), key("a", "later"));
    one.schedule(&later, LONG).await.unwrap();
    one.schedule(&second, LONG).await.unwrap();
    assert_eq!(other.due(9).await, Ok(Vec::new()));
    one.schedule(&first, Duration::from_millis(1)).await.unwrap();
    while other.due(9).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    // The time of a key changes, and the list has each key once.
    tokio::time::sleep(Duration::from_millis(20)).await;
    other.schedule(&second, Duration::from_millis(1)).await.unwrap();
    while one.due(9).await.unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(one.due(9).await, Ok(vec![first.clone(), second.clone()]));
    assert_eq!((one.due(1).await, one.due(0).await), (Ok(vec![first.clone()]), Ok(Vec::new())));
    other.schedule(&first, LONG).await.unwrap();
    assert_eq!(one.due(9).await, Ok(vec![second.clone()]));
    // A document and the entry in the list are independent.
    one.put(&second, "{}".to_owned(), LONG).await.unwrap();
    assert_eq!(other.remove(&second).await, Ok(true));
    assert_eq!(one.due(9).await, Ok(vec![second.clone()]));
    other.unschedule(&second).await.unwrap();
    other.unschedule(&key("a", "unknown")).await.unwrap();
    assert_eq!(one.due(9).await, Ok(Vec::new()));
}
