#![doc = include_str!("../README.md")]

mod cost; // limits the evaluations of schemas whose references expand exponentially
mod explain;
mod locate; // the violation in a value that is too deep to collect all errors
mod reference;
mod validator;
mod violation;

pub use cost::MAX_SCHEMAS_PER_VALUE;
pub use reference::{References, reference_target, resolve};
pub use validator::{ErrorBudget, InvalidSchema, TooComplex, Validator};
pub use violation::{Requirement, Violation, ViolationKind};
