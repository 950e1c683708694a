//! Ends server processes when this process dies without ending them.
//!
//! A process that is killed with SIGKILL runs no more code, so its servers would keep running. One small
//! shell waits on a pipe whose other end only this process holds. When the pipe closes, for any reason, the
//! shell ends all registered process groups that still exist (ADR 0006). It has its own group and ignores
//! terminal signals.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;

use rustix::process::Pid;

use crate::sync::lock;

/// One for the entire process, because it watches the process.
static WATCHDOG: Mutex<Watchdog> = Mutex::new(Watchdog { shell: None, groups: BTreeSet::new() });

/// Registers a process group to be ended when this process dies. Dropping the registration removes it.
pub(super) fn register(group: Pid) -> io::Result<WatchdogRegistration> {
    let group = group.as_raw_nonzero().get();
    let mut watchdog = lock(&WATCHDOG);
    watchdog.groups.insert(group);
    match watchdog.send(&format!("+ {group}\n")) {
        Ok(()) => Ok(WatchdogRegistration { group }),
        Err(error) => {
            watchdog.groups.remove(&group);
            Err(error)
        }
    }
}

pub(super) struct WatchdogRegistration {
    group: i32,
}

impl Drop for WatchdogRegistration {
    fn drop(&mut self) {
        let mut watchdog = lock(&WATCHDOG);
        watchdog.groups.remove(&self.group);
        // If the shell was killed, the next one receives only the remaining groups.
        let _ = watchdog.send(&format!("- {}\n", self.group));
    }
}

struct Watchdog {
    shell: Option<(Child, ChildStdin)>,
    groups: BTreeSet<i32>,
}

impl Watchdog {
    fn send(&mut self, line: &str) -> io::Result<()> {
        if let Some((_, pipe)) = &mut self.shell {
            if pipe.write_all(line.as_bytes()).is_ok() {
                return Ok(());
            }
            // The shell was killed. A new one receives all groups.
            if let Some((mut shell, pipe)) = self.shell.take() {
                drop(pipe);
                let _ = shell.kill();
                let _ = shell.wait();
            }
        }
        if self.groups.is_empty() {
            return Ok(());
        }
        let (shell, mut pipe) = start()?;
        for group in &self.groups {
            pipe.write_all(format!("+ {group}\n").as_bytes())?;
        }
        self.shell = Some((shell, pipe));
        Ok(())
    }
}

fn start() -> io::Result<(Child, ChildStdin)> {
    use std::os::unix::process::CommandExt;

    let mut shell = Command::new("/bin/sh")
        .args(["-c", SCRIPT, "toolwire-watchdog"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    let pipe = shell.stdin.take().ok_or_else(|| io::Error::other("the shell has no stdin"))?;
    Ok((shell, pipe))
}

const SCRIPT: &str = r#"
trap '' INT TERM HUP
groups=' '
while read -r sign group; do
    case $sign in
        +) groups="$groups$group " ;;
        -) case $groups in *" $group "*) groups="${groups%% $group *} ${groups#* $group }" ;; esac ;;
    esac
done
left() {
    for group in $groups; do kill -0 "-$group" 2>/dev/null && return 0; done
    return 1
}
for group in $groups; do kill -TERM "-$group" 2>/dev/null; done
for turn in 1 2; do
    left || exit 0
    sleep 1
done
for group in $groups; do kill -KILL "-$group" 2>/dev/null; done
"#;
