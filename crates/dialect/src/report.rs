//! What a conversion changed, place by place.

use serde::Serialize;

use crate::Dialect;

/// What became of one tool in one dialect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The tool's own name.
    pub tool: String,
    /// The name the model sees.
    pub name: String,
    #[serde(serialize_with = "dialect_name")]
    pub dialect: Dialect,
    pub status: Status,
    /// Why the tool was left out; only with [`Status::Refused`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Refusal>,
    pub changes: Vec<Change>,
}

/// How close a definition is to its tool. The order is from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The definition says the same as the tool; only the wrapper and key names differ.
    Exact,
    /// Other words, same meaning.
    Rewritten,
    /// The model may send something the original refuses, or can no longer send something it allows.
    Lossy,
    /// It cannot be said honestly in this dialect; the tool is left out.
    Refused,
}

/// One change, at one place of the original `inputSchema`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Change {
    /// RFC 6901 pointer into the original `inputSchema`.
    pub pointer: String,
    pub keyword: String,
    pub effect: Effect,
    pub detail: String,
}

/// What a change does to the meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// An annotation is gone; no argument is affected.
    Dropped,
    /// Said in other words.
    Rewritten,
    /// The model may now send something the original refuses.
    Widened,
    /// The model can no longer send something the original allows.
    Narrowed,
}

/// Why a tool cannot be said in a dialect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// A word for programs: `dangling_ref`, `unsatisfiable`, `too_deep`, …
    pub code: &'static str,
    /// RFC 6901 pointer into the original `inputSchema`.
    pub pointer: String,
    pub message: String,
}

impl Status {
    pub const fn name(self) -> &'static str {
        match self {
            Status::Exact => "exact",
            Status::Rewritten => "rewritten",
            Status::Lossy => "lossy",
            Status::Refused => "refused",
        }
    }

    /// The status that a list of changes amounts to.
    pub(crate) fn of(changes: &[Change]) -> Status {
        changes.iter().map(|change| change.effect.status()).max().unwrap_or(Status::Exact)
    }
}

impl Effect {
    pub const fn name(self) -> &'static str {
        match self {
            Effect::Dropped => "dropped",
            Effect::Rewritten => "rewritten",
            Effect::Widened => "widened",
            Effect::Narrowed => "narrowed",
        }
    }

    const fn status(self) -> Status {
        match self {
            Effect::Dropped | Effect::Rewritten => Status::Rewritten,
            Effect::Widened | Effect::Narrowed => Status::Lossy,
        }
    }
}

fn dialect_name<S: serde::Serializer>(dialect: &Dialect, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(dialect.name())
}
