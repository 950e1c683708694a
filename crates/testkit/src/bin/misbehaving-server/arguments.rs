//! The command line.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::behaviour::{BEHAVIOURS, Behaviour, Transport};

/// A parsed command line.
pub(crate) enum CommandLine {
    Serve(Arguments),
    Help,
}

/// The options for serving.
pub(crate) struct Arguments {
    pub(crate) behaviour: Behaviour,
    /// The address to listen on; `None` serves on stdio.
    pub(crate) http: Option<String>,
    /// The method at which it misbehaves over HTTP; `initialize` means every request.
    pub(crate) from: String,
    delay: Option<u64>,
    count: Option<usize>,
    size: Option<usize>,
    pub(crate) file: Option<PathBuf>,
    /// The file to which each call appends a line.
    effects: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<CommandLine, String> {
        let mut parsed = Arguments {
            behaviour: Behaviour::Ordinary,
            http: None,
            from: "tools/call".into(),
            delay: None,
            count: None,
            size: None,
            file: None,
            effects: None,
        };
        let mut transport = Transport::Any;
        while let Some(option) = arguments.next() {
            if matches!(option.as_str(), "--help" | "-h") {
                return Ok(CommandLine::Help);
            }
            let value = arguments.next().ok_or_else(|| format!("`{option}` needs a value"))?;
            match option.as_str() {
                "--behaviour" => {
                    let found = BEHAVIOURS.iter().find(|entry| entry.name == value);
                    let found = found.ok_or_else(|| format!("unknown behaviour `{value}`"))?;
                    (parsed.behaviour, transport) = (found.behaviour, found.transport);
                }
                "--http" => parsed.http = Some(value),
                "--from" => parsed.from = value,
                "--delay" => parsed.delay = Some(number(&option, &value)?),
                "--count" => parsed.count = Some(number(&option, &value)?),
                "--size" => parsed.size = Some(number(&option, &value)?),
                "--file" => parsed.file = Some(value.into()),
                "--effects" => parsed.effects = Some(value.into()),
                _ => return Err(format!("unknown option `{option}`")),
            }
        }
        match (transport, &parsed.http) {
            (Transport::Stdio, Some(_)) => Err("this behaviour needs stdio: remove `--http`".into()),
            (Transport::Http, None) => Err("this behaviour needs HTTP: add `--http 127.0.0.1:0`".into()),
            _ => Ok(CommandLine::Serve(parsed)),
        }
    }

    /// Records the effect of a call before its response: a line with the argument `text`.
    pub(crate) fn record_effect(&self, params: &Value) {
        let Some(path) = &self.effects else { return };
        let line = format!("{}\n", params["arguments"]["text"].as_str().unwrap_or_default());
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        // A single write keeps the lines of several processes apart.
        if let Err(error) = file.and_then(|mut file| std::io::Write::write_all(&mut file, line.as_bytes())) {
            eprintln!("misbehaving-server: cannot record the effect: {error}");
        }
    }

    /// Returns how long a call takes: the delay of the behaviour, and the argument of `wait`.
    pub(crate) fn call_delay(&self, params: &Value) -> Duration {
        let delay = match self.behaviour {
            Behaviour::RespondsLate => self.delay(1000),
            Behaviour::Unhinted => self.delay(0),
            _ => Duration::ZERO,
        };
        match params["name"].as_str() {
            Some("wait") => {
                let wait = params["arguments"]["milliseconds"].as_u64().unwrap_or(0);
                delay + Duration::from_millis(wait)
            }
            _ => delay,
        }
    }

    pub(crate) fn delay(&self, default_ms: u64) -> Duration {
        Duration::from_millis(self.delay.unwrap_or(default_ms))
    }

    pub(crate) fn count(&self, default: usize) -> usize {
        self.count.unwrap_or(default)
    }

    pub(crate) fn size(&self, default: usize) -> usize {
        self.size.unwrap_or(default)
    }
}

fn number<T: std::str::FromStr>(option: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("`{option}` needs a number, not `{value}`"))
}

pub(crate) fn help() -> String {
    let mut help = String::from(
        "An MCP server that does one thing wrong.\n\n\
         Usage: misbehaving-server [--behaviour NAME] [OPTIONS]\n\n\
         Options:\n\
         \x20 --behaviour NAME  what it does wrong\n\
         \x20 --http ADDRESS    serve over HTTP at this address (127.0.0.1:0); the first line on stdout is the port;\n\
         \x20                   runs until stdin closes; the endpoint is any path, /sse for HTTP+SSE\n\
         \x20 --from METHOD     over HTTP: misbehave at this method (tools/call); `initialize`: at every request\n\
         \x20 --delay MS        see the behaviours\n\
         \x20 --count N         see the behaviours\n\
         \x20 --size BYTES      see the behaviours\n\
         \x20 --file PATH       see the behaviours\n\
         \x20 --effects PATH    each call first appends a line with its `text` to this file\n\n\
         Tools, unless the behaviour lists others: `echo` {text}, `wait` {milliseconds}, `fail` (an error result),\n\
         `refuse` (a JSON-RPC error).\n",
    );
    let sections =
        [(Transport::Any, "stdio or HTTP"), (Transport::Stdio, "stdio"), (Transport::Http, "HTTP")];
    for (transport, title) in sections {
        let _ = writeln!(help, "\nBehaviours, {title}:");
        for entry in BEHAVIOURS.iter().filter(|entry| entry.transport == transport) {
            let _ = writeln!(help, "  {:<21} {}", entry.name, entry.description);
        }
    }
    help
}
