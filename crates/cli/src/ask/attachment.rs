//! Reads standard input as an attachment of the question.

use std::io::Read;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use toolwire_contract::Content;

use crate::command_error::{CommandError, HINT, NOTE, print_stderr};
use crate::source::describe_io_error;

/// No model accepts more.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

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
    if let Some(mime_type) = image_type(&bytes) {
        return Ok(Some(Content::image(STANDARD.encode(&bytes), mime_type)));
    }
    match String::from_utf8(bytes) {
        Ok(text) if text.trim().is_empty() => Ok(None),
        Ok(text) => Ok(Some(Content::text(text.strip_prefix('\u{feff}').unwrap_or(&text)))),
        Err(error) => {
            let offset = error.utf8_error().valid_up_to();
            Err(CommandError::usage(format!(
                "standard input is neither UTF-8 text (invalid byte at {offset}) nor an image"
            ))
            .with_hint("attach text, or a PNG, JPEG, GIF or WebP image"))
        }
    }
}

/// Recognizes the image formats that all providers accept.
fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
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
        check(b"ab\xff", Err("neither UTF-8 text (invalid byte at 2) nor an image"));
    }
}
