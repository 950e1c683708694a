//! The store operations as SQL, each in its own transaction.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior};
use toolwire_contract::Message;
use toolwire_contract::conversations::{
    Conversation, ConversationId, ConversationPage, Cursor, Entry, NewConversation, NewEntry, Parent,
    SearchHit, SearchResults, StoreError, Timestamp, Transcript,
};
use toolwire_contract::model::Usage;

use super::error::SqliteFailure;
use super::index;
use crate::clock::now;
use crate::nesting;
use crate::search_text::{self, Query};

const COLUMNS: &str = "number, id, title, model, created, changed, messages, usage, parent, parent_at";

pub(super) fn begin(
    connection: &mut Connection,
    id: ConversationId,
    new: NewConversation,
) -> Result<Conversation, SqliteFailure> {
    let now = now();
    let conversation = Conversation {
        id,
        title: new.title,
        model: new.model,
        created: now,
        changed: now,
        messages: 0,
        usage: Usage::default(),
        parent: None,
    };
    restore(connection, Transcript { conversation, entries: Vec::new() })
}

pub(super) fn append(
    connection: &mut Connection,
    id: ConversationId,
    entries: Vec<NewEntry>,
    expected: Option<u64>,
) -> Result<u64, SqliteFailure> {
    let transaction = write_transaction(connection)?;
    let (number, mut conversation) = find(&transaction, &id)?;
    if let Some(expected) = expected.filter(|expected| *expected != conversation.messages) {
        let found = conversation.messages;
        return Err(StoreError::Conflict { conversation: id, expected, found }.into());
    }
    if entries.is_empty() {
        return Ok(conversation.messages);
    }
    // Never earlier than the last message, even if the clock was set back.
    let time = now().max(conversation.changed);
    for NewEntry { message, model, usage } in entries {
        let usage = usage.map(|usage| Usage::default().plus(&usage));
        conversation.messages += 1;
        conversation.usage = conversation.usage.plus(&usage.unwrap_or_default());
        let entry = Entry { sequence: conversation.messages, time, model, usage, message };
        insert(&transaction, number, &entry)?;
        conversation.model = entry.model.or(conversation.model);
    }
    transaction
        .prepare_cached(
            "UPDATE conversation SET changed = ?2, messages = ?3, usage = ?4, model = ?5 WHERE number = ?1",
        )?
        .execute((
            number,
            to_signed(time.0),
            to_signed(conversation.messages),
            json(&conversation.usage),
            &conversation.model,
        ))?;
    transaction.commit()?;
    Ok(conversation.messages)
}

pub(super) fn get(connection: &mut Connection, id: &ConversationId) -> Result<Conversation, SqliteFailure> {
    Ok(find(connection, id)?.1)
}

pub(super) fn load(
    connection: &mut Connection,
    id: &ConversationId,
    after: u64,
    until: u64,
) -> Result<Transcript, SqliteFailure> {
    // One transaction, so that both reads see the same state.
    let transaction = connection.transaction()?;
    let (number, conversation) = find(&transaction, id)?;
    let entries = entries(&transaction, number, after, until)?;
    Ok(Transcript { conversation, entries })
}

pub(super) fn list(
    connection: &mut Connection,
    limit: usize,
    after: Option<Cursor>,
) -> Result<ConversationPage, SqliteFailure> {
    let limit = limit.max(1);
    let (changed, id) = match &after {
        Some(cursor) => (to_signed(cursor.changed.0), cursor.id.as_str()),
        None => (i64::MAX, ""),
    };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM conversation WHERE (changed, id) < (?1, ?2) \
         ORDER BY changed DESC, id DESC LIMIT ?3"
    ))?;
    let mut rows = statement.query((changed, id, to_signed(limit as u64).saturating_add(1)))?;
    let mut page = ConversationPage { conversations: Vec::new(), next: None };
    while let Some(row) = rows.next()? {
        if page.conversations.len() == limit {
            // There is one more row, so there is a next page.
            page.next =
                page.conversations.last().map(|last| Cursor { changed: last.changed, id: last.id.clone() });
            break;
        }
        page.conversations.push(read_conversation(row)?.1);
    }
    Ok(page)
}

pub(super) fn rename(
    connection: &mut Connection,
    id: ConversationId,
    title: Option<String>,
) -> Result<(), SqliteFailure> {
    let transaction = write_transaction(connection)?;
    let renamed =
        transaction.execute("UPDATE conversation SET title = ?2 WHERE id = ?1", (id.as_str(), title))?;
    transaction.commit()?;
    if renamed == 0 { Err(StoreError::UnknownConversation { conversation: id }.into()) } else { Ok(()) }
}

