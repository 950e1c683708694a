//! A transport with one message per line.
//!
//! The SDK's own transport drops lines that it cannot parse, so the client waits forever, and it logs their
//! contents. Here each line gets a response, with its id if that can be found.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex as Lock, PoisonError};

use bytes::BytesMut;
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, GetExtensions, JsonRpcMessage,
    RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;

use super::batch::{self, Batch, Batches};
use super::envelope::refusal;
use super::redaction::redact_secrets;
use super::shared::Shared;

/// Longer lines are rejected; the rest of the line is skipped.
pub(super) const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A stream of lines, one message in each.
pub(super) struct Lines<R, W> {
    input: BufReader<R>,
    /// The bytes of the next line so far. They are retained if reading is cancelled.
    line: Vec<u8>,
    is_too_long: bool,
    /// The remaining messages of a batch.
    messages: VecDeque<ClientJsonRpcMessage>,
    /// Whether the client requested the revision with batches.
    accepts_batches: bool,
    batches: Arc<Lock<Batches>>,
    /// Responses to invalid lines, and to batches that are already finished.
    pending_responses: VecDeque<Value>,
    is_flushing: bool,
    output: Arc<Mutex<Option<Output<W>>>>,
    shared: Arc<Shared>,
}

struct Output<W> {
    inner: W,
    /// Unsent bytes. They are retained if sending is cancelled, so that no line is truncated.
    unsent: BytesMut,
}

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    pub(super) fn new(input: R, output: W, shared: Arc<Shared>) -> Lines<R, W> {
        let output = Output { inner: output, unsent: BytesMut::new() };
        Lines {
            input: BufReader::new(input),
            line: Vec::new(),
            is_too_long: false,
            messages: VecDeque::new(),
            accepts_batches: false,
            batches: Arc::default(),
            pending_responses: VecDeque::new(),
            is_flushing: false,
            output: Arc::new(Mutex::new(Some(output))),
            shared,
        }
    }

    /// Reads a line into `line`. Returns `false` at the end of the input.
    async fn read_line(&mut self) -> io::Result<bool> {
        loop {
            let available = self.input.fill_buf().await?;
            if available.is_empty() {
                return Ok(!self.line.is_empty());
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            let room = MAX_LINE_BYTES - self.line.len();
            self.is_too_long |= part.len() > room;
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let read = end.map_or(available.len(), |end| end + 1);
            self.input.consume(read);
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    /// Parses the messages in `line` and clears it. An invalid line produces an error response.
    fn parse_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line).trim_ascii();
        if std::mem::take(&mut self.is_too_long) {
            let reason = format!("the message is longer than {MAX_LINE_BYTES} bytes");
            self.pending_responses.push_back(refusal(text, ErrorCode::PARSE_ERROR, &reason));
        } else if self.accepts_batches && batch::is_batch(text) {
            self.parse_batch(text);
        } else if !text.is_empty() {
            match parse_message(text, &self.shared) {
                Ok(message) => self.enqueue(message),
                Err(response) => self.pending_responses.extend(response),
            }
        }
        // The buffer is reused, unless it is unusually large.
        if line.capacity() <= 64 * 1024 {
            self.line = line;
            self.line.clear();
        }
    }

    fn enqueue(&mut self, message: ClientJsonRpcMessage) {
        match &message {
            JsonRpcMessage::Request(request) => {
                if let ClientRequest::InitializeRequest(initialize) = &request.request {
                    self.accepts_batches = initialize.params.protocol_version.as_str() == batch::REVISION;
                }
            }
            // A cancelled request gets no response, so its batch must not wait for it.
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.pending_responses.extend(lock(&self.batches).resolve(id, None));
                }
            }
            _ => (),
        }
        self.messages.push_back(message);
    }

    fn parse_batch(&mut self, text: &[u8]) {
        let pieces = match batch::pieces(text) {
            Ok(pieces) => pieces,
            Err(reason) => {
                self.pending_responses.push_back(refusal(text, ErrorCode::INVALID_REQUEST, &reason));
                return;
            }
        };
        let mut batch = Batch::default();
        let mut messages = Vec::new();
        for piece in pieces {
            let text = piece.as_bytes();
            match parse_message(text, &self.shared) {
                Ok(JsonRpcMessage::Request(request))
                    if matches!(request.request, ClientRequest::InitializeRequest(_)) =>
                {
                    batch.responses.push(refusal(text, ErrorCode::INVALID_REQUEST, batch::NO_INITIALIZE));
                }
                Ok(message) => {
                    if let JsonRpcMessage::Request(request) = &message {
                        batch.waiting.insert(request.id.clone());
                    }
                    messages.push(message);
                }
                Err(response) => batch.responses.extend(response),
            }
        }
        self.pending_responses.extend(lock(&self.batches).open(batch));
        messages.into_iter().for_each(|message| self.enqueue(message));
    }
}

