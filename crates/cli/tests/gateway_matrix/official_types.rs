//! Checks responses against the types of the official SDKs for Python.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use serde_json::json;
use toolwire_testkit::InstalledServers;

use crate::client::Received;

/// A process that checks responses. It ends with the tests, when its input is closed.
struct Checker {
    _process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

static CHECKER: LazyLock<Mutex<Checker>> = LazyLock::new(|| Mutex::new(Checker::start()));

/// Panics if the SDK of the client's API does not accept a response.
pub(crate) fn check(received: &Received<'_>, label: &str) {
    let problems = CHECKER.lock().unwrap_or_else(PoisonError::into_inner).check(received);
    assert!(problems.is_empty(), "{label}: {problems:#?}\n{}", received.body);
}

impl Checker {
    fn start() -> Checker {
        let servers = InstalledServers::find();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gateway_matrix/official_types.py");
        let mut process = Command::new(servers.client_python())
            .arg(script)
            // The compiled modules belong to the installed files.
            .env("PYTHONPYCACHEPREFIX", servers.client_packages().join("compiled"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Checker { _process: process, input, output: BufReader::new(output) }
    }

    fn check(&mut self, received: &Received<'_>) -> Vec<String> {
        let Received { path, status, is_stream, body } = received;
        let line = json!({"path": path, "status": status, "is_stream": is_stream, "body": body});
        // One write: a value writes itself in pieces of a few bytes.
        self.input.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut problems = String::new();
        self.output.read_line(&mut problems).unwrap();
        serde_json::from_str(&problems).unwrap()
    }
}
