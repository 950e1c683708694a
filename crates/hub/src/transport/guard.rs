//! A process between this one and a server, which ends the server and all its descendants (ADR 0006).
//!
//! The guard is a subreaper: a descendant that loses its parent becomes a child of the guard, even if it has
//! left the session and the process group of the server. So the guard knows all descendants, and waits for
//! each of them. It stops them when the server has exited, or when the pipe to the server's stdin is closed:
//! because the server is to be stopped, or because this process was killed.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
pub(super) use linux::GUARD_NAME;

/// The start of the line that a guard writes to stdout if it could not start the server. The number of the
/// error follows.
const START_ERROR: &str = "toolwire-guard: could not start the server: error ";

/// Returns the number of the error, if a guard has written this line.
pub(super) fn start_error(line: &[u8]) -> Option<i32> {
    std::str::from_utf8(line.strip_prefix(START_ERROR.as_bytes())?).ok()?.trim_end().parse().ok()
}

/// Runs as the guard of a server if this process was started as one; otherwise returns `None`.
///
/// A program whose path is in [`HubOptions::guard`](crate::HubOptions::guard) must call this first.
pub fn run_as_guard() -> Option<ExitCode> {
    #[cfg(target_os = "linux")]
    {
        let mut arguments = std::env::args_os();
        let name = arguments.next()?;
        (name == GUARD_NAME).then(|| linux::run(arguments))
    }
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::OsString;
    use std::fs::OpenOptions;
    use std::io;
    use std::process::{Command, ExitCode};
    use std::thread;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::Errno;
    use rustix::process::{
        Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper,
        setrlimit, wait,
    };
    use rustix::stdio::{dup2_stderr, dup2_stdout, stdin};

    use super::START_ERROR;
    use crate::process_table::{descendants, processes};
    use crate::transport::stdio::STOP_STEP_TIMEOUT;

    /// The first argument of a guard: its name in the list of processes.
    pub(in crate::transport) const GUARD_NAME: &str = "toolwire-guard";

    /// The first interval between attempts to kill the descendants; it is doubled up to the maximum.
    const KILL_INTERVAL: Duration = Duration::from_millis(20);
    const MAX_KILL_INTERVAL: Duration = Duration::from_secs(1);

    /// Starts the server with the stdin, stdout and stderr of this process, and exits like the server when no
    /// descendant is left.
    pub(super) fn run(mut command: impl Iterator<Item = OsString>) -> ExitCode {
        // Not supported by every kernel. Without it, descendants that become orphans cannot be found.
        let _ = set_child_subreaper(Some(getpid()));
        let Some(program) = command.next() else { return ExitCode::from(2) };
        let server = match Command::new(&program).args(command).spawn() {
            Ok(server) => server.id(),
            Err(error) => {
                println!("{START_ERROR}{}", error.raw_os_error().unwrap_or_default());
                return ExitCode::from(127);
            }
        };
        release_output();
        thread::spawn(|| {
            wait_until_stdin_is_closed();
            thread::sleep(STOP_STEP_TIMEOUT);
            end_descendants(None);
        });
        let mut status = None;
        // Ends with an error when no descendant is left.
        while let Ok((process, ended)) = wait_for_any() {
            if process.as_raw_nonzero().get().cast_unsigned() == server {
                status = Some(ended);
                thread::spawn(move || end_descendants(status));
            }
        }
        ExitCode::from(exit_like(status))
    }

    /// Lets the reader of the server's output notice when the server closes it.
    fn release_output() {
        if let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
            let _ = dup2_stdout(&null);
            let _ = dup2_stderr(&null);
        }
    }

    fn wait_until_stdin_is_closed() {
        // No event is requested, so that only the end of the pipe is reported, and never data for the server.
        let mut pipe = [PollFd::from_borrowed_fd(stdin(), PollFlags::empty())];
        while poll(&mut pipe, None).is_err_and(|error| error == Errno::INTR) {}
    }

    fn wait_for_any() -> io::Result<(Pid, WaitStatus)> {
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some(ended)) => return Ok(ended),
                Ok(None) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Never returns: the process exits when the last descendant has ended, or if none of them can be ended.
    fn end_descendants(status: Option<WaitStatus>) {
        signal_descendants(Signal::TERM);
        thread::sleep(STOP_STEP_TIMEOUT);
        let mut interval = KILL_INTERVAL;
        while !is_hopeless(&signal_descendants(Signal::KILL)) {
            thread::sleep(interval);
            interval = (2 * interval).min(MAX_KILL_INTERVAL);
        }
        std::process::exit(exit_like(status).into());
    }

    fn signal_descendants(signal: Signal) -> Vec<Result<(), Errno>> {
        let processes = processes();
        let descendants = descendants(getpid().as_raw_nonzero().get(), &processes);
        let pids = descendants.iter().filter_map(|process| Pid::from_raw(process.pid));
        pids.map(|pid| kill_process(pid, signal)).collect()
    }

    /// Whether all remaining processes belong to another user.
    fn is_hopeless(signalled: &[Result<(), Errno>]) -> bool {
        !signalled.is_empty() && signalled.iter().all(|sent| *sent == Err(Errno::PERM))
    }

    /// Ends this process in the way the server has ended, so that the exit status is the server's.
    fn exit_like(status: Option<WaitStatus>) -> u8 {
        let signal = status.and_then(|status| status.terminating_signal());
        if let Some(signal) = signal.and_then(Signal::from_named_raw) {
            let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
            // Rust handles a signal for a stack overflow, and restores the default action then.
            for _ in 0..2 {
                let _ = kill_process(getpid(), signal);
                thread::sleep(KILL_INTERVAL);
            }
        }
        let code = status.and_then(|status| status.exit_status()).and_then(|code| u8::try_from(code).ok());
        code.unwrap_or(1)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn processes_of_other_users_are_not_waited_for() {
            let refused = Err(Errno::PERM);
            assert!(is_hopeless(&[refused, refused]));
            assert!(
                !is_hopeless(&[]) && !is_hopeless(&[refused, Ok(())]) && !is_hopeless(&[Err(Errno::SRCH)])
            );
        }
    }
}
