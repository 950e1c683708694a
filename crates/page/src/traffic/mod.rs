//! The view of the traffic: the last requests, as plots over time and as timelines.

mod data;
mod plot;
mod summary;
mod timeline;
mod view;

pub use data::{CallOutcome, CallSpan, Request, RequestOutcome, StepSpan, Wait};
pub use summary::{Filter, Period};
pub use timeline::timeline;
pub use view::{FilterOptions, filters, overview};
