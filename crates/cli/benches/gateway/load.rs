//! Clients that send the same request repeatedly.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http::is_complete;

/// A request as bytes.
pub(crate) struct Request {
    pub(crate) address: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

impl Request {
    pub(crate) fn new(address: SocketAddr, path: &str, body: &Value) -> Request {
        Request::with_headers(address, path, "authorization: Bearer none\r\n", body)
    }

    pub(crate) fn with_headers(address: SocketAddr, path: &str, headers: &str, body: &Value) -> Request {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n{headers}\
             content-length: {}\r\n\r\n",
            body.len()
        );
        Request { address, bytes: (head + &body).into_bytes() }
    }
}

/// The measurements of one round.
pub(crate) struct Load {
    pub(crate) requests: usize,
    pub(crate) elapsed: Duration,
}

/// Sends requests on this many connections until a total is reached.
pub(crate) async fn run(request: &Request, connections: usize, total: usize) -> io::Result<Load> {
    let started = Instant::now();
    let sent = AtomicUsize::new(0);
    let client = || async {
        let mut connection = connect(request.address).await?;
        let mut buffer = Vec::with_capacity(16 * 1024);
        while sent.fetch_add(1, Ordering::Relaxed) < total {
            exchange(&mut connection, request, &mut buffer).await?;
        }
        io::Result::Ok(())
    };
    try_join_all((0..connections).map(|_| client())).await?;
    Ok(Load { requests: total, elapsed: started.elapsed() })
}

/// Sends requests one after the other on one connection; returns the time to the first text of each response,
/// or to its end, if it has none.
pub(crate) async fn latencies(request: &Request, total: usize) -> io::Result<Vec<Duration>> {
    let mut connection = connect(request.address).await?;
    let mut buffer = Vec::new();
    let mut times = Vec::with_capacity(total);
    for _ in 0..total {
        times.push(exchange(&mut connection, request, &mut buffer).await?);
    }
    times.sort_unstable();
    Ok(times)
}

/// Opens streams that stay open; returns them after each has received its first text.
pub(crate) async fn open_streams(request: &Request, count: usize) -> io::Result<Vec<TcpStream>> {
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        let mut connection = connect(request.address).await?;
        connection.write_all(&request.bytes).await?;
        let mut buffer = Vec::new();
        while !has_text(&buffer) {
            read(&mut connection, &mut buffer).await?;
        }
        streams.push(connection);
    }
    Ok(streams)
}

pub(crate) async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let connection = TcpStream::connect(address).await?;
    connection.set_nodelay(true)?;
    Ok(connection)
}

/// Returns the time to the first text.
async fn exchange(
    connection: &mut TcpStream,
    request: &Request,
    buffer: &mut Vec<u8>,
) -> io::Result<Duration> {
    let started = Instant::now();
    buffer.clear();
    connection.write_all(&request.bytes).await?;
    let mut first = None;
    loop {
        read(connection, buffer).await?;
        let is_complete = is_complete(buffer);
        if first.is_none() && (is_complete || has_text(buffer)) {
            first = Some(started.elapsed());
        }
        if is_complete {
            break;
        }
    }
    if !buffer.starts_with(b"HTTP/1.1 200") {
        return Err(io::Error::other(String::from_utf8_lossy(buffer).into_owned()));
    }
    Ok(first.unwrap_or_default())
}

pub(crate) async fn read(connection: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<()> {
    match connection.read_buf(buffer).await? {
        0 => Err(io::Error::other(format!("the connection was closed: {}", String::from_utf8_lossy(buffer)))),
        _ => Ok(()),
    }
}

fn has_text(bytes: &[u8]) -> bool {
    bytes.windows(5).any(|window| window == b"word ")
}
