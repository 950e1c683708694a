//! The protocol of systemd for services: sockets that it opened, and the state of the service.

use std::io;
use std::net::TcpListener;
#[cfg(unix)]
use std::os::unix::net::UnixDatagram;

/// Returns the socket that systemd (or another program with the same protocol) has opened for this process.
pub(super) fn passed_listener() -> io::Result<Option<TcpListener>> {
    let mut passed = listenfd::ListenFd::from_env();
    let listener = passed.take_tcp_listener(0)?;
    #[cfg(unix)]
    if let Some(listener) = &listener {
        // MCP servers run other people's programs, which must not inherit the socket.
        rustix::io::fcntl_setfd(listener, rustix::io::FdFlags::CLOEXEC)?;
    }
    Ok(listener)
}

/// Sends a state to systemd, such as `READY=1`. Without systemd, this does nothing.
#[cfg(unix)]
pub(super) fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&path, state) {
        tracing::warn!(%error, "cannot send `{state}` to systemd");
    }
}

#[cfg(unix)]
fn send(path: &std::ffi::OsStr, state: &str) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let socket = UnixDatagram::unbound()?;
    match path.as_bytes().strip_prefix(b"@") {
        #[cfg(target_os = "linux")]
        Some(name) => {
            use std::os::linux::net::SocketAddrExt as _;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            socket.send_to_addr(state.as_bytes(), &address)?;
        }
        _ => {
            socket.send_to(state.as_bytes(), path)?;
        }
    }
    Ok(())
}

#[cfg(not(unix))]
pub(super) fn notify(_: &str) {}

/// Reports to systemd that the configuration is read again.
pub(super) fn notify_reloading() {
    // With the time, systemd distinguishes this message from an older one.
    #[cfg(target_os = "linux")]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        notify(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
    }
    #[cfg(not(target_os = "linux"))]
    notify("RELOADING=1");
}
