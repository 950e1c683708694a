//! Reads standard input as an attachment of the question.

use std::io::Read;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use toolwire_contract::Content;
use toolwire_dialect::result::FileContent;

use crate::attachment::MAX_BYTES;
use crate::command_error::{CommandError, HINT, NOTE, print_stderr};
use crate::source::describe_io_error;

/// After this time a note says that the command is waiting for standard input.
const NOTE_DELAY: Duration = Duration::from_secs(3);

/// Reads `input` to its end. Empty or blank input is `None`.
pub(super) fn read(input: impl Read) -> Result<Option<Content>, CommandError> {
    let (done, is_done) = mpsc::channel::<()>();
    let note = thread::spawn(move || {
        if is_done.recv_timeout(NOTE_DELAY) == Err(mpsc::RecvTimeoutError::Timeout) {
            print_stderr(&format!(
                "{NOTE}note:{NOTE:#} waiting for the end of standard input, which is attached to \
                 the question\n\
                 {HINT}hint:{HINT:#} `< /dev/null` attaches nothing\n"
            ));
        }
    });
    let mut bytes = Vec::new();
    let read = input.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    drop(done);
    // The thread only prints a note, so a panic in it is ignored.
    let _ = note.join();
    match read {
        Err(error) => {
            Err(CommandError::usage(format!("cannot read standard input: {}", describe_io_error(&error))))
        }
        Ok(_) if bytes.len() as u64 > MAX_BYTES => {
            Err(CommandError::usage("standard input is too large to be attached: more than 32 MiB")
                .with_hint("save it to a file and let a tool read it"))
        }
        Ok(_) => content(bytes),
    }
}

fn content(bytes: Vec<u8>) -> Result<Option<Content>, CommandError> {
    match FileContent::recognize(bytes) {
        Ok(FileContent::Text(text)) if text.trim().is_empty() => Ok(None),
        Ok(FileContent::Text(text)) => Ok(Some(Content::text(text))),
        Ok(FileContent::Media { media_type, data }) if media_type.starts_with("image/") => {
            Ok(Some(Content::image(data, media_type)))
        }
        Ok(FileContent::Media { media_type, data }) => {
            Ok(Some(Content::attached_file("stdin", media_type, data)))
        }
        Err(problem) => {
            Err(CommandError::usage(format!("standard input is {problem}")).with_hint(problem.hint()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: Result<Option<Content>, &str>) {
        let actual = read(bytes).map_err(|error| format!("{error:?}"));
        match (actual, expected) {
            (Err(actual), Err(expected)) => assert!(actual.contains(expected), "{actual}"),
            (actual, expected) => assert_eq!(actual, expected.map_err(str::to_owned)),
        }
    }

    #[test]
    fn text_and_images_are_attached_and_blank_input_is_not() {
        check(b"", Ok(None));
        check(b" \n", Ok(None));
        check("\u{feff}a,b\n1,2\n".as_bytes(), Ok(Some(Content::text("a,b\n1,2\n"))));
        check(b"\x89PNG\r\n\x1a\n", Ok(Some(Content::image("iVBORw0KGgo=", "image/png"))));
        check(b"ab\xff", Err("neither UTF-8 text (invalid byte at 2) nor an image or a PDF"));
    }
}
