//! Tests every provider against the fake servers of the testkit, which check requests strictly.

mod attachments;
mod client_tools;
mod connections;
mod deadlines;
mod embeddings;
mod errors;
mod harness;
mod histories;
mod interruptions;
mod limits;
mod repeated;
mod responses;
mod secrets;
mod signatures;
