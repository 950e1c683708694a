#![doc = include_str!("../README.md")]

mod drive; // performs the steps of a run: awaits, and decides nothing
pub mod run; // decides the next step: never awaits

mod agent;
pub mod approval;
mod combined;
mod context_window;
pub mod elicitation;
mod embeddings;
mod event;
mod functions;
mod outcome;
pub mod search;
mod settings;
mod summary;

pub use agent::{Agent, AgentBuilder, BuildError, Unattended};
pub use combined::CombinedToolbox;
pub use drive::RunStream;
pub use event::{AgentEvent, ContextReduction, ContextUse, FinishedRun, NoOutput};
pub use functions::{Functions, IntoToolResult};
pub use outcome::{Ending, RunError, RunFailure, RunLimit, RunOutcome};
pub use settings::{AgentSettings, ContextSettings, SearchSettings};
