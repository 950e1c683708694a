//! Serving over HTTP: streamable HTTP as of 2025-06-18 with sessions, and the older HTTP+SSE.
//!
//! A thread per connection and just enough of HTTP/1.1 to be wrong in a chosen place, which a web framework would prevent.

mod wire;

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::behaviour::Behaviour;
use crate::protocol::{self, Answer, Incoming};
use wire::{Connection, Request};

/// No connection that is held open on purpose outlives a test run by much.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Serves until stdin closes; the port is the first line on stdout.
pub(crate) fn serve(address: &str, arguments: &Arguments) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", listener.local_addr()?.port())?;
    stdout.flush()?;
    drop(stdout);
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0)
    });
    let server = Server { arguments, state: Arc::default() };
    thread::scope(|scope| {
        for stream in listener.incoming() {
            let server = server.clone();
            scope.spawn(move || stream.and_then(|stream| server.serve(stream)));
        }
    });
    Ok(())
}

#[derive(Clone)]
struct Server<'arguments> {
    arguments: &'arguments Arguments,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    numbers: AtomicUsize,
    forgot: AtomicBool,
    sessions: Mutex<Vec<String>>,
    streams: Mutex<HashMap<String, mpsc::Sender<Value>>>,
}

impl State {
    fn number(&self) -> usize {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<String>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<String, mpsc::Sender<Value>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server<'_> {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut connection = Connection::new(stream)?;
        while let Some(request) = connection.request()? {
            match self.arguments.behaviour {
                Behaviour::Sse | Behaviour::SseForeignEndpoint => self.older(&mut connection, &request)?,
                _ => self.streamable(&mut connection, &request)?,
            }
        }
        Ok(())
    }

    fn streamable(&self, connection: &mut Connection, request: &Request) -> io::Result<()> {
        let session = request.header("mcp-session-id");
        match request.method.as_str() {
            "POST" => (),
            "DELETE" => {
                self.state.sessions().retain(|known| Some(known.as_str()) != session);
                return connection.respond(200, &[], "");
            }
            _ => return connection.respond(405, &[("Allow", "POST, DELETE")], ""),
        }
        let Some(message) = Incoming::parse(&request.body) else {
            let refusal = Answer::Error(-32700, "this is no JSON-RPC message".into()).to(&Value::Null);
            return connection.json(400, &[], &refusal);
        };
        let (id, method, params) = match message {
            Incoming::Request { id, method, params } => (Some(id), method, params),
            Incoming::Notification { method, params } => (None, method, params),
            Incoming::Response { .. } => return connection.respond(202, &[], ""),
        };
        let is_spared = self.arguments.behaviour == Behaviour::CutStream && params["name"] == "wait";
        let is_now = !is_spared && (self.arguments.from == "initialize" || self.arguments.from == method);
        if is_now && let Some(done) = self.misbehave(connection) {
            return done;
        }
        let known = session.is_some_and(|session| self.state.sessions().iter().any(|known| known == session));
        match (method.as_str(), session) {
            ("initialize" | "server/discover", _) => (),
            (_, Some(_)) if known => (),
            (_, Some(_)) => return connection.json(404, &[], &refusal("session not found")),
            (_, None) => return connection.json(400, &[], &refusal("no session")),
        }
        let Some(id) = id else { return connection.respond(202, &[], "") };
        let answer = self.answer(&method, &params).to(&id);
        let mut headers = Vec::new();
        let new_session = format!("session-{}", self.state.number());
        if method == "initialize" {
            self.state.sessions().push(new_session.clone());
            headers.push(("Mcp-Session-Id", new_session.as_str()));
        }
        match self.arguments.behaviour {
            Behaviour::Streams => {
                connection.start_stream(&headers)?;
                connection.event(&answer.to_string())?;
                connection.end_stream()
            }
            _ => {
                headers.push(("Content-Type", "application/json"));
                connection.bytes(200, &headers, &protocol::spoilt(self.arguments, &answer))
            }
        }
    }