fn lock(batches: &Lock<Batches>) -> std::sync::MutexGuard<'_, Batches> {
    batches.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the id of the request that a message responds to.
fn responded_id(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    }
}

/// Parses a message. An invalid one produces an error response, unless it is a notification.
fn parse_message(text: &[u8], shared: &Shared) -> Result<ClientJsonRpcMessage, Option<Value>> {
    let (parsed, original): (serde_json::Result<ClientJsonRpcMessage>, _) =
        match redact_secrets(&shared.server, text) {
            Some((message, original)) => (serde_json::from_value(message), original),
            None => (serde_json::from_slice(text), None),
        };
    match parsed {
        Ok(mut message) => {
            if let (JsonRpcMessage::Request(request), Some(original)) = (&mut message, original) {
                request.request.extensions_mut().insert(original);
            }
            Ok(message)
        }
        Err(_) => Err(match serde_json::from_slice::<Value>(text) {
            Ok(Value::Object(fields)) if fields.contains_key("method") && !fields.contains_key("id") => {
                // Newer clients may send unknown notifications.
                tracing::debug!("ignored an unknown notification");
                None
            }
            Ok(_) => Some(refusal(text, ErrorCode::INVALID_REQUEST, "the line is not an MCP message")),
            Err(error) => {
                Some(refusal(text, ErrorCode::PARSE_ERROR, &format!("the line is not valid JSON: {error}")))
            }
        }),
    }
}

impl<W: AsyncWrite + Unpin> Output<W> {
    fn push_line(&mut self, line: &[u8]) {
        self.unsent.extend_from_slice(line);
        self.unsent.extend_from_slice(b"\n");
    }

    async fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            if self.inner.write_buf(&mut self.unsent).await? == 0 {
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
    /// Sends the pending responses, including those whose sending was interrupted.
    async fn send_pending_responses(&mut self) -> io::Result<()> {
        if self.pending_responses.is_empty() && !self.is_flushing {
            return Ok(());
        }
        let mut output = self.output.lock().await;
        let output = output.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        for response in self.pending_responses.drain(..) {
            output.push_line(response.to_string().as_bytes());
        }
        self.is_flushing = true;
        output.flush().await?;
        self.is_flushing = false;
        Ok(())
    }

    async fn next(&mut self) -> io::Result<Option<ClientJsonRpcMessage>> {
        loop {
            self.send_pending_responses().await?;
            if let Some(message) = self.messages.pop_front() {
                return Ok(Some(message));
            }
            if !self.read_line().await? {
                return Ok(None);
            }
            self.parse_line();
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
        let batches = self.batches.clone();
        async move {
            let mut line = serde_json::to_vec(&message)?;
            if let Some(id) = responded_id(&message) {
                let mut batches = lock(&batches);
                if batches.has(id) {
                    let Some(responses) = batches.resolve(id, Some(serde_json::from_slice(&line)?)) else {
                        return Ok(());
                    };
                    line = serde_json::to_vec(&responses)?;
                }
            }
            let mut output = output.lock().await;
            let output = output.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            output.push_line(&line);
            output.flush().await
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.next().await.unwrap_or_else(|error| {
            tracing::error!(%error, "the stream failed");
            None
        })
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.lock().await.take();
        Ok(())
    }
}
