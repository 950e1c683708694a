//! The process group of a server: the process and whatever it started.

use std::io;
use std::time::Duration;

use tokio::process::Child;

#[cfg(unix)]
use super::watchdog::{self, Guarded};

/// Ends the group when it is dropped, if it is still there.
pub(super) struct Group {
    #[cfg(unix)]
    leader: rustix::process::Pid,
    #[cfg(unix)]
    _guarded: Option<Guarded>,
}

#[cfg(unix)]
impl Group {
    /// The group that `child` leads.
    pub(super) fn of(child: &Child) -> io::Result<Group> {
        let id = child.id().ok_or_else(|| io::Error::other("the process ended at once"))?;
        let leader = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw);
        let leader = leader.ok_or_else(|| io::Error::other("the process has no id"))?;
        // Without a shell there is no watchdog; the server still ends whenever we can end it.
        let guarded =
            watchdog::guard(id).inspect_err(|error| tracing::warn!(%error, "no watchdog for servers")).ok();
        Ok(Group { leader, _guarded: guarded })
    }

    pub(super) fn terminate(&self) {
        // A group that is gone needs no signal.
        let _ = rustix::process::kill_process_group(self.leader, rustix::process::Signal::TERM);
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

    fn is_there(&self) -> bool {
        rustix::process::test_kill_process_group(self.leader).is_ok()
    }

    pub(super) fn kill(&self) {
        let _ = rustix::process::kill_process_group(self.leader, rustix::process::Signal::KILL);
    }
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
    pub(super) fn of(_child: &Child) -> io::Result<Group> {
        Ok(Group {})
    }

    pub(super) fn terminate(&self) {}

    pub(super) fn kill(&self) {}

    pub(super) async fn end(&self, _patience: Duration) {}
}
