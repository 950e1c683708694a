//! Ends the servers of a process that could not end them itself.
//!
//! A process that is killed with -9 runs no code, so its servers would live on. One small shell waits on a pipe whose
//! other end only this process holds: when the pipe closes, for whatever reason, it ends the process groups that it was
//! told of and that are still there (ADR 0006). It has a group of its own and ignores the signals of a terminal.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// One for the whole process: what it guards is the process.
static WATCHDOG: Mutex<Watchdog> = Mutex::new(Watchdog { shell: None, groups: BTreeSet::new() });

/// Has the group ended when this process dies. Dropping the guard takes it off the list.
pub(super) fn guard(group: u32) -> io::Result<Guarded> {
    let mut watchdog = WATCHDOG.lock().unwrap_or_else(PoisonError::into_inner);
    watchdog.groups.insert(group);
    match watchdog.tell(&format!("+ {group}\n")) {
        Ok(()) => Ok(Guarded { group }),
        Err(error) => {
            watchdog.groups.remove(&group);
            Err(error)
        }
    }
}

pub(super) struct Guarded {
    group: u32,
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let mut watchdog = WATCHDOG.lock().unwrap_or_else(PoisonError::into_inner);
        watchdog.groups.remove(&self.group);
        // A shell that is gone knows of no groups, and the next one is only told of those that are left.
        let _ = watchdog.tell(&format!("- {}\n", self.group));
    }
}

struct Watchdog {
    shell: Option<(Child, ChildStdin)>,
    groups: BTreeSet<u32>,
}

impl Watchdog {
    fn tell(&mut self, line: &str) -> io::Result<()> {
        if let Some((_, pipe)) = &mut self.shell {
            if pipe.write_all(line.as_bytes()).is_ok() {
                return Ok(());
            }
            // Somebody killed it. Another one takes over, with all groups there are.
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
    let pipe = shell.stdin.take().ok_or_else(|| io::Error::other("the shell has no input"))?;
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
