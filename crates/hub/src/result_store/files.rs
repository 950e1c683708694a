//! Full results in files, read page by page.

use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::BuildHasher;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};
use toolwire_contract::text::truncate;

use super::StoredResultId;
use crate::private_file;

/// The maximum number of characters of an unknown id that an error message quotes.
const MAX_QUOTED_ID_CHARS: usize = 80;

/// A folder of stored results. All methods block; files are small or read in pieces.
#[derive(Clone, Debug)]
pub(crate) struct ResultStore {
    folder: PathBuf,
    /// The end of the names of the files of this owner; `None` if there is only one owner.
    owner: Option<String>,
}

/// A part of a stored result. Positions are in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResultPage {
    pub(crate) text: String,
    pub(crate) offset: usize,
    /// Where the next page begins; `None` at the end.
    pub(crate) next: Option<usize>,
    pub(crate) total: usize,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadResultError {
    #[error("no stored result has the id `{id}`; it may have been removed")]
    UnknownId { id: String },
    #[error("offset {offset} is past the end: the result has {total} characters")]
    PastTheEnd { offset: usize, total: usize },
    #[error("cannot read the stored result `{id}`")]
    Unreadable { id: String, source: io::Error },
}

impl ResultStore {
    /// The folder is created when the first result is stored.
    pub(crate) fn new(folder: impl Into<PathBuf>) -> ResultStore {
        ResultStore { folder: folder.into(), owner: None }
    }

    /// Returns the store of one of several owners, in which the results of others do not exist.
    pub(crate) fn of(&self, owner: Option<&str>) -> ResultStore {
        let hash = |owner: &str| {
            let digest = Sha256::digest(owner.as_bytes());
            digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
        };
        ResultStore { folder: self.folder.clone(), owner: owner.map(hash) }
    }

    /// Returns an id for a result that may have to be stored. It cannot be guessed.
    pub(crate) fn new_id() -> StoredResultId {
        // The standard library seeds each `RandomState` from the system.
        StoredResultId(format!("r{:016x}", RandomState::new().hash_one(SystemTime::now())))
    }

    /// Stores a text, completely or not at all.
    pub(crate) fn store(&self, id: &StoredResultId, text: &str) -> io::Result<()> {
        private_file::make_folder(&self.folder)?;
        let path = self.path(id);
        let written = private_file::create(&path)?.write_all(text.as_bytes());
        if written.is_err() {
            let _ = fs::remove_file(&path);
        }
        written
    }

    /// Reads up to `length` characters from `offset` on. `id` comes from the model and may be any text.
    pub(crate) fn read(&self, id: &str, offset: usize, length: usize) -> Result<ResultPage, ReadResultError> {
        let unknown = || ReadResultError::UnknownId { id: truncate(id, MAX_QUOTED_ID_CHARS).into_owned() };
        let unreadable = |source| ReadResultError::Unreadable { id: id.to_owned(), source };
        let path = self.path(&StoredResultId::parse(id).ok_or_else(unknown)?);
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(unknown()),
            Err(source) => return Err(unreadable(source)),
        };
        let (text, total) =
            read_range(BufReader::with_capacity(1 << 16, file), offset, length).map_err(unreadable)?;
        if offset > total {
            return Err(ReadResultError::PastTheEnd { offset, total });
        }
        let end = offset + text.chars().count();
        Ok(ResultPage { text, offset, next: (end < total).then_some(end), total })
    }

    /// Removes results of all owners older than `max_age`, then the oldest until the rest has at most
    /// `max_bytes`. Returns the number of removed results.
    pub(crate) fn clean(&self, max_age: Duration, max_bytes: u64, now: SystemTime) -> io::Result<usize> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        // The folder may contain foreign files by mistake.
        let is_stored_result = |path: &Path| {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let id = stem.map(|stem| stem.split_once('-').map_or(stem, |(id, _)| id));
            id.is_some_and(|id| StoredResultId::parse(id).is_some())
                && path.extension().is_some_and(|extension| extension == "txt")
        };
        let mut stored: Vec<(SystemTime, u64, PathBuf)> = entries
            .flatten()
            .filter(|entry| is_stored_result(&entry.path()))
            .filter_map(|entry| {
                let data = entry.metadata().ok()?;
                Some((data.modified().ok()?, data.len(), entry.path()))
            })
            .collect();
        stored.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
        let (mut room, mut removed) = (max_bytes, 0);
        for (time, size, path) in stored {
            let is_old = now.duration_since(time).is_ok_and(|age| age > max_age);
            match room.checked_sub(size).filter(|_| !is_old) {
                Some(left) => room = left,
                None => {
                    room = if is_old { room } else { 0 };
                    // Another process may have removed it already.
                    removed += usize::from(fs::remove_file(path).is_ok());
                }
            }
        }
        Ok(removed)
    }

    fn path(&self, id: &StoredResultId) -> PathBuf {
        match &self.owner {
            Some(owner) => self.folder.join(format!("{id}-{owner}.txt")),
            None => self.folder.join(format!("{id}.txt")),
        }
    }
}

