//! A conversation that is kept: what is known about it, and its entries.

use core::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Message;

/// What is known about a conversation without its messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conversation {
    pub id: ConversationId,
    pub title: Option<String>,
    /// The model that was named last, at the beginning or with a message.
    pub model: Option<String>,
    pub created: Timestamp,
    /// When the last message was added, or the conversation began.
    pub changed: Timestamp,
    /// How many messages there are: the sequence number of the last one.
    pub messages: u64,
    /// The sum over all entries, those that a fork took along included.
    pub usage: Usage,
    pub parent: Option<Parent>,
}

/// Where a fork comes from. The parent may be gone by now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parent {
    pub conversation: ConversationId,
    /// How many messages of the parent the fork began with.
    pub at: u64,
}

/// One message as it is kept. Entries are numbered from 1 without gaps and never change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub sequence: u64,
    /// When the store took it. Times never go back within a conversation.
    pub time: Timestamp,
    /// The model that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it cost to get it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    pub message: Arc<Message>,
}

/// Tokens and money.
///
/// Numbers stop growing at [`Usage::MOST`], the largest whole number that all readers of JSON agree on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Usage {
    /// All tokens that went in, the cached ones included.
    pub input_tokens: u64,
    /// All tokens that came out, the reasoning ones included.
    pub output_tokens: u64,
    pub cached_tokens: u64,
    pub reasoning_tokens: u64,
    /// In billionths of a US dollar, so that sums are exact; `None` when nobody said what it costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_nanodollars: Option<u64>,
}

impl Usage {
    /// 2⁵³ − 1.
    pub const MOST: u64 = (1 << 53) - 1;

    /// Both together. A cost that is known is not forgotten for one that is not.
    #[must_use]
    pub fn plus(&self, other: &Usage) -> Usage {
        let sum = |one: u64, other: u64| one.saturating_add(other).min(Usage::MOST);
        let cost = match (self.cost_nanodollars, other.cost_nanodollars) {
            (Some(one), Some(other)) => Some(sum(one, other)),
            (one, other) => one.or(other).map(|cost| sum(cost, 0)),
        };
        Usage {
            input_tokens: sum(self.input_tokens, other.input_tokens),
            output_tokens: sum(self.output_tokens, other.output_tokens),
            cached_tokens: sum(self.cached_tokens, other.cached_tokens),
            reasoning_tokens: sum(self.reasoning_tokens, other.reasoning_tokens),
            cost_nanodollars: cost,
        }
    }

    /// The cost in US dollars, for people to read.
    pub fn dollars(&self) -> Option<f64> {
        self.cost_nanodollars.map(|nanodollars| nanodollars as f64 / 1e9)
    }
}

/// A moment, in milliseconds since 1970 began in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

/// The name of a conversation: a UUID in lower case. Those that a store makes are of version 7, so that sorting them
/// as text sorts them by the time they were made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConversationId(String);

/// Not the name of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no conversation id: it must be a UUID such as `0198f1c2-7d3a-7b11-9c55-2f6b0a1d4e83`")]
pub struct InvalidId {
    pub text: String,
}

impl ConversationId {
    /// A UUID of version 7 from a time and ten random bytes (74 of their bits are used).
    pub fn new(time: Timestamp, random: [u8; 10]) -> ConversationId {
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&time.0.to_be_bytes()[2..]);
        bytes[6..].copy_from_slice(&random);
        bytes[6] = bytes[6] & 0x0f | 0x70;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let mut text = String::with_capacity(36);
        for (index, byte) in bytes.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            for half in [byte >> 4, byte & 0x0f] {
                text.push(char::from_digit(half.into(), 16).expect("half a byte is one digit"));
            }
        }
        ConversationId(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ConversationId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<ConversationId, InvalidId> {
        let is_uuid = text.len() == 36
            && text.bytes().enumerate().all(|(index, byte)| match index {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            });
        if is_uuid { Ok(ConversationId(text.to_ascii_lowercase())) } else { Err(InvalidId { text }) }
    }
}

impl core::str::FromStr for ConversationId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<ConversationId, InvalidId> {
        text.to_owned().try_into()
    }
}

impl From<ConversationId> for String {
    fn from(id: ConversationId) -> String {
        id.0
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_uuid_of_version_7() {
        // The example of RFC 9562, appendix A.6.
        let random = [0x0c, 0xc3, 0x18, 0xc4, 0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f];
        let id = ConversationId::new(Timestamp(0x017F_22E2_79B0), random);
        assert_eq!(id.as_str(), "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
        assert_eq!(id.as_str().parse(), Ok(id));
    }

    #[test]
    fn ids_sort_by_time() {
        let earlier = ConversationId::new(Timestamp(255), [0xff; 10]);
        let later = ConversationId::new(Timestamp(256), [0; 10]);
        assert!(earlier < later);
    }

    #[test]
    fn an_id_is_read_in_either_case_and_nothing_else_is() {
        let id: Result<ConversationId, _> = "017F22E2-79B0-7CC3-98C4-DC0C0C07398F".parse();
        assert_eq!(id.map(String::from), Ok("017f22e2-79b0-7cc3-98c4-dc0c0c07398f".to_owned()));
        for text in
            ["", "017f22e2", "017f22e279b07cc398c4dc0c0c07398f", "017f22e2-79b0-7cc3-98c4-dc0c0c07398g"]
        {
            assert_eq!(text.parse::<ConversationId>(), Err(InvalidId { text: text.to_owned() }));
        }
    }

    #[test]
    fn usage_adds_up_and_stops_at_the_most() {
        let one = Usage { input_tokens: 5, cost_nanodollars: Some(7), ..Usage::default() };
        let other = Usage { input_tokens: u64::MAX, output_tokens: 2, ..Usage::default() };
        let both = Usage {
            input_tokens: Usage::MOST,
            output_tokens: 2,
            cost_nanodollars: Some(7),
            ..Usage::default()
        };
        assert_eq!(one.plus(&other), both);
        assert_eq!(other.plus(&one), both);
    }
}
