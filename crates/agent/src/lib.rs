#![doc = include_str!("../README.md")]

mod drive; // performs the steps of a run: awaits, and decides nothing
mod run; // decides the next step: never awaits

mod agent;
mod approval;
mod combined;
mod context_window;
mod event;
mod functions;
mod outcome;
mod search;
mod settings;

pub use agent::{Agent, AgentBuilder, BuildError, Unattended};
pub use approval::{ApprovalPolicy, Approver, Decision, DefaultRule, PendingCall, Verdict};
pub use combined::CombinedToolbox;
pub use context_window::estimate_tokens;
pub use drive::RunStream;
pub use event::{AgentEvent, ContextUse, FinishedRun};
pub use functions::{Functions, IntoToolResult};
pub use outcome::{Ending, RunError, RunFailure, RunLimit, RunOutcome};
pub use run::{InvalidRun, Run, Step, UnsavedMessage, normalize};
pub use search::{ToolHit, ToolIndex};
pub use settings::{AgentSettings, ContextSettings, SearchSettings};
