//! Accepts connections within limits until the gateway stops.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::{Counts, client_network};
use crate::body::{MAX_HEADER_BYTES, MAX_HEADERS};
use crate::head_timer::HeadTimer;
use crate::settings::{GatewayLimits, LimitError};
use crate::state::supervise;
use crate::{Gateway, OriginError};

/// The HTTP library reads headers that exceed the limits by up to this factor, so that the client gets an
/// error in the format of its API. It rejects larger ones without a body.
const READ_FACTOR: usize = 2;

/// The delay after a connection could not be accepted, for example because too many files are open.
const ACCEPT_DELAY: Duration = Duration::from_millis(100);

/// The minimum time between two warnings that the maximum number of connections is reached.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// The time to respond to clients that connected while the gateway stopped.
const LATE_RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The part of the time to finish that responses in the background have.
const BACKGROUND_SHARE: f64 = 0.8;

/// The reason why a gateway cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    #[error("the address is reachable from other machines, and no key is configured")]
    NoKey,
    #[error("the key `{name}` is shorter than {} characters", crate::Keys::MIN_LENGTH)]
    WeakKey { name: String },
    #[error(transparent)]
    Origin(#[from] OriginError),
    #[error(transparent)]
    Limits(#[from] LimitError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Gateway {
    /// Serves clients until `stop` is cancelled. Running requests then have `drain` to finish, and new ones
    /// get an error until then.
    ///
    /// # Errors
    ///
    /// If clients on other machines could use the gateway without a key, or with a weak one, or if the
    /// settings are invalid.
    pub async fn serve(&self, listener: TcpListener, stop: CancellationToken) -> Result<(), StartError> {
        let (_sender, gateways) = watch::channel(self.clone());
        Gateway::serve_latest(gateways, listener, stop).await
    }

    /// Like [`Gateway::serve`], with the latest of several gateways for each request. Each of them must be
    /// created from the previous one by [`Gateway::reconfigured`], and must pass [`Gateway::check`].
    pub async fn serve_latest(
        gateways: watch::Receiver<Gateway>,
        listener: TcpListener,
        stop: CancellationToken,
    ) -> Result<(), StartError> {
        let gateway = gateways.borrow().clone();
        // Reads the key table, so that the check knows whether it has keys.
        gateway.0.settings.keys.is_needed().await;
        gateway.check(listener.local_addr()?.ip())?;
        let limits = gateway.0.settings.limits.clone();
        let server = Server {
            gateways,
            listener,
            connections: Arc::new(Semaphore::new(limits.connections)),
            addresses: Arc::default(),
        };
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        // It ends before the gateway hands its own responses over, so it does not take them again.
        let supervising = stop.child_token();
        tasks.spawn(supervise(server.gateways.clone(), supervising.clone()));
        let _supervising = supervising.drop_guard();
        server.accept_until(stop.cancelled(), &tasks, &closing).await;
        let limits = server.latest().0.settings.limits.clone();
        let lifecycle = &gateway.0.lifecycle;
        lifecycle.drain();
        if !limits.drain_delay.is_zero() {
            server.accept_until(tokio::time::sleep(limits.drain_delay), &tasks, &closing).await;
        }
        lifecycle.refuse();
        closing.cancel();
        tasks.close();
        let page = async {
            if let Some(page) = gateway.0.page.get() {
                page.close().await;
            }
        };
        let running = async {
            // Other gateways continue what does not end in time.
            let backgrounds = gateway.0.backgrounds.close(limits.drain.mul_f64(BACKGROUND_SHARE));
            let keyed = gateway.0.idempotency.close(limits.drain.mul_f64(BACKGROUND_SHARE));
            tokio::join!(tasks.wait(), page, gateway.0.mcp.close(limits.drain), backgrounds, keyed);
            gateway.0.meters.close().await;
        };
        let drained = tokio::time::timeout(limits.drain, running);
        // Clients that still connect get the error of a gateway that stops.
        let (late, end) = (TaskTracker::new(), CancellationToken::new());
        server.accept_until(drained.map(drop), &late, &end).await;
        drop(server);
        end.cancel();
        late.close();
        // Connections that are still open after this are closed when the process ends.
        let _ = tokio::time::timeout(LATE_RESPONSE_TIMEOUT, late.wait()).await;
        Ok(())
    }

    /// Checks the settings of a gateway that listens on an address.
    pub fn check(&self, address: IpAddr) -> Result<(), StartError> {
        if !address.to_canonical().is_loopback() {
            if !self.0.settings.keys.may_be_needed() {
                return Err(StartError::NoKey);
            }
            if let Some(name) = self.0.settings.keys.weak_key() {
                return Err(StartError::WeakKey { name: name.to_owned() });
            }
        }
        self.0.origins.check_settings()?;
        self.0.settings.limits.check()?;
        Ok(())
    }
}

/// A gateway that listens.
struct Server {
    gateways: watch::Receiver<Gateway>,
    listener: TcpListener,
    connections: Arc<Semaphore>,
    addresses: Arc<Counts<IpAddr>>,
}

impl Server {
    fn latest(&self) -> Gateway {
        self.gateways.borrow().clone()
    }

    /// Accepts connections until `end`. The tasks of the connections end after `closing` is cancelled, when
    /// their request is complete. Above the maximum number of connections, new ones wait in the queue of the
    /// system until another one ends.
    async fn accept_until(
        &self,
        end: impl Future<Output = ()>,
        tasks: &TaskTracker,
        closing: &CancellationToken,
    ) {
        let mut end = std::pin::pin!(end);
        let mut last_warning = None;
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut end => return,
                accepted = accept(&self.listener, &self.connections, &mut last_warning) => accepted,
            };
            let Some((stream, address, permit)) = accepted else { continue };
            // The new connection of a client that has too many is closed.
            let limit = connections_of(address, &self.gateways.borrow().0.settings.limits);
            let Some(counted) = self.addresses.enter(client_network(address), 1, limit) else { continue };
            let (gateways, closing) = (self.gateways.clone(), closing.clone());
            tasks.spawn(async move {
                serve_connection(gateways, stream, address, closing).await;
                drop((permit, counted));
            });
        }
    }
}

