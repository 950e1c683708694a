//! The stdout of a server process: reads its messages.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::ServerJsonRpcMessage;
use serde::de::IgnoredAny;
use tokio::io::AsyncReadExt;
use tokio::process::ChildStdout;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::raw_capture::MAX_MESSAGE_BYTES;
use crate::transport::line_splitter::{LineSplitter, OutputLine};
use crate::transport::{Connection, ConnectionEnd, guard};

/// The time for which output is still read after a process has exited. It is limited because a child process
/// may hold the pipe open.
pub(super) const OUTPUT_DRAIN_TIME: Duration = Duration::from_millis(500);

/// The receivers of what a process writes to stdout.
pub(super) struct ServerOutput {
    pub(super) incoming: mpsc::Sender<ServerJsonRpcMessage>,
    /// Notified when the process sends a request after the session has ended. It may wait for the response
    /// for a minute, although its input has ended.
    pub(super) awaits_response_after_close: Arc<Notify>,
    /// The program of the server, which a guard starts.
    pub(super) program: PathBuf,
}

/// Reads messages from stdout until it is closed, or until shortly after the process has exited.
pub(super) async fn read_stdout(
    mut stdout: ChildStdout,
    output: ServerOutput,
    connection: Arc<Connection>,
    mut exit: watch::Receiver<Option<String>>,
    stderr_closed: oneshot::Receiver<()>,
) {
    let mut splitter = LineSplitter::new(MAX_MESSAGE_BYTES);
    let mut buffer = vec![0; 64 * 1024];
    let mut exit_for_drain = exit.clone();
    let mut drain_timer = std::pin::pin!(async move {
        let _ = exit_for_drain.wait_for(Option::is_some).await;
        sleep(OUTPUT_DRAIN_TIME).await;
    });
    let mut is_drain_time_over = false;
    loop {
        let count = tokio::select! {
            biased;
            count = stdout.read(&mut buffer) => count.unwrap_or(0),
            () = &mut drain_timer => {
                is_drain_time_over = true;
                0
            }
        };
        let lines: Vec<OutputLine> = match count {
            // An incomplete message is dropped: the exit status is the better explanation.
            0 => splitter.rest().filter(is_message).into_iter().collect(),
            count => {
                connection.set_has_output();
                splitter.push(&buffer[..count]).collect()
            }
        };
        connection.capture.set_oversized(splitter.oversized());
        for line in lines {
            // A process may write faster than its lines are read, and other tasks must run meanwhile.
            tokio::task::coop::consume_budget().await;
            if let OutputLine::Complete(line) = &line
                && let Some(code) = guard::start_error(line)
            {
                return connection.set_ended(ConnectionEnd::NotStarted { path: output.program, code });
            }
            let messages = match line {
                OutputLine::Complete(line) => connection.capture.receive(&line),
                OutputLine::Oversized { head, tail } => {
                    connection.capture.receive_oversized(&head, &tail).into_iter().collect()
                }
            };
            for message in messages {
                let Ok(message) = serde_json::from_value(message) else { continue };
                let is_request = matches!(message, ServerJsonRpcMessage::Request(_));
                if output.incoming.send(message).await.is_err() {
                    if is_request {
                        output.awaits_response_after_close.notify_one();
                    }
                    return;
                }
            }
        }
        if count == 0 {
            break;
        }
    }
    let end = match timeout(OUTPUT_DRAIN_TIME, exit.wait_for(Option::is_some)).await {
        Ok(Ok(how)) => ConnectionEnd::Exited { how: how.clone().unwrap_or_default() },
        _ => ConnectionEnd::StdoutClosed,
    };
    if end != ConnectionEnd::StdoutClosed && !is_drain_time_over {
        // The reason is usually on stderr, so it is read before the end is reported.
        tokio::select! {
            _ = stderr_closed => {}
            () = &mut drain_timer => {}
        }
    }
    connection.set_ended(end);
}

fn is_message(line: &OutputLine) -> bool {
    matches!(line, OutputLine::Complete(line) if serde_json::from_slice::<IgnoredAny>(line).is_ok())
}
