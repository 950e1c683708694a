//! Serving on stdin and stdout.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::behaviour::Behaviour;
use crate::protocol::{self, IncomingMessage, Outcome};

/// Limits how long a process runs without its client, and how long a call waits for the client's response.
const LINGER_TIMEOUT: Duration = Duration::from_secs(300);

/// Serves until stdin ends.
pub(crate) fn serve(arguments: &Arguments) -> io::Result<()> {
    misbehave_at_startup(arguments)?;
    thread::scope(|scope| {
        let server = StdioServer { arguments, shared: Arc::default() };
        let mut line = Vec::new();
        let mut input = io::stdin().lock();
        loop {
            line.clear();
            if input.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let Some(message) = std::str::from_utf8(&line).ok().and_then(IncomingMessage::parse) else {
                continue;
            };
            match message {
                // Each call has its own thread, so a slow call does not delay others.
                IncomingMessage::Request { id, method, params } if method == "tools/call" => {
                    let server = server.clone();
                    scope.spawn(move || server.call(&id, &params));
                }
                IncomingMessage::Request { id, method, params } => server.request(&id, &method, &params),
                IncomingMessage::Notification { method, params } if method == "notifications/cancelled" => {
                    server.shared.cancelled().push(params["requestId"].clone());
                    server.log("cancelled");
                }
                IncomingMessage::Notification { .. } => (),
                IncomingMessage::Response { id, body } => server.shared.resolve(&id, body),
            }
        }
        server.log("closed");
        if arguments.behaviour == Behaviour::IgnoresSigterm {
            thread::sleep(LINGER_TIMEOUT);
        }
        // Running calls are not waited for.
        std::process::exit(0)
    })
}

/// Misbehaves before the first message.
fn misbehave_at_startup(arguments: &Arguments) -> io::Result<()> {
    match arguments.behaviour {
        Behaviour::ExitsAtOnce => {
            eprintln!("misbehaving-server: cannot open the database");
            std::process::exit(3)
        }
        Behaviour::IgnoresSigterm => {
            let received = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal_hook::consts::SIGTERM, received)?;
        }
        Behaviour::ForksAChild => {
            Command::new("sleep").arg(LINGER_TIMEOUT.as_secs().to_string()).spawn()?;
        }
        Behaviour::WritesStderr => write_stderr(arguments)?,
        Behaviour::StartsLate => thread::sleep(arguments.delay(1000)),
        Behaviour::BurnsProcessor => burn_processor(arguments.delay(1000)),
        _ => (),
    }
    Ok(())
}

/// Returns when this thread has used `time` of processor time, which takes longer on a busy machine.
fn burn_processor(time: Duration) {
    let start = Instant::now();
    // The first number is the time on a core, in nanoseconds. Systems without the file use the time of the
    // clock.
    let used = || {
        let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(Duration::from_nanos(statistics.split_once(' ')?.0.parse().ok()?))
    };
    while used().unwrap_or_else(|| start.elapsed()) < time {
        std::hint::black_box((0..100_000_u32).fold(0, u32::wrapping_add));
    }
}

fn write_stderr(arguments: &Arguments) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    for number in 0..arguments.count(10_000) {
        writeln!(stderr, "misbehaving-server: line {number} of the log")?;
    }
    stderr.write_all(b"invalid UTF-8: \xff\xfe\n")?;
    stderr.write_all(&[b'x'; 1_000_000])?;
    stderr.write_all(b"\nmisbehaving-server: the last line of the log\n")
}

#[derive(Clone)]
struct StdioServer<'arguments> {
    arguments: &'arguments Arguments,
    shared: Arc<SharedState>,
}

#[derive(Default)]
struct SharedState {
    output: Mutex<()>,
    changed: AtomicBool,
    sent_requests: AtomicUsize,
    /// Requests to the client that have no response yet.
    pending: Mutex<HashMap<String, mpsc::Sender<Value>>>,
    cancelled: Mutex<Vec<Value>>,
    /// The level of `logs`.
    level: Mutex<Option<String>>,
}

