//! The process group of a server: the process and whatever it started.
//!
//! The group is there before the server is, held open by a shell that does nothing, so that the watchdog knows of it before
//! there is anything to end: whenever we are killed, what we started ends (ADR 0006).

use std::io;
use std::time::Duration;

use tokio::process::{Child, Command};

#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

#[cfg(unix)]
use super::watchdog::{self, Guarded};

/// Ends the group when it is dropped, if it is still there.
pub(super) struct Group {
    #[cfg(unix)]
    parts: Vec<Part>,
    #[cfg(unix)]
    holder: Option<Child>,
}

/// A server may call `setsid` and so leave the group that it was started in for one of its own: both are meant.
#[cfg(unix)]
struct Part {
    leader: Pid,
    _guarded: Option<Guarded>,
}

#[cfg(unix)]
impl Group {
    /// A group for a server that is not started yet.
    pub(super) fn open() -> Group {
        // Without a shell there is no watchdog either; the server then opens its group itself.
        let holder = hold().inspect_err(|error| tracing::warn!(%error, "no watchdog for servers")).ok();
        let parts = holder.as_ref().and_then(|holder| part(holder.id()).ok());
        Group { parts: parts.into_iter().collect(), holder }
    }

    /// Has the server start in the group.
    pub(super) fn take_in(&self, server: &mut Command) {
        server.process_group(self.parts.first().map_or(0, |part| part.leader.as_raw_nonzero().get()));
    }

    /// The server is there, and holds the group open by itself.
    pub(super) fn started(&mut self, server: &Child) -> io::Result<()> {
        self.parts.push(part(server.id())?);
        Ok(())
    }

    /// Lets go of what held the group open for the server.
    pub(super) async fn release(&mut self) {
        if let Some(mut holder) = self.holder.take() {
            let _ = holder.kill().await;
        }
    }

    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends all that is left of the group, after `patience` by force.
    pub(super) async fn end(&self, patience: Duration) {
        const TURN: Duration = Duration::from_millis(20);
        if !self.is_there() {
            return;
        }
        self.terminate();
        // There is no event for the end of a process that is not our child.
        let wait = async {
            while self.is_there() {
                tokio::time::sleep(TURN).await;
            }
        };
        if tokio::time::timeout(patience, wait).await.is_err() {
            self.kill();
        }
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn is_there(&self) -> bool {
        self.parts.iter().any(|part| test_kill_process_group(part.leader).is_ok())
    }

    fn signal(&self, signal: Signal) {
        for part in &self.parts {
            // A group that is gone, or never was, needs no signal.
            let _ = kill_process_group(part.leader, signal);
        }
    }
}

#[cfg(unix)]
fn part(leader: Option<u32>) -> io::Result<Part> {
    let id = leader.ok_or_else(|| io::Error::other("the process ended at once"))?;
    let leader = i32::try_from(id).ok().and_then(Pid::from_raw);
    let leader = leader.ok_or_else(|| io::Error::other("the process has no id"))?;
    // The server still ends whenever we can end it.
    let guarded =
        watchdog::guard(id).inspect_err(|error| tracing::warn!(%error, "no watchdog for servers")).ok();
    Ok(Part { leader, _guarded: guarded })
}

/// A process that leads a group of its own until it is let go, or we are gone.
#[cfg(unix)]
fn hold() -> io::Result<Child> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "read -r line", "toolwire-group"]).env_clear().current_dir("/").kill_on_drop(true);
    shell.stdin(std::process::Stdio::piped());
    shell.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    shell.process_group(0).spawn()
}

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        if self.is_there() {
            self.kill();
        }
    }
}

#[cfg(not(unix))]
impl Group {
    pub(super) fn open() -> Group {
        Group {}
    }

    pub(super) fn take_in(&self, _server: &mut Command) {}

    pub(super) fn started(&mut self, _server: &Child) -> io::Result<()> {
        Ok(())
    }

    pub(super) async fn release(&mut self) {}

    pub(super) fn terminate(&self) {}

    pub(super) fn kill(&self) {}

    pub(super) async fn end(&self, _patience: Duration) {}
}
