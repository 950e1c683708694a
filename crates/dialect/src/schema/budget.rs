//! Limits the work for one tool, as a protection against schemas whose references multiply.

use std::cell::Cell;

/// Steps for a schema of any size.
const BASE_STEPS: u64 = 50_000;

/// Additional steps for each schema in the tool's definition.
const STEPS_PER_SCHEMA: u64 = 10;

/// Maximum number of steps for comparing alternatives. Without them, alternatives count as overlapping.
const MAX_COMPARISONS: u64 = 200_000;

/// The steps that are left for converting one tool: lowering and inlining a schema, and copying a member when
/// schemas are merged, takes a step each. They also bound the size of the output.
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
    pub(crate) fn add_schema(&self) {
        self.steps.set(self.steps.get().saturating_add(STEPS_PER_SCHEMA));
    }

    /// Uses steps.
    pub(crate) fn take(&self, steps: usize) -> Result<(), BudgetExceeded> {
        let left = self.steps.get().checked_sub(steps as u64);
        self.steps.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or(BudgetExceeded)
    }

    /// Uses a step for comparing alternatives. Returns `false` if none is left.
    pub(crate) fn take_comparison(&self) -> bool {
        let left = self.comparisons.get().checked_sub(1);
        self.comparisons.set(left.unwrap_or(0));
        left.is_some()
    }
}
