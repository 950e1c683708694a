//! The file of the pins: read whole, and written with what other processes added meanwhile.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{PARTS, Pin, Server, ServerId, Touch, add};
use crate::private_file;

const VERSION: u64 = 2;
/// Larger is no file of ours.
const LARGEST_FILE: u64 = 64 << 20;
/// How long another process may take to write the file; then both write, and the later one counts.
const PATIENCE: Duration = Duration::from_secs(2);

/// Pins that are not on disk yet.
pub(crate) struct Unsaved {
    pub(super) path: PathBuf,
    pub(super) servers: Vec<(Arc<Server>, ServerId, Touch)>,
}

/// All pins that are on disk.
pub(crate) struct Saved(pub(super) BTreeMap<ServerId, Arc<Server>>);

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
                Touch::Added => match servers.entry(server.clone()) {
                    Entry::Vacant(place) => {
                        place.insert(pins.clone());
                    }
                    Entry::Occupied(mut known) => {
                        add(Arc::make_mut(known.get_mut()), pins);
                    }
                },
            }
        }
        private_file::replace(&self.path, &written(&servers))?;
        Ok(Saved(servers))
    }
}

pub(super) fn read(path: &Path) -> io::Result<BTreeMap<ServerId, Arc<Server>>> {
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
            servers.insert(server, Arc::new(pins.ok_or_else(broken)?));
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

fn written(servers: &BTreeMap<ServerId, Arc<Server>>) -> Vec<u8> {
    #[derive(Serialize)]
    struct File<'a> {
        version: u64,
        servers: BTreeMap<&'a str, BTreeMap<&'a str, &'a Server>>,
    }
    let mut file = File { version: VERSION, servers: BTreeMap::new() };
    for (id, tools) in servers {
        file.servers.entry(&id.name).or_default().insert(&id.identity, tools);
    }
    let mut text = serde_json::to_vec_pretty(&file).expect("texts and numbers are always JSON");
    text.push(b'\n');
    text
}

impl Serialize for Pin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let there = PARTS.iter().zip(&self.0).filter(|(_, hash)| !hash.is_empty());
        serializer.collect_map(there.map(|((_, key), hash)| (key, hash)))
    }
}
