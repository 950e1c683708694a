//! Limits the work for one tool, as a protection against schemas whose references expand exponentially.

use std::cell::Cell;

use super::{KeywordKind, keyword_kind};
use crate::json::{Node, Object};

/// Steps for a schema of any size.
const BASE_STEPS: u64 = 50_000;

/// Additional steps for each schema in the tool's definition.
const STEPS_PER_SCHEMA: usize = 10;

/// Additional steps for each step that a single copy of the definition's data takes.
const STEPS_PER_DATA_STEP: usize = 5;

/// The number of bytes of data, a URI or a pointer that are written in one step.
pub(super) const BYTES_PER_STEP: usize = 32;

/// The bytes that a value counts for in addition to its text.
const BYTES_PER_VALUE: usize = 24;

/// Maximum number of steps for comparing alternatives. Without them, alternatives count as overlapping.
const MAX_COMPARISONS: u64 = 200_000;

/// The steps that are left for converting one tool: lowering and inlining a schema, and copying a member when
/// schemas are merged, takes a step each, and more if the schema contains long texts or lists of values. They
/// also bound the size of the output.
#[derive(Debug)]
pub(crate) struct Budget {
    steps: Cell<u64>,
    comparisons: Cell<u64>,
}

/// The budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BudgetExceeded;

impl Budget {
    pub(crate) fn new() -> Budget {
        Budget { steps: Cell::new(BASE_STEPS), comparisons: Cell::new(MAX_COMPARISONS) }
    }

    /// Adds the steps for a schema of the definition.
    pub(crate) fn add_schema(&self, members: Object<'_>) {
        let steps = STEPS_PER_SCHEMA + STEPS_PER_DATA_STEP.saturating_mul(own_data_steps(members));
        self.steps.set(self.steps.get().saturating_add(steps as u64));
    }

    /// Uses the steps for copying a schema, without the schemas below it.
    pub(crate) fn take_schema(&self, members: Object<'_>) -> Result<(), BudgetExceeded> {
        self.take(1 + own_data_steps(members))
    }

    /// Uses steps.
    pub(crate) fn take(&self, steps: usize) -> Result<(), BudgetExceeded> {
        let left = self.steps.get().checked_sub(steps as u64);
        self.steps.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or(BudgetExceeded)
    }

    /// Uses steps for comparing alternatives. Returns `false` if none are left.
    pub(crate) fn take_comparisons(&self, steps: usize) -> bool {
        let left = self.comparisons.get().checked_sub(steps as u64);
        self.comparisons.set(left.unwrap_or(0));
        left.is_some()
    }
}

/// Returns the steps for the data of a schema, without the schemas below it.
fn own_data_steps(members: Object<'_>) -> usize {
    let bytes: usize = members
        .iter()
        .map(|member| match (keyword_kind(member.key), member.value) {
            (KeywordKind::Properties | KeywordKind::SchemaMap, Node::Object(entries)) => {
                entries.iter().map(|entry| entry.key.len()).sum()
            }
            (
                KeywordKind::Default
                | KeywordKind::Required
                | KeywordKind::NameLists
                | KeywordKind::Text
                | KeywordKind::Pattern
                | KeywordKind::Enum
                | KeywordKind::Examples
                | KeywordKind::Other,
                data,
            ) => data_bytes(data),
            _ => 0,
        })
        .sum();
    bytes / BYTES_PER_STEP
}

/// Returns the steps for copying or comparing data.
pub(super) fn data_steps(data: Node<'_>) -> usize {
    1 + data_bytes(data) / BYTES_PER_STEP
}

fn data_bytes(data: Node<'_>) -> usize {
    let text = match data {
        Node::Number(text) | Node::Text(text) | Node::Escaped(text) => text.len(),
        Node::List(nodes) => nodes.iter().map(|node| data_bytes(*node)).sum(),
        Node::Object(members) => {
            members.iter().map(|member| member.key.len() + data_bytes(member.value)).sum()
        }
        Node::Null | Node::Bool(_) => 0,
    };
    BYTES_PER_VALUE + text
}
