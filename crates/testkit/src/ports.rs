//! Free TCP ports.

use std::net::TcpListener;

/// Returns a port that was free a moment ago; another process may take it before the caller does.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("this machine has a free port");
    listener.local_addr().expect("a bound listener has an address").port()
}