/// Returns up to `length` characters from `offset` on, and the total number of characters.
fn read_range(mut text: impl Read, offset: usize, length: usize) -> io::Result<(String, usize)> {
    let end = offset.saturating_add(length);
    let (mut selected, mut total) = (Vec::new(), 0usize);
    let mut buffer = [0u8; 1 << 16];
    loop {
        let count = match text.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        for byte in &buffer[..count] {
            // Every character has exactly one byte that is not a UTF-8 continuation byte.
            total += usize::from(byte & 0xc0 != 0x80);
            if total > offset && total <= end {
                selected.push(*byte);
            }
        }
    }
    let text = String::from_utf8(selected).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok((text, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn store() -> (tempfile::TempDir, ResultStore) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let store = ResultStore::new(folder.path().join("results"));
        (folder, store)
    }

    fn add(store: &ResultStore, text: &str) -> StoredResultId {
        let id = ResultStore::new_id();
        store.store(&id, text).expect("the folder is writable");
        id
    }

    #[test]
    fn pages_are_counted_in_characters() {
        let (_folder, store) = store();
        let id = add(&store, "aä天😀b");
        let page = |text: &str, offset, next| ResultPage { text: text.to_owned(), offset, next, total: 5 };
        let cases = [
            (0, 2, page("aä", 0, Some(2))),
            (2, 2, page("天😀", 2, Some(4))),
            (4, 2, page("b", 4, None)),
            (0, 5, page("aä天😀b", 0, None)),
            (0, usize::MAX, page("aä天😀b", 0, None)),
            (1, usize::MAX, page("ä天😀b", 1, None)),
            (0, 0, page("", 0, Some(0))),
            (5, 1, page("", 5, None)),
        ];
        for (offset, length, expected) in cases {
            assert_eq!(store.read(&id.0, offset, length).expect("the result is stored"), expected);
        }
        let error = store.read(&id.0, 6, 1).expect_err("the result has five characters");
        assert_eq!(error.to_string(), "offset 6 is past the end: the result has 5 characters");
    }

    #[test]
    fn the_pages_together_are_the_complete_text() {
        let (_folder, store) = store();
        let full: String = "aä天😀\n".chars().cycle().take(200_003).collect();
        let id = add(&store, &full);
        let (mut text, mut next) = (String::new(), Some(0));
        while let Some(offset) = next {
            let page = store.read(&id.0, offset, 30_001).expect("the result is stored");
            text.push_str(&page.text);
            next = page.next;
        }
        assert!(text == full);
    }

    #[test]
    fn only_ids_of_stored_results_are_read() {
        let (folder, store) = store();
        add(&store, "a");
        fs::write(folder.path().join("secret.txt"), "s").expect("the folder is writable");
        for id in ["", "r", "../secret", "r0123456789abcde/", "r0123456789ABCDEF", "r0123456789abcdef", "rä"]
        {
            let error = store.read(id, 0, 1).expect_err("no result has this id");
            assert!(matches!(error, ReadResultError::UnknownId { .. }), "{id}: {error}");
        }
        assert_ne!(ResultStore::new_id(), ResultStore::new_id());
    }

    #[test]
    #[cfg(unix)]
    fn other_users_cannot_read_stored_results() {
        use std::os::unix::fs::PermissionsExt;
        let (folder, store) = store();
        let id = add(&store, "a");
        let mode = |path: &Path| fs::metadata(path).expect("the file exists").permissions().mode() & 0o777;
        assert_eq!((mode(&folder.path().join("results")), mode(&store.path(&id))), (0o700, 0o600));
    }

    #[test]
    fn the_folder_is_cleaned_by_age_and_size() {
        let (folder, store) = store();
        let now = SystemTime::now();
        assert_eq!(store.clean(DAY, 0, now).expect("the folder does not exist yet"), 0);
        let ids: Vec<StoredResultId> = (0..5).map(|_| add(&store, "0123456789")).collect();
        for (age, id) in (0u32..).zip(&ids) {
            let file = File::options().write(true).open(store.path(id)).expect("the result is stored");
            file.set_modified(now - DAY * age).expect("the time can be set");
        }
        let foreign = folder.path().join("results/notes.txt");
        fs::write(&foreign, "n").expect("the folder is writable");
        let stored = || ids.iter().map(|id| store.read(&id.0, 0, 1).is_ok()).collect::<Vec<bool>>();

        let clean = |age: u32, bytes| store.clean(DAY * age, bytes, now).expect("the folder is readable");
        assert_eq!((clean(3, 1000), stored()), (1, vec![true, true, true, true, false]));
        assert_eq!((clean(3, 25), stored()), (2, vec![true, true, false, false, false]));
        assert_eq!((clean(3, 0), stored()), (2, vec![false; 5]));
        assert!(foreign.exists());
    }

    #[test]
    fn a_result_exists_only_for_its_owner() {
        let (_folder, store) = store();
        let (of_one, of_other) = (store.of(Some("key_one")), store.of(Some("key_other")));
        let id = add(&of_one, "a");
        assert_eq!(of_one.read(&id.0, 0, 1).expect("the result is stored").text, "a");
        let unknown =
            of_other.read("r0123456789abcdef", 0, 1).expect_err("no result has this id").to_string();
        for others in [&of_other, &store] {
            let error = others.read(&id.0, 0, 1).expect_err("it belongs to another owner");
            assert_eq!(error.to_string(), unknown.replace("r0123456789abcdef", &id.0));
        }
        assert!(of_one.read(&add(&store, "b").0, 0, 1).is_err());
        assert_eq!(store.clean(DAY, 0, SystemTime::now()).expect("the folder is readable"), 2);
    }

    #[test]
    fn an_id_cannot_be_reused() {
        let (_folder, store) = store();
        let id = add(&store, "first");
        assert!(store.store(&id, "second").is_err());
        assert_eq!(store.read(&id.0, 0, 10).expect("the result is stored").text, "first");
    }
}
