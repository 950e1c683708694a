//! Short excerpts of what a server sent, for messages.

use toolwire_contract::text::truncate;

const MAX_CHARS: usize = 200;
/// More than enough for [`MAX_CHARS`]; a message can have megabytes.
const MAX_BYTES: usize = 4096;

/// The first bytes of data that is compressed with gzip, which some servers send without saying so.
const GZIP_START: &[u8] = &[0x1f, 0x8b, 8];

/// Returns the beginning of `bytes` as one line of text.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    excerpt_of(bytes, |text| text)
}

/// Like [`excerpt`], with a change of the text before it is cut.
pub(crate) fn excerpt_of(bytes: &[u8], change: impl FnOnce(String) -> String) -> String {
    if bytes.starts_with(GZIP_START) {
        return "data compressed with gzip".to_owned();
    }
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_BYTES)]);
    let words: Vec<&str> = text.split_whitespace().collect();
    truncate(&change(words.join(" ")), MAX_CHARS).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_one_short_line() {
        assert_eq!(excerpt(b" <h1>Oops</h1>\n\t<p>broken "), "<h1>Oops</h1> <p>broken");
        assert_eq!(excerpt("ä".repeat(10_000).as_bytes()), format!("{}…", "ä".repeat(MAX_CHARS - 1)));
        assert_eq!(excerpt(b"\x1f\x8b\x08\x00\x12"), "data compressed with gzip");
        assert_eq!(excerpt(b"\xff"), "\u{fffd}");
    }
}
