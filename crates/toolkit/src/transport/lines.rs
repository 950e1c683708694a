//! Messages as lines of a stream.
//!
//! The SDK has such a transport too, but it drops lines that it cannot read, and the client waits in vain; and it writes them
//! to the log, whatever is in them. Here each gets an answer, under its id where that can be found.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, GetExtensions, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;

use super::envelope::id_of;
use super::shared::Shared;
use super::veil::veil;

/// A longer line is refused; until its end is seen, it is passed over.
pub(super) const LONGEST_LINE: usize = 16 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A stream of lines, one message in each.
pub(super) struct Lines<R, W> {
    input: BufReader<R>,
    /// What has been read of the next line. It stays when a wait for the rest is given up.
    line: Vec<u8>,
    is_too_long: bool,
    /// Answers to lines that are no messages.
    refusals: VecDeque<Value>,
    is_flushing: bool,
    output: Arc<Mutex<Option<Output<W>>>>,
    shared: Arc<Shared>,
}

struct Output<W> {
    inner: W,
    /// What has not left yet. It stays when a wait is given up, so that no line is cut.
    waiting: BytesMut,
}

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    pub(super) fn new(input: R, output: W, shared: Arc<Shared>) -> Lines<R, W> {
        let output = Output { inner: output, waiting: BytesMut::new() };
        Lines {
            input: BufReader::new(input),
            line: Vec::new(),
            is_too_long: false,
            refusals: VecDeque::new(),
            is_flushing: false,
            output: Arc::new(Mutex::new(Some(output))),
            shared,
        }
    }

    /// Reads until `line` is one line; `false` when there are no more.
    async fn read_line(&mut self) -> io::Result<bool> {
        loop {
            let available = self.input.fill_buf().await?;
            if available.is_empty() {
                return Ok(!self.line.is_empty());
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            let room = LONGEST_LINE - self.line.len();
            self.is_too_long |= part.len() > room;
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let read = end.map_or(available.len(), |end| end + 1);
            self.input.consume(read);
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    /// The message in `line`, which is then empty for the next one; a line that is none leaves a refusal.
    fn take_message(&mut self) -> Option<ClientJsonRpcMessage> {
        let line = std::mem::take(&mut self.line);
        let text = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line).trim_ascii();
        let read = if std::mem::take(&mut self.is_too_long) {
            Err(Some(refusal(
                text,
                ErrorCode::PARSE_ERROR,
                &format!("the message is longer than {LONGEST_LINE} bytes"),
            )))
        } else if text.is_empty() {
            Err(None)
        } else {
            message(text, &self.shared)
        };
        // Its room is used again, unless it is unusually large.
        if line.capacity() <= 64 * 1024 {
            self.line = line;
            self.line.clear();
        }
        read.map_err(|refusal| self.refusals.extend(refusal)).ok()
    }
}

/// The message in a line; or the refusal of what is none, unless it wants no answer.
fn message(text: &[u8], shared: &Shared) -> Result<ClientJsonRpcMessage, Option<Value>> {
    let (read, veiled): (serde_json::Result<ClientJsonRpcMessage>, _) = match veil(&shared.server, text) {
        Some((message, veiled)) => (serde_json::from_value(message), veiled),
        None => (serde_json::from_slice(text), None),
    };
    match read {
        Ok(mut message) => {
            if let (JsonRpcMessage::Request(request), Some(veiled)) = (&mut message, veiled) {
                request.request.extensions_mut().insert(veiled);
            }
            Ok(message)
        }
        Err(_) => Err(match serde_json::from_slice::<Value>(text) {
            Ok(Value::Object(fields)) if fields.contains_key("method") && !fields.contains_key("id") => {
                // A notification that nobody knows, as newer clients may send.
                tracing::debug!("a notification was passed over");
                None
            }
            Ok(_) => Some(refusal(text, ErrorCode::INVALID_REQUEST, "the line is no message of MCP")),
            Err(error) => {
                Some(refusal(text, ErrorCode::PARSE_ERROR, &format!("the line cannot be read: {error}")))
            }
        }),
    }
}

fn refusal(text: &[u8], code: ErrorCode, message: &str) -> Value {
    tracing::debug!(code = code.0, "a line was refused");
    json!({"jsonrpc": "2.0", "id": id_of(text), "error": {"code": code.0, "message": message}})
}

impl<W: AsyncWrite + Unpin> Output<W> {
    fn put(&mut self, line: &[u8]) {
        self.waiting.extend_from_slice(line);
        self.waiting.extend_from_slice(b"\n");
    }

    async fn flush(&mut self) -> io::Result<()> {
        while !self.waiting.is_empty() {
            if self.inner.write_buf(&mut self.waiting).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        self.inner.flush().await
    }
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Sends the refusals, also those whose sending was given up half-way.
    async fn refuse(&mut self) -> io::Result<()> {
        if self.refusals.is_empty() && !self.is_flushing {
            return Ok(());
        }
        let mut output = self.output.lock().await;
        let output = output.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        for refusal in self.refusals.drain(..) {
            output.put(refusal.to_string().as_bytes());
        }
        self.is_flushing = true;
        output.flush().await?;
        self.is_flushing = false;
        Ok(())
    }

    async fn next(&mut self) -> io::Result<Option<ClientJsonRpcMessage>> {
        loop {
            self.refuse().await?;
            if !self.read_line().await? {
                return Ok(None);
            }
            if let Some(message) = self.take_message() {
                return Ok(Some(message));
            }
        }
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let output = self.output.clone();
        async move {
            let line = serde_json::to_vec(&message)?;
            let mut output = output.lock().await;
            let output = output.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            output.put(&line);
            output.flush().await
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.next().await.unwrap_or_else(|error| {
            tracing::error!(%error, "the stream broke off");
            None
        })
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.lock().await.take();
        Ok(())
    }
}
