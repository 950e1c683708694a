//! Serving over HTTP: streamable HTTP of 2025-06-18 with sessions, and the deprecated HTTP+SSE transport.
//!
//! One thread per connection and a minimal HTTP/1.1, because a web framework would prevent the faults.

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
use crate::protocol::{self, IncomingMessage, Outcome};
use wire::{HttpConnection, HttpRequest};

/// Limits how long a connection that hangs on purpose can outlive a test run.
const HANG_TIMEOUT: Duration = Duration::from_secs(300);

/// Serves until stdin closes; the first line on stdout is the port.
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
    let server = HttpServer { arguments, state: Arc::default() };
    thread::scope(|scope| {
        for stream in listener.incoming() {
            let server = server.clone();
            scope.spawn(move || stream.and_then(|stream| server.serve(stream)));
        }
    });
    Ok(())
}

#[derive(Clone)]
struct HttpServer<'arguments> {
    arguments: &'arguments Arguments,
    state: Arc<HttpState>,
}

#[derive(Default)]
struct HttpState {
    next_session: AtomicUsize,
    has_lost_session: AtomicBool,
    sessions: Mutex<Vec<String>>,
    streams: Mutex<HashMap<String, mpsc::Sender<Value>>>,
}

impl HttpState {
    fn next_session(&self) -> usize {
        self.next_session.fetch_add(1, Ordering::SeqCst)
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<String>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<String, mpsc::Sender<Value>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpServer<'_> {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut connection = HttpConnection::new(stream)?;
        while let Some(request) = connection.request()? {
            match self.arguments.behaviour {
                Behaviour::Sse | Behaviour::SseForeignEndpoint => self.http_sse(&mut connection, &request)?,
                _ => self.streamable(&mut connection, &request)?,
            }
        }
        Ok(())
    }

    fn streamable(&self, connection: &mut HttpConnection, request: &HttpRequest) -> io::Result<()> {
        let session = request.header("mcp-session-id");
        match request.method.as_str() {
            "POST" => (),
            "DELETE" => {
                self.state.sessions().retain(|known| Some(known.as_str()) != session);
                return connection.respond(200, &[], "");
            }
            _ => return connection.respond(405, &[("Allow", "POST, DELETE")], ""),
        }
        let Some(message) = IncomingMessage::parse(&request.body) else {
            let error = Outcome::Error(-32700, "the body is not a JSON-RPC message".into());
            return connection.json(400, &[], &error.into_response(&Value::Null));
        };
        let (id, method, params) = match message {
            IncomingMessage::Request { id, method, params } => (Some(id), method, params),
            IncomingMessage::Notification { method, params } => (None, method, params),
            IncomingMessage::Response { .. } => return connection.respond(202, &[], ""),
        };
        let is_exempt = self.arguments.behaviour == Behaviour::CutStream && params["name"] == "wait";
        let is_chosen = self.arguments.from == "initialize" || self.arguments.from == method;
        if is_chosen
            && !is_exempt
            && let Some(done) = self.misbehave(connection)
        {
            return done;
        }
        let is_known =
            session.is_some_and(|session| self.state.sessions().iter().any(|known| known == session));
        match (method.as_str(), session) {
            ("initialize" | "server/discover", _) => (),
            (_, Some(_)) if is_known => (),
            (_, Some(_)) => return connection.json(404, &[], &server_error("session not found")),
            (_, None) => return connection.json(400, &[], &server_error("missing session id")),
        }
        let Some(id) = id else { return connection.respond(202, &[], "") };
        let response = self.outcome(&method, &params).into_response(&id);
        let mut headers = Vec::new();
        let new_session = format!("session-{}", self.state.next_session());
        if method == "initialize" {
            self.state.sessions().push(new_session.clone());
            headers.push(("Mcp-Session-Id", new_session.as_str()));
        }
        match self.arguments.behaviour {
            Behaviour::Streams => {
                connection.start_stream(&headers)?;
                connection.event(&response.to_string())?;
                connection.end_stream()
            }
            _ => {
                headers.push(("Content-Type", "application/json"));
                connection.bytes(200, &headers, &protocol::corrupt(self.arguments, &response))
            }
        }
    }

    fn outcome(&self, method: &str, params: &Value) -> Outcome {
        if method == "tools/call" {
            self.arguments.record_effect(params);
            thread::sleep(self.arguments.call_delay(params));
        }
        protocol::outcome(self.arguments, method, params, false)
    }

    /// Returns `None` when this request is to be handled correctly.
    fn misbehave(&self, connection: &mut HttpConnection) -> Option<io::Result<()>> {
        Some(match self.arguments.behaviour {
            Behaviour::Status500 => connection.json(500, &[], &json!({"oops": "the database is down"})),
            Behaviour::Status502 => connection.respond(
                502,
                &[("Content-Type", "text/html")],
                "<html><body><h1>502 Bad Gateway</h1></body></html>",
            ),
            Behaviour::Status401 => {
                let challenge = r#"Bearer error="invalid_token", error_description="the token has expired""#;
                connection.respond(401, &[("WWW-Authenticate", challenge)], "")
            }
            Behaviour::SessionLost => {
                if self.state.has_lost_session.swap(true, Ordering::SeqCst) {
                    return None;
                }
                self.state.sessions().clear();
                connection.json(404, &[], &server_error("session not found"))
            }
            Behaviour::SessionUnknown => {
                connection.json(400, &[], &server_error("Bad Request: No valid session ID provided"))
            }
            Behaviour::CutStream => cut_stream(connection, self.arguments.delay(0)),
            Behaviour::HtmlBody => connection.respond(
                200,
                &[("Content-Type", "text/html; charset=utf-8")],
                "<!DOCTYPE html><html><head><title>Sign in</title></head>\
                 <body><h1>Sign in to the network</h1></body></html>",
            ),
            Behaviour::Hangs => connection.hang(HANG_TIMEOUT),
            _ => return None,
        })
    }

    /// HTTP+SSE: the responses to posted requests arrive on the stream.
    fn http_sse(&self, connection: &mut HttpConnection, request: &HttpRequest) -> io::Result<()> {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        match (request.method.as_str(), path) {
            ("GET", "/sse") => self.http_sse_stream(connection),
            ("POST", "/messages") => {
                let Some(stream) = self.state.streams().get(query).cloned() else {
                    return connection.respond(404, &[], "no such session");
                };
                if let Some(IncomingMessage::Request { id, method, params }) =
                    IncomingMessage::parse(&request.body)
                {
                    let _ = stream.send(self.outcome(&method, &params).into_response(&id));
                }
                connection.respond(202, &[], "Accepted")
            }
            ("GET" | "POST", "/sse" | "/messages") => connection.respond(405, &[], ""),
            _ => connection.respond(404, &[], ""),
        }
    }

    fn http_sse_stream(&self, connection: &mut HttpConnection) -> io::Result<()> {
        let session = format!("session={}", self.state.next_session());
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
                // Writing a comment detects a closed connection.
                Err(_) => connection.write(b": keep-alive\n\n"),
            };
            if sent.is_err() {
                self.state.streams().remove(&session);
                return sent;
            }
        }
    }
}

fn server_error(message: &str) -> Value {
    Outcome::Error(-32000, message.into()).into_response(&Value::Null)
}

fn cut_stream(connection: &mut HttpConnection, delay: Duration) -> io::Result<()> {
    connection.start_stream(&[])?;
    thread::sleep(delay);
    connection.write(b": the response follows\n\n")?;
    connection.write(b"event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":")?;
    Err(io::Error::other("cut on purpose"))
}