pub(super) fn fork(
    connection: &mut Connection,
    id: ConversationId,
    at: u64,
    new_id: ConversationId,
) -> Result<Conversation, SqliteFailure> {
    let transaction = write_transaction(connection)?;
    let (number, parent) = find(&transaction, &id)?;
    if at > parent.messages {
        let messages = parent.messages;
        return Err(StoreError::UnknownPosition { conversation: id, position: at, messages }.into());
    }
    let entries = entries(&transaction, number, 0, at)?;
    let now = now().max(parent.changed);
    let conversation = Conversation {
        id: new_id,
        created: now,
        changed: now,
        parent: Some(Parent { conversation: id, at }),
        ..parent
    };
    let transcript = Transcript::checked(conversation, entries).map_err(StoreError::from)?;
    insert_all(&transaction, &transcript)?;
    transaction.commit()?;
    Ok(transcript.conversation)
}

pub(super) fn forks(
    connection: &mut Connection,
    id: &ConversationId,
) -> Result<Vec<Conversation>, SqliteFailure> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM conversation WHERE parent = ?1 ORDER BY created, id"
    ))?;
    let mut rows = statement.query([id.as_str()])?;
    let mut forks = Vec::new();
    while let Some(row) = rows.next()? {
        forks.push(read_conversation(row)?.1);
    }
    Ok(forks)
}

pub(super) fn search(
    connection: &mut Connection,
    query: &Query,
    conversation: Option<&ConversationId>,
    limit: usize,
) -> Result<SearchResults, SqliteFailure> {
    let mut statement = connection.prepare_cached(
        "SELECT conversation.id, conversation.title, message.sequence, message.time, message.body \
         FROM word JOIN message ON message.number = word.rowid \
         JOIN conversation ON conversation.number = message.conversation \
         WHERE word MATCH ?1 AND (?3 IS NULL OR conversation.id = ?3) \
         ORDER BY conversation.changed DESC, conversation.id DESC, message.sequence DESC LIMIT ?2",
    )?;
    let mut rows = statement.query((
        query.to_fts5(),
        to_signed(limit as u64),
        conversation.map(ConversationId::as_str),
    ))?;
    let mut hits = Vec::new();
    while let Some(row) = rows.next()? {
        let message = read_message(row, 4)?;
        // The index and the query use the same terms, so the match is always found again.
        let snippet = query.find(&search_text::searchable_text(&message)).unwrap_or_default();
        hits.push(SearchHit {
            conversation: read_id(row.get(0)?)?,
            title: row.get(1)?,
            sequence: to_unsigned(row.get(2)?)?,
            time: Timestamp(to_unsigned(row.get(3)?)?),
            role: message.role,
            snippet,
        });
    }
    Ok(SearchResults { hits, is_complete: true })
}

pub(super) fn remove(connection: &mut Connection, id: ConversationId) -> Result<(), SqliteFailure> {
    let transaction = write_transaction(connection)?;
    let (number, _) = find(&transaction, &id)?;
    transaction.execute(
        "DELETE FROM word WHERE rowid IN (SELECT number FROM message WHERE conversation = ?1)",
        [number],
    )?;
    transaction.execute("DELETE FROM conversation WHERE number = ?1", [number])?;
    index::after_removal(&transaction)?;
    transaction.commit()?;
    Ok(())
}

pub(super) fn restore(
    connection: &mut Connection,
    transcript: Transcript,
) -> Result<Conversation, SqliteFailure> {
    let Transcript { conversation, entries } = transcript;
    let transcript = Transcript::checked(conversation, entries).map_err(StoreError::from)?;
    let transaction = write_transaction(connection)?;
    let id = &transcript.conversation.id;
    let exists: bool = transaction.query_row(
        "SELECT EXISTS (SELECT 1 FROM conversation WHERE id = ?1)",
        [id.as_str()],
        |row| row.get(0),
    )?;
    if exists {
        return Err(StoreError::Exists { conversation: id.clone() }.into());
    }
    insert_all(&transaction, &transcript)?;
    transaction.commit()?;
    Ok(transcript.conversation)
}

/// Starts a transaction that takes the write lock immediately: a transaction that started with a read could
/// not wait for the lock later.
pub(super) fn write_transaction(connection: &mut Connection) -> Result<Transaction<'_>, SqliteFailure> {
    Ok(connection.transaction_with_behavior(TransactionBehavior::Immediate)?)
}

