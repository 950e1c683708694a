#![doc = include_str!("../README.md")]

mod call;
mod content;
mod conversation;
mod conversations;
mod fields; // the one way in which known and unknown fields are told apart
mod glob;
mod message;
mod model;
mod nesting;
mod result;
mod secret;
mod time;
mod tool;
mod toolbox;
mod transcript;

pub use call::{InvalidCall, ToolCall};
pub use content::{Content, ResourceBody, ResourceContents, ResourceLink};
pub use conversation::{Conversation, ConversationId, Entry, InvalidId, Parent, Timestamp, Usage};
pub use conversations::{Conversations, Cursor, Found, Hit, NewConversation, NewEntry, Page, StoreError};
pub use glob::Glob;
pub use message::{Block, InvalidMessage, Message, Role};
pub use model::{
    Answer, Model, ModelError, ModelEvent, ModelLimits, ModelRequest, StopReason, ToolChoice, UnusableCall,
    Wait,
};
pub use nesting::{MOST_LEVELS, levels, levels_of_fields};
pub use result::{InvalidResult, ToolResult};
pub use secret::Secret;
pub use time::read_time;
pub use tool::{InvalidTool, Tool};
pub use toolbox::{CallError, CallOptions, Missing, Permits, Progress, Toolbox};
pub use transcript::{InvalidTranscript, Transcript};
