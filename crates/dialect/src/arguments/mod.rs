//! Converts a model's arguments to the tool's own and back.
//!
//! Decoding parses the arguments, repairs obvious mistakes, converts them according to the plan that was made
//! with the definition, and validates them against the tool's own schema.

mod by_schema;
mod codec;
mod consent;
mod converter;
mod error;
mod lenient_json;
mod plan;
mod property_names;
mod quick_match;
mod repair;
mod repairing;
mod replacement;
mod validator;

pub(crate) use codec::Codec;
pub use codec::{Checker, Decoded, Encoded};
pub use error::ArgumentError;
pub(crate) use lenient_json::parse_any;
pub(crate) use plan::{Branch, Field, ObjectPlan, Plan, PositionsPlan, Rest};
pub use repair::{Repair, RepairKind};
pub use toolwire_validation::{Requirement, Violation, ViolationKind};
