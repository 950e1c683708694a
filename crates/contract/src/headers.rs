//! HTTP headers.

/// The headers that belong to a connection or to a message.
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

/// Whether a header, whose name is in lower case, belongs to the connection with an MCP server, to a message or
/// to a proxy. Its value is not the choice of a user.
pub fn is_of_connection(name: &str) -> bool {
    OF_CONNECTION.contains(&name) || name.starts_with("mcp-") || name.starts_with("x-forwarded-")
}
