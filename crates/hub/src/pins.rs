//! What each tool was when it was first seen or last accepted, so that one that was swapped is noticed.
//!
//! A server can change a tool's description after a person approved it. A hash per tool is kept on disk; [`Pins::compare`]
//! says what is new, changed or gone. [`Pins::see`] takes over new tools alone: a change is told of until [`Pins::accept`] makes
//! it the state to compare with, and a tool that is gone is remembered for the day it comes back as another.

mod file;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use toolwire_contract::Tool;

use crate::config::{ServerConfig, Transport};
use file::{Saved, Unsaved, read};

/// The known definitions of all servers, with the file in which they are kept.
#[derive(Debug)]
pub struct Pins {
    path: PathBuf,
    servers: BTreeMap<ServerId, Arc<Server>>,
    /// Servers whose pins are to be written.
    touched: BTreeMap<ServerId, Touch>,
}

/// A server as the configuration calls it, and what it is: another program under the same name is another server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId {
    pub name: String,
    /// The hash of its command, arguments and folder, or of its address.
    pub identity: String,
}

/// What is to be done to a server's pins on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Touch {
    /// There are more than before.
    Added,
    /// They are others, because a person says so.
    Accepted,
}

/// One tool that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The server's own name for it.
    pub tool: String,
    pub kind: DriftKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriftKind {
    New,
    Changed(Vec<Change>),
    Gone,
}

/// A part of a definition that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    Title,
    Description,
    InputSchema,
    OutputSchema,
    Annotations,
}

type Server = BTreeMap<String, Pin>;

/// A SHA-256 for each part of a definition, in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pin([String; 5]);

const PARTS: [(Change, &str); 5] = [
    (Change::Title, "title"),
    (Change::Description, "description"),
    (Change::InputSchema, "inputSchema"),
    (Change::OutputSchema, "outputSchema"),
    (Change::Annotations, "annotations"),
];
/// One server's pins; one that lists ever new names is remembered by its present ones alone.
const MOST_TOOLS: usize = 10_000;

impl Pins {
    /// Reads the file; one that is absent or broken has no pins, so that it costs a warning and never the servers.
    pub fn open(path: impl Into<PathBuf>) -> (Pins, Option<io::Error>) {
        let path = path.into();
        let (servers, error) = match read(&path) {
            Ok(servers) => (servers, None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (BTreeMap::new(), None),
            Err(error) => (BTreeMap::new(), Some(error)),
        };
        (Pins { path, servers, touched: BTreeMap::new() }, error)
    }

    /// Whether the server was seen before. All tools of one that was not are new, which is no news.
    pub fn knows(&self, server: &ServerId) -> bool {
        self.servers.contains_key(server)
    }

    /// The server's own names of the tools it was seen to have.
    pub fn tools(&self, server: &ServerId) -> impl Iterator<Item = &str> {
        self.servers.get(server).into_iter().flat_map(|pins| pins.keys()).map(String::as_str)
    }

    /// What is not as it was, by the names of the tools. Of tools with one name the first counts.
    pub fn compare(&self, server: &ServerId, tools: &[Tool]) -> Vec<Drift> {
        let now = pin_all(tools);
        let nothing = Server::new();
        let before = self.servers.get(server).map_or(&nothing, |pins| &**pins);
        let drift = |tool: &String, kind| Drift { tool: tool.clone(), kind };
        let mut drifts: Vec<Drift> = Vec::new();
        for (tool, pin) in &now {
            match before.get(tool) {
                None => drifts.push(drift(tool, DriftKind::New)),
                Some(earlier) if earlier != pin => {
                    drifts.push(drift(tool, DriftKind::Changed(pin.unlike(earlier))));
                }
                Some(_) => {}
            }
        }
        let gone = before.keys().filter(|tool| !now.contains_key(*tool));
        drifts.extend(gone.map(|tool| drift(tool, DriftKind::Gone)));
        drifts.sort_by(|one, other| one.tool.cmp(&other.tool));
        drifts
    }

    /// Takes over the tools that were never seen before. Others stay what they were, whatever they are now.
    pub fn see(&mut self, server: &ServerId, tools: &[Tool]) {
        let now = pin_all(tools);
        let is_new = !self.servers.contains_key(server);
        let known = self.servers.entry(server.clone()).or_default();
        if add(Arc::make_mut(known), &now) || is_new {
            self.touched.entry(server.clone()).or_insert(Touch::Added);
        }
    }

    /// Makes these the tools to compare with: what changed is approved, what is gone is forgotten.
    pub fn accept(&mut self, server: &ServerId, tools: &[Tool]) {
        let now = pin_all(tools);
        if self.servers.get(server).is_none_or(|pins| **pins != now) {
            self.servers.insert(server.clone(), Arc::new(now));
            self.touched.insert(server.clone(), Touch::Accepted);
        }
    }

    /// Writes what was seen and accepted since the last time, and takes over what other processes wrote. Blocks for a moment;
    /// nothing is written when nothing changed.
    pub fn save(&mut self) -> io::Result<()> {
        let Some(unsaved) = self.unsaved() else { return Ok(()) };
        self.saved(unsaved.write())
    }

    /// What was seen and accepted since the last time, to be written without these pins in hand.
    pub(crate) fn unsaved(&mut self) -> Option<Unsaved> {
        if self.touched.is_empty() {
            return None;
        }
        let touched = std::mem::take(&mut self.touched);
        let pinned = |(server, touch)| Some((self.servers.get(&server)?.clone(), server, touch));
        let servers = touched.into_iter().filter_map(pinned).collect();
        Some(Unsaved { path: self.path.clone(), servers })
    }

    /// Takes over what is on disk now; or what could not be written, for the next time.
    pub(crate) fn saved(&mut self, written: Result<Saved, (Unsaved, io::Error)>) -> io::Result<()> {
        match written {
            Ok(Saved(servers)) => {
                for (server, pins) in servers {
                    if !self.touched.contains_key(&server) {
                        self.servers.insert(server, pins);
                    }
                }
                Ok(())
            }
            Err((Unsaved { servers, .. }, error)) => {
                for (_, server, touch) in servers {
                    self.touched.entry(server).or_insert(touch);
                }
                Err(error)
            }
        }
    }
}

impl Pin {
    fn of(tool: &Tool) -> Pin {
        let text = |text: &Option<String>| text.as_ref().map(|text| Value::from(text.as_str()));
        // A field of a wrong type is carried in `extra`, and a change of it is a change too.
        let extra = |key: &str| tool.extra.get(key).cloned();
        let annotations = tool.annotations.clone().map(Value::Object);
        let parts = [
            text(&tool.title).or_else(|| extra("title")),
            text(&tool.description).or_else(|| extra("description")),
            tool.input_schema.clone(),
            tool.output_schema.clone(),
            annotations.or_else(|| extra("annotations")),
        ];
        Pin(parts.map(|part| part.map(|part| fingerprint(&part)).unwrap_or_default()))
    }

