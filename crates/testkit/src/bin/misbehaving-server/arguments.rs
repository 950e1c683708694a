//! The command line.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use crate::behaviour::{Behaviour, Over, TABLE};

/// What the command line asks for.
pub(crate) enum Request {
    Serve(Arguments),
    Help,
}

/// How to serve.
pub(crate) struct Arguments {
    pub(crate) behaviour: Behaviour,
    /// The address to listen on; stdio without it.
    pub(crate) http: Option<String>,
    /// The method at which it misbehaves over HTTP; `initialize` stands for all.
    pub(crate) from: String,
    delay: Option<u64>,
    count: Option<usize>,
    size: Option<usize>,
    pub(crate) file: Option<PathBuf>,
    /// Where each call leaves a line.
    effects: Option<PathBuf>,
}

impl Arguments {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Request, String> {
        let mut words = words;
        let mut arguments = Arguments {
            behaviour: Behaviour::Ordinary,
            http: None,
            from: "tools/call".into(),
            delay: None,
            count: None,
            size: None,
            file: None,
            effects: None,
        };
        let mut over = Over::Both;
        while let Some(word) = words.next() {
            if matches!(word.as_str(), "--help" | "-h") {
                return Ok(Request::Help);
            }
            let value = words.next().ok_or_else(|| format!("`{word}` needs a value"))?;
            match word.as_str() {
                "--behaviour" => {
                    (arguments.behaviour, over) =
                        Behaviour::named(&value).ok_or_else(|| format!("no behaviour is named `{value}`"))?;
                }
                "--http" => arguments.http = Some(value),
                "--from" => arguments.from = value,
                "--delay" => arguments.delay = Some(number(&word, &value)?),
                "--count" => arguments.count = Some(number(&word, &value)?),
                "--size" => arguments.size = Some(number(&word, &value)?),
                "--file" => arguments.file = Some(value.into()),
                "--effects" => arguments.effects = Some(value.into()),
                _ => return Err(format!("`{word}` is not an option")),
            }
        }
        match (over, &arguments.http) {
            (Over::Stdio, Some(_)) => Err("this behaviour is for stdio: leave `--http` out".into()),
            (Over::Http, None) => Err("this behaviour is for HTTP: give `--http 127.0.0.1:0`".into()),
            _ => Ok(Request::Serve(arguments)),
        }
    }

    /// The effect of a call, which is there before its answer: a line with its `text`.
    pub(crate) fn has_effect(&self, params: &serde_json::Value) {
        let Some(path) = &self.effects else { return };
        let line = format!("{}\n", params["arguments"]["text"].as_str().unwrap_or_default());
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        // One write, so that lines of several processes do not mix.
        if let Err(error) = file.and_then(|mut file| std::io::Write::write_all(&mut file, line.as_bytes())) {
            eprintln!("misbehaving-server: no effect: {error}");
        }
    }

    pub(crate) fn delay(&self, default: u64) -> Duration {
        Duration::from_millis(self.delay.unwrap_or(default))
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
         \x20 --behaviour NAME  what is wrong with it\n\
         \x20 --http ADDRESS    serve over HTTP there (127.0.0.1:0); the first line on stdout is the port; lives until\n\
         \x20                   stdin closes; the endpoint is any path, /sse for HTTP+SSE\n\
         \x20 --from METHOD     over HTTP: misbehave at this method (tools/call); `initialize`: at every request\n\
         \x20 --delay MS        see the behaviours\n\
         \x20 --count N         see the behaviours\n\
         \x20 --size BYTES      see the behaviours\n\
         \x20 --file PATH       see the behaviours\n\
         \x20 --effects PATH    each call first adds a line with its `text` there\n",
    );
    help.push_str(
        "\nTools, where the behaviour says nothing else: `echo` {text}, `wait` {milliseconds}, `fail` (an error result),\n\
         `refuse` (a JSON-RPC error).\n",
    );
    for (over, title) in [(Over::Both, "stdio or HTTP"), (Over::Stdio, "stdio"), (Over::Http, "HTTP")] {
        let _ = writeln!(help, "\nBehaviours, {title}:");
        for (_, name, _, text) in TABLE.iter().filter(|row| row.2 == over) {
            let _ = writeln!(help, "  {name:<21} {text}");
        }
    }
    help
}
