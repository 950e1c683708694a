//! HTTP headers.

/// The headers that the HTTP client, the MCP transport or a proxy sets.
const OF_CONNECTION: [&str; 19] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "last-event-id",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// Whether a header belongs to the connection with an MCP server, to a message or to a proxy, so that users
/// cannot set it. The name must be in lower case.
pub fn is_of_connection(name: &str) -> bool {
    OF_CONNECTION.contains(&name) || name.starts_with("mcp-") || name.starts_with("x-forwarded-")
}