impl SharedState {
    fn cancelled(&self) -> std::sync::MutexGuard<'_, Vec<Value>> {
        self.cancelled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, HashMap<String, mpsc::Sender<Value>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the client's response to the call that waits for it.
    fn resolve(&self, id: &Value, body: Value) {
        if let Some(sender) = id.as_str().and_then(|id| self.pending().remove(id)) {
            let _ = sender.send(body);
        }
    }
}

impl StdioServer<'_> {
    /// Handles a request that is not a call.
    fn request(&self, id: &Value, method: &str, params: &Value) {
        let changed = self.shared.changed.load(Ordering::SeqCst);
        if self.arguments.behaviour == Behaviour::DripsPages && method == "tools/list" {
            thread::sleep(self.arguments.delay(100));
        }
        let is_known = matches!(method, "initialize" | "ping" | "tools/list");
        match self.arguments.behaviour {
            Behaviour::NeverInitializes => (),
            Behaviour::NeverLists if method == "tools/list" => (),
            Behaviour::IgnoresUnknown if !is_known => (),
            Behaviour::Logs if method == "logging/setLevel" => {
                let level = params["level"].as_str().map(str::to_owned);
                *self.shared.level.lock().unwrap_or_else(PoisonError::into_inner) = level;
                self.send(&Outcome::Result(json!({})).into_response(id));
            }
            _ => self.send(&protocol::outcome(self.arguments, method, params, changed).into_response(id)),
        }
    }

    fn call(&self, id: &Value, params: &Value) {
        let arguments = self.arguments;
        arguments.record_effect(params);
        let name = params["name"].as_str().unwrap_or_default();
        match arguments.behaviour {
            Behaviour::NeverInitializes => return,
            Behaviour::ExitsMidCall => {
                eprintln!("misbehaving-server: fatal: out of luck");
                std::process::exit(4)
            }
            Behaviour::ExitsMidResponse => {
                self.write(
                    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"te"#).as_bytes(),
                );
                std::process::exit(5)
            }
            Behaviour::ClosesStdout => close_stdout(),
            Behaviour::NeverResponds => {
                if name == "cancelled" {
                    let cancelled = Value::from(self.shared.cancelled().clone());
                    self.send(&Outcome::text(cancelled.to_string()).into_response(id));
                } else {
                    self.log("called");
                }
                return;
            }
            Behaviour::SlowProgress => self.report_progress(&params["_meta"]["progressToken"]),
            Behaviour::FloodsNotifications => self.flood(),
            Behaviour::Logs => self.send_log(),
            Behaviour::WritesStderr => {
                let _ = write_stderr(arguments);
            }
            Behaviour::Counts => {
                let outcome =
                    self.count(name).unwrap_or_else(|error| Outcome::Error(-32603, error.to_string()));
                return self.send(&outcome.into_response(id));
            }
            Behaviour::Asks => {
                return self.send(&self.request_to_client(&params["arguments"]).into_response(id));
            }
            _ => thread::sleep(arguments.call_delay(params)),
        }
        self.send(&protocol::outcome(arguments, "tools/call", params, false).into_response(id));
        if arguments.behaviour == Behaviour::ChangesTools && !self.shared.changed.swap(true, Ordering::SeqCst)
        {
            self.send(&protocol::notification("notifications/tools/list_changed", json!({})));
        }
    }

    /// Appends a line to the file of `never-responds`.
    fn log(&self, line: &str) {
        if self.arguments.behaviour == Behaviour::NeverResponds
            && let Some(path) = &self.arguments.file
            && let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path)
        {
            let _ = writeln!(file, "{line}");
        }
    }

    /// Sends log messages to the client, from the requested level on.
    fn send_log(&self) {
        const LEVELS: [&str; 3] = ["debug", "info", "error"];
        let level = self.shared.level.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let from = level.and_then(|level| LEVELS.iter().position(|known| *known == level));
        for level in &LEVELS[from.unwrap_or(LEVELS.len())..] {
            let params = json!({"level": level, "data": "a message"});
            self.send(&protocol::notification("notifications/message", params));
        }
    }

    fn report_progress(&self, token: &Value) {
        let total = self.arguments.count(10);
        for step in 1..=total {
            thread::sleep(self.arguments.delay(1000));
            if !token.is_null() {
                let progress =
                    json!({"progressToken": token, "progress": step, "total": total, "message": "working"});
                self.send(&protocol::notification("notifications/progress", progress));
            }
        }
    }

    fn flood(&self) {
        let log = protocol::notification(
            "notifications/message",
            json!({"level": "info", "logger": "flood", "data": "one of many log lines"}),
        );
        let progress = protocol::notification(
            "notifications/progress",
            json!({"progressToken": "unknown", "progress": 1}),
        );
        let changed = protocol::notification("notifications/tools/list_changed", json!({}));
        for number in 0..self.arguments.count(100_000) {
            self.send(match number % 10 {
                0 => &changed,
                1 => &progress,
                _ => &log,
            });
        }
    }

    /// Records the call before the exit, so that the file shows whether the client retried it.
    fn count(&self, name: &str) -> io::Result<Outcome> {
        let Some(path) = &self.arguments.file else {
            return Ok(Outcome::Error(-32603, "this behaviour needs `--file`".into()));
        };
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(format!("{name}\n").as_bytes())?;
        let mut lines = String::new();
        File::open(path)?.read_to_string(&mut lines)?;
        let count = lines.lines().filter(|line| *line == name).count();
        if count <= self.arguments.count(1) {
            std::process::exit(6)
        }
        Ok(Outcome::text(count.to_string()))
    }

    /// Sends a request to the client and returns the client's response as text.
    fn request_to_client(&self, arguments: &Value) -> Outcome {
        let id = format!("server-{}", self.shared.sent_requests.fetch_add(1, Ordering::SeqCst));
        let (sender, response) = mpsc::channel();
        self.shared.pending().insert(id.clone(), sender);
        let mut request = json!({"jsonrpc": "2.0", "id": id, "method": arguments["method"]});
        if let Some(params) = arguments.get("params") {
            request["params"] = params.clone();
        }
        self.send(&request);
        match response.recv_timeout(LINGER_TIMEOUT) {
            Ok(body) => Outcome::text(body.to_string()),
            Err(_) => Outcome::Error(-32603, "the client sent no response".into()),
        }
    }

    fn send(&self, message: &Value) {
        let mut bytes = protocol::corrupt(self.arguments, message);
        bytes.push(b'\n');
        match self.arguments.behaviour {
            Behaviour::DuplicateIds => self.write(&duplicated(message, &bytes)),
            Behaviour::Garbage => self.write(&[GARBAGE, &bytes, GARBAGE].concat()),
            _ => self.write(&bytes),
        }
    }

    /// Exits when the client has closed the pipe.
    fn write(&self, bytes: &[u8]) {
        let _lock = self.shared.output.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stdout = io::stdout().lock();
        if stdout.write_all(bytes).and_then(|()| stdout.flush()).is_err() && !self.outlives_its_client() {
            std::process::exit(0)
        }
    }

    fn outlives_its_client(&self) -> bool {
        self.arguments.behaviour == Behaviour::IgnoresSigterm
    }
}

