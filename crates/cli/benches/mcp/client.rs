//! The requests of MCP clients.

use std::error::Error;
use std::io;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::http::{framing, is_complete};
use crate::load::{self, Request};

/// A client of one server or gateway.
#[derive(Clone, Copy)]
pub(crate) struct Client<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) revision: &'a str,
    /// The key of the gateway, if it needs one.
    pub(crate) key: Option<&'a str>,
}

impl<'a> Client<'a> {
    pub(crate) fn new(address: SocketAddr, revision: &'a str) -> Client<'a> {
        Client { address, revision, key: None }
    }

    /// Returns a call of `echo`. A session is opened if the revision has them.
    pub(crate) async fn call(self) -> Result<Request, Box<dyn Error>> {
        match self.revision < "2026-07-28" {
            true => Ok(self.call_in(&self.open_session().await?)),
            false => Ok(self.call_without_session()),
        }
    }

    /// Returns a call of `echo` in a session.
    pub(crate) fn call_in(self, session: &str) -> Request {
        let params = json!({"name": "echo", "arguments": {"message": "hello"}});
        self.post(Some(session), &request("tools/call", &params))
    }

    fn call_without_session(self) -> Request {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": self.revision,
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": "echo", "arguments": {"message": "hello"}, "_meta": meta});
        self.post(None, &request("tools/call", &params))
    }

    /// Opens a session and returns its id.
    pub(crate) async fn open_session(self) -> Result<String, Box<dyn Error>> {
        let info = json!({"name": "bench", "version": "1"});
        let params = json!({"protocolVersion": self.revision, "capabilities": {}, "clientInfo": info});
        let opened = send(&self.post(None, &request("initialize", &params))).await?;
        let session = header(&opened, "mcp-session-id").ok_or_else(|| text(&opened))?;
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let taken = send(&self.post(Some(&session), &initialized)).await?;
        match taken.starts_with(b"HTTP/1.1 20") {
            true => Ok(session),
            false => Err(text(&taken).into()),
        }
    }

    /// Opens the stream of a session for messages of the server.
    pub(crate) async fn open_stream(self, session: &str) -> io::Result<TcpStream> {
        let headers = self.headers(Some(session), None);
        let head = format!("GET /mcp HTTP/1.1\r\nhost: {}\r\n{headers}\r\n", self.address);
        let mut connection = load::connect(self.address).await?;
        connection.write_all(head.as_bytes()).await?;
        let mut response = Vec::new();
        while framing(&response).is_none() {
            load::read(&mut connection, &mut response).await?;
        }
        match response.starts_with(b"HTTP/1.1 200") {
            true => Ok(connection),
            false => Err(io::Error::other(text(&response))),
        }
    }

    fn post(self, session: Option<&str>, body: &Value) -> Request {
        let method = body["method"].as_str().unwrap_or_default();
        Request::with_headers(self.address, "/mcp", &self.headers(session, Some(method)), body)
    }

    fn headers(self, session: Option<&str>, method: Option<&str>) -> String {
        let accept = match method {
            Some(_) => "application/json, text/event-stream",
            None => "text/event-stream",
        };
        let mut headers = format!("accept: {accept}\r\n");
        if method != Some("initialize") {
            headers.push_str(&format!("mcp-protocol-version: {}\r\n", self.revision));
        }
        if let Some(method) = method.filter(|_| session.is_none() && self.revision >= "2026-07-28") {
            headers.push_str(&format!("mcp-method: {method}\r\nmcp-name: echo\r\n"));
        }
        if let Some(session) = session {
            headers.push_str(&format!("mcp-session-id: {session}\r\n"));
        }
        if let Some(key) = self.key {
            headers.push_str(&format!("authorization: Bearer {key}\r\n"));
        }
        headers
    }
}

fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// Sends one request on a new connection and returns the complete response.
async fn send(request: &Request) -> io::Result<Vec<u8>> {
    let mut connection = load::connect(request.address).await?;
    connection.write_all(&request.bytes).await?;
    let mut response = Vec::new();
    while !is_complete(&response) {
        load::read(&mut connection, &mut response).await?;
    }
    Ok(response)
}

fn header(response: &[u8], name: &str) -> Option<String> {
    let (head, _) = framing(response)?;
    let head = std::str::from_utf8(&response[..head]).ok()?;
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
}

fn text(response: &[u8]) -> String {
    String::from_utf8_lossy(response).into_owned()
}
