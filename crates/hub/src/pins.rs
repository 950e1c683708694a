//! What each tool was when it was first seen or last accepted, so that one that was swapped is noticed.
//!
//! A server can change a tool's description after a person approved it. A hash per tool is kept on disk; [`Pins::compare`]
//! says what is new, changed or gone. [`Pins::see`] takes over new tools alone: a change is told of until [`Pins::accept`] makes
//! it the state to compare with, and a tool that is gone is remembered for the day it comes back as another.

use std::collections::BTreeMap;
use std::fs::{self, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use toolwire_contract::Tool;

use crate::config::{ServerConfig, Transport};
use crate::private_file;

/// The known definitions of all servers, with the file in which they are kept.
#[derive(Debug)]
pub struct Pins {
    path: PathBuf,
    servers: BTreeMap<ServerId, Server>,
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
const VERSION: u64 = 2;
/// One server's pins; one that lists ever new names is remembered by its present ones alone.
const MOST_TOOLS: usize = 10_000;
/// Larger is no file of ours.
const LARGEST_FILE: u64 = 64 << 20;
/// How long another process may take to write the file; then both write, and the later one counts.
const PATIENCE: Duration = Duration::from_secs(2);

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
        self.servers.get(server).into_iter().flatten().map(|(tool, _)| tool.as_str())
    }

    /// What is not as it was, by the names of the tools. Of tools with one name the first counts.
    pub fn compare(&self, server: &ServerId, tools: &[Tool]) -> Vec<Drift> {
        let now = pin_all(tools);
        let nothing = Server::new();
        let before = self.servers.get(server).unwrap_or(&nothing);
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
        if add(known, &now) || is_new {
            self.touched.entry(server.clone()).or_insert(Touch::Added);
        }
    }

    /// Makes these the tools to compare with: what changed is approved, what is gone is forgotten.
    pub fn accept(&mut self, server: &ServerId, tools: &[Tool]) {
        let now = pin_all(tools);
        if self.servers.get(server) != Some(&now) {
            self.servers.insert(server.clone(), now);
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

/// Pins that are not on disk yet.
pub(crate) struct Unsaved {
    path: PathBuf,
    servers: Vec<(Server, ServerId, Touch)>,
}

/// All pins that are on disk.
pub(crate) struct Saved(BTreeMap<ServerId, Server>);

impl Unsaved {
    /// Blocks until they are on disk.
    pub(crate) fn write(self) -> Result<Saved, (Unsaved, io::Error)> {
        match self.merge() {
            Ok(saved) => Ok(saved),
            Err(error) => Err((self, error)),
        }
    }

    fn merge(&self) -> io::Result<Saved> {
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            private_file::make_folder(folder)?;
        }
        let lock = private_file::open_for_lock(&self.path.with_extension("lock"))?;
        let deadline = Instant::now() + PATIENCE;
        // Without a lock two processes may each undo what the other wrote; that is noticed as a change once more, no worse.
        while let Err(TryLockError::WouldBlock) = lock.try_lock()
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut servers = read(&self.path).unwrap_or_default();
        for (pins, server, touch) in &self.servers {
            match touch {
                Touch::Accepted => {
                    servers.insert(server.clone(), pins.clone());
                }
                // What a person accepted in another process stands.
                Touch::Added => {
                    add(servers.entry(server.clone()).or_default(), pins);
                }
            }
        }
        private_file::replace(&self.path, &written(&servers))?;
        Ok(Saved(servers))
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

fn read(path: &Path) -> io::Result<BTreeMap<ServerId, Server>> {
    if fs::metadata(path)?.len() > LARGEST_FILE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "too large to be a file of pins"));
    }
    let file: Value = serde_json::from_slice(&fs::read(path)?)?;
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "not a file of pins");
    if file["version"] != json!(VERSION) {
        return Err(broken());
    }
    let mut servers = BTreeMap::new();
    for (name, identities) in file["servers"].as_object().ok_or_else(broken)? {
        for (identity, tools) in identities.as_object().ok_or_else(broken)? {
            let tools = tools.as_object().ok_or_else(broken)?.iter();
            let pins: Option<Server> =
                tools.map(|(tool, parts)| Some((tool.clone(), read_pin(parts)?))).collect();
            let server = ServerId { name: name.clone(), identity: identity.clone() };
            servers.insert(server, pins.ok_or_else(broken)?);
        }
    }
    Ok(servers)
}

fn read_pin(parts: &Value) -> Option<Pin> {
    let parts = parts.as_object()?;
    let part = |key: &str| match parts.get(key) {
        None => Some(String::new()),
        Some(hash) => hash.as_str().map(str::to_owned),
    };
    let [title, description, input, output, annotations] = PARTS.map(|(_, key)| part(key));
    Some(Pin([title?, description?, input?, output?, annotations?]))
}

