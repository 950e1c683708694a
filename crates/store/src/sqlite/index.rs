//! The words of the messages, for searching. They follow when there is time for it: whoever appends does not wait for them, and
//! whoever searches has what is missing added first.

use rusqlite::Connection;

use super::failure::Failure;
use super::rows::{read_message, write};
use crate::words;

/// How many messages are indexed in one go, before others may write.
const AT_ONCE: u32 = 1_000;

/// Whether a search would miss something.
pub(super) fn is_behind(connection: &Connection) -> Result<bool, Failure> {
    let sql = "SELECT through < (SELECT coalesce(max(number), 0) FROM message) FROM indexed";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Adds the words of all messages that have none yet.
pub(super) fn catch_up(connection: &mut Connection) -> Result<(), Failure> {
    while is_behind(connection)? {
        go_on(connection)?;
    }
    Ok(())
}

fn go_on(connection: &mut Connection) -> Result<(), Failure> {
    let transaction = write(connection)?;
    {
        let mut messages = transaction.prepare_cached(
            "SELECT number, body FROM message WHERE number > (SELECT through FROM indexed) ORDER BY number LIMIT ?1",
        )?;
        let mut insert = transaction.prepare_cached("INSERT INTO word (rowid, words) VALUES (?1, ?2)")?;
        let mut through = None;
        let mut rows = messages.query([AT_ONCE])?;
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(0)?;
            through = Some(number);
            // What cannot be read is told to whoever loads it; the search goes on without it.
            if let Ok(message) = read_message(row, 1) {
                insert.execute((number, words::spaced(&words::text_of(&message))))?;
            }
        }
        if let Some(through) = through {
            transaction.execute("UPDATE indexed SET through = ?1", [through])?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// The last numbers may be given again once their messages are gone: what comes then has no words yet.
pub(super) fn forget(connection: &Connection) -> Result<(), Failure> {
    connection.execute(
        "UPDATE indexed SET through = min(through, (SELECT coalesce(max(number), 0) FROM message))",
        [],
    )?;
    Ok(())
}
