#![doc = include_str!("../README.md")]

mod attachment;
mod call;
mod content;
mod conversation;
mod conversations;
mod duration;
mod embedder;
mod fields; // separates known fields from unknown ones
mod generation;
mod glob;
mod json;
mod message;
mod model;
mod output_format;
mod response_details;
mod result;
mod secret;
mod text;
mod tokens;
mod tool;
mod toolbox;
mod transcript;
mod validation_stamp;
mod verbatim;

pub use call::{InvalidCall, ToolCall};
pub use content::{Content, ResourceBody, ResourceContents, ResourceLink};
pub use conversation::{Conversation, ConversationId, Entry, InvalidId, Parent, Timestamp, Usage};
pub use conversations::{
    ConversationPage, Conversations, Cursor, NewConversation, NewEntry, SearchHit, SearchResults, StoreError,
};
pub use duration::parse_duration;
pub use embedder::{Embedder, TextPurpose};
pub use generation::{Effort, FamilyFields, Generation};
pub use glob::Glob;
pub use json::{MAX_NESTING_DEPTH, json_kind, nesting_depth, object_nesting_depth};
pub use message::{Block, InvalidMessage, Message, Role, pair_results};
pub use model::{
    Model, ModelError, ModelEvent, ModelLimits, ModelRequest, ModelResponse, StopReason, ToolChoice,
    UnsupportedContent, UnusableCall, WaitPhase,
};
pub use output_format::OutputFormat;
pub use response_details::{Citation, ResponseDetails};
pub use result::{InvalidResult, ToolResult};
pub use secret::Secret;
pub use text::{format_size, nearest_names, truncate};
pub use tokens::estimate_tokens;
pub use tool::{InvalidTool, Tool, ToolHints};
pub use toolbox::{CallError, CallOptions, CallPermission, MissingServer, Progress, ToolServer, Toolbox};
pub use transcript::{InvalidTranscript, Transcript};
pub use validation_stamp::{SchemaFingerprint, ValidationStamp};
pub use verbatim::VerbatimRequest;
