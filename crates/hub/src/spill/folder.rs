//! Whole results in files, read page by page.

use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::BuildHasher;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::SpillId;
use crate::private_file;

/// A folder of kept results. All of it blocks; files are small or read in pieces.
#[derive(Clone, Debug)]
pub struct Spill {
    folder: PathBuf,
}

/// A part of a kept result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub text: String,
    /// In characters, as all numbers here.
    pub offset: usize,
    /// Where the next page begins; `None` at the end.
    pub next: Option<usize>,
    pub total: usize,
}

/// A page cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("no result is kept under the id `{id}`: it was removed, or never was")]
    Unknown { id: String },
    #[error("offset {offset} is past the end: the result has {total} characters")]
    PastTheEnd { offset: usize, total: usize },
    #[error("cannot read what was kept under `{id}`")]
    Unreadable { id: String, source: io::Error },
}

impl Spill {
    /// The folder is made when the first result is kept.
    pub fn new(folder: impl Into<PathBuf>) -> Spill {
        Spill { folder: folder.into() }
    }

    /// An id for a result that may have to be kept; nobody guesses it.
    pub fn fresh_id() -> SpillId {
        // The standard library seeds each `RandomState` from the system.
        SpillId(format!("r{:016x}", RandomState::new().hash_one(SystemTime::now())))
    }

    /// Keeps a text. Nothing is kept if it cannot be written whole.
    pub fn keep(&self, id: &SpillId, text: &str) -> io::Result<()> {
        private_file::make_folder(&self.folder)?;
        let path = self.path(id);
        let written = private_file::create(&path)?.write_all(text.as_bytes());
        if written.is_err() {
            let _ = fs::remove_file(&path);
        }
        written
    }

    /// Reads up to `length` characters from `offset` on. `id` is whatever a model sent.
    pub fn read(&self, id: &str, offset: usize, length: usize) -> Result<Page, ReadError> {
        let unknown = || ReadError::Unknown { id: id.chars().take(80).collect() };
        let path = self.path(&SpillId::parse(id).ok_or_else(unknown)?);
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(unknown()),
            Err(source) => return Err(ReadError::Unreadable { id: id.to_owned(), source }),
        };
        let (text, total) = cut_out(BufReader::with_capacity(1 << 16, file), offset, length)
            .map_err(|source| ReadError::Unreadable { id: id.to_owned(), source })?;
        if offset > total {
            return Err(ReadError::PastTheEnd { offset, total });
        }
        let end = offset + text.chars().count();
        Ok(Page { text, offset, next: (end < total).then_some(end), total })
    }

    /// Removes results older than `age`, then the oldest until the rest is within `bytes`. Gives the number removed.
    pub fn clean(&self, age: Duration, bytes: u64, now: SystemTime) -> io::Result<usize> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        // Only files of our own: the folder may hold others by mistake.
        let is_ours = |path: &Path| {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            stem.is_some_and(|stem| SpillId::parse(stem).is_some())
                && path.extension().is_some_and(|extension| extension == "txt")
        };
        let mut kept: Vec<(SystemTime, u64, PathBuf)> = entries
            .flatten()
            .filter(|entry| is_ours(&entry.path()))
            .filter_map(|entry| {
                let data = entry.metadata().ok()?;
                Some((data.modified().ok()?, data.len(), entry.path()))
            })
            .collect();
        kept.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
        let (mut room, mut removed) = (bytes, 0);
        for (time, size, path) in kept {
            let is_old = now.duration_since(time).is_ok_and(|since| since > age);
            match room.checked_sub(size).filter(|_| !is_old) {
                Some(left) => room = left,
                None => {
                    room = if is_old { room } else { 0 };
                    // Another process that cleans may have been faster.
                    removed += usize::from(fs::remove_file(path).is_ok());
                }
            }
        }
        Ok(removed)
    }

    fn path(&self, id: &SpillId) -> PathBuf {
        self.folder.join(format!("{id}.txt"))
    }
}

