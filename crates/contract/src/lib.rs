#![doc = include_str!("../README.md")]

mod call;
mod content;
mod fields; // the one way in which known and unknown fields are told apart
mod message;
mod result;
mod tool;
mod toolbox;

pub use call::{InvalidCall, ToolCall};
pub use content::{Content, ResourceBody, ResourceContents, ResourceLink};
pub use message::{Block, InvalidMessage, Message, Role};
pub use result::{InvalidResult, ToolResult};
pub use tool::{InvalidTool, Tool};
pub use toolbox::{CallError, CallOptions, Missing, Progress, Toolbox};