    fn unlike(&self, earlier: &Pin) -> Vec<Change> {
        let each = PARTS.iter().zip(self.0.iter().zip(&earlier.0));
        each.filter(|(_, (now, before))| now != before).map(|((change, _), _)| *change).collect()
    }
}

impl ServerId {
    pub fn of(server: &ServerConfig) -> ServerId {
        let identity = match &server.transport {
            Transport::Stdio { command, args, cwd, .. } => json!([command, args, cwd]),
            // A key in the query may change without the server being another.
            Transport::Http { url, .. } => json!([url.origin().ascii_serialization(), url.path()]),
        };
        let mut identity = fingerprint(&identity);
        // Enough to tell apart what one person calls by one name.
        identity.truncate(16);
        ServerId { name: server.name.to_string(), identity }
    }
}

/// Adds what is not there; true if there was anything.
fn add(known: &mut Server, now: &Server) -> bool {
    let before = known.len();
    for (tool, pin) in now {
        known.entry(tool.clone()).or_insert_with(|| pin.clone());
    }
    let is_more = known.len() > before;
    if known.len() > MOST_TOOLS {
        known.retain(|tool, _| now.contains_key(tool));
    }
    is_more
}

fn pin_all(tools: &[Tool]) -> Server {
    let mut pins = Server::new();
    for tool in tools {
        pins.entry(tool.name.clone()).or_insert_with(|| Pin::of(tool));
    }
    pins
}

/// The SHA-256 of a value's canonical JSON: no white space, keys in the order of their bytes, digits as they were written.
fn fingerprint(value: &Value) -> String {
    let mut hash = Sha256::new();
    canonical(value, &mut |bytes| hash.update(bytes));
    let digits =
        |byte: &u8| [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]));
    hash.finalize().iter().flat_map(digits).collect()
}

fn canonical(value: &Value, write: &mut dyn FnMut(&[u8])) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            write(b"{");
            for (index, (key, value)) in fields.into_iter().enumerate() {
                write(if index == 0 { b"" } else { b"," });
                write(Value::from(key.as_str()).to_string().as_bytes());
                write(b":");
                canonical(value, write);
            }
            write(b"}");
        }
        Value::Array(items) => {
            write(b"[");
            for (index, item) in items.iter().enumerate() {
                write(if index == 0 { b"" } else { b"," });
                canonical(item, write);
            }
            write(b"]");
        }
        scalar => write(scalar.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests;
