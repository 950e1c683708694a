//! A server as a child process that reads messages from stdin and writes them to stdout, one per line.
//!
//! The process ends together with its children, even if this process is killed: by a guard, or by its own
//! process group and a watchdog (ADR 0006). It is stopped in three steps: end of input, SIGTERM, SIGKILL.
//! Without a session there is nothing to finish, so the first two steps are one.

mod stdin;
mod stdout;
#[cfg(all(test, unix))]
mod tests;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::process::{Child, Command};
use tokio::sync::{Mutex, Notify, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::command::{self, SpawnError};
use super::process_group::ProcessGroup;
use super::{Connection, ConnectionEnd};
use crate::Secret;
use stdin::{ProcessStdin, stdin_closed};
use stdout::{OUTPUT_DRAIN_TIME, ServerOutput, read_stdout};

/// The maximum duration of each step of stopping a process.
pub(super) const STOP_STEP_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum number of messages from the process that wait for the SDK.
const QUEUE_LENGTH: usize = 64;

/// The program of a server, as configured.
pub(crate) struct ServerCommand<'a> {
    pub(crate) command: &'a str,
    pub(crate) args: &'a [String],
    pub(crate) env: &'a [(String, Secret)],
    pub(crate) cwd: Option<&'a Path>,
}

/// Starts the process. It is stopped when [`ServerProcess::stop`] is called or when either returned value is
/// dropped.
pub(crate) fn spawn(
    server: &ServerCommand<'_>,
    our_environment: &[(OsString, OsString)],
    guard: Option<&Path>,
    probe_timeout: Duration,
    connection: Arc<Connection>,
) -> Result<(StdioTransport, ServerProcess), SpawnError> {
    let environment = command::environment(our_environment, server.env);
    let expand = |path: &str| command::expand_home(path, &environment);
    let cwd = server.cwd.map(|cwd| cwd.to_str().map_or_else(|| cwd.into(), |cwd| PathBuf::from(expand(cwd))));
    // A relative command starts at the working directory, which is not the one of this process.
    let cwd = cwd.map(|cwd| std::path::absolute(&cwd).unwrap_or(cwd));
    if let Some(cwd) = cwd.clone().filter(|cwd| !cwd.is_dir()) {
        let command = server.command.to_owned();
        return Err(match cwd.exists() {
            true => SpawnError::NotADirectory { command, cwd },
            false => SpawnError::NoDirectory { command, cwd },
        });
    }
    let command = expand(server.command);
    let path = command::find_program(&command.to_string_lossy(), cwd.as_deref(), &environment)?;
    connection.set_credentials(&environment);
    let args: Vec<OsString> = server.args.iter().map(|argument| expand(argument)).collect();
    let failed = |source: io::Error| SpawnError::Failed { path: path.clone(), source };
    let mut program = command_with_guard(&path, guard);
    program.args(args).env_clear().envs(environment).kill_on_drop(guard.is_none());
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(cwd) = cwd {
        program.current_dir(cwd);
    }
    let mut group = if guard.is_some() { ProcessGroup::for_guard() } else { ProcessGroup::create() };
    group.assign(&mut program);
    let mut child = program.spawn().map_err(failed)?;
    group.add(&child).map_err(failed)?;
    let id = child.id();
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(failed(io::Error::other("its standard streams are missing")));
    };

    let (incoming, inbox) = mpsc::channel(QUEUE_LENGTH);
    let exit = watch::Sender::new(None);
    let stop = CancellationToken::new();
    let mut pipe_tasks = JoinSet::new();
    let stdin = ProcessStdin(Arc::new(Mutex::new(Some(stdin))));
    pipe_tasks.spawn(stdin.clone().close_on(stop.clone()));
    let (stderr_open, stderr_closed) = oneshot::channel::<()>();
    let end_now = Arc::new(Notify::new());
    let output =
        ServerOutput { incoming, awaits_response_after_close: end_now.clone(), program: path.clone() };
    pipe_tasks.spawn(read_stdout(stdout, output, connection.clone(), exit.subscribe(), stderr_closed));
    let stderr_connection = connection.clone();
    pipe_tasks.spawn(async move {
        stderr_connection.stderr.read_from(stderr).await;
        drop(stderr_open);
    });
    let (ended_sender, ended) = watch::channel(false);
    // A guard takes the other two steps itself.
    let stop_timeout = if guard.is_some() { 3 * STOP_STEP_TIMEOUT } else { STOP_STEP_TIMEOUT };
    let stopping = Stopping { stop: stop.clone(), end_now: end_now.clone(), timeout: stop_timeout };
    tokio::spawn(supervise(child, group, pipe_tasks, exit, stopping, ended_sender));

    let transport =
        StdioTransport { inbox, stdin, connection, probe_timeout, probe: None, stop: stop.clone() };
    Ok((transport, ServerProcess { id, stop, end_now, ended }))
}

#[cfg(target_os = "linux")]
fn command_with_guard(program: &Path, guard: Option<&Path>) -> Command {
    let Some(guard) = guard else { return Command::new(program) };
    let mut command = Command::new(guard);
    command.arg0(super::guard::GUARD_NAME).arg(program);
    command
}

