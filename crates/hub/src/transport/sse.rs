//! The older HTTP transport: one stream of events for all that the server says, and an address for what we say.
//!
//! The SDK no longer has it, many servers still do. The session is the stream: when it ends, so does the connection.

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

use super::events::{self, EventError};
use super::http::{Client, content_type, excerpt};
use super::{Ending, Failure, Link};

/// How many messages of the server may wait to be read.
const QUEUE: usize = 64;

/// Opens the stream and learns where to send messages.
pub(crate) async fn open(client: Client, link: Arc<Link>) -> Result<SseTransport, Failure> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let response = client.send_for(&link, Method::GET, client.url(), headers, None, None).await?;
    let status = response.status();
    if !status.is_success() {
        return Err(Failure::Status { status: status.as_u16(), excerpt: excerpt(response).await });
    }
    let kind = content_type(&response);
    if !kind.as_deref().is_some_and(|kind| kind.starts_with("text/event-stream")) {
        return Err(Failure::WrongContent { content_type: kind, excerpt: excerpt(response).await });
    }
    let mut events = events::events(response);
    let endpoint = loop {
        match events.next().await {
            Some(Ok(event)) if event.event.as_deref() == Some("endpoint") => {
                break endpoint(client.url(), event.data.as_deref().unwrap_or_default())?;
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(Failure::Broken { reason: error.to_string() }),
            None => {
                return Err(Failure::Broken {
                    reason: "the stream ended before it named an endpoint".into(),
                });
            }
        }
    };
    let (incoming, inbox) = mpsc::channel(QUEUE);
    let reader = tokio::spawn(read(events, incoming, link.clone()));
    Ok(SseTransport { client, endpoint: Arc::new(endpoint), inbox, reader, link })
}

pub(crate) struct SseTransport {
    client: Client,
    endpoint: Arc<Url>,
    inbox: mpsc::Receiver<ServerJsonRpcMessage>,
    reader: JoinHandle<()>,
    link: Arc<Link>,
}

impl Transport<RoleClient> for SseTransport {
    type Error = Failure;

    fn send(
        &mut self,
        mut message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Failure>> + Send + 'static {
        let id = self.link.tee.asking(&mut message);
        let (client, endpoint, link) = (self.client.clone(), self.endpoint.clone(), self.link.clone());
        async move {
            if let Some(id) = id {
                link.tee.delivered(id, true);
            }
            let posted = post(&client, &link, &endpoint, &message).await;
            if let Err(failure) = &posted {
                link.failed(failure);
                if let Some(id) = id {
                    link.tee.fail(id, failure.clone());
                }
            }
            posted
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.inbox.recv().await
    }

    async fn close(&mut self) -> Result<(), Failure> {
        self.link.end(Ending::Closed);
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
    client: &Client,
    link: &Arc<Link>,
    endpoint: &Url,
    message: &ClientJsonRpcMessage,
) -> Result<(), Failure> {
    let body =
        serde_json::to_vec(message).map_err(|error| Failure::Unreachable { reason: error.to_string() })?;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let response = client.send_for(link, Method::POST, endpoint, headers, Some(body), None).await?;
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    Err(Failure::Status { status: status.as_u16(), excerpt: excerpt(response).await })
}

async fn read(
    mut events: BoxStream<'static, Result<Sse, EventError>>,
    incoming: mpsc::Sender<ServerJsonRpcMessage>,
    link: Arc<Link>,
) {
    let reason = loop {
        let event = match events.next().await {
            Some(Ok(event)) => event,
            Some(Err(error)) => break error.to_string(),
            None => break "the server closed it".to_owned(),
        };
        if !events::is_message(&event) {
            continue;
        }
        for message in link.tee.hear(event.data.unwrap_or_default().as_bytes()) {
            let Ok(message) = serde_json::from_value(message) else { continue };
            if incoming.send(message).await.is_err() {
                return;
            }
        }
    };
    link.end(Ending::StreamEnded { reason });
}

/// The address that the server names for our messages. It must be on the server's own origin, or any server could have
/// us send its headers and tokens elsewhere.
fn endpoint(url: &Url, named: &str) -> Result<Url, Failure> {
    let endpoint = url.join(named.trim()).map_err(|error| Failure::Broken {
        reason: format!("the endpoint `{named}` is no address: {error}"),
    })?;
    if endpoint.origin() != url.origin() {
        return Err(Failure::Broken { reason: format!("the endpoint `{named}` is on another origin") });
    }
    Ok(endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(named: &str, expected: Option<&str>) {
        let url = Url::parse("https://example.com/mcp/sse").expect("a valid address");
        assert_eq!(endpoint(&url, named).ok().as_ref().map(Url::as_str), expected);
    }

    #[test]
    fn the_endpoint_stays_on_the_origin() {
        check("/messages?session=1", Some("https://example.com/messages?session=1"));
        check("messages", Some("https://example.com/mcp/messages"));
        check("https://example.com:443/messages", Some("https://example.com/messages"));
        check("https://example.org/messages", None);
        check("http://example.com/messages", None);
        check("//example.org/messages", None);
        check("https://example.com:8443/messages", None);
    }
}
