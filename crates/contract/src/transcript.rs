//! A complete conversation as a value, and its file format.
//!
//! ```json
//! {"format": "toolwire-conversation", "version": 1,
//!  "conversation": {"id": "…", "title": "…", "model": "…", "created": 0, "changed": 0,
//!                   "parent": {"conversation": "…", "at": 2}},
//!  "entries": [{"sequence": 1, "time": 0, "model": "…", "usage": {"inputTokens": 3, …}, "message": {…}}]}
//! ```
//!
//! Times are milliseconds since 1970-01-01 UTC. `message` is MCP's JSON. `title`, `model`, `parent` and
//! `usage` are optional. The message count and the total usage are computed when the file is read.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conversations::{Conversation, ConversationId, Entry, Parent, Timestamp};
use crate::json::json_kind;
use crate::model::Usage;

const FORMAT: &str = "toolwire-conversation";
const VERSION: u64 = 1;

/// A consistent snapshot of a conversation and its entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    pub conversation: Conversation,
    /// In order.
    pub entries: Vec<Entry>,
}

/// Text that is not an exported conversation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTranscript {
    #[error("invalid JSON: {problem}")]
    NotJson { problem: String },
    #[error("not an exported conversation: {found}")]
    Foreign { found: String },
    #[error("unsupported format version {found}; this program supports version {known}")]
    OtherVersion { found: String, known: u64 },
    #[error("the file is damaged: {problem}")]
    Damaged { problem: String },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TranscriptFile {
    format: String,
    version: u64,
    conversation: ConversationHeader,
    entries: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConversationHeader {
    id: ConversationId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    created: Timestamp,
    changed: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<Parent>,
}

impl Transcript {
    /// Returns the export as JSON text without raw control characters, so that a terminal that displays it
    /// does not interpret it.
    pub fn to_json(&self) -> String {
        let Conversation { id, title, model, created, changed, parent, .. } = self.conversation.clone();
        let file = TranscriptFile {
            format: FORMAT.to_owned(),
            version: VERSION,
            conversation: ConversationHeader { id, title, model, created, changed, parent },
            entries: self.entries.clone(),
        };
        escape_controls(
            &serde_json::to_string(&file).expect("text, numbers and messages are always valid JSON"),
        )
    }

    /// Reads an export; a damaged file is rejected as a whole.
    pub fn from_json(text: &str) -> Result<Transcript, InvalidTranscript> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| InvalidTranscript::NotJson { problem: error.to_string() })?;
        match value.get("format") {
            Some(Value::String(format)) if format == FORMAT => {}
            Some(Value::String(format)) => {
                return Err(InvalidTranscript::Foreign { found: format!("the format is `{format}`") });
            }
            _ => {
                return Err(InvalidTranscript::Foreign {
                    found: format!("{} without a `format` field", json_kind(&value)),
                });
            }
        }
        match value.get("version") {
            Some(version) if version.as_u64() == Some(VERSION) => {}
            version => {
                let found = version.map_or_else(|| "(missing)".to_owned(), Value::to_string);
                return Err(InvalidTranscript::OtherVersion { found, known: VERSION });
            }
        }
        // Parsed again from the text, so that errors have a line and a column.
        let file: TranscriptFile = serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
        let ConversationHeader { id, title, model, created, changed, parent } = file.conversation;
        let conversation =
            Conversation { id, title, model, created, changed, messages: 0, usage: Usage::default(), parent };
        Transcript::checked(conversation, file.entries)
    }

    /// Validates a conversation and computes its totals. Entries must be numbered from 1 without gaps. Their
    /// times must not decrease or be later than the conversation's `changed` time.
    pub fn checked(
        mut conversation: Conversation,
        entries: Vec<Entry>,
    ) -> Result<Transcript, InvalidTranscript> {
        conversation.messages = 0;
        conversation.usage = Usage::default();
        let mut latest = Timestamp::default();
        for entry in &entries {
            conversation.messages += 1;
            let expected = conversation.messages;
            if entry.sequence != expected {
                return Err(damaged(format!("entry {expected} has sequence number {}", entry.sequence)));
            }
            if entry.time < latest {
                return Err(damaged(format!("entry {expected} is older than the previous entry")));
            }
            latest = entry.time;
            let usage = entry.usage.unwrap_or_default();
            for count in counts(usage) {
                check_number(count, &format!("the usage of entry {expected}"))?;
            }
            conversation.usage = conversation.usage.plus(&usage);
        }
        if conversation.changed < latest {
            return Err(damaged("the last entry is newer than the conversation's `changed` time".to_owned()));
        }
        check_number(conversation.changed.0.max(conversation.created.0), "a timestamp")?;
        check_number(conversation.parent.as_ref().map_or(0, |parent| parent.at), "the fork position")?;
        Ok(Transcript { conversation, entries })
    }
}

