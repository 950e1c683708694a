//! Over a stream of lines: standard input and output, a pipe, or memory.

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

/// A server on one stream. It ends when the stream does, and when this is dropped.
pub struct StreamServer {
    task: JoinHandle<()>,
    shared: std::sync::Arc<Shared>,
    closing: Closing,
    /// Gives everything up.
    abandon: CancellationToken,
}

/// Serves on standard input and output. Nothing else may write there while it runs.
///
/// When the client closes its end, calls in flight have some seconds to finish.
///
/// # Errors
///
/// When the system provides no random bytes.
pub fn serve_stdio(server: Server) -> Result<StreamServer, ServeError> {
    let (input, output) = rmcp::transport::stdio_pipes();
    serve_stream(server, input, output)
}

/// Serves a client that is in the same process: the other end of what comes back is its transport.
///
/// # Errors
///
/// When the system provides no random bytes.
pub fn in_process(server: Server) -> Result<(DuplexStream, StreamServer), ServeError> {
    /// What may be under way before the writer waits for the reader.
    const PIPE_BUFFER_BYTES: usize = 64 * 1024;
    let (theirs, ours) = tokio::io::duplex(PIPE_BUFFER_BYTES);
    let (input, output) = tokio::io::split(ours);
    Ok((theirs, serve_stream(server, input, output)?))
}

/// Serves on any pair of streams, one message per line. A line that cannot be read, or is longer than 16 MiB, is refused, and the
/// server goes on.
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
    let abandon = CancellationToken::new();
    let transport = RawResponseTransport::new(Lines::new(input, output, shared.clone()), closing.clone());
    let connection = Connection::new(shared.clone());
    let given_up = abandon.clone();
    // With its only client, the tasks of a stream have nobody left to ask for them.
    let tasks_end = shared.tasks.ended.clone().drop_guard();
    let task = tokio::spawn(async move {
        let _tasks_end = tasks_end;
        match serve_server_with_ct(connection, transport, given_up).await {
            Ok(running) => match running.waiting().await {
                Ok(QuitReason::JoinError(error)) | Err(error) => {
                    tracing::error!(%error, "the connection failed");
                }
                Ok(_) => (),
            },
            Err(error) => tracing::debug!(%error, "the client disconnected before initialization"),
        }
    });
    Ok(StreamServer { task, shared, closing, abandon })
}

impl StreamServer {
    /// Waits until the client has gone.
    pub async fn finished(mut self) {
        let _ = (&mut self.task).await;
    }

    /// Takes no more requests, finishes those in flight, and ends. After `grace_period` they are cancelled.
    pub async fn shutdown(mut self, grace_period: Duration) {
        self.closing.requests.cancel();
        self.shared.closing.cancel();
        self.shared.answering.close();
        let in_time = tokio::time::timeout(grace_period, self.shared.answering.wait()).await.is_ok();
        match in_time {
            true => self.closing.reading.cancel(),
            false => self.abandon.cancel(),
        }
        self.shared.abandoned.cancel();
        let _ = (&mut self.task).await;
    }
}

impl Drop for StreamServer {
    fn drop(&mut self) {
        self.abandon.cancel();
    }
}
