//! MCP servers that requests name by URL.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use toolwire_contract::Secret;
use toolwire_contract::headers::is_of_connection;
use toolwire_contract::toolbox::Toolbox;
use toolwire_dialect::client::HostedServer;

use crate::principal::Principal;
use crate::response::Failure;

/// Connects to MCP servers that requests name by URL.
///
/// The URL and the headers come from a client, which must not reach anything that it could not reach itself:
/// implementations decide which hosts and addresses are allowed.
pub trait RequestServers: Send + Sync {
    /// Connects to a server, and returns its tools. Two clients never share a connection. The tools must work
    /// as long as the toolbox exists, which may be a day if calls wait for approval; the connection may be
    /// closed in the meantime.
    fn connect(&self, server: RequestServer) -> BoxFuture<'_, Result<Arc<dyn Toolbox>, RequestServerError>>;
}

/// An MCP server that a request names by URL.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestServer {
    /// Identifies the client's key; `None` if the gateway has no keys.
    pub client: Option<String>,
    /// The client's name of the server.
    pub label: String,
    /// The URL as the client sent it. It may contain secrets.
    pub url: String,
    /// Headers for this server only: valid names and values.
    pub headers: Vec<(String, Secret)>,
}

impl fmt::Debug for RequestServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RequestServer").field("label", &self.label).finish_non_exhaustive()
    }
}

/// The reason why there is no connection to a server. It must not contain secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestServerError {
    /// The URL is not allowed.
    #[error("{reason}")]
    Refused { reason: String },
    #[error("{reason}")]
    Unavailable { reason: String },
}

/// Refuses all URLs.
pub(crate) struct NoRequestServers;

impl RequestServers for NoRequestServers {
    fn connect(&self, _: RequestServer) -> BoxFuture<'_, Result<Arc<dyn Toolbox>, RequestServerError>> {
        let reason = "the gateway does not connect to servers that requests name by URL".to_owned();
        Box::pin(std::future::ready(Err(RequestServerError::Refused { reason })))
    }
}

const MAX_LABEL_BYTES: usize = 128;

/// The maximum size of the headers for a server.
const MAX_HEADER_BYTES: usize = 16 * 1024;

impl RequestServer {
    pub fn new(
        client: Option<String>,
        label: String,
        url: String,
        headers: Vec<(String, Secret)>,
    ) -> RequestServer {
        RequestServer { client, label, url, headers }
    }

    /// Reads an entry of a request.
    pub(crate) fn read(
        principal: &Principal,
        hosted: &HostedServer,
        url: &str,
    ) -> Result<RequestServer, Failure> {
        let is_name = |label: &str| !label.trim().is_empty() && !label.chars().any(char::is_control);
        if hosted.label.len() > MAX_LABEL_BYTES || !is_name(&hosted.label) {
            return Err(Failure::invalid("tools", "the name of a server is not valid"));
        }
        let mut headers = hosted.headers.clone();
        let is_authorization =
            |(name, _): &(String, Secret)| name.eq_ignore_ascii_case(AUTHORIZATION.as_str());
        if let Some(token) = &hosted.authorization {
            if headers.iter().any(is_authorization) {
                let problem = "has both `authorization` and the header `Authorization`";
                return Err(invalid(hosted, problem));
            }
            headers.push(("authorization".to_owned(), Secret::new(format!("Bearer {}", token.expose()))));
        }
        if headers.iter().map(|(name, value)| name.len() + value.expose().len()).sum::<usize>()
            > MAX_HEADER_BYTES
        {
            return Err(invalid(hosted, "has headers that are too long"));
        }
        for (name, value) in &headers {
            let parsed = HeaderName::from_bytes(name.as_bytes());
            let Some(parsed) = parsed.ok().filter(|_| HeaderValue::from_str(value.expose()).is_ok()) else {
                return Err(invalid(hosted, "has a header that is not valid"));
            };
            if is_of_connection(parsed.as_str()) {
                return Err(invalid(hosted, &format!("must not set the header `{parsed}`")));
            }
        }
        let (client, label) = (principal.owner_id(), hosted.label.clone());
        Ok(RequestServer { client, label, url: url.to_owned(), headers })
    }
}

fn invalid(hosted: &HostedServer, problem: &str) -> Failure {
    Failure::invalid("tools", format!("the server `{}` {problem}", hosted.label))
}
