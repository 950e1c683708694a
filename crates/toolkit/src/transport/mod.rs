//! Serving a [`crate::Server`] over MCP: standard input and output, any stream, streamable HTTP.
//!
//! The SDK reads and writes messages and distinguishes the revisions; `handler` handles the requests. Every
//! transport supports all revisions from 2024-11-05 to 2026-07-28.

mod batch;
mod body;
mod caller;
mod calls; // tools
mod connection;
mod envelope;
mod foreign;
mod foreign_rounds;
mod foreign_tasks;
mod handler;
mod http;
mod http_options;
mod lines;
mod listen;
mod offered; // prompts, resources
mod parked;
mod raw_responses;
mod redaction;
mod request_tools;
mod response_body;
mod restored_session;
mod rounds;
mod running_ids;
mod sessions;
mod shared;
mod stream;
mod subscribed;
mod task_questions;
mod tasks;

use serde_json::Value;
use toolwire_contract::{Content, ResourceLink};

pub use http::{HttpService, http_service};
pub use http_options::HttpOptions;
pub use listen::{HttpServer, serve_http};
pub use request_tools::{RequestTools, ToolChanges};
pub use restored_session::RestoredSession;
pub use stream::{StreamServer, in_process, serve_stdio, serve_stream};

/// An error that prevents serving.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    #[error("cannot listen on `{address}`")]
    Listen { address: std::net::SocketAddr, source: std::io::Error },
    #[error("the system provides no random bytes: {0}")]
    NoRandomness(String),
}

/// Returns a resource as it is listed: a link without the `type` of content.
fn listed_resource(link: ResourceLink) -> Value {
    let mut value = Value::from(Content::ResourceLink(link));
    if let Some(fields) = value.as_object_mut() {
        fields.shift_remove("type");
    }
    value
}
