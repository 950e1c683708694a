//! A server as a child process that speaks on its standard input and output, a message a line.
//!
//! The process has a group of its own, so that the children of wrappers like `npx` end with it, and a watchdog that ends
//! the group when we cannot. It is asked to go in three steps: end of input, SIGTERM, SIGKILL.

use std::ffi::OsString;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde::de::IgnoredAny;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::command::{self, SpawnError};
use super::group::Group;
use super::lines::{Line, Lines};
use super::{Ending, Link, Target};
use crate::tee::LONGEST_MESSAGE;

/// How long a process may take for each of the steps that end it.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the output of a process that ended is still read: a child of its own may hold the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How often it is looked whether a process has begun to read.
const LOOK: Duration = Duration::from_millis(20);

/// How many messages of the process may wait to be taken.
const QUEUE: usize = 64;

/// Starts the process. It ends when [`Process::stop`] is called or when both halves are dropped.
pub(crate) fn spawn(
    target: &Target,
    ours: &[(OsString, OsString)],
    probe: Duration,
    link: Arc<Link>,
) -> Result<(StdioTransport, Process), SpawnError> {
    let Target::Stdio { command, args, env, cwd } = target else {
        unreachable!("a transport of another kind has its own function");
    };
    let environment = command::environment(ours, env);
    if let Some(cwd) = cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        return Err(SpawnError::NoFolder { command: command.clone(), cwd: cwd.clone() });
    }
    let path = command::find(command, cwd.as_deref(), &environment)?;
    let failed = |source: io::Error| SpawnError::Failed { path: path.clone(), source };
    let mut program = Command::new(&path);
    program.args(args).env_clear().envs(environment).kill_on_drop(true);
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(cwd) = cwd {
        program.current_dir(cwd);
    }
    let mut group = Group::open();
    group.take_in(&mut program);
    let mut child = program.spawn().map_err(failed)?;
    group.started(&child).map_err(failed)?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(failed(io::Error::other("its pipes are missing")));
    };

    let (incoming, inbox) = mpsc::channel(QUEUE);
    let exited = watch::Sender::new(None);
    let stop = CancellationToken::new();
    let mut pipes = JoinSet::new();
    let stdin = Stdin(Arc::new(Mutex::new(Some(stdin))));
    pipes.spawn(stdin.clone().close_at(stop.clone()));
    let (complaining, complained) = oneshot::channel::<()>();
    pipes.spawn(read(stdout, incoming, link.clone(), exited.subscribe(), complained));
    let told = link.clone();
    pipes.spawn(async move {
        told.stderr.follow(stderr).await;
        drop(complaining);
    });
    let (gone, is_gone) = watch::channel(false);
    tokio::spawn(tend(child, group, pipes, exited, stop.clone(), gone));

    let transport = StdioTransport { inbox, stdin, link, probe, probing: None, stop: stop.clone() };
    Ok((transport, Process { stop, gone: is_gone }))
}

/// The process, seen from outside. It is asked to end when this is dropped.
pub(crate) struct Process {
    stop: CancellationToken,
    gone: watch::Receiver<bool>,
}

