//! The limit of open files, which includes connections. If idle connections could use the whole limit, the
//! gateway could not connect to providers and servers.

#![cfg_attr(not(unix), allow(dead_code, reason = "other systems have no such limit"))]

use std::fmt;

use tokio::sync::Semaphore;
use toolwire_gateway::GatewayLimits;

/// The open files besides those of clients and of their requests: servers, the store, logs and the runtime.
const OTHER_FILES: u64 = 512;

/// The highest limit that macOS accepts, even if the hard limit is higher.
#[cfg(unix)]
const MAX_ON_MACOS: u64 = 10_240;

/// A limit of open files that does not allow all connections of the configuration.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shortage {
    files: u64,
    connections: usize,
    configured: usize,
    needed: u64,
}

impl fmt::Display for Shortage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortage { files, connections, configured, .. } = self;
        write!(
            formatter,
            "this process may open {files} files, so the maximum number of connections is {connections}, not {configured}"
        )
    }
}

impl Shortage {
    pub(super) fn hint(&self) -> String {
        let needed = self.needed;
        format!(
            "allow {needed} files: `ulimit -n {needed}`, or `LimitNOFILE=` in the systemd unit; or decrease `toolwire.gateway.limits.connections`"
        )
    }
}

/// Raises the limit of open files to what the gateway may need. If the system does not allow that, the
/// maximum number of connections is reduced, so that requests have files too.
pub(super) fn reserve(limits: &mut GatewayLimits) -> Option<Shortage> {
    // The gateway refuses such a number when it starts.
    if limits.connections > Semaphore::MAX_PERMITS {
        return None;
    }
    #[cfg(unix)]
    {
        let files = raise_to(needed(limits))?;
        let shortage = shortage(limits, files)?;
        limits.connections = shortage.connections;
        Some(shortage)
    }
    // Windows has no such limit for sockets.
    #[cfg(not(unix))]
    None
}

fn needed(limits: &GatewayLimits) -> u64 {
    count(limits.connections).saturating_add(others(limits))
}

/// Each request may need a connection to a provider or a server.
fn others(limits: &GatewayLimits) -> u64 {
    count(limits.requests).saturating_add(OTHER_FILES)
}

fn count(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// Decides how many connections fit into a limit of open files, if not all do. At least half of the files
/// are for connections.
fn shortage(limits: &GatewayLimits, files: u64) -> Option<Shortage> {
    let connections = usize::try_from(files - others(limits).min(files / 2)).unwrap_or(usize::MAX).max(1);
    let (configured, needed) = (limits.connections, needed(limits));
    (connections < configured).then_some(Shortage { files, connections, configured, needed })
}

/// Raises the limit of this process to what is needed, if possible. Returns the resulting limit; `None` means
/// unlimited.
#[cfg(unix)]
fn raise_to(needed: u64) -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let current = current?;
    // Not higher than necessary: server processes inherit the limit, and some programs close all possible
    // files when they start.
    let wanted = [needed, MAX_ON_MACOS].map(|files| files.min(needed).min(maximum.unwrap_or(u64::MAX)));
    let mut higher = wanted.into_iter().filter(|files| *files > current);
    let raised =
        higher.find(|files| setrlimit(Resource::Nofile, Rlimit { current: Some(*files), maximum }).is_ok());
    Some(raised.unwrap_or(current))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(files: u64, connections: usize, requests: usize) -> usize {
        let mut limits = GatewayLimits::default();
        (limits.connections, limits.requests) = (connections, requests);
        shortage(&limits, files).map_or(connections, |shortage| shortage.connections)
    }

    #[test]
    fn connections_leave_files_for_requests() {
        for (files, expected) in
            [(65_536, 16_384), (17_920, 16_384), (17_919, 16_383), (4_096, 2_560), (1_024, 512), (1, 1)]
        {
            assert_eq!(connections(files, 16_384, 1_024), expected, "{files} files");
        }
        assert_eq!(connections(1_024, 100, usize::MAX), 100);
        assert_eq!(connections(2_048, usize::MAX, 8), 1_528);
    }
}
