//! Free TCP ports.

use std::fs;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// The first port that the system may choose for an outgoing connection, if this cannot be read from the
/// system.
const FIRST_OUTGOING_PORT: u16 = 32_768;

/// The first port that [`lasting_port`] returns.
const FIRST_LASTING_PORT: u16 = 10_000;

/// Returns a port that was free a moment ago; another process may take it before the caller does.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("this machine has a free port");
    listener.local_addr().expect("a bound listener has an address").port()
}

/// Returns a free port that no outgoing connection takes, for a server that is started again at the same
/// port.
///
/// The system chooses the ports of outgoing connections from a range. A client that connects repeatedly to a
/// port of this range, while the server is down, may get the same port for its own end, and is then connected
/// to itself.
///
/// # Panics
///
/// When none is free.
pub fn lasting_port() -> u16 {
    static COUNT: AtomicU16 = AtomicU16::new(0);
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let end = range.split_whitespace().next().and_then(|first| first.parse().ok());
    let end = end.unwrap_or(FIRST_OUTGOING_PORT).max(FIRST_LASTING_PORT + 1);
    let ports = end - FIRST_LASTING_PORT;
    // Test processes that run at the same time begin at different ports.
    let start = std::process::id().wrapping_mul(97) % u32::from(ports);
    for _ in 0..ports {
        let count = u32::from(COUNT.fetch_add(1, Ordering::Relaxed));
        let port = FIRST_LASTING_PORT + ((start + count) % u32::from(ports)) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port between {FIRST_LASTING_PORT} and {end} is free");
}
