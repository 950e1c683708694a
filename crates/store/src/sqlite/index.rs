//! The full-text index. It is updated while the store is idle, so appending does not wait for it; a search
//! first adds the missing messages.

use rusqlite::Connection;

use super::error::SqliteFailure;
use super::queries::{read_message, write_transaction};
use crate::search_text;

/// The maximum number of messages that are indexed in one transaction, before other writers get a turn.
const BATCH_MESSAGES: u32 = 1_000;

/// Whether messages are missing in the index.
pub(super) fn is_behind(connection: &Connection) -> Result<bool, SqliteFailure> {
    let sql = "SELECT through < (SELECT coalesce(max(number), 0) FROM message) FROM indexed";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Indexes all messages that are missing in the index.
pub(super) fn catch_up(connection: &mut Connection) -> Result<(), SqliteFailure> {
    while is_behind(connection)? {
        index_batch(connection)?;
    }
    Ok(())
}

fn index_batch(connection: &mut Connection) -> Result<(), SqliteFailure> {
    let transaction = write_transaction(connection)?;
    {
        let mut messages = transaction.prepare_cached(
            "SELECT number, body FROM message WHERE number > (SELECT through FROM indexed) ORDER BY number LIMIT ?1",
        )?;
        let mut insert = transaction.prepare_cached("INSERT INTO word (rowid, words) VALUES (?1, ?2)")?;
        let mut through = None;
        let mut rows = messages.query([BATCH_MESSAGES])?;
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(0)?;
            through = Some(number);
            // An unreadable message is skipped here; loading the conversation reports it.
            if let Ok(message) = read_message(row, 1) {
                insert
                    .execute((number, search_text::split_terms(&search_text::searchable_text(&message))))?;
            }
        }
        if let Some(through) = through {
            transaction.execute("UPDATE indexed SET through = ?1", [through])?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Lowers the indexed position after messages are removed: SQLite may reuse their numbers, and messages with
/// reused numbers must be indexed.
pub(super) fn after_removal(connection: &Connection) -> Result<(), SqliteFailure> {
    connection.execute(
        "UPDATE indexed SET through = min(through, (SELECT coalesce(max(number), 0) FROM message))",
        [],
    )?;
    Ok(())
}