fn find(connection: &Connection, id: &ConversationId) -> Result<(i64, Conversation), SqliteFailure> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} FROM conversation WHERE id = ?1"))?;
    let found = statement.query_row([id.as_str()], |row| Ok(read_conversation(row))).optional()?;
    found.unwrap_or_else(|| Err(StoreError::UnknownConversation { conversation: id.clone() }.into()))
}

fn entries(
    connection: &Connection,
    number: i64,
    after: u64,
    until: u64,
) -> Result<Vec<Entry>, SqliteFailure> {
    let mut statement = connection.prepare_cached(
        "SELECT sequence, time, model, usage, body FROM message \
         WHERE conversation = ?1 AND sequence > ?2 AND sequence <= ?3 ORDER BY sequence",
    )?;
    let mut rows = statement.query((number, to_signed(after), to_signed(until)))?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let usage: Option<String> = row.get(3)?;
        entries.push(Entry {
            sequence: to_unsigned(row.get(0)?)?,
            time: Timestamp(to_unsigned(row.get(1)?)?),
            model: row.get(2)?,
            usage: usage.as_deref().map(read_usage).transpose()?,
            message: read_message(row, 4)?.into(),
        });
    }
    Ok(entries)
}

fn insert_all(connection: &Connection, transcript: &Transcript) -> Result<(), SqliteFailure> {
    let Conversation { id, title, model, created, changed, messages, usage, parent } =
        &transcript.conversation;
    connection
        .prepare_cached(
            "INSERT INTO conversation (id, title, model, created, changed, messages, usage, parent, parent_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute((
            id.as_str(),
            title,
            model,
            to_signed(created.0),
            to_signed(changed.0),
            to_signed(*messages),
            json(usage),
            parent.as_ref().map(|parent| parent.conversation.as_str()),
            parent.as_ref().map(|parent| to_signed(parent.at)),
        ))?;
    let number = connection.last_insert_rowid();
    transcript.entries.iter().try_for_each(|entry| insert(connection, number, entry))
}

fn insert(connection: &Connection, number: i64, entry: &Entry) -> Result<(), SqliteFailure> {
    let Entry { sequence, time, model, usage, message } = entry;
    let body = json(message);
    nesting::check(&body, &place(connection))?;
    connection
        .prepare_cached(
            "INSERT INTO message (conversation, sequence, time, model, usage, body) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute((number, to_signed(*sequence), to_signed(time.0), model, usage.as_ref().map(json), body))?;
    Ok(())
}

fn place(connection: &Connection) -> String {
    connection.path().unwrap_or_default().to_owned()
}

fn read_conversation(row: &Row<'_>) -> Result<(i64, Conversation), SqliteFailure> {
    let parent: Option<String> = row.get(8)?;
    let parent_at: Option<i64> = row.get(9)?;
    let parent = match (parent, parent_at) {
        (Some(parent), Some(at)) => Some(Parent { conversation: read_id(parent)?, at: to_unsigned(at)? }),
        _ => None,
    };
    let usage: String = row.get(7)?;
    let conversation = Conversation {
        id: read_id(row.get(1)?)?,
        title: row.get(2)?,
        model: row.get(3)?,
        created: Timestamp(to_unsigned(row.get(4)?)?),
        changed: Timestamp(to_unsigned(row.get(5)?)?),
        messages: to_unsigned(row.get(6)?)?,
        usage: read_usage(&usage)?,
        parent,
    };
    Ok((row.get(0)?, conversation))
}

pub(super) fn read_message(row: &Row<'_>, column: usize) -> Result<Message, SqliteFailure> {
    let text = row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?;
    serde_json::from_str(text)
        .map_err(|error| SqliteFailure::Damaged(format!("a message cannot be parsed: {error}")))
}

fn read_usage(text: &str) -> Result<Usage, SqliteFailure> {
    serde_json::from_str(text)
        .map_err(|error| SqliteFailure::Damaged(format!("a stored usage cannot be parsed: {error}")))
}

fn read_id(text: String) -> Result<ConversationId, SqliteFailure> {
    ConversationId::try_from(text).map_err(|error| SqliteFailure::Damaged(error.to_string()))
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("messages and numbers are always valid JSON")
}

/// Converts to SQLite's signed integers.
fn to_signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn to_unsigned(number: i64) -> Result<u64, SqliteFailure> {
    u64::try_from(number)
        .map_err(|_| SqliteFailure::Damaged(format!("expected a non-negative number, found {number}")))
}
