//! Files that no other user of the machine can read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes the folder and those above it, closed to others; one that is there already stays as it is, since it may be shared.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// A new file; an error if there is one already.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    options().write(true).create_new(true).open(path)
}

/// A file that is made if it is not there, for locking.
pub(crate) fn open_for_lock(path: &Path) -> io::Result<File> {
    options().write(true).create(true).truncate(false).open(path)
}

/// Replaces a file at once: whoever reads it sees the old bytes or the new ones, even if this process dies midway.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{count}.new", std::process::id()));
    let fresh = path.with_file_name(name);
    // Left behind by a process of the same number that died.
    let _ = fs::remove_file(&fresh);
    let written = create(&fresh).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let replaced = written.and_then(|()| fs::rename(&fresh, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    replaced
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