fn written(servers: &BTreeMap<ServerId, Server>) -> Vec<u8> {
    let pin = |Pin(parts): &Pin| {
        let there = PARTS.iter().zip(parts).filter(|(_, hash)| !hash.is_empty());
        there.map(|((_, key), hash)| ((*key).to_owned(), Value::from(hash.as_str()))).collect::<Map<_, _>>()
    };
    let server = |tools: &Server| -> Map<String, Value> {
        tools.iter().map(|(tool, parts)| (tool.clone(), Value::Object(pin(parts)))).collect()
    };
    let mut all = json!({});
    for (id, tools) in servers {
        all[&id.name][&id.identity] = Value::Object(server(tools));
    }
    let mut text = format!("{:#}", json!({"version": VERSION, "servers": all}));
    text.push('\n');
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(text: &str) -> Tool {
        serde_json::from_str(text).expect("the case is a tool")
    }

    fn id(name: &str) -> ServerId {
        ServerId { name: name.to_owned(), identity: "0".repeat(16) }
    }

    fn pins(tools: &[Tool]) -> (tempfile::TempDir, Pins) {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (mut pins, error) = Pins::open(folder.path().join("store/pins.json"));
        assert!(error.is_none());
        pins.see(&id("s"), tools);
        (folder, pins)
    }

    #[track_caller]
    fn check(before: &str, now: &str, expected: &[Change]) {
        let (_folder, pins) = pins(&[tool(before)]);
        let drifts = pins.compare(&id("s"), &[tool(now)]);
        let changed = Drift { tool: "f".to_owned(), kind: DriftKind::Changed(expected.to_vec()) };
        let expected = if expected.is_empty() { Vec::new() } else { vec![changed] };
        assert_eq!(drifts, expected, "{before} → {now}");
    }

    #[test]
    fn each_part_of_a_definition_counts() {
        use Change::{Annotations, Description, InputSchema, OutputSchema, Title};
        let bare = r#"{"name":"f"}"#;
        check(bare, bare, &[]);
        check(bare, r#"{"name":"f","description":"d"}"#, &[Description]);
        check(r#"{"name":"f","description":"a"}"#, r#"{"name":"f","description":"b"}"#, &[Description]);
        check(bare, r#"{"name":"f","title":"T","inputSchema":{}}"#, &[Title, InputSchema]);
        check(r#"{"name":"f","outputSchema":{}}"#, bare, &[OutputSchema]);
        check(
            r#"{"name":"f","annotations":{"readOnlyHint":true}}"#,
            r#"{"name":"f","annotations":{"readOnlyHint":false}}"#,
            &[Annotations],
        );
        check(r#"{"name":"f","description":5}"#, r#"{"name":"f","description":6}"#, &[Description]);
        check(bare, r#"{"name":"f","inputSchema":null}"#, &[InputSchema]);
        check(
            r#"{"name":"f","inputSchema":{"enum":["a","b"]}}"#,
            r#"{"name":"f","inputSchema":{"enum":["b","a"]}}"#,
            &[InputSchema],
        );
        // Icons and the like say nothing to a model.
        check(bare, r#"{"name":"f","icons":[],"_meta":{"a":1}}"#, &[]);
    }

    #[test]
    fn the_order_of_keys_does_not_count() {
        check(
            r#"{"name":"f","inputSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{}}}}"#,
            r#"{"inputSchema":{"properties":{"b":{},"a":{"type":"string"}},"type":"object"},"name":"f"}"#,
            &[],
        );
    }

    #[test]
    fn the_hash_is_that_of_the_canonical_json() {
        let value: Value = serde_json::from_str(r#"{ "b": [1.0, "ä\n"], "a": {} }"#).expect("it is JSON");
        let mut text = Vec::new();
        canonical(&value, &mut |bytes| text.extend_from_slice(bytes));
        assert_eq!(String::from_utf8(text).expect("it is text"), r#"{"a":{},"b":[1.0,"ä\n"]}"#);
        let empty = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(fingerprint(&json!({})), empty);
    }

    #[test]
    fn tools_come_and_go() {
        let (_folder, pins) = pins(&[tool(r#"{"name":"a"}"#), tool(r#"{"name":"c"}"#)]);
        assert!(pins.knows(&id("s")) && !pins.knows(&id("t")));
        assert_eq!(pins.tools(&id("s")).collect::<Vec<_>>(), ["a", "c"]);
        let drift = |tool: &str, kind| Drift { tool: tool.to_owned(), kind };
        let drifts = pins.compare(&id("s"), &[tool(r#"{"name":"b"}"#), tool(r#"{"name":"c"}"#)]);
        assert_eq!(drifts, [drift("a", DriftKind::Gone), drift("b", DriftKind::New)]);
        assert_eq!(pins.compare(&id("t"), &[tool(r#"{"name":"b"}"#)]), [drift("b", DriftKind::New)]);
    }

    #[test]
    fn a_change_is_told_of_until_it_is_accepted() {
        let before = tool(r#"{"name":"f","description":"a"}"#);
        let after = [tool(r#"{"name":"f","description":"b"}"#)];
        let changed = [Drift { tool: "f".to_owned(), kind: DriftKind::Changed(vec![Change::Description]) }];
        let (folder, mut pins) = pins(&[before]);
        let path = folder.path().join("store/pins.json");
        // Gone for a while, and back as another.
        pins.see(&id("s"), &[]);
        pins.save().expect("the folder can be written");
        for _ in 0..2 {
            let (mut pins, _) = Pins::open(&path);
            assert_eq!(pins.compare(&id("s"), &after), changed);
            pins.see(&id("s"), &after);
            pins.save().expect("the folder can be written");
        }
        // A process that has the old state in its hands does not undo what a person accepted.
        let (mut late, _) = Pins::open(&path);
        let (mut accepting, _) = Pins::open(&path);
        accepting.accept(&id("s"), &after);
        accepting.save().expect("the folder can be written");
        late.see(&id("s"), &[tool(r#"{"name":"new"}"#)]);
        late.save().expect("the folder can be written");
        let (pins, _) = Pins::open(&path);
        let new = Drift { tool: "new".to_owned(), kind: DriftKind::Gone };
        assert_eq!(pins.compare(&id("s"), &after), [new]);
    }

    #[test]
    fn another_program_under_the_same_name_is_another_server() {
        let server = |json: &str| {
            let text = format!(r#"{{"mcpServers": {{"s": {json}}}}}"#);
            let parsed = crate::config::Config::parse(&text, Path::new("mcp.json"), &|_| None);
            ServerId::of(&parsed.expect("it is valid").0.servers[0])
        };
        let one = server(r#"{"command": "a", "args": ["1"]}"#);
        assert_eq!(one, server(r#"{"command": "a", "args": ["1"], "env": {"KEY": "k"}, "timeout": 5}"#));
        assert_ne!(one, server(r#"{"command": "a", "args": ["2"]}"#));
        assert_ne!(one, server(r#"{"command": "b", "args": ["1"]}"#));
        let web = server(r#"{"url": "https://example.com/mcp?key=1"}"#);
        assert_eq!(web, server(r#"{"url": "https://example.com/mcp?key=2"}"#));
        assert_ne!(web, server(r#"{"url": "https://example.com/other"}"#));
        assert_eq!(one.name, web.name);
    }

    #[test]
    fn a_server_that_lists_ever_new_tools_is_not_remembered_forever() {
        let (_folder, mut pins) = pins(&[]);
        for round in 0..3 {
            let tools: Vec<Tool> =
                (0..4000).map(|number| tool(&format!(r#"{{"name":"t{round}-{number}"}}"#))).collect();
            pins.see(&id("s"), &tools);
        }
        assert_eq!(pins.tools(&id("s")).count(), 4000);
    }

    #[test]
    fn pins_outlive_the_process_and_are_private() {
        let tools = [tool(r#"{"name":"a","description":"d","inputSchema":{"type":"object"}}"#)];
        let (folder, mut pins) = pins(&tools);
        pins.save().expect("the folder can be written");
        let path = folder.path().join("store/pins.json");
        let (again, error) = Pins::open(&path);
        assert!(error.is_none());
        assert_eq!(again.compare(&id("s"), &tools), []);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(&folder.path().join("store"))), (0o600, 0o700));
        }
        let names: Vec<_> = fs::read_dir(folder.path().join("store")).expect("it is a folder").collect();
        assert_eq!(names.len(), 2, "the file and its lock, no remains: {names:?}");
    }

    #[test]
    fn two_processes_do_not_undo_each_other() {
        let (folder, mut one) = pins(&[tool(r#"{"name":"a"}"#)]);
        let path = folder.path().join("store/pins.json");
        let (mut other, _) = Pins::open(&path);
        other.see(&id("t"), &[tool(r#"{"name":"b"}"#)]);
        one.save().expect("the folder can be written");
        other.save().expect("the folder can be written");
        let (both, _) = Pins::open(&path);
        assert!(both.knows(&id("s")) && both.knows(&id("t")) && other.knows(&id("s")));
    }

    #[test]
    fn a_broken_file_is_told_of_and_replaced() {
        for text in [
            "",
            "{",
            "[]",
            r#"{"version":1,"servers":{}}"#,
            r#"{"version":2,"servers":{"s":{"a":7}}}"#,
            r#"{"version":2,"servers":{"s":{"0000000000000000":{"a":{"title":1}}}}}"#,
        ] {
            let folder = tempfile::tempdir().expect("a folder can be made");
            let path = folder.path().join("pins.json");
            fs::write(&path, text).expect("the file can be written");
            let (mut pins, error) = Pins::open(&path);
            assert!(error.is_some() && !pins.knows(&id("s")), "{text}");
            pins.see(&id("s"), &[tool(r#"{"name":"a"}"#)]);
            pins.save().expect("the file can be replaced");
            assert!(Pins::open(&path).0.knows(&id("s")), "{text}");
        }
    }
}