    fn answer(&self, method: &str, params: &Value) -> Answer {
        if method == "tools/call" {
            self.arguments.has_effect(params);
            match self.arguments.behaviour {
                Behaviour::AnswersLate => thread::sleep(self.arguments.delay(1000)),
                Behaviour::Unhinted => thread::sleep(self.arguments.delay(0)),
                _ => (),
            }
            if params["name"] == "wait" {
                thread::sleep(Duration::from_millis(
                    params["arguments"]["milliseconds"].as_u64().unwrap_or(0),
                ));
            }
        }
        protocol::answer(self.arguments, method, params, false)
    }

    /// Nothing when there is nothing wrong with this request.
    fn misbehave(&self, connection: &mut Connection) -> Option<io::Result<()>> {
        Some(match self.arguments.behaviour {
            Behaviour::Status500 => connection.json(500, &[], &json!({"oops": "the database is down"})),
            Behaviour::Status502 => connection.respond(
                502,
                &[("Content-Type", "text/html")],
                "<html><body><h1>502 Bad Gateway</h1></body></html>",
            ),
            Behaviour::Status401 => connection.respond(
                401,
                &[("WWW-Authenticate", r#"Bearer error="invalid_token", error_description="the token is no longer good""#)],
                "",
            ),
            Behaviour::SessionGone => {
                if self.state.forgot.swap(true, Ordering::SeqCst) {
                    return None;
                }
                self.state.sessions().clear();
                connection.json(404, &[], &refusal("session not found"))
            }
            Behaviour::SessionUnknown => {
                connection.json(400, &[], &refusal("Bad Request: No valid session ID provided"))
            }
            Behaviour::CutStream => cut_stream(connection, self.arguments.delay(0)),
            Behaviour::HtmlBody => connection.respond(
                200,
                &[("Content-Type", "text/html; charset=utf-8")],
                "<!DOCTYPE html><html><head><title>Sign in</title></head><body><h1>Sign in to the network</h1></body></html>",
            ),
            Behaviour::Hangs => connection.hang(LONGEST_WAIT),
            _ => return None,
        })
    }

    /// HTTP+SSE: the answers to what is posted arrive on the stream.
    fn older(&self, connection: &mut Connection, request: &Request) -> io::Result<()> {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        match (request.method.as_str(), path) {
            ("GET", "/sse") => self.older_stream(connection),
            ("POST", "/messages") => {
                let Some(stream) = self.state.streams().get(query).cloned() else {
                    return connection.respond(404, &[], "no such session");
                };
                if let Some(Incoming::Request { id, method, params }) = Incoming::parse(&request.body) {
                    let _ = stream.send(self.answer(&method, &params).to(&id));
                }
                connection.respond(202, &[], "Accepted")
            }
            ("GET" | "POST", "/sse" | "/messages") => connection.respond(405, &[], ""),
            _ => connection.respond(404, &[], ""),
        }
    }

    fn older_stream(&self, connection: &mut Connection) -> io::Result<()> {
        let session = format!("session={}", self.state.number());
        let (sender, messages) = mpsc::channel();
        self.state.streams().insert(session.clone(), sender);
        let host = match self.arguments.behaviour {
            Behaviour::SseForeignEndpoint => "http://other.example",
            _ => "",
        };
        connection.start_stream(&[])?;
        connection.write(format!("event: endpoint\ndata: {host}/messages?{session}\n\n").as_bytes())?;
        loop {
            let sent = match messages.recv_timeout(Duration::from_secs(1)) {
                Ok(message) => connection.event(&message.to_string()),
                // A comment finds out whether anyone is still there.
                Err(_) => connection.write(b": still here\n\n"),
            };
            if sent.is_err() {
                self.state.streams().remove(&session);
                return sent;
            }
        }
    }
}

fn refusal(message: &str) -> Value {
    Answer::Error(-32000, message.into()).to(&Value::Null)
}

fn cut_stream(connection: &mut Connection, after: Duration) -> io::Result<()> {
    connection.start_stream(&[])?;
    thread::sleep(after);
    connection.write(b": the answer is on its way\n\n")?;
    connection.write(b"event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":")?;
    Err(io::Error::other("cut on purpose"))
}
