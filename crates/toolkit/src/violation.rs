//! Violations of a tool's schema, as clients read them.
//!
//! Their messages never quote the value, because it may be secret.

use serde::Serialize;
use toolwire_contract::text::unescape_pointer_segment;

/// One invalid field of the arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Violation {
    /// The path in code notation: `filters[0].name`.
    pub(crate) field: String,
    pub(crate) message: String,
}

impl From<toolwire_validation::Violation> for Violation {
    fn from(violation: toolwire_validation::Violation) -> Violation {
        Violation { field: field(&violation), message: violation.message_without_value() }
    }
}

fn field(violation: &toolwire_validation::Violation) -> String {
    let mut path = String::new();
    let add_property = |name: &str, path: &mut String| {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
    };
    for segment in violation.pointer.split('/').skip(1) {
        if segment.parse::<usize>().is_ok() {
            path.push_str(&format!("[{segment}]"));
        } else {
            add_property(&unescape_pointer_segment(segment), &mut path);
        }
    }
    if let Some(name) = violation.property() {
        add_property(name, &mut path);
    }
    if path.is_empty() { "arguments".to_owned() } else { path }
}
