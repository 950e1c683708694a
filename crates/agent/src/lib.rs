#![doc = include_str!("../README.md")]

mod drive; // performs the steps of a run: awaits, and decides nothing
mod run; // decides the next step: never awaits

mod agent;
mod approval;
mod combined;
mod context_window;
mod embeddings;
mod event;
mod functions;
mod outcome;
mod search;
mod settings;
mod summary;

pub use agent::{Agent, AgentBuilder, BuildError, Unattended};
pub use approval::{ApprovalPolicy, Approver, Decision, DefaultRule, PendingCall, Verdict};
pub use combined::CombinedToolbox;
pub use drive::RunStream;
pub use event::{AgentEvent, ContextReduction, ContextUse, EmbeddingFailure, FinishedRun, NoOutput};
pub use functions::{Functions, IntoToolResult};
pub use outcome::{Ending, RunError, RunFailure, RunLimit, RunOutcome};
pub use run::{InvalidRun, Run, Step, UnsavedMessage, is_summary, normalize};
pub use search::{Similarities, ToolHit, ToolIndex, VectorIndex};
pub use settings::{AgentSettings, ContextSettings, SearchSettings};
pub use toolwire_contract::estimate_tokens;
