//! Reads and writes the file of the pins, and merges changes of other processes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::tool_pin::{PARTS, ToolPin, ToolPins, add_missing};
use super::{ServerId, Update};
use crate::private_file;

const VERSION: u64 = 2;
const MAX_FILE_BYTES: u64 = 64 << 20;
/// The maximum length of the texts of all definitions. The file must not become too large to be read.
const MAX_TEXT_BYTES: usize = 16 << 20;
/// The key of a pin with the text of the definition, as a JSON object in a string. Older versions ignore it.
const TEXT_KEY: &str = "text";
/// The key of a pin whose tool is blocked while its definition differs. Older versions ignore it.
const KEPT_OFF_KEY: &str = "keptOff";
/// The maximum wait for another process to write the file. After that both write, and the last one wins.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Pins that are not on disk yet.
pub(crate) struct UnsavedPins {
    pub(super) path: PathBuf,
    pub(super) servers: Vec<(Arc<ToolPins>, ServerId, Update)>,
}

/// All pins that are on disk.
pub(crate) struct SavedPins(pub(super) BTreeMap<ServerId, Arc<ToolPins>>);

impl UnsavedPins {
    /// Writes the pins. Blocks.
    pub(crate) fn write(self) -> Result<SavedPins, (UnsavedPins, io::Error)> {
        match self.merge() {
            Ok(saved) => Ok(saved),
            Err(error) => Err((self, error)),
        }
    }

    fn merge(&self) -> io::Result<SavedPins> {
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            private_file::make_folder(folder)?;
        }
        let lock = private_file::open_for_lock(&self.path.with_extension("lock"))?;
        let deadline = Instant::now() + LOCK_TIMEOUT;
        // Without the lock, one process may undo a change of the other, which is then reported again.
        while let Err(TryLockError::WouldBlock) = lock.try_lock()
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        let is_accepted = self.servers.iter().any(|(_, _, update)| *update == Update::Replace);
        let mut servers = match read(&self.path) {
            // Accepting the current tools replaces the unreadable pins.
            Err(_) if is_accepted => BTreeMap::new(),
            servers => servers?,
        };
        for (pins, server, update) in &self.servers {
            match update {
                Update::Replace => {
                    servers.insert(server.clone(), pins.clone());
                }
                // Pins that the user accepted in another process are not changed.
                Update::Add => match servers.entry(server.clone()) {
                    Entry::Vacant(entry) => {
                        entry.insert(pins.clone());
                    }
                    Entry::Occupied(mut known) => {
                        add_missing(Arc::make_mut(known.get_mut()), pins);
                    }
                },
            }
        }
        private_file::replace(&self.path, &to_json(&servers))?;
        Ok(SavedPins(servers))
    }
}

/// Reads all pins; a missing file has none.
pub(super) fn read(path: &Path) -> io::Result<BTreeMap<ServerId, Arc<ToolPins>>> {
    let length = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        metadata => metadata?.len(),
    };
    if length > MAX_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is too large"));
    }
    let file: Value = serde_json::from_slice(&fs::read(path)?)?;
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "the file has an unknown format");
    if file["version"] != json!(VERSION) {
        return Err(invalid());
    }
    let mut servers = BTreeMap::new();
    for (name, identities) in file["servers"].as_object().ok_or_else(invalid)? {
        for (identity, tools) in identities.as_object().ok_or_else(invalid)? {
            let tools = tools.as_object().ok_or_else(invalid)?.iter();
            let pins: Option<ToolPins> =
                tools.map(|(tool, parts)| Some((tool.clone(), read_pin(parts)?))).collect();
            let server = ServerId { name: name.clone(), identity: identity.clone() };
            servers.insert(server, Arc::new(pins.ok_or_else(invalid)?));
        }
    }
    Ok(servers)
}

fn read_pin(parts: &Value) -> Option<ToolPin> {
    let parts = parts.as_object()?;
    let part = |key: &str| match parts.get(key) {
        None => Some(String::new()),
        Some(hash) => hash.as_str().map(str::to_owned),
    };
    let [title, description, input, output, annotations] = PARTS.map(|(_, key)| part(key));
    // A text is not necessary to detect a change, so an invalid one is ignored.
    let text = parts.get(TEXT_KEY).and_then(Value::as_str).map(Arc::from);
    let is_blocked_by_person = parts.get(KEPT_OFF_KEY) == Some(&Value::Bool(true));
    Some(ToolPin {
        hashes: [title?, description?, input?, output?, annotations?],
        text,
        is_blocked_by_person,
    })
}

fn to_json(servers: &BTreeMap<ServerId, Arc<ToolPins>>) -> Vec<u8> {
    #[derive(Serialize)]
    struct File<'a> {
        version: u64,
        servers: BTreeMap<&'a str, BTreeMap<&'a str, BTreeMap<&'a str, PinInFile<'a>>>>,
    }
    let mut file = File { version: VERSION, servers: BTreeMap::new() };
    let mut remaining = MAX_TEXT_BYTES;
    for (id, tools) in servers {
        let pins = tools.iter().map(|(tool, pin)| {
            let text = pin.text.as_deref().filter(|text| text.len() <= remaining);
            remaining -= text.map_or(0, str::len);
            (tool.as_str(), PinInFile { pin, text })
        });
        file.servers.entry(&id.name).or_default().insert(&id.identity, pins.collect());
    }
    let mut text = serde_json::to_vec_pretty(&file).expect("strings and numbers are always valid JSON");
    text.push(b'\n');
    text
}

/// A pin as it is written, perhaps without its text.
struct PinInFile<'a> {
    pin: &'a ToolPin,
    text: Option<&'a str>,
}

impl Serialize for PinInFile<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let existing = PARTS.iter().zip(&self.pin.hashes).filter(|(_, hash)| !hash.is_empty());
        let mut map = serializer.serialize_map(None)?;
        for ((_, key), hash) in existing {
            map.serialize_entry(key, hash)?;
        }
        if let Some(text) = self.text {
            map.serialize_entry(TEXT_KEY, text)?;
        }
        if self.pin.is_blocked_by_person {
            map.serialize_entry(KEPT_OFF_KEY, &true)?;
        }
        map.end()
    }
}
