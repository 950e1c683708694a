//! The part of HTTP/1.1 that the server needs.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

const MAX_BODY_BYTES: u64 = 100_000_000;

pub(super) struct HttpRequest {
    pub(super) method: String,
    /// Path and query.
    pub(super) target: String,
    headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl HttpRequest {
    /// Returns a header by its lower-case name.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

pub(super) struct HttpConnection {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl HttpConnection {
    pub(super) fn new(stream: TcpStream) -> io::Result<HttpConnection> {
        stream.set_nodelay(true)?;
        Ok(HttpConnection { writer: stream.try_clone()?, reader: BufReader::new(stream) })
    }

    /// Reads a request; returns `None` when the client has closed the connection.
    pub(super) fn request(&mut self) -> io::Result<Option<HttpRequest>> {
        let Some(first) = self.line()? else { return Ok(None) };
        let mut parts = first.split(' ');
        let (Some(method), Some(target)) = (parts.next(), parts.next()) else {
            return Err(io::Error::other("not an HTTP request"));
        };
        let mut request = HttpRequest {
            method: method.into(),
            target: target.into(),
            headers: Vec::new(),
            body: String::new(),
        };
        while let Some(line) = self.line()?.filter(|line| !line.is_empty()) {
            if let Some((name, value)) = line.split_once(':') {
                request.headers.push((name.to_ascii_lowercase(), value.trim().into()));
            }
        }
        let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        if length > MAX_BODY_BYTES {
            return Err(io::Error::other("the body is too large"));
        }
        self.reader.by_ref().take(length).read_to_string(&mut request.body)?;
        Ok(Some(request))
    }

    fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        match self.reader.read_line(&mut line)? {
            0 => Ok(None),
            _ => Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned())),
        }
    }

    pub(super) fn json(&mut self, status: u16, headers: &[(&str, &str)], body: &Value) -> io::Result<()> {
        let headers = [&[("Content-Type", "application/json")], headers].concat();
        self.respond(status, &headers, &body.to_string())
    }

    pub(super) fn respond(&mut self, status: u16, headers: &[(&str, &str)], body: &str) -> io::Result<()> {
        self.bytes(status, headers, body.as_bytes())
    }

    pub(super) fn bytes(&mut self, status: u16, headers: &[(&str, &str)], body: &[u8]) -> io::Result<()> {
        let mut response = head(status, headers);
        response.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        self.writer.write_all(&[response.as_bytes(), body].concat())
    }

    /// Starts a chunked event stream; chunks let the client distinguish a cut from an end.
    pub(super) fn start_stream(&mut self, headers: &[(&str, &str)]) -> io::Result<()> {
        let mut response = head(200, headers);
        response.push_str("Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        self.writer.write_all(response.as_bytes())
    }

    pub(super) fn event(&mut self, data: &str) -> io::Result<()> {
        self.write(format!("event: message\ndata: {data}\n\n").as_bytes())
    }

    /// Writes one chunk of a stream.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.writer.write_all(&chunk)
    }

    pub(super) fn end_stream(&mut self) -> io::Result<()> {
        self.writer.write_all(b"0\r\n\r\n")
    }

    /// Sends nothing until the client closes the connection.
    pub(super) fn hang(&mut self, timeout: Duration) -> io::Result<()> {
        self.writer.set_read_timeout(Some(timeout))?;
        io::copy(&mut self.reader, &mut io::sink())?;
        Err(io::Error::other("the client closed the connection"))
    }
}

fn head(status: u16, headers: &[(&str, &str)]) -> String {
    let reason = match status {
        200 => "OK",
        202 => "Accepted",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        502 => "Bad Gateway",
        _ => "Internal Server Error",
    };
    let mut head = format!("HTTP/1.1 {status} {reason}\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head
}
