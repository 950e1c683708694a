//! Arguments, both ways: parsed, mended where the schema says so, turned by the plan, and judged by the tool's own schema.

mod apply;
mod codec;
mod effort;
mod fits;
mod plan;
mod repair;
mod verdict;

pub(crate) use codec::Codec;
pub use codec::{ArgumentError, Checker, Decoded, Encoded};
pub(crate) use plan::{Branch, Field, ObjectPlan, Plan, PositionsPlan, Rest};
pub use repair::Repair;
pub use verdict::Violation;
