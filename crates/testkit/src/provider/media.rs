//! Base64 media and the types that its first bytes reveal.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Decodes standard base64 with padding.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Returns the media type that the first bytes reveal, among those that LLM APIs accept.
pub(super) fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'%', b'P', b'D', b'F', b'-', ..] => Some("application/pdf"),
        _ => None,
    }
}

/// Whether the first bytes are those of an image.
pub(super) fn is_image(bytes: &[u8]) -> bool {
    media_type(bytes).is_some_and(|media_type| media_type.starts_with("image/"))
}

/// Returns the media type and the data of `data:…;base64,…`.
pub(super) fn data_url(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:")?.split_once(";base64,")
}