impl Process {
    /// Ends the process and its group, and waits until they are gone.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        // An error says that the task that tends the process is gone, and with it the process.
        let _ = self.gone.clone().wait_for(|gone| *gone).await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(crate) struct StdioTransport {
    inbox: mpsc::Receiver<ServerJsonRpcMessage>,
    stdin: Stdin,
    link: Arc<Link>,
    /// How long a server may be silent on `server/discover`, once it has read it.
    probe: Duration,
    probing: Option<Probing>,
    stop: CancellationToken,
}

/// A `server/discover` without an answer.
struct Probing {
    id: i64,
    read: oneshot::Receiver<()>,
    until: Option<Instant>,
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        mut message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let id = self.link.tee.asking(&mut message);
        let mut reading = None;
        if let (Some(id), ClientJsonRpcMessage::Request(request)) = (id, &message)
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
        {
            let (sender, read) = oneshot::channel();
            reading = Some(sender);
            self.probing = Some(Probing { id, read, until: None });
        }
        let (stdin, link, stop) = (self.stdin.clone(), self.link.clone(), self.stop.clone());
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let deliver = |is_delivered| {
                if let Some(id) = id {
                    link.tee.delivered(id, is_delivered);
                }
            };
            tokio::select! {
                biased;
                written = stdin.write(&line, deliver) => written?,
                () = stop.cancelled() => return Err(closed()),
            }
            if let Some(reading) = reading {
                tokio::spawn(async move {
                    tokio::select! {
                        () = stdin.read_by_process() => {}
                        () = stop.cancelled() => {}
                    }
                    let _ = reading.send(());
                });
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let Some(probing) = &mut self.probing else { return self.inbox.recv().await };
            tokio::select! {
                message = self.inbox.recv() => {
                    if let Some(ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_)) = message {
                        self.probing = None;
                    }
                    return message;
                }
                _ = &mut probing.read, if probing.until.is_none() => {
                    probing.until = Some(Instant::now() + self.probe);
                }
                () = sleep_until(probing.until.unwrap_or_else(Instant::now)), if probing.until.is_some() => {
                    let id = probing.id;
                    self.probing = None;
                    if let Some(message) = self.link.tee.give_up_probe(id) {
                        return serde_json::from_value(message).ok();
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.link.end(Ending::Closed);
        self.stop.cancel();
        Ok(())
    }
}

impl Drop for StdioTransport {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Waits for the end of the process, or brings it about.
async fn tend(
    mut child: Child,
    mut group: Group,
    mut pipes: JoinSet<()>,
    exited: watch::Sender<Option<String>>,
    stop: CancellationToken,
    gone: watch::Sender<bool>,
) {
    group.release().await;
    let by_itself = tokio::select! {
        status = child.wait() => Some(status),
        () = stop.cancelled() => timeout(PATIENCE, child.wait()).await.ok(),
    };
    let status = match by_itself {
        Some(status) => status,
        None => {
            group.terminate();
            match timeout(PATIENCE, child.wait()).await {
                Ok(status) => status,
                Err(_) => {
                    group.kill();
                    let _ = child.start_kill();
                    child.wait().await
                }
            }
        }
    };
    exited.send_replace(Some(describe(&status)));
    // What the process started itself ends with it, whether it went by itself or not.
    group.end(PATIENCE).await;
    if timeout(LAST_WORDS * 2, async { while pipes.join_next().await.is_some() {} }).await.is_err() {
        pipes.shutdown().await;
    }
    drop(group);
    gone.send_replace(true);
}

/// The input of the process, until it is closed.
#[derive(Clone)]
struct Stdin(Arc<Mutex<Option<ChildStdin>>>);

impl Stdin {
    /// Writes a line, and tells `deliver` whether the process may have all of it. It may act on it, and end of it, before we
    /// learn that it was written, so that is told beforehand; and a server reads lines, so one without its end was not read.
    async fn write(&self, mut line: &[u8], deliver: impl Fn(bool)) -> io::Result<()> {
        let mut stdin = self.0.lock().await;
        let stdin = stdin.as_mut().ok_or_else(closed)?;
        while !line.is_empty() {
            let written = poll_fn(|context| {
                deliver(true);
                let written = Pin::new(&mut *stdin).poll_write(context, line);
                if !matches!(written, Poll::Ready(Ok(count)) if count == line.len()) {
                    deliver(false);
                }
                written
            });
            match written.await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => line = &line[count..],
            }
        }
        stdin.flush().await
    }

    /// Waits until the process has read what was written, or something else is being written: it has answered then.
    async fn read_by_process(&self) {
        while self.0.try_lock().is_ok_and(|stdin| stdin.as_ref().is_some_and(is_unread)) {
            sleep(LOOK).await;
        }
    }

    /// Closing it is how the server learns that it is to go.
    async fn close_at(self, stop: CancellationToken) {
        stop.cancelled().await;
        self.0.lock().await.take();
    }
}

/// Whether there is something in the pipe that the process has not read.
#[cfg(unix)]
fn is_unread(stdin: &ChildStdin) -> bool {
    rustix::io::ioctl_fionread(stdin).is_ok_and(|count| count > 0)
}

#[cfg(not(unix))]
fn is_unread(_stdin: &ChildStdin) -> bool {
    false
}

async fn read(
    mut stdout: ChildStdout,
    incoming: mpsc::Sender<ServerJsonRpcMessage>,
    link: Arc<Link>,
    mut exited: watch::Receiver<Option<String>>,
    complained: oneshot::Receiver<()>,
) {
    let mut lines = Lines::new(LONGEST_MESSAGE);
    let mut buffer = vec![0; 64 * 1024];
    let mut last_words = exited.clone();
    let mut over = std::pin::pin!(async move {
        let _ = last_words.wait_for(Option::is_some).await;
        sleep(LAST_WORDS).await;
    });
    let mut is_over = false;
    loop {
        let count = tokio::select! {
            biased;
            count = stdout.read(&mut buffer) => count.unwrap_or(0),
            () = &mut over => {
                is_over = true;
                0
            }
        };
        let heard: Vec<Line> = match count {
            // Half a message says less than how the process ended.
            0 => lines.rest().filter(is_message).into_iter().collect(),
            count => lines.push(&buffer[..count]).collect(),
        };
        for line in heard {
            let messages = match line {
                Line::Whole(line) => link.tee.hear(&line),
                Line::Oversized { head, tail } => link.tee.hear_oversized(&head, &tail).into_iter().collect(),
            };
            for message in messages {
                let Ok(message) = serde_json::from_value(message) else { continue };
                if incoming.send(message).await.is_err() {
                    return;
                }
            }
        }
        if count == 0 {
            break;
        }
    }
    let ending = match timeout(LAST_WORDS, exited.wait_for(Option::is_some)).await {
        Ok(Ok(how)) => Ending::Exited { how: how.clone().unwrap_or_default() },
        _ => Ending::StdoutClosed,
    };
    if ending != Ending::StdoutClosed && !is_over {
        // Whoever is told of the end is told the reason, which stands on stderr more often than not.
        tokio::select! {
            _ = complained => {}
            () = &mut over => {}
        }
    }
    link.end(ending);
}

fn is_message(line: &Line) -> bool {
    matches!(line, Line::Whole(line) if serde_json::from_slice::<IgnoredAny>(line).is_ok())
}

fn describe(status: &io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => {
            #[cfg(unix)]
            if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(status) {
                return format!("signal {signal}");
            }
            status.code().map_or_else(|| "no exit code".into(), |code| format!("exit code {code}"))
        }
        Err(error) => format!("an unknown status ({error})"),
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the process is gone")
}
