//! Serving on stdin and stdout.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::behaviour::Behaviour;
use crate::protocol::{self, Answer, Incoming};

/// Nothing that is meant to outlive its client outlives a test run by much.
const LONGEST_LIFE: Duration = Duration::from_secs(300);

/// Serves until stdin ends.
pub(crate) fn serve(arguments: &Arguments) -> io::Result<()> {
    start(arguments)?;
    thread::scope(|scope| {
        let server = Server::new(arguments);
        let mut line = Vec::new();
        let mut input = io::stdin().lock();
        loop {
            line.clear();
            if input.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let Some(message) = std::str::from_utf8(&line).ok().and_then(Incoming::parse) else { continue };
            match message {
                // A call may take its time while others go on.
                Incoming::Request { id, method, params } if method == "tools/call" => {
                    let server = server.clone();
                    scope.spawn(move || server.call(&id, &params));
                }
                Incoming::Request { id, method, params } => server.request(&id, &method, &params),
                Incoming::Notification { method, params } if method == "notifications/cancelled" => {
                    server.shared.cancelled().push(params["requestId"].clone());
                    server.note("cancelled");
                }
                Incoming::Notification { .. } => (),
                Incoming::Response { id, body } => server.shared.answered(&id, body),
            }
        }
        server.note("closed");
        if arguments.behaviour == Behaviour::IgnoresSigterm {
            thread::sleep(LONGEST_LIFE);
        }
        // Calls that are under way are not waited for.
        std::process::exit(0)
    })
}

/// What is wrong before the first message.
fn start(arguments: &Arguments) -> io::Result<()> {
    match arguments.behaviour {
        Behaviour::ExitsAtOnce => {
            eprintln!("misbehaving-server: cannot open the database");
            std::process::exit(3)
        }
        Behaviour::IgnoresSigterm => {
            let seen = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal_hook::consts::SIGTERM, seen)?;
        }
        Behaviour::ForksAChild => {
            Command::new("sleep").arg(LONGEST_LIFE.as_secs().to_string()).spawn()?;
        }
        Behaviour::WritesStderr => write_stderr(arguments)?,
        Behaviour::StartsLate => thread::sleep(arguments.delay(1000)),
        _ => (),
    }
    Ok(())
}

fn write_stderr(arguments: &Arguments) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    for number in 0..arguments.count(10_000) {
        writeln!(stderr, "misbehaving-server: line {number} of the log")?;
    }
    stderr.write_all(b"bytes that are no text: \xff\xfe\n")?;
    stderr.write_all(&[b'x'; 1_000_000])?;
    stderr.write_all(b"\nmisbehaving-server: the last line of the log\n")
}

#[derive(Clone)]
struct Server<'arguments> {
    arguments: &'arguments Arguments,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    output: Mutex<()>,
    changed: AtomicBool,
    asked: AtomicUsize,
    questions: Mutex<HashMap<String, mpsc::Sender<Value>>>,
    cancelled: Mutex<Vec<Value>>,
}

impl Shared {
    fn cancelled(&self) -> std::sync::MutexGuard<'_, Vec<Value>> {
        self.cancelled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn questions(&self) -> std::sync::MutexGuard<'_, HashMap<String, mpsc::Sender<Value>>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answered(&self, id: &Value, body: Value) {
        if let Some(waiting) = id.as_str().and_then(|id| self.questions().remove(id)) {
            let _ = waiting.send(body);
        }
    }
}

impl<'arguments> Server<'arguments> {
    fn new(arguments: &'arguments Arguments) -> Self {
        Server { arguments, shared: Arc::default() }
    }

    /// A request that is no call.
    fn request(&self, id: &Value, method: &str, params: &Value) {
        let changed = self.shared.changed.load(Ordering::SeqCst);
        if self.arguments.behaviour == Behaviour::DripsPages && method == "tools/list" {
            thread::sleep(self.arguments.delay(100));
        }
        let known = matches!(method, "initialize" | "ping" | "tools/list");
        match self.arguments.behaviour {
            Behaviour::NeverInitializes => (),
            Behaviour::NeverLists if method == "tools/list" => (),
            Behaviour::IgnoresUnknown if !known => (),
            _ => self.send(&protocol::answer(self.arguments, method, params, changed).to(id)),
        }
    }

