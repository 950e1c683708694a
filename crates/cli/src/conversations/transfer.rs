//! Exports and imports conversations: one JSON object per line.

use std::path::Path;

use serde::de::IgnoredAny;
use toolwire_contract::conversations::{ConversationId, Conversations};
use toolwire_contract::text::counted;

use super::find;
use crate::command_error::{CommandError, print_stderr};
use crate::output;
use crate::source::Source;
use crate::storage::command_error;
use crate::terminal_text::sanitize;

const PAGE_SIZE: usize = 100;

/// Exports the named conversations; all if none is named.
pub(super) async fn export(
    store: &dyn Conversations,
    references: &[String],
    file: Option<&Path>,
) -> Result<(), CommandError> {
    let ids = if references.is_empty() { all(store).await? } else { named(store, references).await? };
    let mut text = String::new();
    for id in &ids {
        let exported = store.export(id).await.map_err(command_error)?;
        if file.is_none() {
            output::print_untrusted(&format!("{exported}\n"))?;
        } else {
            text.push_str(&exported);
            text.push('\n');
        }
    }
    let Some(file) = file else { return Ok(()) };
    output::write_private_file(file, &text)?;
    let file = sanitize(&file.to_string_lossy());
    print_stderr(&format!("{} exported to {file}\n", counted(ids.len(), "conversation")));
    Ok(())
}

async fn named(
    store: &dyn Conversations,
    references: &[String],
) -> Result<Vec<ConversationId>, CommandError> {
    let mut ids = Vec::new();
    for reference in references {
        ids.push(find::one(store, reference).await?.id);
    }
    Ok(ids)
}

async fn all(store: &dyn Conversations) -> Result<Vec<ConversationId>, CommandError> {
    let mut ids = Vec::new();
    let mut cursor = None;
    loop {
        let page = store.list(PAGE_SIZE, cursor).await.map_err(command_error)?;
        ids.extend(page.conversations.into_iter().map(|conversation| conversation.id));
        cursor = page.next;
        if cursor.is_none() {
            return Ok(ids);
        }
    }
}

/// Imports each conversation of a file. A conversation that cannot be imported does not prevent the others.
pub(super) async fn import(store: &dyn Conversations, file: &Path) -> Result<(), CommandError> {
    let source = Source::new(Some(file)).read("exported conversations")?;
    let texts = split(&source.text);
    let mut imported = 0;
    let mut failed = 0;
    for (index, text) in texts.iter().enumerate() {
        match store.import(text).await {
            Ok(_) => imported += 1,
            Err(error) => {
                failed += 1;
                let place =
                    if texts.len() > 1 { format!("conversation {}: ", index + 1) } else { String::new() };
                print_stderr(&format!("{place}{}\n", sanitize(&error.to_string())));
            }
        }
    }
    print_stderr(&format!("{} imported\n", counted(imported, "conversation")));
    if failed > 0 {
        return Err(CommandError::work(format!("{} not imported", counted(failed, "conversation"))));
    }
    Ok(())
}

/// Splits a sequence of JSON values. The last part may be invalid; its import reports why.
fn split(text: &str) -> Vec<&str> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let mut parts = Vec::new();
    let mut start = 0;
    while let Some(value) = values.next() {
        let end = if value.is_ok() { values.byte_offset() } else { text.len() };
        parts.push(&text[start..end]);
        start = end;
        if value.is_err() {
            break;
        }
    }
    parts
}
