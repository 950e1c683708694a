//! Writes results to standard output and to files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::command_error::CommandError;
use crate::source::describe_io_error;
use crate::terminal_text::{sanitize, sanitize_lines, wrapped_for};

/// Writes all of `text` to standard output.
pub(crate) fn print(text: &str) -> Result<(), CommandError> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).or_else(ignore_broken_pipe)
}

/// Writes text from a server to standard output: sanitized for a terminal, unchanged for a program.
pub(crate) fn print_untrusted(text: &str) -> Result<(), CommandError> {
    if io::stdout().is_terminal() { print(&sanitize_lines(text)) } else { print(text) }
}

/// Writes text for people to standard output, with colours only if they are enabled and supported, and
/// wrapped on a terminal.
pub(crate) fn print_styled(text: &str) -> Result<(), CommandError> {
    let text = wrapped_for(terminal_size::terminal_size_of(io::stdout()), text);
    let mut stdout = anstream::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).or_else(ignore_broken_pipe)
}

/// JSON text of `value`, ending with a newline.
pub(crate) fn to_json(value: &(impl Serialize + ?Sized), compact: bool) -> String {
    let text = if compact { serde_json::to_string(value) } else { serde_json::to_string_pretty(value) };
    let mut text = text.expect("maps with string keys");
    text.push('\n');
    text
}

/// Returns success if the reader has closed standard output (`toolwire … | head -1`).
pub(crate) fn ignore_broken_pipe(error: io::Error) -> Result<(), CommandError> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Ok(());
    }
    Err(CommandError::work(format!("cannot write to standard output: {}", describe_io_error(&error))))
}

/// Replaces the content of the file atomically: a reader finds the old content or the new.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<(), CommandError> {
    write_file_with(path, text, None)
}

/// Like [`write_file`], but only the user can read a new file.
pub(crate) fn write_private_file(path: &Path, text: &str) -> Result<(), CommandError> {
    #[cfg(unix)]
    let permissions = Some(std::os::unix::fs::PermissionsExt::from_mode(0o600));
    #[cfg(not(unix))]
    let permissions = None;
    write_file_with(path, text, permissions)
}

fn write_file_with(
    path: &Path,
    text: &str,
    new_permissions: Option<fs::Permissions>,
) -> Result<(), CommandError> {
    let outcome = match fs::metadata(path) {
        // A device, a pipe or a shell's `>(…)` cannot be replaced, only written to. `/dev/stderr` may be a
        // file that others are still writing to.
        Ok(metadata) if path.starts_with("/dev") || !(metadata.is_file() || metadata.is_dir()) => {
            OpenOptions::new().append(true).open(path).and_then(|mut file| file.write_all(text.as_bytes()))
        }
        Ok(metadata) => replace(path, text, Some(metadata.permissions())),
        Err(_) => replace(path, text, new_permissions),
    };
    outcome.map_err(|error| {
        CommandError::work(format!(
            "cannot write `{}`: {}",
            sanitize(&path.to_string_lossy()),
            describe_io_error(&error)
        ))
        .with_hint("choose a file in an existing, writable folder")
    })
}

fn replace(path: &Path, text: &str, permissions: Option<fs::Permissions>) -> io::Result<()> {
    // If the path is a symbolic link, its target is replaced and the link stays.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if target.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let (temporary, mut file) = create_beside(&target)?;
    let written = (|| {
        // Before the text, which may contain secrets.
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        file.write_all(text.as_bytes())?;
        drop(file);
        fs::rename(&temporary, &target)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Creates a temporary file in the same folder, because a rename is atomic only within one file system.
fn create_beside(target: &Path) -> io::Result<(PathBuf, File)> {
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut attempt = 0;
    loop {
        let mut temporary_name = std::ffi::OsString::from(".");
        temporary_name.push(name);
        temporary_name.push(format!(".{}-{attempt}.tmp", std::process::id()));
        let temporary = target.with_file_name(temporary_name);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 100 => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}
