//! What comes on standard input, as a part of the question.

use std::io::Read;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use toolwire_contract::Content;

use crate::command_error::{CommandError, HINT, NOTE, print_stderr};
use crate::source::in_words;

/// More is not a part of a question: no model has room for it.
const MOST: u64 = 32 * 1024 * 1024;

/// Who waits longer than this for input is told what for.
const PATIENCE: Duration = Duration::from_secs(3);

/// Reads `input` to its end; nothing, or only white space, attaches nothing.
pub(super) fn read(input: impl Read) -> Result<Option<Content>, CommandError> {
    let (done, waiting) = mpsc::channel::<()>();
    let told = thread::spawn(move || {
        if waiting.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            print_stderr(&format!(
                "{NOTE}note:{NOTE:#} waiting for the end of standard input, which is attached to the question\n\
                 {HINT}hint:{HINT:#} `< /dev/null` attaches nothing\n"
            ));
        }
    });
    let mut bytes = Vec::new();
    let read = input.take(MOST + 1).read_to_end(&mut bytes);
    drop(done);
    // It only prints; a panic there is no reason for another one here.
    let _ = told.join();
    match read {
        // A closed standard input attaches nothing.
        Err(error) if error.raw_os_error() == Some(9) => Ok(None),
        Err(error) => Err(CommandError::usage(format!("cannot read standard input: {}", in_words(&error)))),
        Ok(_) if bytes.len() as u64 > MOST => {
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
            let place = error.utf8_error().valid_up_to();
            Err(CommandError::usage(format!(
                "standard input is neither UTF-8 text (invalid byte at {place}) nor an image"
            ))
            .with_hint("attach text, or a PNG, JPEG, GIF or WebP image"))
        }
    }
}

/// Of the images that all providers take.
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
        let found = read(bytes).map_err(|failure| format!("{failure:?}"));
        match (found, expected) {
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => assert_eq!(found, expected.map_err(str::to_owned)),
        }
    }

    #[test]
    fn text_and_images_are_attached_and_nothing_is_nothing() {
        check(b"", Ok(None));
        check(b" \n", Ok(None));
        check("\u{feff}a,b\n1,2\n".as_bytes(), Ok(Some(Content::text("a,b\n1,2\n"))));
        check(b"\x89PNG\r\n\x1a\n", Ok(Some(Content::image("iVBORw0KGgo=", "image/png"))));
        check(b"ab\xff", Err("neither UTF-8 text (invalid byte at 2) nor an image"));
    }
}
