//! Files attached to a message: read, recognized by their bytes, and checked against the model.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use toolwire_contract::model::Model;
use toolwire_contract::{Block, Content};
use toolwire_dialect::result::FileContent;

use crate::command_error::CommandError;
use crate::source::describe_io_error;
use crate::terminal_text::sanitize;

/// No model accepts a larger image or document.
pub(crate) const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// A text of this size has more than a million tokens, which no model accepts.
const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;

/// Reads a file as a block of a message. `path` is the path as the user wrote it; `~/` is the home folder.
pub(crate) fn read(path: &str) -> Result<Content, CommandError> {
    let failed = |problem: &str, hint: &str| {
        CommandError::usage(format!("cannot attach `{}`: {problem}", sanitize(path))).with_hint(hint)
    };
    let io_failed = |error: std::io::Error| failed(&describe_io_error(&error), "check the path");
    let file_path = expand_home(path);
    let metadata = fs::metadata(&file_path).map_err(io_failed)?;
    if metadata.is_dir() {
        return Err(failed("is a directory", "attach the files in it"));
    }
    if !metadata.is_file() {
        return Err(failed("not a regular file", "save its content to a file"));
    }
    let mut bytes = Vec::new();
    File::open(&file_path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(io_failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(failed("larger than 32 MiB", "let a tool read it"));
    }
    let content = FileContent::recognize(bytes);
    match content.map_err(|problem| failed(&problem.to_string(), problem.hint()))? {
        FileContent::Media { media_type, data } => Ok(Content::attached_file(path, media_type, data)),
        FileContent::Text(text) if text.trim().is_empty() => {
            Err(failed("the file is empty", "choose another file"))
        }
        FileContent::Text(text) if text.len() > MAX_TEXT_BYTES => {
            Err(failed("text is larger than 4 MiB", "attach the part that matters, or let a tool read it"))
        }
        FileContent::Text(text) => Ok(Content::attached_text(path, text)),
    }
}

/// Checks that a model accepts these blocks and that they fit into its context window.
pub(crate) fn check(model: &dyn Model, blocks: &[Content]) -> Result<(), CommandError> {
    let model_name = sanitize(model.name());
    for block in blocks {
        model.check_content(block).map_err(|problem| {
            let file = block
                .resource_name()
                .map_or_else(|| "the image".to_owned(), |name| format!("`{}`", sanitize(&name)));
            CommandError::usage(format!("{file} cannot be sent to `{model_name}`: {problem}"))
                .with_hint(problem.hint())
        })?;
    }
    let tokens: u64 = blocks.iter().map(|block| Block::Content(block.clone()).estimated_tokens()).sum();
    match model.limits().context_tokens {
        Some(window) if tokens > window => Err(CommandError::usage(format!(
            "the attachments have about {tokens} tokens, and the context window of `{model_name}` has {window}"
        ))
        .with_hint("attach less, or use a model with a larger context window")),
        _ => Ok(()),
    }
}

/// Describes an attachment: `photo.png (image/png, 12 kB)`.
pub(crate) fn describe(block: &Content) -> String {
    let Some(details) = block.type_and_size() else {
        return sanitize(block.type_name().unwrap_or("content"));
    };
    match block.resource_name() {
        Some(name) => sanitize(&format!("{name} ({details})")),
        None => sanitize(&details),
    }
}

/// Replaces `~/` with the home folder.
pub(crate) fn expand_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => Path::new(path).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_read(name: &str, bytes: &[u8], expected: Result<&str, &str>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("a file");
        let path = path.to_str().expect("a UTF-8 path");
        let actual = read(path).map(|block| describe(&block)).map_err(|error| error.into_parts().0);
        let actual = actual.map_err(|problem| problem.replace(path, name));
        let actual = actual.map(|text| text.replace(path, name));
        assert_eq!(actual.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn the_type_is_detected_from_the_bytes_and_not_from_the_extension() {
        check_read("a.txt", b"\x89PNG\r\n\x1a\n...", Ok("a.txt (image/png, 11 bytes)"));
        check_read("a.png", "\u{feff}only text".as_bytes(), Ok("a.png (text, 9 bytes)"));
        check_read("a b.bin", b"%PDF-1.7 ...", Ok("a b.bin (application/pdf, 12 bytes)"));
    }

    #[test]
    fn files_that_cannot_be_attached_are_reported() {
        let neither = |position| {
            format!(
                "cannot attach `a.txt`: neither UTF-8 text (invalid byte at {position}) nor an image or a PDF"
            )
        };
        check_read("a.txt", b"ab\xff", Err(&neither(2)));
        check_read("a.txt", b"a\0b", Err(&neither(1)));
        check_read("a.txt", b" \n", Err("cannot attach `a.txt`: the file is empty"));
        let long = "x".repeat(MAX_TEXT_BYTES + 1);
        check_read("a.txt", long.as_bytes(), Err("cannot attach `a.txt`: text is larger than 4 MiB"));
        let problem = |path: &str| read(path).expect_err("no file").into_parts().0;
        assert_eq!(problem("/no/such"), "cannot attach `/no/such`: no such file or directory");
        assert_eq!(problem("/"), "cannot attach `/`: is a directory");
    }
}
