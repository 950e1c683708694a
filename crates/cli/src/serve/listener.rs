//! The address of the gateway, and the socket that listens there.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use tokio::net::{TcpListener, TcpSocket};

use super::systemd;
use crate::command_error::CommandError;
use crate::source::describe_io_error;

pub(crate) const DEFAULT_ADDRESS: &str = "127.0.0.1:8787";

/// The maximum number of connections that wait until the gateway accepts them. The system may allow fewer;
/// the default of 128 is too small for many clients that connect at once.
const WAITING_CONNECTIONS: u32 = 4_096;

/// Reads an address to listen on.
pub(crate) fn address(text: &str) -> Result<SocketAddr, CommandError> {
    // A port alone, or `:port`, means this machine.
    let full = match text.trim_start_matches(':').parse::<u16>() {
        Ok(port) => format!("127.0.0.1:{port}"),
        Err(_) => text.to_owned(),
    };
    let resolved = full.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    resolved.ok_or_else(|| {
        CommandError::usage(format!("`{text}` is not an address to listen on"))
            .with_hint("write an address and a port, such as 127.0.0.1:8787")
    })
}

/// Listens on the socket that systemd has opened, or on an address.
pub(super) fn listen(address: SocketAddr) -> Result<TcpListener, CommandError> {
    let passed = systemd::passed_listener().and_then(|passed| {
        passed
            .map(|listener| {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener)
            })
            .transpose()
    });
    let passed = passed.map_err(|error| {
        CommandError::work(format!("cannot use the socket from systemd: {}", describe_io_error(&error)))
            .with_hint("the socket unit needs `ListenStream=` with an address and a port")
    })?;
    match passed {
        Some(listener) => Ok(listener),
        None => bind(address).map_err(|error| {
            CommandError::work(format!("cannot listen on {address}: {}", describe_io_error(&error)))
                .with_hint("use another address with `--listen`, such as 127.0.0.1:8788")
        }),
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // On Windows, this option would allow other processes to use the same address.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(WAITING_CONNECTIONS)
}
