//! Images, audio and files. Their type is detected from the bytes, because servers often declare a wrong one.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::MediaKind;

/// Validated media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Media {
    /// Detected from the bytes if possible, otherwise as declared.
    pub(crate) media_type: String,
    /// Base64 in the standard alphabet, padded, without line breaks.
    pub(crate) data: String,
    /// The number of bytes that `data` encodes.
    pub(crate) bytes: usize,
    /// A file name for APIs that require one.
    pub(crate) name: String,
    /// The resolution in which OpenAI's models see an image, if a client has set it.
    pub(crate) detail: Option<String>,
}

impl Media {
    pub(crate) fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.media_type, self.data)
    }

    pub(crate) fn kind(&self) -> MediaKind {
        if self.media_type.starts_with("image/") { MediaKind::Image } else { MediaKind::File }
    }
}

/// Decodes base64 as servers write it: with line breaks, in the URL alphabet, unpadded, or as a data URL.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    const ENGINE: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
    let text = match text.strip_prefix("data:") {
        Some(url) => url.split_once(";base64,")?.1,
        None => text,
    };
    let clean: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            other => other,
        })
        .collect();
    ENGINE.decode(clean).ok()
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Detects the media type of an image or a PDF from its first bytes.
pub fn media_type(bytes: &[u8]) -> Option<&'static str> {
    let at = |offset: usize, magic: &[u8]| bytes.get(offset..).is_some_and(|rest| rest.starts_with(magic));
    Some(match bytes {
        _ if at(0, b"\x89PNG\r\n\x1a\n") => "image/png",
        _ if at(0, b"\xff\xd8\xff") => "image/jpeg",
        _ if at(0, b"GIF87a") || at(0, b"GIF89a") => "image/gif",
        _ if at(0, b"RIFF") && at(8, b"WEBP") => "image/webp",
        _ if at(0, b"BM") && at(6, &[0, 0, 0, 0]) => "image/bmp",
        _ if at(0, b"%PDF-") => "application/pdf",
        _ => return None,
    })
}

/// Whether [`media_type`] recognizes all media of this type, so that unrecognized bytes have another type.
pub(crate) fn is_recognizable(media_type: &str) -> bool {
    matches!(
        media_type,
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" | "image/bmp" | "application/pdf"
    )
}

/// Normalizes a media type: without parameters, in lower case, under its usual name.
pub(crate) fn normalize_type(media_type: &str) -> String {
    let bare = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match bare.as_str() {
        "image/jpg" | "image/pjpeg" => "image/jpeg".to_owned(),
        "image/x-png" => "image/png".to_owned(),
        "image/x-ms-bmp" | "image/x-bmp" => "image/bmp".to_owned(),
        "application/x-pdf" => "application/pdf".to_owned(),
        "" => "application/octet-stream".to_owned(),
        _ => bare,
    }
}

/// Whether media of this type is text.
pub(crate) fn is_textual(media_type: &str) -> bool {
    media_type.starts_with("text/")
        || media_type.ends_with("+json")
        || media_type.ends_with("+xml")
        || matches!(
            media_type,
            "application/json"
                | "application/xml"
                | "application/yaml"
                | "application/x-yaml"
                | "application/toml"
                | "application/javascript"
                | "application/x-ndjson"
                | "application/sql"
        )
}

/// Returns the width and height of an image in pixels, if its header contains them.
pub fn image_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let byte = |at: usize| bytes.get(at).copied().map(u32::from);
    let big = |at: usize| Some(byte(at)? << 8 | byte(at + 1)?);
    let little = |at: usize| Some(byte(at + 1)? << 8 | byte(at)?);
    Some(match media_type(bytes)? {
        "image/png" => {
            let long = |at: usize| Some(big(at)? << 16 | big(at + 2)?);
            (long(16)?, long(20)?)
        }
        "image/gif" => (little(6)?, little(8)?),
        "image/webp" => match bytes.get(12..16)? {
            b"VP8X" => {
                let three = |at: usize| Some(byte(at + 2)? << 16 | little(at)?);
                (three(24)? + 1, three(27)? + 1)
            }
            b"VP8L" => {
                let bits = little(21)? | little(23)? << 16;
                ((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1)
            }
            _ => (little(26)? & 0x3fff, little(28)? & 0x3fff),
        },
        "image/jpeg" => {
            let mut at = 2;
            // Skip segments up to the frame header. Each step moves forward, so the loop ends.
            loop {
                let marker = big(at)?;
                match marker {
                    0xffff => at += 1,
                    0xffc0..=0xffc3 | 0xffc5..=0xffc7 | 0xffc9..=0xffcb | 0xffcd..=0xffcf => {
                        break (big(at + 7)?, big(at + 5)?);
                    }
                    0xff01 | 0xffd0..=0xffd8 => at += 2,
                    _ if marker >> 8 == 0xff => at += 2 + (big(at + 2)? as usize).max(2),
                    _ => return None,
                }
            }
        }
        _ => return None,
    })
}

/// Derives a file name from the name of a resource, with characters that every API accepts.
pub(crate) fn file_name(name: Option<&str>, media_type: &str) -> String {
    let path = name.unwrap_or_default().split(['?', '#']).next().unwrap_or_default();
    let last = path.rsplit(['/', '\\', ':']).next().unwrap_or_default();
    let name: String = last
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
        .take(100)
        .collect();
    if name.chars().any(|c| c.is_ascii_alphanumeric()) {
        return name;
    }
    let subtype = media_type.rsplit('/').next().unwrap_or("bin");
    if media_type.starts_with("image/") { format!("image.{subtype}") } else { format!("file.{subtype}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_variants_are_decoded() {
        for text in ["-_8=", "+/8=", "+/8", "+/\r\n8=", "data:image/png;base64,+/8="] {
            assert_eq!(decode(text), Some(vec![0xfb, 0xff]), "{text}");
        }
        assert_eq!(encode(&[0xfb, 0xff]), "+/8=");
        for text in ["a", "ä", "data:nothing", "====", "+/8=+/8="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    #[test]
    fn the_size_is_read_from_the_header() {
        let png = [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &[0, 0, 0x23, 0x28, 0, 0, 0, 1]].concat();
        assert_eq!(image_size(&png), Some((9000, 1)));
        assert_eq!(image_size(b"GIF89a\x01\x00\x00\x02"), Some((1, 512)));
        let jpeg =
            [b"\xff\xd8\xff\xe0\0\x04ab".as_slice(), b"\xff\xff\xc0\0\x11\x08\x10\x00\x01\x00\x03"].concat();
        assert_eq!(image_size(&jpeg), Some((256, 4096)));
        assert_eq!(image_size(b"\xff\xd8\xff\xe0\0\0\xff"), None);
        assert_eq!(image_size(b"RIFF....WEBPVP8X........\xff\x1f\0\0\0\0"), Some((8192, 1)));
        for end in 0..jpeg.len() {
            let _ = image_size(&jpeg[..end]); // a truncated header must not panic
        }
    }

    #[test]
    fn file_names_contain_only_safe_characters() {
        assert_eq!(file_name(Some("/a/b/Report (1).pdf?x#y"), "application/pdf"), "Report__1_.pdf");
        assert_eq!(file_name(Some("/"), "application/pdf"), "file.pdf");
        assert_eq!(file_name(None, "image/png"), "image.png");
    }
}
