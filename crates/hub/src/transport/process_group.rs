//! The process group of a server: the process and its children.
//!
//! A server with a guard is in the guard's group. Otherwise the group is created before the server, by a
//! shell that only waits, so that the watchdog knows the group before the server starts. In both cases, the
//! servers that this process has started end when it is killed (ADR 0006).

use std::io;
use std::time::Duration;

use tokio::process::{Child, Command};

#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

#[cfg(unix)]
use super::watchdog::{self, WatchdogRegistration};
#[cfg(unix)]
use crate::process_table::{self, ProcessEntry};

/// Ends the group when it is dropped.
pub(super) struct ProcessGroup {
    /// More than one if the server leaves its group by calling `setsid`.
    #[cfg(unix)]
    groups: Vec<WatchedGroup>,
    /// The shell that keeps the group in existence until the server has started.
    #[cfg(unix)]
    placeholder: Option<Child>,
    /// A guard ends the processes itself, and must not be killed before it has.
    #[cfg(unix)]
    is_guarded: bool,
}

#[cfg(unix)]
struct WatchedGroup {
    leader: Pid,
    _registration: Option<WatchdogRegistration>,
}

#[cfg(unix)]
impl ProcessGroup {
    /// Creates a group for a server that has not started yet.
    pub(super) fn create() -> ProcessGroup {
        // Without a shell there is no watchdog either, and the server creates its own group.
        let placeholder = start_placeholder().inspect_err(warn_no_watchdog).ok();
        let group = placeholder.as_ref().and_then(|placeholder| watch_group(placeholder.id()).ok());
        ProcessGroup { groups: group.into_iter().collect(), placeholder, is_guarded: false }
    }

    /// Creates a group for a guard that has not started yet.
    pub(super) fn for_guard() -> ProcessGroup {
        ProcessGroup { groups: Vec::new(), placeholder: None, is_guarded: true }
    }

    /// Makes the server start in this group.
    pub(super) fn assign(&self, server: &mut Command) {
        server.process_group(self.groups.first().map_or(0, |group| group.leader.as_raw_nonzero().get()));
    }

    /// Adds the server after it has started.
    pub(super) fn add(&mut self, server: &Child) -> io::Result<()> {
        let group = match self.is_guarded {
            true => WatchedGroup { leader: group_leader(server.id())?, _registration: None },
            false => watch_group(server.id())?,
        };
        self.groups.push(group);
        Ok(())
    }

    /// Ends the placeholder, after the server has started.
    pub(super) async fn end_placeholder(&mut self) {
        if let Some(mut placeholder) = self.placeholder.take() {
            let _ = placeholder.kill().await;
        }
    }

    pub(super) fn terminate(&self) {
        if !self.is_guarded {
            return self.signal(Signal::TERM);
        }
        // The guard must survive: it ends the descendants that ignore the signal.
        let processes = process_table::processes();
        let guards = self.groups.iter().map(|group| group.leader.as_raw_nonzero().get());
        for process in guards.flat_map(|guard| process_table::descendants(guard, &processes)) {
            if let Some(pid) = Pid::from_raw(process.pid) {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
    }

    /// Ends all remaining processes of the group, by force after `timeout`.
    pub(super) async fn end(&self, timeout: Duration) {
        const POLL_INTERVAL: Duration = Duration::from_millis(20);
        if !self.exists() {
            return;
        }
        // A guard has ended by now.
        self.signal(Signal::TERM);
        // The system reports only the end of direct children, so the group is polled.
        let wait = async {
            while self.exists() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        if tokio::time::timeout(timeout, wait).await.is_err() {
            self.kill();
        }
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Whether a process of the group is running. A zombie is not: its parent may never wait for it.
    fn exists(&self) -> bool {
        let mut groups = self.groups.iter().map(|group| group.leader);
        if !groups.any(|leader| test_kill_process_group(leader).is_ok()) {
            return false;
        }
        let processes = process_table::processes();
        let is_member = |process: &ProcessEntry| {
            self.groups.iter().any(|group| group.leader.as_raw_nonzero().get() == process.group)
        };
        processes.is_empty() || processes.iter().any(|process| !process.is_zombie && is_member(process))
    }

    fn signal(&self, signal: Signal) {
        for group in &self.groups {
            // The group may have ended already.
            let _ = kill_process_group(group.leader, signal);
        }
    }
}

#[cfg(unix)]
fn watch_group(leader: Option<u32>) -> io::Result<WatchedGroup> {
    let leader = group_leader(leader)?;
    // Without the watchdog, the server still ends unless this process is killed.
    let registration = watchdog::register(leader).inspect_err(warn_no_watchdog).ok();
    Ok(WatchedGroup { leader, _registration: registration })
}

#[cfg(unix)]
fn group_leader(process: Option<u32>) -> io::Result<Pid> {
    let id = process.ok_or_else(|| io::Error::other("the process exited immediately"))?;
    let leader = i32::try_from(id).ok().and_then(Pid::from_raw);
    leader.ok_or_else(|| io::Error::other("the process id is invalid"))
}

#[cfg(unix)]
fn warn_no_watchdog(error: &io::Error) {
    tracing::warn!(%error, "cannot start the watchdog for server processes");
}

/// Starts a shell that leads its own process group until it is killed or this process ends.
#[cfg(unix)]
fn start_placeholder() -> io::Result<Child> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "read -r line", "toolwire-group"]).env_clear().current_dir("/").kill_on_drop(true);
    shell.stdin(std::process::Stdio::piped());
    shell.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    shell.process_group(0).spawn()
}

#[cfg(unix)]
impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !self.is_guarded && self.exists() {
            self.kill();
        }
    }
}

#[cfg(not(unix))]
impl ProcessGroup {
    pub(super) fn for_guard() -> ProcessGroup {
        ProcessGroup {}
    }

    pub(super) fn create() -> ProcessGroup {
        ProcessGroup {}
    }

    pub(super) fn assign(&self, _server: &mut Command) {}

    pub(super) fn add(&mut self, _server: &Child) -> io::Result<()> {
        Ok(())
    }

    pub(super) async fn end_placeholder(&mut self) {}

    pub(super) fn terminate(&self) {}

    pub(super) fn kill(&self) {}

    pub(super) async fn end(&self, _timeout: Duration) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_zombie_is_not_waited_for() {
        let child = Command::new("true").process_group(0).spawn().expect("the program exists");
        let mut group = ProcessGroup::for_guard();
        group.add(&child).expect("it has a process id");
        let is_zombie =
            |process: &ProcessEntry| Some(process.pid.cast_unsigned()) == child.id() && process.is_zombie;
        while !process_table::processes().iter().any(is_zombie) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        group.end(Duration::MAX).await;
        assert!(process_table::processes().iter().any(is_zombie), "nothing has waited for it");
    }
}
