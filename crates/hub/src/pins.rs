//! What each tool was when it was last seen, so that one that was swapped is noticed.
//!
//! A server can change a tool's description after a person approved it. A hash per tool is kept on disk; [`Pins::compare`]
//! says what is new, changed or gone, and [`Pins::accept`] makes that the state to compare with next time.

use std::collections::BTreeMap;
use std::fs::{self, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use toolwire_contract::Tool;

use crate::private_file;

/// The known definitions of all servers, with the file in which they are kept.
#[derive(Debug)]
pub struct Pins {
    path: PathBuf,
    servers: BTreeMap<String, Server>,
    /// Servers whose pins are to be written.
    touched: Vec<String>,
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
const VERSION: u64 = 1;
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
        (Pins { path, servers, touched: Vec::new() }, error)
    }

    /// Whether the server was seen before. All tools of one that was not are new, which is no news.
    pub fn knows(&self, server: &str) -> bool {
        self.servers.contains_key(server)
    }

    /// The server's own names of the tools it was last seen to have.
    pub fn tools(&self, server: &str) -> impl Iterator<Item = &str> {
        self.servers.get(server).into_iter().flatten().map(|(tool, _)| tool.as_str())
    }

    /// What is not as it was, by the names of the tools. Of tools with one name the first counts.
    pub fn compare(&self, server: &str, tools: &[Tool]) -> Vec<Drift> {
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

    /// Makes these the tools to compare with.
    pub fn accept(&mut self, server: &str, tools: &[Tool]) {
        let now = pin_all(tools);
        if self.servers.get(server) != Some(&now) {
            self.servers.insert(server.to_owned(), now);
            if !self.touched.iter().any(|touched| touched == server) {
                self.touched.push(server.to_owned());
            }
        }
    }

    /// Writes what was accepted since the last time, and takes over what other processes wrote about other servers. Blocks
    /// for a moment; nothing is written when nothing changed.
    pub fn save(&mut self) -> io::Result<()> {
        if self.touched.is_empty() {
            return Ok(());
        }
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
        for server in &self.touched {
            servers.extend(self.servers.get(server).map(|pins| (server.clone(), pins.clone())));
        }
        private_file::replace(&self.path, &written(&servers))?;
        self.servers = servers;
        self.touched.clear();
        Ok(())
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
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
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

fn read(path: &Path) -> io::Result<BTreeMap<String, Server>> {
    if fs::metadata(path)?.len() > LARGEST_FILE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "too large to be a file of pins"));
    }
    let file: Value = serde_json::from_slice(&fs::read(path)?)?;
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "not a file of pins");
    if file["version"] != json!(VERSION) {
        return Err(broken());
    }
    let servers = file["servers"].as_object().ok_or_else(broken)?.iter().map(|(server, tools)| {
        let tools = tools.as_object()?.iter();
        let pins: Option<Server> =
            tools.map(|(tool, parts)| Some((tool.clone(), read_pin(parts)?))).collect();
        Some((server.clone(), pins?))
    });
    servers.collect::<Option<_>>().ok_or_else(broken)
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

fn written(servers: &BTreeMap<String, Server>) -> Vec<u8> {
    let pin = |Pin(parts): &Pin| {
        let there = PARTS.iter().zip(parts).filter(|(_, hash)| !hash.is_empty());
        there.map(|((_, key), hash)| ((*key).to_owned(), Value::from(hash.as_str()))).collect::<Map<_, _>>()
    };
    let server = |tools: &Server| -> Map<String, Value> {
        tools.iter().map(|(tool, parts)| (tool.clone(), Value::Object(pin(parts)))).collect()
    };
    let servers: Map<String, Value> =
        servers.iter().map(|(name, tools)| (name.clone(), Value::Object(server(tools)))).collect();
    let mut text = format!("{:#}", json!({"version": VERSION, "servers": servers}));
    text.push('\n');
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(text: &str) -> Tool {
        serde_json::from_str(text).expect("the case is a tool")
    }

    fn pins(tools: &[Tool]) -> (tempfile::TempDir, Pins) {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (mut pins, error) = Pins::open(folder.path().join("store/pins.json"));
        assert!(error.is_none());
        pins.accept("s", tools);
        (folder, pins)
    }

    #[track_caller]
    fn check(before: &str, now: &str, expected: &[Change]) {
        let (_folder, pins) = pins(&[tool(before)]);
        let drifts = pins.compare("s", &[tool(now)]);
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
        assert!(pins.knows("s") && !pins.knows("t"));
        assert_eq!(pins.tools("s").collect::<Vec<_>>(), ["a", "c"]);
        let drift = |tool: &str, kind| Drift { tool: tool.to_owned(), kind };
        let drifts = pins.compare("s", &[tool(r#"{"name":"b"}"#), tool(r#"{"name":"c"}"#)]);
        assert_eq!(drifts, [drift("a", DriftKind::Gone), drift("b", DriftKind::New)]);
        assert_eq!(pins.compare("t", &[tool(r#"{"name":"b"}"#)]), [drift("b", DriftKind::New)]);
    }

    #[test]
    fn pins_outlive_the_process_and_are_private() {
        let tools = [tool(r#"{"name":"a","description":"d","inputSchema":{"type":"object"}}"#)];
        let (folder, mut pins) = pins(&tools);
        pins.save().expect("the folder can be written");
        let path = folder.path().join("store/pins.json");
        let (again, error) = Pins::open(&path);
        assert!(error.is_none());
        assert_eq!(again.compare("s", &tools), []);
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
        other.accept("t", &[tool(r#"{"name":"b"}"#)]);
        one.save().expect("the folder can be written");
        other.save().expect("the folder can be written");
        let (both, _) = Pins::open(&path);
        assert!(both.knows("s") && both.knows("t") && other.knows("s"));
    }

    #[test]
    fn a_broken_file_is_told_of_and_replaced() {
        for text in [
            "",
            "{",
            "[]",
            r#"{"version":2,"servers":{}}"#,
            r#"{"version":1,"servers":{"s":{"a":{"title":1}}}}"#,
        ] {
            let folder = tempfile::tempdir().expect("a folder can be made");
            let path = folder.path().join("pins.json");
            fs::write(&path, text).expect("the file can be written");
            let (mut pins, error) = Pins::open(&path);
            assert!(error.is_some() && !pins.knows("s"), "{text}");
            pins.accept("s", &[tool(r#"{"name":"a"}"#)]);
            pins.save().expect("the file can be replaced");
            assert!(Pins::open(&path).0.knows("s"), "{text}");
        }
    }
}
