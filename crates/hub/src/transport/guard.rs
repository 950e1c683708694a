//! A process between this one and a server, which ends the server and all its descendants (ADR 0006).
//!
//! The guard is a subreaper: a descendant that loses its parent becomes a child of the guard, even if it has left
//! the session and the process group of the server. So the guard knows all descendants, and waits for each of them.
//! It stops them when the server has exited, or when the pipe to the server's stdin is closed: because the server
//! is to be stopped, or because this process was killed.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
pub(super) use linux::GUARD_NAME;

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
    use rustix::process::{
        Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper,
        setrlimit, wait,
    };
    use rustix::stdio::{dup2_stderr, dup2_stdout, stdin};

    use crate::process_table::{descendants, processes};
    use crate::transport::stdio::STOP_STEP_TIMEOUT;

    /// The first argument of a guard: its name in the list of processes.
    pub(in crate::transport) const GUARD_NAME: &str = "toolwire-guard";

    const KILL_INTERVAL: Duration = Duration::from_millis(20);

    /// Starts the server with the stdin, stdout and stderr of this process, and exits like the server when no
    /// descendant is left.
    pub(super) fn run(mut command: impl Iterator<Item = OsString>) -> ExitCode {
        // Not supported by every kernel. Without it, descendants that become orphans cannot be found.
        let _ = set_child_subreaper(Some(getpid()));
        let Some(program) = command.next() else { return ExitCode::from(2) };
        let server = match Command::new(&program).args(command).spawn() {
            Ok(server) => server.id(),
            Err(error) => {
                eprintln!("could not start `{}`: {error}", program.display());
                return ExitCode::from(127);
            }
        };
        release_output();
        thread::spawn(|| {
            wait_until_stdin_is_closed();
            thread::sleep(STOP_STEP_TIMEOUT);
            end_descendants();
        });
        let mut status = None;
        // Ends with an error when no descendant is left.
        while let Ok((process, ended)) = wait_for_any() {
            if process.as_raw_nonzero().get().cast_unsigned() == server {
                status = Some(ended);
                thread::spawn(end_descendants);
            }
        }
        exit_like(status)
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
        while poll(&mut pipe, None).is_err_and(|error| error == rustix::io::Errno::INTR) {}
    }

    fn wait_for_any() -> io::Result<(Pid, WaitStatus)> {
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some(ended)) => return Ok(ended),
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Never returns: the process exits when the last descendant has ended.
    fn end_descendants() {
        signal_descendants(Signal::TERM);
        thread::sleep(STOP_STEP_TIMEOUT);
        loop {
            signal_descendants(Signal::KILL);
            thread::sleep(KILL_INTERVAL);
        }
    }

    fn signal_descendants(signal: Signal) {
        for process in descendants(getpid().as_raw_nonzero().get(), &processes()) {
            if let Some(pid) = Pid::from_raw(process.pid) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    /// Ends this process in the way the server has ended, so that the exit status is the server's.
    fn exit_like(status: Option<WaitStatus>) -> ExitCode {
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
        ExitCode::from(code.unwrap_or(1))
    }
}
