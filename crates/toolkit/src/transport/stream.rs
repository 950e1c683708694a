//! Serving over a stream of lines: standard input and output, a pipe, or memory.

use std::time::Duration;

use rmcp::service::{QuitReason, serve_server_with_ct};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::ServeError;
use super::connection::Connection;
use super::lines::Lines;
use super::raw_responses::{Closing, RawResponseTransport};
use super::shared::Shared;
use crate::server::Server;

/// A server on one stream. It stops at the end of the stream and when dropped.
pub struct StreamServer {
    task: JoinHandle<()>,
    shared: std::sync::Arc<Shared>,
    closing: Closing,
    /// Ends the connection and all its calls.
    cancel_all: CancellationToken,
}

/// Serves on standard input and output. Nothing else may use them while the server runs.
///
/// When the client closes its input, running calls have a few seconds to finish.
///
/// # Errors
///
/// When the system provides no random bytes.
pub fn serve_stdio(server: Server) -> Result<StreamServer, ServeError> {
    let (input, output) = rmcp::transport::stdio_pipes();
    serve_stream(server, input, output)
}

/// Serves a client in the same process. The returned stream is the client's transport.
///
/// # Errors
///
/// When the system provides no random bytes.
pub fn in_process(server: Server) -> Result<(DuplexStream, StreamServer), ServeError> {
    /// The writer waits for the reader when the buffer is full.
    const PIPE_BUFFER_BYTES: usize = 64 * 1024;
    let (client_end, server_end) = tokio::io::duplex(PIPE_BUFFER_BYTES);
    let (input, output) = tokio::io::split(server_end);
    Ok((client_end, serve_stream(server, input, output)?))
}

/// Serves on any pair of streams, one message per line. An invalid line, or one longer than 16 MiB, gets an
/// error response.
///
/// # Errors
///
/// When the system provides no random bytes.
pub fn serve_stream(
    server: Server,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<StreamServer, ServeError> {
    let shared = Shared::new(server)?;
    let closing = Closing::default();
    let cancel_all = CancellationToken::new();
    let transport = RawResponseTransport::new(Lines::new(input, output, shared.clone()), closing.clone());
    let connection = Connection::new(shared.clone());
    let cancelled = cancel_all.clone();
    // The stream has only one client. After it disconnects, no client can reach the tasks, so they end.
    let tasks_guard = shared.tasks.ended.clone().drop_guard();
    let task = tokio::spawn(async move {
        let _tasks_guard = tasks_guard;
        match serve_server_with_ct(connection, transport, cancelled).await {
            Ok(running) => match running.waiting().await {
                Ok(QuitReason::JoinError(error)) | Err(error) => {
                    tracing::error!(%error, "the connection failed");
                }
                Ok(_) => (),
            },
            Err(error) => tracing::debug!(%error, "the client disconnected before initialization"),
        }
    });
    Ok(StreamServer { task, shared, closing, cancel_all })
}

impl StreamServer {
    /// Waits until the client disconnects.
    pub async fn finished(mut self) {
        let _ = (&mut self.task).await;
    }

    /// Rejects new requests and finishes running ones. Requests that run longer than `grace_period` are
    /// cancelled.
    pub async fn shutdown(mut self, grace_period: Duration) {
        self.closing.requests.cancel();
        self.shared.closing.cancel();
        self.shared.running_calls.close();
        let in_time = tokio::time::timeout(grace_period, self.shared.running_calls.wait()).await.is_ok();
        match in_time {
            true => self.closing.reading.cancel(),
            false => self.cancel_all.cancel(),
        }
        self.shared.abandoned.cancel();
        let _ = (&mut self.task).await;
    }
}

impl Drop for StreamServer {
    fn drop(&mut self) {
        self.cancel_all.cancel();
    }
}