#[cfg(not(target_os = "linux"))]
fn command_with_guard(program: &Path, _guard: Option<&Path>) -> Command {
    Command::new(program)
}

/// A handle to the process. The process is stopped when this is dropped.
pub(crate) struct ServerProcess {
    id: Option<u32>,
    stop: CancellationToken,
    end_now: Arc<Notify>,
    ended: watch::Receiver<bool>,
}

impl ServerProcess {
    /// Returns the process id of the server, or of its guard.
    pub(crate) fn id(&self) -> Option<u32> {
        self.id
    }

    /// Like [`stop`](ServerProcess::stop), for a process that has no session.
    pub(crate) async fn stop_without_session(&self) {
        self.end_now.notify_one();
        self.stop().await;
    }

    /// Stops the process and its group, and waits until they have ended.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        // An error means that the supervising task has ended, and the process with it.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(crate) struct StdioTransport {
    inbox: mpsc::Receiver<ServerJsonRpcMessage>,
    stdin: ProcessStdin,
    connection: Arc<Connection>,
    /// The maximum time from when a server has read `server/discover` until it responds.
    probe_timeout: Duration,
    probe: Option<PendingProbe>,
    stop: CancellationToken,
}

/// A `server/discover` request that has no response yet.
struct PendingProbe {
    id: i64,
    was_read: oneshot::Receiver<()>,
    deadline: Option<Instant>,
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        mut message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let id = self.connection.capture.register(&mut message);
        let mut notify_read = None;
        if let (Some(id), ClientJsonRpcMessage::Request(request)) = (id, &message)
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
        {
            let (sender, was_read) = oneshot::channel();
            notify_read = Some(sender);
            self.probe = Some(PendingProbe { id, was_read, deadline: None });
        }
        let (stdin, connection, stop) = (self.stdin.clone(), self.connection.clone(), self.stop.clone());
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let set_delivered = |is_delivered| {
                if let Some(id) = id {
                    connection.capture.set_delivered(id, is_delivered);
                }
            };
            tokio::select! {
                biased;
                written = stdin.write(&line, set_delivered) => written?,
                () = stop.cancelled() => return Err(stdin_closed()),
            }
            if let Some(notify_read) = notify_read {
                tokio::spawn(async move {
                    tokio::select! {
                        () = stdin.wait_until_read() => {}
                        () = stop.cancelled() => {}
                    }
                    let _ = notify_read.send(());
                });
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let Some(probe) = &mut self.probe else { return self.inbox.recv().await };
            tokio::select! {
                message = self.inbox.recv() => {
                    if let Some(ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_)) = message {
                        self.probe = None;
                    }
                    return message;
                }
                _ = &mut probe.was_read, if probe.deadline.is_none() => {
                    probe.deadline = Some(Instant::now() + self.probe_timeout);
                }
                () = sleep_until(probe.deadline.unwrap_or_else(Instant::now)), if probe.deadline.is_some() => {
                    let id = probe.id;
                    self.probe = None;
                    if let Some(message) = self.connection.capture.abandon_probe(id) {
                        return serde_json::from_value(message).ok();
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.connection.set_ended(ConnectionEnd::Closed);
        self.stop.cancel();
        Ok(())
    }
}

impl Drop for StdioTransport {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// How a process is stopped.
struct Stopping {
    stop: CancellationToken,
    /// Notified if the process need not get the time to exit by itself.
    end_now: Arc<Notify>,
    /// The maximum time from the end of the input until the process exits by itself.
    timeout: Duration,
}

/// Waits until the process exits, and stops it on request.
async fn supervise(
    mut child: Child,
    mut group: ProcessGroup,
    mut pipe_tasks: JoinSet<()>,
    exit: watch::Sender<Option<String>>,
    stopping: Stopping,
    ended_sender: watch::Sender<bool>,
) {
    group.end_placeholder().await;
    let exited = tokio::select! {
        status = child.wait() => Some(status),
        () = stopping.stop.cancelled() => tokio::select! {
            status = timeout(stopping.timeout, child.wait()) => status.ok(),
            () = stopping.end_now.notified() => None,
        },
    };
    let status = match exited {
        Some(status) => status,
        None => {
            group.terminate();
            match timeout(stopping.timeout, child.wait()).await {
                Ok(status) => status,
                Err(_) => {
                    group.kill();
                    let _ = child.start_kill();
                    child.wait().await
                }
            }
        }
    };
    exit.send_replace(Some(describe(&status)));
    // The children of the process end with it, even if it exited by itself.
    group.end(STOP_STEP_TIMEOUT).await;
    let pipes_closed = async { while pipe_tasks.join_next().await.is_some() {} };
    if timeout(OUTPUT_DRAIN_TIME * 2, pipes_closed).await.is_err() {
        pipe_tasks.shutdown().await;
    }
    drop(group);
    ended_sender.send_replace(true);
}

fn describe(status: &io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => {
            #[cfg(unix)]
            if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(status) {
                return format!("was killed by signal {signal}");
            }
            let code = status.code();
            code.map_or_else(|| "exited without a code".into(), |code| format!("exited with code {code}"))
        }
        Err(error) => format!("exited with an unknown status ({error})"),
    }
}