/// Escapes DEL and the controls from U+0080 to U+009F in JSON text. `serde_json` escapes only those below
/// U+0020.
fn escape_controls(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_control() {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

fn counts(usage: Usage) -> [u64; 6] {
    [
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
        usage.cost_nanodollars.unwrap_or_default(),
    ]
}

fn check_number(number: u64, label: &str) -> Result<(), InvalidTranscript> {
    if number > Usage::MAX_COUNT { Err(damaged(format!("{label} is too large: {number}"))) } else { Ok(()) }
}

fn damaged(problem: String) -> InvalidTranscript {
    InvalidTranscript::Damaged { problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"format":"toolwire-conversation","version":1,"conversation":{"id":"017f22e2-79b0-7cc3-98c4-dc0c0c07398f","title":"Tides","created":5,"changed":7,"parent":{"conversation":"017f22e2-79b0-7cc3-98c4-dc0c0c073980","at":1}},"entries":[{"sequence":1,"time":6,"message":{"role":"user","content":[{"type":"text","text":"hi"}],"_meta":{"n":1.0}}},{"sequence":2,"time":7,"model":"demo","usage":{"inputTokens":3,"outputTokens":4,"cachedTokens":0,"reasoningTokens":0,"costNanodollars":9},"message":{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"n":12345678901234567890}}]}}]}"#;

    #[test]
    fn an_export_round_trips_byte_for_byte() {
        let transcript = Transcript::from_json(TEXT).expect("a valid export");
        assert_eq!(transcript.to_json(), TEXT);
        assert_eq!(transcript.conversation.messages, 2);
        assert_eq!(transcript.conversation.usage.cost_nanodollars, Some(9));
    }

    #[test]
    fn an_export_has_no_raw_control_characters() {
        let raw = TEXT.replace("\"hi\"", "\"\u{7f}a\u{9b}2J\u{85}\\u001b[2J\\nä\"");
        let escaped = TEXT.replace("\"hi\"", "\"\\u007fa\\u009b2J\\u0085\\u001b[2J\\nä\"");
        let transcript = Transcript::from_json(&raw).expect("a valid export");
        assert_eq!(transcript.to_json(), escaped);
        assert_eq!(Transcript::from_json(&escaped).expect("a valid export"), transcript);
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let error = Transcript::from_json(text).expect_err("an invalid export");
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn text_that_is_not_an_export_is_rejected() {
        check("", "invalid JSON: EOF");
        check(&TEXT[..TEXT.len() - 1], "invalid JSON");
        check("[1]", "not an exported conversation: an array without a `format` field");
        check(r#"{"format":"other","version":1}"#, "the format is `other`");
        check(
            &TEXT.replace("\"version\":1", "\"version\":2"),
            "unsupported format version 2; this program supports version 1",
        );
        check(&TEXT.replace("\"version\":1,", ""), "unsupported format version (missing)");
        check(&TEXT.replace("\"sequence\":2", "\"sequence\":3"), "entry 2 has sequence number 3");
        check(&TEXT.replace("\"time\":7", "\"time\":5"), "entry 2 is older than the previous entry");
        check(&TEXT.replace("\"changed\":7", "\"changed\":6"), "the last entry is newer");
        check(&TEXT.replace("\"role\":\"user\"", "\"role\":\"system\""), "must have the role");
        check(&TEXT.replace("\"title\"", "\"titel\""), "unknown field `titel`");
        check(
            &TEXT.replace("\"inputTokens\":3", "\"inputTokens\":9007199254740992"),
            "the usage of entry 2 is too large",
        );
    }
}
