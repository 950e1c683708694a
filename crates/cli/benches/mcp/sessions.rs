//! The memory of sessions.

use std::error::Error;

use futures::{StreamExt as _, TryStreamExt as _};

use crate::client::Client;
use crate::figures::megabytes;
use crate::process::Gateway;
use crate::{REVISIONS, config, echo, load};

const SESSIONS: usize = 5_000;
/// The number of sessions that are opened at the same time.
const AT_ONCE: usize = 32;

pub(crate) async fn print() -> Result<(), Box<dyn Error>> {
    let server = echo::start()?;
    let gateway = Gateway::start(&config(&server))?;
    let client = Client::new(gateway.address, REVISIONS[0]);
    let mut rows = vec![("before", gateway.memory()?)];
    let opening = (0..SESSIONS).map(|_| client.open_session());
    let sessions: Vec<String> =
        futures::stream::iter(opening).buffer_unordered(AT_ONCE).try_collect().await?;
    rows.push(("opened", gateway.memory()?));
    for session in &sessions {
        load::latencies(&client.call_in(session), 1).await?;
    }
    rows.push(("after a call in each", gateway.memory()?));
    let mut streams = Vec::with_capacity(SESSIONS);
    for session in &sessions {
        streams.push(client.open_stream(session).await?);
    }
    rows.push(("with an open stream in each", gateway.memory()?));
    println!("| {SESSIONS} sessions, {} | memory of the gateway |\n|---|--:|", REVISIONS[0]);
    for (name, memory) in rows {
        println!("| {name} | {:.1} MB |", megabytes(memory));
    }
    println!();
    Ok(())
}
