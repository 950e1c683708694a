//! A stored conversation: its metadata and its entries.

use core::cmp::Ordering;
use core::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Message;

/// The metadata of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conversation {
    pub id: ConversationId,
    pub title: Option<String>,
    /// The most recent model, from the start of the conversation or from a message.
    pub model: Option<String>,
    pub created: Timestamp,
    /// The time of the last message, or the time of creation.
    pub changed: Timestamp,
    /// The number of messages, which is the sequence number of the last one.
    pub messages: u64,
    /// The sum over all entries, including those copied by a fork.
    pub usage: Usage,
    pub parent: Option<Parent>,
}

impl Conversation {
    /// Whether this is a fork of another conversation.
    pub fn is_fork_of(&self, other: &ConversationId) -> bool {
        self.parent.as_ref().is_some_and(|parent| parent.conversation == *other)
    }

    /// Orders conversations by their creation, the oldest first.
    pub fn by_creation(one: &Conversation, other: &Conversation) -> Ordering {
        (one.created, &one.id).cmp(&(other.created, &other.id))
    }
}

/// The origin of a fork. The parent conversation may have been removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parent {
    pub conversation: ConversationId,
    /// The number of messages copied from the parent.
    pub at: u64,
}

/// One stored message. Entries are numbered from 1 without gaps and never change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub sequence: u64,
    /// The time when the store accepted it. Times never decrease within a conversation.
    pub time: Timestamp,
    /// The model that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The usage of the request that produced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    pub message: Arc<Message>,
}

/// Token counts and cost.
///
/// Sums saturate at [`Usage::MAX_COUNT`], the largest integer that every JSON parser represents exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Usage {
    /// All input tokens, including cached ones.
    pub input_tokens: u64,
    /// All output tokens, including reasoning tokens.
    pub output_tokens: u64,
    /// Input tokens that were read from the provider's prompt cache.
    pub cached_tokens: u64,
    /// Input tokens that were written to the provider's prompt cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    pub reasoning_tokens: u64,
    /// In billionths of a US dollar, so that sums are exact; `None` if the price is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_nanodollars: Option<u64>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// 2⁵³ − 1.
    pub const MAX_COUNT: u64 = (1 << 53) - 1;

    /// Returns the sum of both. If only one cost is known, it is used.
    #[must_use]
    pub fn plus(&self, other: &Usage) -> Usage {
        let sum = |one: u64, other: u64| one.saturating_add(other).min(Usage::MAX_COUNT);
        let cost = match (self.cost_nanodollars, other.cost_nanodollars) {
            (Some(one), Some(other)) => Some(sum(one, other)),
            (one, other) => one.or(other).map(|cost| sum(cost, 0)),
        };
        Usage {
            input_tokens: sum(self.input_tokens, other.input_tokens),
            output_tokens: sum(self.output_tokens, other.output_tokens),
            cached_tokens: sum(self.cached_tokens, other.cached_tokens),
            cache_write_tokens: sum(self.cache_write_tokens, other.cache_write_tokens),
            reasoning_tokens: sum(self.reasoning_tokens, other.reasoning_tokens),
            cost_nanodollars: cost,
        }
    }

    /// Returns what was added to an earlier sum.
    #[must_use]
    pub fn since(&self, earlier: &Usage) -> Usage {
        let cost = self.cost_nanodollars;
        Usage {
            input_tokens: self.input_tokens.saturating_sub(earlier.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(earlier.output_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(earlier.cached_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_sub(earlier.cache_write_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_sub(earlier.reasoning_tokens),
            cost_nanodollars: cost.map(|cost| cost.saturating_sub(earlier.cost_nanodollars.unwrap_or(0))),
        }
    }

    /// Returns the cost in US dollars, for display.
    pub fn dollars(&self) -> Option<f64> {
        self.cost_nanodollars.map(|nanodollars| nanodollars as f64 / 1e9)
    }
}

/// A point in time, in milliseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

/// The id of a conversation: a UUID in lower case. Stores create UUIDs of version 7, so sorting ids as text
/// sorts them by creation time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConversationId(String);

/// Text that is not a conversation id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a conversation id; expected a UUID such as `0198f1c2-7d3a-7b11-9c55-2f6b0a1d4e83`")]
pub struct InvalidId {
    pub text: String,
}

impl ConversationId {
    /// Creates a UUID of version 7 from a time and ten random bytes (74 bits of them are used).
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
    fn an_id_is_parsed_in_either_case() {
        let id: Result<ConversationId, _> = "017F22E2-79B0-7CC3-98C4-DC0C0C07398F".parse();
        assert_eq!(id.map(String::from), Ok("017f22e2-79b0-7cc3-98c4-dc0c0c07398f".to_owned()));
        for text in
            ["", "017f22e2", "017f22e279b07cc398c4dc0c0c07398f", "017f22e2-79b0-7cc3-98c4-dc0c0c07398g"]
        {
            assert_eq!(text.parse::<ConversationId>(), Err(InvalidId { text: text.to_owned() }));
        }
    }

    #[test]
    fn usage_sums_saturate() {
        let one = Usage { input_tokens: 5, cost_nanodollars: Some(7), ..Usage::default() };
        let other = Usage { input_tokens: u64::MAX, output_tokens: 2, ..Usage::default() };
        let sum = Usage {
            input_tokens: Usage::MAX_COUNT,
            output_tokens: 2,
            cost_nanodollars: Some(7),
            ..Usage::default()
        };
        assert_eq!(one.plus(&other), sum);
        assert_eq!(other.plus(&one), sum);
    }
}