async fn serve_connection(
    gateways: watch::Receiver<Gateway>,
    stream: TcpStream,
    client: IpAddr,
    closing: CancellationToken,
) {
    let Ok(local) = stream.local_addr() else { return };
    // Sends small events without the delay of Nagle's algorithm.
    let _ = stream.set_nodelay(true);
    let (timer, limit, tls) = {
        let gateway = gateways.borrow();
        let settings = &gateway.0.settings;
        let timer = HeadTimer::new(settings.limits.header_timeout, settings.limits.keep_alive_timeout);
        (timer, settings.limits.write_timeout, settings.tls.clone())
    };
    let stream = LimitedStream { stream, limit, waiting: None, timer: timer.clone() };
    match tls {
        None => serve_stream(gateways, stream, timer, (local, client), closing).await,
        Some(tls) => {
            let accepted = tokio::select! {
                accepted = tls.accept(stream) => accepted,
                () = closing.cancelled() => return,
            };
            match accepted {
                Ok(stream) => serve_stream(gateways, stream, timer, (local, client), closing).await,
                Err(error) => tracing::debug!(%error, "a TLS handshake failed"),
            }
        }
    }
}

/// Serves the requests of a connection.
async fn serve_stream<S>(
    gateways: watch::Receiver<Gateway>,
    stream: S,
    timer: HeadTimer,
    (local, client): (SocketAddr, IpAddr),
    closing: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let idle = gateways.borrow().0.settings.limits.keep_alive_timeout;
    let io = TokioIo::new(stream);
    // The future is boxed, so that an idle connection does not use the memory of a request.
    let service = service_fn(|request| {
        let gateway = gateways.borrow().clone();
        Box::pin(async move { Ok::<_, Infallible>(gateway.handle(request, local, client).await) })
    });
    let connection = http1::Builder::new()
        .timer(timer)
        // `HeadTimer` replaces this limit by its own ones.
        .header_read_timeout(idle)
        .max_header_size(READ_FACTOR * MAX_HEADER_BYTES)
        .max_headers(READ_FACTOR * MAX_HEADERS)
        .serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Returns the maximum number of connections of an address. Loopback addresses have no limit by default: many
/// clients may connect through a proxy on this machine.
fn connections_of(address: IpAddr, limits: &GatewayLimits) -> usize {
    let is_local = address.to_canonical().is_loopback();
    let default = if is_local { usize::MAX } else { GatewayLimits::CONNECTIONS_PER_ADDRESS };
    limits.connections_per_address.unwrap_or(default)
}

/// Waits until the number of connections is below its limit, and then for a connection.
async fn accept(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
    last_warning: &mut Option<Instant>,
) -> Option<(TcpStream, IpAddr, OwnedSemaphorePermit)> {
    if connections.available_permits() == 0
        && last_warning.is_none_or(|last| last.elapsed() >= WARNING_INTERVAL)
    {
        *last_warning = Some(Instant::now());
        tracing::warn!("the maximum number of connections is reached: new ones wait until another one ends");
    }
    let permit = connections.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, client)) => Some((stream, client.ip(), permit)),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(ACCEPT_DELAY).await;
            None
        }
    }
}

/// A connection that fails if its client does not read for `limit`. It records in the timer when bytes
/// arrive.
struct LimitedStream {
    stream: TcpStream,
    limit: Duration,
    /// Set while a write waits for the client.
    waiting: Option<Pin<Box<Sleep>>>,
    timer: HeadTimer,
}

impl LimitedStream {
    /// Returns the result of a write, or an error if the client has not read for too long.
    fn limit<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let deadline = Instant::now() + self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        match waiting.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for LimitedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.timer.record_bytes();
        }
        read
    }
}

impl AsyncWrite for LimitedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limit(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.limit(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.limit(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
