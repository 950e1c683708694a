//! Reports of what a conversion changed.

use serde::Serialize;

use crate::Dialect;

/// The result of converting one tool to one dialect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The tool's original name.
    pub tool: String,
    /// The name the model sees.
    pub name: String,
    #[serde(serialize_with = "dialect_name")]
    pub dialect: Dialect,
    pub status: Status,
    /// The reason for the refusal; only present with [`Status::Refused`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Refusal>,
    pub changes: Vec<Change>,
}

/// The fidelity of a definition to its tool, from best to worst.
///
/// The set is part of the report format, so it is exhaustive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The definition is equivalent to the tool; only the wrapper and its key names differ.
    Exact,
    /// The schema was rewritten without changing its meaning.
    Rewritten,
    /// The model may send arguments that the original rejects, or can no longer send some that it accepts.
    Lossy,
    /// The tool cannot be expressed in this dialect without changing its meaning, so it is left out.
    Refused,
}

/// One change at one location of the original `inputSchema`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Change {
    /// RFC 6901 pointer into the original `inputSchema`.
    pub pointer: String,
    pub keyword: String,
    pub effect: Effect,
    pub detail: String,
}

/// The effect of a change on the meaning of a schema.
///
/// The set is part of the report format, so it is exhaustive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// An annotation was removed; which arguments are valid does not change.
    Dropped,
    /// A rule was rewritten without changing its meaning.
    Rewritten,
    /// The model may now send arguments that the original rejects.
    Widened,
    /// The model can no longer send some arguments that the original accepts.
    Narrowed,
}

/// The reason why a tool cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// A machine-readable code: `dangling_ref`, `unsatisfiable`, `too_deep`, …
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

    /// Returns the status that follows from a list of changes.
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
