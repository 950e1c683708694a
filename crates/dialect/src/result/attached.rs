//! Files that a user attaches to a message, recognized by their bytes.

use super::media::{encode, media_type};

/// The content of an attached file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileContent {
    /// An image or a document that models accept; `data` is base64.
    Media {
        media_type: &'static str,
        data: String,
    },
    Text(String),
}

/// The content of a file is neither UTF-8 text nor an image or a document that models accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither UTF-8 text (invalid byte at {position}) nor an image or a PDF")]
#[non_exhaustive]
pub struct UnknownFileType {
    /// The first byte that is not part of a text.
    pub position: usize,
}

impl UnknownFileType {
    /// Returns the next thing to try.
    pub fn hint(&self) -> &'static str {
        "attach UTF-8 text, a PDF, or a PNG, JPEG, GIF or WebP image"
    }
}

impl FileContent {
    /// Recognizes the content by its bytes, and not by the name of the file. A byte order mark is removed.
    pub fn recognize(bytes: Vec<u8>) -> Result<FileContent, UnknownFileType> {
        if let Some(media_type) = media_type(&bytes) {
            return Ok(FileContent::Media { media_type, data: encode(&bytes) });
        }
        let text = String::from_utf8(bytes)
            .map_err(|error| UnknownFileType { position: error.utf8_error().valid_up_to() })?;
        match text.find('\0') {
            Some(position) => Err(UnknownFileType { position }),
            None => Ok(FileContent::Text(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: Result<FileContent, usize>) {
        assert_eq!(FileContent::recognize(bytes.to_vec()).map_err(|error| error.position), expected);
    }

    #[test]
    fn files_are_recognized_by_their_bytes() {
        let data = "iVBORw0KGgo=".to_owned();
        check(b"\x89PNG\r\n\x1a\n", Ok(FileContent::Media { media_type: "image/png", data }));
        check("\u{feff}text".as_bytes(), Ok(FileContent::Text("text".to_owned())));
        check(b"<svg onload=alert(1)>", Ok(FileContent::Text("<svg onload=alert(1)>".to_owned())));
        check(b"ab\xff", Err(2));
        check(b"a\0b", Err(1));
    }
}
