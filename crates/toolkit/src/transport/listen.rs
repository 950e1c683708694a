//! A standalone HTTP server for MCP.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ServeError;
use super::http::{HttpService, http_service};
use super::http_options::HttpOptions;
use crate::server::Server;

/// The path of the MCP endpoint.
const PATH: &str = "/mcp";

/// Further connections wait to be accepted.
const MAX_CONNECTIONS: usize = 4096;

/// A listening server. It stops when dropped; [`HttpServer::shutdown`] also finishes running calls.
pub struct HttpServer {
    address: SocketAddr,
    service: HttpService,
    /// Stops accepting connections and closes idle ones.
    closing: CancellationToken,
    abandon: CancellationToken,
    connections: TaskTracker,
    accepting: JoinHandle<()>,
}

/// Serves streamable HTTP at `/mcp`; port 0 selects a free port.
///
/// Hosts and origins are checked ([`HttpOptions`]): by default only clients on the same machine are accepted,
/// even if the address is reachable from elsewhere.
///
/// # Errors
///
/// If the address cannot be listened on, or the system provides no random bytes.
pub async fn serve_http(
    server: Server,
    address: SocketAddr,
    options: HttpOptions,
) -> Result<HttpServer, ServeError> {
    let service = http_service(server, options)?;
    let listen = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let (closing, abandon) = (CancellationToken::new(), CancellationToken::new());
    let connections = TaskTracker::new();
    let accepting = tokio::spawn(accept(
        listener,
        service.clone(),
        connections.clone(),
        closing.clone(),
        abandon.clone(),
    ));
    Ok(HttpServer { address, service, closing, abandon, connections, accepting })
}

impl HttpServer {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for clients on the same machine.
    pub fn url(&self) -> String {
        let mut address = self.address;
        // An unspecified address cannot be used in a URL.
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => (),
        }
        format!("http://{address}{PATH}")
    }

    /// Stops accepting connections and finishes running calls. Calls that run longer than `grace_period` are
    /// cancelled.
    pub async fn shutdown(mut self, grace_period: Duration) {
        self.closing.cancel();
        self.service.shutdown(grace_period).await;
        self.connections.close();
        // All responses have been sent or have timed out; close the remaining connections.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.connections.wait()).await;
        self.abandon.cancel();
        self.connections.wait().await;
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.closing.cancel();
        self.abandon.cancel();
    }
}

async fn accept(
    listener: TcpListener,
    service: HttpService,
    connections: TaskTracker,
    closing: CancellationToken,
    abandon: CancellationToken,
) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let next = async {
            let place = room.clone().acquire_owned().await.ok()?;
            Some((listener.accept().await, place))
        };
        let accepted = tokio::select! {
            accepted = next => accepted,
            () = closing.cancelled() => None,
        };
        let Some((accepted, place)) = accepted else { return };
        match accepted {
            Ok((stream, _)) => {
                let connection = handle_connection(stream, service.clone(), closing.clone());
                let abandon = abandon.clone();
                connections.spawn(async move {
                    tokio::select! {
                        () = connection => (),
                        () = abandon.cancelled() => (),
                    }
                    drop(place);
                });
            }
            Err(error) => {
                // Probably out of file descriptors; wait until some are released.
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn handle_connection(stream: TcpStream, service: HttpService, closing: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let read_timeout = service.read_timeout();
    let handler = service_fn(move |request: Request<Incoming>| {
        let service = service.clone();
        async move {
            Ok::<_, Infallible>(match request.uri().path() {
                PATH => service.handle(request).await,
                _ => not_found(),
            })
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(read_timeout)
        .serve_connection(TokioIo::new(stream), handler);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection failed");
    }
}

fn not_found() -> Response<BoxBody<Bytes, Infallible>> {
    let body = Full::new(Bytes::from(format!("the MCP endpoint is {PATH}\n"))).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
