#![doc = include_str!("../README.md")]

mod attachment;
mod call;
mod content;
mod conversation;
pub mod conversations;
mod duration;
pub mod elicitation;
mod embedder;
mod fields; // separates known fields from unknown ones
mod generation;
mod glob;
pub mod headers;
mod json;
pub mod keys;
pub mod log;
mod message;
pub mod model;
pub mod offers;
mod output_format;
mod response_details;
mod result;
mod secret;
pub mod state;
pub mod text;
mod timestamp;
mod tokens;
mod tool;
pub mod toolbox;
mod toolbox_decorator;
pub mod trace_context;
mod transcript;
mod validation_stamp;
mod verbatim;

pub use call::{InvalidCall, ToolCall};
pub use content::{Content, ResourceBody, ResourceContents, ResourceLink};
pub use glob::Glob;
pub use message::{Block, InvalidMessage, Message, Role, pair_results};
pub use result::{InvalidResult, ToolResult};
pub use secret::Secret;
pub use tool::{InvalidTool, Tool, ToolHints};