/// Lines that are not JSON-RPC messages, one of each kind.
const GARBAGE: &[u8] = b"2026-01-01 12:00:00 INFO listening\n\n{\"jsonrpc\":\"2.0\",\"id\":\n{\"level\":\"info\"}\n[1,2]\n42\n\"text\"\nnull\n\xff\xfe\x00\r\n";

/// The message, the same message with other content, and responses to requests that were never made.
fn duplicated(message: &Value, bytes: &[u8]) -> Vec<u8> {
    let mut second = message.clone();
    if second.pointer("/result/content").is_some() {
        second["result"]["content"] = json!([{"type": "text", "text": "the second response"}]);
    }
    let unrequested = |id: Value| Outcome::text("unrequested").into_response(&id);
    let mut all = bytes.to_vec();
    for extra in [second, unrequested(json!(987_654)), unrequested(json!("never-sent"))] {
        all.extend_from_slice(extra.to_string().as_bytes());
        all.push(b'\n');
    }
    all
}

/// Replaces this process with one that has no stdout, since a process cannot safely close its own.
fn close_stdout() -> ! {
    let error = Command::new("sleep").arg(LINGER_TIMEOUT.as_secs().to_string()).stdout(Stdio::null()).exec();
    eprintln!("error: cannot execute `sleep`: {error}");
    std::process::exit(1)
}