    fn call(&self, id: &Value, params: &Value) {
        let arguments = self.arguments;
        arguments.has_effect(params);
        let name = params["name"].as_str().unwrap_or_default();
        match arguments.behaviour {
            Behaviour::NeverInitializes => return,
            Behaviour::ExitsMidCall => {
                eprintln!("misbehaving-server: fatal: out of luck");
                std::process::exit(4)
            }
            Behaviour::ExitsMidAnswer => {
                self.write(
                    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"te"#).as_bytes(),
                );
                std::process::exit(5)
            }
            Behaviour::ClosesStdout => close_stdout(),
            Behaviour::NeverAnswers => {
                if name == "cancelled" {
                    let cancelled = Value::from(self.shared.cancelled().clone());
                    self.send(&Answer::text(cancelled.to_string()).to(id));
                } else {
                    self.note("called");
                }
                return;
            }
            Behaviour::AnswersLate => thread::sleep(arguments.delay(1000)),
            Behaviour::Unhinted => thread::sleep(arguments.delay(0)),
            Behaviour::SlowProgress => self.report_progress(&params["_meta"]["progressToken"]),
            Behaviour::FloodsNotifications => self.flood(),
            Behaviour::WritesStderr => {
                let _ = write_stderr(arguments);
            }
            Behaviour::Counts => {
                let answer =
                    self.count(name).unwrap_or_else(|error| Answer::Error(-32603, error.to_string()));
                return self.send(&answer.to(id));
            }
            Behaviour::Asks => return self.send(&self.ask(&params["arguments"]).to(id)),
            _ if name == "wait" => {
                thread::sleep(Duration::from_millis(
                    params["arguments"]["milliseconds"].as_u64().unwrap_or(0),
                ));
            }
            _ => (),
        }
        self.send(&protocol::answer(arguments, "tools/call", params, false).to(id));
        if arguments.behaviour == Behaviour::ChangesTools && !self.shared.changed.swap(true, Ordering::SeqCst)
        {
            self.send(&protocol::notification("notifications/tools/list_changed", json!({})));
        }
    }

    /// A line in the file of `never-answers`, for whoever cannot ask.
    fn note(&self, what: &str) {
        if self.arguments.behaviour == Behaviour::NeverAnswers
            && let Some(path) = &self.arguments.file
            && let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path)
        {
            let _ = writeln!(file, "{what}");
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
            json!({"level": "info", "logger": "flood", "data": "one of very many lines of the log"}),
        );
        let progress = protocol::notification(
            "notifications/progress",
            json!({"progressToken": "nobody's", "progress": 1}),
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

    /// The effect comes first, so a client that asks again without leave is found out in the file.
    fn count(&self, name: &str) -> io::Result<Answer> {
        let Some(path) = &self.arguments.file else {
            return Ok(Answer::Error(-32603, "this behaviour needs `--file`".into()));
        };
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(format!("{name}\n").as_bytes())?;
        let mut lines = String::new();
        File::open(path)?.read_to_string(&mut lines)?;
        let count = lines.lines().filter(|line| *line == name).count();
        if count <= self.arguments.count(1) {
            std::process::exit(6)
        }
        Ok(Answer::text(count.to_string()))
    }

    fn ask(&self, question: &Value) -> Answer {
        let id = format!("asked-{}", self.shared.asked.fetch_add(1, Ordering::SeqCst));
        let (answered, answer) = mpsc::channel();
        self.shared.questions().insert(id.clone(), answered);
        let mut request = json!({"jsonrpc": "2.0", "id": id, "method": question["method"]});
        if let Some(params) = question.get("params") {
            request["params"] = params.clone();
        }
        self.send(&request);
        match answer.recv_timeout(LONGEST_LIFE) {
            Ok(body) => Answer::text(body.to_string()),
            Err(_) => Answer::Error(-32603, "the client never answered".into()),
        }
    }

    fn send(&self, message: &Value) {
        let mut bytes = protocol::spoilt(self.arguments, message);
        bytes.push(b'\n');
        match self.arguments.behaviour {
            Behaviour::DuplicateIds => self.write(&twice(message, &bytes)),
            Behaviour::Garbage => self.write(&[GARBAGE, &bytes, GARBAGE].concat()),
            _ => self.write(&bytes),
        }
    }

    /// A client that has gone away is no error, but there is nothing left to do.
    fn write(&self, bytes: &[u8]) {
        let _turn = self.shared.output.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stdout = io::stdout().lock();
        if stdout.write_all(bytes).and_then(|()| stdout.flush()).is_err() && !self.outlives_its_client() {
            std::process::exit(0)
        }
    }

    fn outlives_its_client(&self) -> bool {
        self.arguments.behaviour == Behaviour::IgnoresSigterm
    }
}

/// Every kind of line that is no message.
const GARBAGE: &[u8] = b"2026-01-01 12:00:00 INFO listening\n\n{\"jsonrpc\":\"2.0\",\"id\":\n{\"level\":\"info\"}\n[1,2]\n42\n\"text\"\nnull\n\xff\xfe\x00\r\n";

/// The message, the message once more with another content, and an answer to a request that nobody made.
fn twice(message: &Value, bytes: &[u8]) -> Vec<u8> {
    let mut again = message.clone();
    if again.pointer("/result/content").is_some() {
        again["result"]["content"] = json!([{"type": "text", "text": "the second answer"}]);
    }
    let unasked = Answer::text("nobody asked").to(&json!(987_654));
    let unasked_name = Answer::text("nobody asked").to(&json!("never-sent"));
    let mut all = bytes.to_vec();
    for extra in [again, unasked, unasked_name] {
        all.extend_from_slice(extra.to_string().as_bytes());
        all.push(b'\n');
    }
    all
}

/// Stdout cannot be closed from within; becoming another program that was given none does it.
fn close_stdout() -> ! {
    let error = Command::new("sleep").arg(LONGEST_LIFE.as_secs().to_string()).stdout(Stdio::null()).exec();
    eprintln!("error: cannot become `sleep`: {error}");
    std::process::exit(1)
}
