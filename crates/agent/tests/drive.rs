//! Complete runs, with a scripted model, real tools and a real store.

#![allow(clippy::unwrap_used)]

#[path = "drive/approvals.rs"]
mod approvals;
#[path = "drive/calls.rs"]
mod calls;
#[path = "drive/cancellation.rs"]
mod cancellation;
#[path = "drive/client_tools.rs"]
mod client_tools;
#[path = "drive/compaction.rs"]
mod compaction;
#[path = "drive/elicitation.rs"]
mod elicitation;
#[path = "drive/embeddings.rs"]
mod embeddings;
#[path = "drive/limits.rs"]
mod limits;
#[path = "drive/output.rs"]
mod output;
#[path = "drive/persistence.rs"]
mod persistence;
#[path = "drive/request_size.rs"]
mod request_size;
#[path = "drive/support.rs"]
mod support;
