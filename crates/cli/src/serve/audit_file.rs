//! The file of the audit log.
//!
//! A separate thread writes the lines. If the file is renamed or removed, a new one is created, so programs
//! that rotate logs need no signal.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use toolwire_gateway::audit::AuditSink;

use crate::command_error::{ERROR, NOTE, print_stderr};
use crate::source::describe_io_error;

/// The maximum number of lines that wait to be written. Further ones are lost.
const MAX_WAITING: usize = 10_000;

/// Appends lines to a file.
pub(super) struct AuditFile {
    lines: Option<SyncSender<String>>,
    lost: Arc<AtomicU64>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl AuditFile {
    /// Opens the file, or creates it with access only for its owner.
    pub(super) fn open(path: &Path) -> io::Result<AuditFile> {
        let lost = Arc::new(AtomicU64::new(0));
        let file = LogFile::open(path, lost.clone())?;
        let (lines, queue) = sync_channel(MAX_WAITING);
        let writer = std::thread::Builder::new().name("audit".to_owned());
        let writer = writer.spawn(move || write_all(file, &queue))?;
        Ok(AuditFile { lines: Some(lines), lost, writer: Mutex::new(Some(writer)) })
    }
}

impl AuditSink for AuditFile {
    fn append(&self, line: String) {
        let is_queued = self.lines.as_ref().is_some_and(|lines| lines.try_send(line).is_ok());
        if !is_queued && self.lost.fetch_add(1, Ordering::Relaxed) == 0 {
            let problem = "lines of the audit log are lost, because the file is not written fast enough";
            print_stderr(&format!("{ERROR}error:{ERROR:#} {problem}\n"));
        }
    }

    fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

impl Drop for AuditFile {
    fn drop(&mut self) {
        // Closing the queue ends the thread after it has written all lines.
        self.lines = None;
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }
}

fn write_all(mut file: LogFile, queue: &Receiver<String>) {
    while let Ok(line) = queue.recv() {
        file.append(&line);
    }
}

/// The open file, and its name.
struct LogFile {
    path: PathBuf,
    file: File,
    lost: Arc<AtomicU64>,
    has_failed: bool,
}

impl LogFile {
    fn open(path: &Path, lost: Arc<AtomicU64>) -> io::Result<LogFile> {
        Ok(LogFile { path: path.to_owned(), file: open(path)?, lost, has_failed: false })
    }

    /// Appends a line in one write, so that lines of several processes do not mix.
    fn append(&mut self, line: &str) {
        let written = self.follow_rotation().and_then(|()| self.file.write_all(line.as_bytes()));
        let place = self.path.display();
        match written {
            Ok(()) if self.has_failed => {
                self.has_failed = false;
                print_stderr(&format!(
                    "{NOTE}note:{NOTE:#} lines are written to the audit log {place} again\n"
                ));
            }
            Ok(()) => {}
            Err(error) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                if !self.has_failed {
                    self.has_failed = true;
                    let reason = describe_io_error(&error);
                    print_stderr(&format!(
                        "{ERROR}error:{ERROR:#} lines of the audit log {place} are lost: {reason}\n"
                    ));
                }
            }
        }
    }

    /// Opens the file again if it was renamed, replaced or removed.
    fn follow_rotation(&mut self) -> io::Result<()> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            let own = self.file.metadata()?;
            let named = std::fs::metadata(&self.path);
            if !named.is_ok_and(|named| (named.dev(), named.ino()) == (own.dev(), own.ino())) {
                self.file = open(&self.path)?;
            }
        }
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).expect("a file")
    }

    #[test]
    fn the_file_is_private_and_may_be_rotated() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, rotated) = (folder.path().join("audit"), folder.path().join("audit.1"));
        let file = AuditFile::open(&path).expect("a log");
        assert_eq!(std::fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
        file.append("a\n".to_owned());
        while read(&path).is_empty() {
            std::thread::yield_now();
        }
        std::fs::rename(&path, &rotated).expect("it is renamed");
        file.append("b\n".to_owned());
        drop(file);
        assert_eq!((read(&rotated).as_str(), read(&path).as_str()), ("a\n", "b\n"));
        assert!(AuditFile::open(&folder.path().join("absent/audit")).is_err());
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit");
        let lost = Arc::new(AtomicU64::new(0));
        let mut file = LogFile::open(&path, lost.clone()).expect("a log");
        std::fs::remove_file(&path).expect("it is removed");
        // A folder cannot be appended to.
        std::fs::create_dir(&path).expect("a folder");
        file.append("a\n");
        file.append("b\n");
        assert_eq!(lost.load(Ordering::Relaxed), 2);
        std::fs::remove_dir(&path).expect("it is removed");
        file.append("c\n");
        assert_eq!((read(&path).as_str(), lost.load(Ordering::Relaxed)), ("c\n", 2));
    }
}
