//! The older HTTP transport: one event stream for all messages of the server, and one URL for our messages.
//!
//! The SDK no longer supports it, but many servers do. The stream is the session: when it ends, so does the
//! connection.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use sse_stream::Sse;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::http::{HttpClient, HttpRequest, content_type, is_event_stream, uncompressed};
use super::sse_events::{self, EventStreamError};
use super::{Connection, ConnectionEnd, TransportFailure};

/// The maximum number of messages from the server that wait for the SDK.
const QUEUE_LENGTH: usize = 64;

/// Opens the stream and waits for the URL to which messages are sent.
pub(crate) async fn open(
    client: HttpClient,
    connection: Arc<Connection>,
) -> Result<SseTransport, TransportFailure> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let request = HttpRequest::new(Method::GET, client.url(), headers);
    let response = client.send(&connection, request).await?;
    if !response.status().is_success() {
        return Err(client.status_failure(response).await);
    }
    if !is_event_stream(content_type(&response).as_deref()) {
        return Err(client.wrong_content(response).await);
    }
    let mut events = sse_events::events(uncompressed(response)?, client.max_message_bytes());
    let interrupted = |reason: String| TransportFailure::Interrupted { reason };
    let endpoint = loop {
        match events.next().await {
            Some(Ok(event)) if event.event.as_deref() == Some("endpoint") => {
                break endpoint(client.url(), event.data.as_deref().unwrap_or_default())?;
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(interrupted(error.to_string())),
            None => return Err(TransportFailure::NoEndpoint),
        }
    };
    let (incoming, inbox) = mpsc::channel(QUEUE_LENGTH);
    let reader = tokio::spawn(read(events, incoming, connection.clone()));
    Ok(SseTransport { client, endpoint: Arc::new(endpoint), inbox, reader, connection })
}

pub(crate) struct SseTransport {
    client: HttpClient,
    endpoint: Arc<Url>,
    inbox: mpsc::Receiver<ServerJsonRpcMessage>,
    reader: JoinHandle<()>,
    connection: Arc<Connection>,
}

impl Transport<RoleClient> for SseTransport {
    type Error = TransportFailure;

    fn send(
        &mut self,
        mut message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), TransportFailure>> + Send + 'static {
        let id = self.connection.capture.register(&mut message);
        let (client, endpoint) = (self.client.clone(), self.endpoint.clone());
        let connection = self.connection.clone();
        async move {
            if let Some(id) = id {
                connection.capture.set_delivered(id, true);
            }
            let posted = post(&client, &connection, &endpoint, &message).await;
            if let Err(failure) = &posted {
                connection.set_last_failure(failure);
                if let Some(id) = id {
                    connection.capture.fail(id, failure.clone());
                }
            }
            posted
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.inbox.recv().await
    }

    async fn close(&mut self) -> Result<(), TransportFailure> {
        self.connection.set_ended(ConnectionEnd::Closed);
        self.reader.abort();
        Ok(())
    }
}

impl Drop for SseTransport {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn post(
    client: &HttpClient,
    connection: &Arc<Connection>,
    endpoint: &Url,
    message: &ClientJsonRpcMessage,
) -> Result<(), TransportFailure> {
    let body = serde_json::to_vec(message)
        .map_err(|error| TransportFailure::Unreachable { reason: error.to_string(), proxy: None })?;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let request = HttpRequest { body: Some(body), ..HttpRequest::new(Method::POST, endpoint, headers) };
    let response = client.send(connection, request).await?;
    match response.status().is_success() {
        true => Ok(()),
        false => Err(client.status_failure(response).await),
    }
}

async fn read(
    mut events: BoxStream<'static, Result<Sse, EventStreamError>>,
    incoming: mpsc::Sender<ServerJsonRpcMessage>,
    connection: Arc<Connection>,
) {
    let reason = loop {
        let event = match events.next().await {
            Some(Ok(event)) => event,
            Some(Err(error)) => break error.to_string(),
            None => break "the server closed the stream".to_owned(),
        };
        if !sse_events::is_message(&event) {
            continue;
        }
        for message in connection.capture.receive(event.data.unwrap_or_default().as_bytes()) {
            let Ok(message) = serde_json::from_value(message) else { continue };
            if incoming.send(message).await.is_err() {
                return;
            }
        }
    };
    connection.set_ended(ConnectionEnd::StreamEnded { reason });
}

/// Resolves the URL that the server names for our messages. It must have the server's origin, because headers
/// and tokens are sent to it.
fn endpoint(url: &Url, named: &str) -> Result<Url, TransportFailure> {
    let endpoint = url.join(named.trim()).map_err(|error| TransportFailure::Interrupted {
        reason: format!("invalid endpoint URL `{named}`: {error}"),
    })?;
    if endpoint.origin() != url.origin() {
        return Err(TransportFailure::Interrupted {
            reason: format!("the endpoint `{named}` has a different origin than the server"),
        });
    }
    Ok(endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(named: &str, expected: Option<&str>) {
        let url = Url::parse("https://example.com/mcp/sse").expect("a valid URL");
        assert_eq!(endpoint(&url, named).ok().as_ref().map(Url::as_str), expected);
    }

    #[test]
    fn the_endpoint_must_have_the_origin_of_the_server() {
        check("/messages?session=1", Some("https://example.com/messages?session=1"));
        check("messages", Some("https://example.com/mcp/messages"));
        check("https://example.com:443/messages", Some("https://example.com/messages"));
        check("https://example.org/messages", None);
        check("http://example.com/messages", None);
        check("//example.org/messages", None);
        check("https://example.com:8443/messages", None);
    }
}
