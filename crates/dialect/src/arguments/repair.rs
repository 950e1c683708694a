//! The repairs that are made in a model's arguments.

use std::fmt;

use serde::{Serialize, Serializer};

/// One repaired place in a model's arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Repair {
    /// The RFC 6901 pointer into the arguments.
    pub pointer: String,
    /// Serialized as its description.
    #[serde(rename = "detail")]
    pub kind: RepairKind,
}

/// The kinds of repairs. The text (`Display`) describes the repair.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairKind {
    /// The arguments were `null`.
    NullArguments,
    /// The arguments were empty text.
    EmptyArguments,
    /// The arguments were JSON text in JSON text.
    EncodedTwice,
    /// The arguments were JSON text with mistakes, such as single quotes or trailing commas.
    InvalidJson,
    /// The arguments were the value of this key, which the tool does not have.
    Unwrapped { key: String },
    /// A key was spelled differently.
    RenamedKey { found: String },
    /// An optional property that does not allow `null` was `null`.
    RemovedNull,
    /// A list of entries contained a key twice.
    DuplicateKey { key: String },
    /// A string was JSON text of an object.
    ParsedObject,
    /// A string was JSON text of an array.
    ParsedArray,
    /// A string was a number.
    ParsedNumber,
    /// A string was an integer.
    ParsedInteger,
    /// A string was `true` or `false`.
    ParsedBoolean,
    /// A string was `null`.
    ParsedNull,
    /// An integer had a fraction of zeros or an exponent.
    RemovedFraction,
    /// A single value was put into an array.
    WrappedInArray,
    /// A listed value was written in another case.
    CorrectedCase { found: String, listed: String },
    /// More repairs were made than are listed. This is always the last entry.
    More { count: usize },
}

/// The maximum number of repairs that are listed; the others are counted.
const MAX_LISTED: usize = 50;

impl Repair {
    /// A repair of the arguments as a whole.
    pub(super) fn of_arguments(kind: RepairKind) -> Repair {
        Repair { pointer: String::new(), kind }
    }

    /// Shortens a list of repairs that is too long.
    pub(super) fn listed(mut repairs: Vec<Repair>) -> Vec<Repair> {
        let count = repairs.len().saturating_sub(MAX_LISTED);
        if count > 0 {
            repairs.truncate(MAX_LISTED);
            repairs.push(Repair::of_arguments(RepairKind::More { count }));
        }
        repairs
    }
}

impl RepairKind {
    /// Whether keys were changed, not values.
    pub(super) const fn is_of_keys(&self) -> bool {
        matches!(self, RepairKind::Unwrapped { .. } | RepairKind::RenamedKey { .. })
    }
}

impl fmt::Display for RepairKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            RepairKind::NullArguments => "null instead of an object; treated as no arguments",
            RepairKind::EmptyArguments => "empty text instead of an object; treated as no arguments",
            RepairKind::EncodedTwice => "arguments encoded as JSON twice; decoded twice",
            RepairKind::InvalidJson => "invalid JSON text; read with its mistakes corrected",
            RepairKind::Unwrapped { key } => {
                return write!(formatter, "arguments wrapped in `{key}`; unwrapped");
            }
            RepairKind::RenamedKey { found } => {
                return write!(formatter, "key `{found}` in another spelling; renamed");
            }
            RepairKind::RemovedNull => "null for an optional property that does not allow it; removed",
            RepairKind::DuplicateKey { key } => {
                return write!(formatter, "duplicate key `{key}` in the entries; the last value is used");
            }
            RepairKind::ParsedObject => "JSON text instead of an object; parsed",
            RepairKind::ParsedArray => "JSON text instead of an array; parsed",
            RepairKind::ParsedNumber => "a string instead of a number; parsed",
            RepairKind::ParsedInteger => "a string instead of an integer; parsed",
            RepairKind::ParsedBoolean => "a string instead of a boolean; parsed",
            RepairKind::ParsedNull => "a string instead of null; parsed",
            RepairKind::RemovedFraction => {
                "an integer with a fraction of zeros or an exponent; written without them"
            }
            RepairKind::WrappedInArray => "a single value instead of an array; wrapped in an array",
            RepairKind::CorrectedCase { found, listed } => {
                return write!(formatter, "`{found}` instead of the listed value `{listed}`; replaced");
            }
            RepairKind::More { count: 1 } => "1 more repair is not listed",
            RepairKind::More { count } => return write!(formatter, "{count} more repairs are not listed"),
        })
    }
}

impl Serialize for RepairKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
