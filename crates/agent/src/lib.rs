#![doc = include_str!("../README.md")]

mod run; // what happens next: decides and never awaits

mod agent;
mod approval;
mod combined;
mod drive; // makes it happen: awaits and decides nothing
mod event;
mod functions;
mod memory;
mod outcome;
mod search;
mod settings;

pub use agent::{Agent, AgentBuilder, BuildError, Unattended};
pub use approval::{Decision, Otherwise, PendingCall, Person, Policy, Verdict};
pub use combined::Combined;
pub use drive::Running;
pub use event::{AgentEvent, ContextUse, Finished};
pub use functions::{Functions, IntoResult};
pub use memory::estimate_tokens;
pub use outcome::{Ending, Failure, Limit, Outcome, RunError};
pub use run::{InvalidRun, Run, Step, Unsaved, mend};
pub use search::{Hit, ToolIndex};
pub use settings::{Context, Search, Settings};