/// The characters from `offset` on, up to `length`, and the number of all characters.
fn cut_out(mut text: impl Read, offset: usize, length: usize) -> io::Result<(String, usize)> {
    let end = offset.saturating_add(length);
    let (mut cut, mut total) = (Vec::new(), 0usize);
    let mut piece = [0u8; 1 << 16];
    loop {
        let count = match text.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        for byte in &piece[..count] {
            // Every character has one byte that does not continue another.
            total += usize::from(byte & 0xc0 != 0x80);
            if total > offset && total <= end {
                cut.push(*byte);
            }
        }
    }
    let text = String::from_utf8(cut).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok((text, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn spill() -> (tempfile::TempDir, Spill) {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let spill = Spill::new(folder.path().join("results"));
        (folder, spill)
    }

    fn keep(spill: &Spill, text: &str) -> SpillId {
        let id = Spill::fresh_id();
        spill.keep(&id, text).expect("the folder can be written");
        id
    }

    #[test]
    fn pages_are_counted_in_characters() {
        let (_folder, spill) = spill();
        let id = keep(&spill, "aä天😀b");
        let page = |text: &str, offset, next| Page { text: text.to_owned(), offset, next, total: 5 };
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
            assert_eq!(spill.read(id.as_str(), offset, length).expect("it is kept"), expected);
        }
        let error = spill.read(id.as_str(), 6, 1).expect_err("there are five");
        assert_eq!(error.to_string(), "offset 6 is past the end: the result has 5 characters");
    }

    #[test]
    fn paging_gives_the_whole_text() {
        let (_folder, spill) = spill();
        let whole: String = "aä天😀\n".chars().cycle().take(200_003).collect();
        let id = keep(&spill, &whole);
        let (mut text, mut next) = (String::new(), Some(0));
        while let Some(offset) = next {
            let page = spill.read(id.as_str(), offset, 30_001).expect("it is kept");
            text.push_str(&page.text);
            next = page.next;
        }
        assert!(text == whole);
    }

    #[test]
    fn only_ids_lead_to_files() {
        let (folder, spill) = spill();
        keep(&spill, "a");
        fs::write(folder.path().join("secret.txt"), "s").expect("the folder can be written");
        for id in ["", "r", "../secret", "r0123456789abcde/", "r0123456789ABCDEF", "r0123456789abcdef", "rä"]
        {
            let error = spill.read(id, 0, 1).expect_err("nothing is kept there");
            assert!(matches!(error, ReadError::Unknown { .. }), "{id}: {error}");
        }
        assert_ne!(Spill::fresh_id(), Spill::fresh_id());
    }

    #[test]
    #[cfg(unix)]
    fn nobody_else_can_read_what_is_kept() {
        use std::os::unix::fs::PermissionsExt;
        let (folder, spill) = spill();
        let id = keep(&spill, "a");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&folder.path().join("results")), mode(&spill.path(&id))), (0o700, 0o600));
    }

    #[test]
    fn the_folder_is_cleaned_by_age_and_size() {
        let (folder, spill) = spill();
        let now = SystemTime::now();
        assert_eq!(spill.clean(DAY, 0, now).expect("there is no folder yet"), 0);
        let ids: Vec<SpillId> = (0..5).map(|_| keep(&spill, "0123456789")).collect();
        for (age, id) in (0u32..).zip(&ids) {
            let file = File::options().write(true).open(spill.path(id)).expect("it is kept");
            file.set_modified(now - DAY * age).expect("the time can be set");
        }
        let foreign = folder.path().join("results/notes.txt");
        fs::write(&foreign, "n").expect("the folder can be written");
        let kept = || ids.iter().map(|id| spill.read(id.as_str(), 0, 1).is_ok()).collect::<Vec<bool>>();

        let clean = |age: u32, bytes| spill.clean(DAY * age, bytes, now).expect("the folder can be read");
        assert_eq!((clean(3, 1000), kept()), (1, vec![true, true, true, true, false]));
        assert_eq!((clean(3, 25), kept()), (2, vec![true, true, false, false, false]));
        assert_eq!((clean(3, 0), kept()), (2, vec![false; 5]));
        assert!(foreign.exists());
    }

    #[test]
    fn an_id_is_used_once() {
        let (_folder, spill) = spill();
        let id = keep(&spill, "first");
        assert!(spill.keep(&id, "second").is_err());
        assert_eq!(spill.read(id.as_str(), 0, 10).expect("it is kept").text, "first");
    }
}
