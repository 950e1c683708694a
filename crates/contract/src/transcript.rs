//! A whole conversation as a value, and the one file format for it.
//!
//! ```json
//! {"format": "toolwire-conversation", "version": 1,
//!  "conversation": {"id": "…", "title": "…", "model": "…", "created": 0, "changed": 0,
//!                   "parent": {"conversation": "…", "at": 2}},
//!  "entries": [{"sequence": 1, "time": 0, "model": "…", "usage": {"inputTokens": 3, …}, "message": {…}}]}
//! ```
//!
//! Times are milliseconds since 1970 in UTC, `message` is MCP's own JSON; `title`, `model`, `parent` and `usage` may be
//! absent. How many messages there are and what they cost together is counted when the file is read.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fields::kind_of;
use crate::{Conversation, ConversationId, Entry, Parent, Timestamp, Usage};

const FORMAT: &str = "toolwire-conversation";
const VERSION: u64 = 1;

/// A conversation with its entries, all as they were at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    pub conversation: Conversation,
    /// In their order.
    pub entries: Vec<Entry>,
}

/// Text that is no exported conversation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTranscript {
    #[error("it is not JSON: {problem}")]
    NotJson { problem: String },
    #[error("it is {found}, not an exported conversation")]
    Foreign { found: String },
    #[error("it has format version {found}, and this program knows version {known}")]
    OtherVersion { found: String, known: u64 },
    #[error("it is damaged: {problem}")]
    Damaged { problem: String },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    version: u64,
    conversation: Head,
    entries: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
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
    /// The text of an export.
    pub fn to_json(&self) -> String {
        let Conversation { id, title, model, created, changed, parent, .. } = self.conversation.clone();
        let file = File {
            format: FORMAT.to_owned(),
            version: VERSION,
            conversation: Head { id, title, model, created, changed, parent },
            entries: self.entries.clone(),
        };
        serde_json::to_string(&file).expect("text, numbers and messages are always JSON")
    }

    /// Reads an export, wholly or not at all.
    pub fn from_json(text: &str) -> Result<Transcript, InvalidTranscript> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| InvalidTranscript::NotJson { problem: error.to_string() })?;
        match value.get("format") {
            Some(Value::String(format)) if format == FORMAT => {}
            Some(Value::String(format)) => {
                return Err(InvalidTranscript::Foreign { found: format!("of the format `{format}`") });
            }
            _ => {
                return Err(InvalidTranscript::Foreign {
                    found: format!("{} without our `format`", kind_of(&value)),
                });
            }
        }
        match value.get("version") {
            Some(version) if version.as_u64() == Some(VERSION) => {}
            version => {
                let found = version.map_or_else(|| "none".to_owned(), Value::to_string);
                return Err(InvalidTranscript::OtherVersion { found, known: VERSION });
            }
        }
        // From the text once more: then an error has its line and column.
        let file: File = serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
        let Head { id, title, model, created, changed, parent } = file.conversation;
        let conversation =
            Conversation { id, title, model, created, changed, messages: 0, usage: Usage::default(), parent };
        Transcript::checked(conversation, file.entries)
    }

    /// A whole conversation: its entries must be numbered from 1 without gaps, and their times must not go back nor be
    /// later than the conversation's last change. The totals are counted anew.
    pub fn checked(
        mut conversation: Conversation,
        entries: Vec<Entry>,
    ) -> Result<Transcript, InvalidTranscript> {
        conversation.messages = 0;
        conversation.usage = Usage::default();
        let mut latest = Timestamp::default();
        for entry in &entries {
            conversation.messages += 1;
            let due = conversation.messages;
            if entry.sequence != due {
                return Err(damaged(format!("entry {due} has the sequence number {}", entry.sequence)));
            }
            if entry.time < latest {
                return Err(damaged(format!("entry {due} is older than the one before")));
            }
            latest = entry.time;
            let usage = entry.usage.unwrap_or_default();
            for number in numbers(usage) {
                check_number(number, &format!("the usage of entry {due}"))?;
            }
            conversation.usage = conversation.usage.plus(&usage);
        }
        if conversation.changed < latest {
            return Err(damaged("the last entry is younger than the conversation".to_owned()));
        }
        check_number(conversation.changed.0.max(conversation.created.0), "a time")?;
        check_number(conversation.parent.as_ref().map_or(0, |parent| parent.at), "the place of the fork")?;
        Ok(Transcript { conversation, entries })
    }
}

fn numbers(usage: Usage) -> [u64; 5] {
    let Usage { input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_nanodollars } = usage;
    [input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_nanodollars.unwrap_or_default()]
}

fn check_number(number: u64, place: &str) -> Result<(), InvalidTranscript> {
    if number > Usage::MOST { Err(damaged(format!("{place} is too large: {number}"))) } else { Ok(()) }
}

fn damaged(problem: String) -> InvalidTranscript {
    InvalidTranscript::Damaged { problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"format":"toolwire-conversation","version":1,"conversation":{"id":"017f22e2-79b0-7cc3-98c4-dc0c0c07398f","title":"Tides","created":5,"changed":7,"parent":{"conversation":"017f22e2-79b0-7cc3-98c4-dc0c0c073980","at":1}},"entries":[{"sequence":1,"time":6,"message":{"role":"user","content":[{"type":"text","text":"hi"}],"_meta":{"n":1.0}}},{"sequence":2,"time":7,"model":"demo","usage":{"inputTokens":3,"outputTokens":4,"cachedTokens":0,"reasoningTokens":0,"costNanodollars":9},"message":{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"n":12345678901234567890}}]}}]}"#;

    #[test]
    fn an_export_survives_to_the_byte_and_is_counted() {
        let transcript = Transcript::from_json(TEXT).expect("it is an export");
        assert_eq!(transcript.to_json(), TEXT);
        assert_eq!(transcript.conversation.messages, 2);
        assert_eq!(transcript.conversation.usage.cost_nanodollars, Some(9));
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let error = Transcript::from_json(text).expect_err("it is no export");
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn what_is_no_export_is_told() {
        check("", "it is not JSON: EOF");
        check(&TEXT[..TEXT.len() - 1], "it is not JSON");
        check("[1]", "it is an array without our `format`, not an exported conversation");
        check(r#"{"format":"other","version":1}"#, "of the format `other`");
        check(
            &TEXT.replace("\"version\":1", "\"version\":2"),
            "format version 2, and this program knows version 1",
        );
        check(&TEXT.replace("\"version\":1,", ""), "format version none");
        check(&TEXT.replace("\"sequence\":2", "\"sequence\":3"), "entry 2 has the sequence number 3");
        check(&TEXT.replace("\"time\":7", "\"time\":5"), "entry 2 is older than the one before");
        check(&TEXT.replace("\"changed\":7", "\"changed\":6"), "the last entry is younger");
        check(&TEXT.replace("\"role\":\"user\"", "\"role\":\"system\""), "must have the role");
        check(&TEXT.replace("\"title\"", "\"titel\""), "unknown field `titel`");
        check(
            &TEXT.replace("\"inputTokens\":3", "\"inputTokens\":9007199254740992"),
            "the usage of entry 2 is too large",
        );
    }
}
