//! Tenants that attack each other: whatever one of them owns does not exist for the others, on any path.
//!
//! Each tenant owns one of everything: a response, a conversation, a background response, a run that waits
//! for approval, a session, a task, a stored result, a recorded call, an entry of the traffic. Each of the
//! others tries all ids on all paths; each response must be the same as for an id that does not exist.
//! Afterwards, everything must be as before.

mod api;
mod mcp;
mod page;
mod world;
