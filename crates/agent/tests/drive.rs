//! Whole runs: a scripted model, real tools, a real store.

#![allow(clippy::unwrap_used)]

#[path = "drive/approvals.rs"]
mod approvals;
#[path = "drive/calls.rs"]
mod calls;
#[path = "drive/cancelling.rs"]
mod cancelling;
#[path = "drive/keeping.rs"]
mod keeping;
#[path = "drive/limits.rs"]
mod limits;
#[path = "drive/room.rs"]
mod room;
#[path = "drive/support.rs"]
mod support;
