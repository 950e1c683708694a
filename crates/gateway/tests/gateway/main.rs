//! The gateway over HTTP, with models, servers and clients of these tests: one module per subject.

#![allow(clippy::result_large_err, clippy::unwrap_used)]

mod access;
mod approvals;
mod budgets;
mod error_details;
mod every_name;
mod forged_histories;
mod forms;
mod forwarded_streams;
mod hosted_servers;
mod idempotency;
mod items;
mod keys;
mod large_bodies;
mod limit_errors;
mod limits;
mod operations;
mod page;
mod page_chat;
mod parameters;
mod request_servers;
mod response_content;
mod served_conversations;
mod state;
mod tool_choices;
mod tool_results;
mod tool_search;
mod unavailable_servers;
mod verbatim_requests;
mod wrong_names;

#[path = "../client/mod.rs"]
mod client;
#[path = "../support/mod.rs"]
mod support;
