//! Collects failures, so that one run reports all of them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Default)]
pub(crate) struct Failures(Vec<String>);

impl Failures {
    pub(crate) fn add(&mut self, label: &str, failure: String) {
        self.0.push(format!("{label}: {failure}"));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Runs `work` and adds the failures it finds. A panic is a failure too.
    pub(crate) fn attempt<T>(&mut self, label: &str, work: impl FnOnce(&mut Vec<String>) -> T) -> Option<T> {
        let mut problems = Vec::new();
        let result = catch_unwind(AssertUnwindSafe(|| work(&mut problems)));
        let panic = result.as_ref().err().map(|panic| format!("panicked: {}", panic_message(&**panic)));
        for failure in problems.into_iter().chain(panic) {
            self.add(label, failure);
        }
        result.ok()
    }

    #[track_caller]
    pub(crate) fn report(self) {
        assert!(self.0.is_empty(), "failures: {}\n\n{}", self.0.len(), self.0.join("\n"));
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}
