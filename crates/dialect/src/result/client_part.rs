//! Parts that a client wrote and that no content of MCP represents, such as the URL of an image. They carry
//! the part in the format of each family that has it.

use serde_json::Value;
use toolwire_contract::Content;

use super::prepare::{ContentLimits, ContentPart, content_part};
use super::text::{clean, without_base64};

/// The start of the keys of `_meta` that are Toolwire's own.
const OWN_KEYS: &str = "toolwire/";

/// The maximum length of a URL in a note.
const MAX_URL_CHARS: usize = 2_000;

/// Whether only some providers understand the block.
pub(crate) fn is_provider_data(content: &Content) -> bool {
    let Content::Other(value) = content else { return false };
    let meta = value.get("_meta").and_then(Value::as_object);
    content.type_name() == Some("thinking")
        || meta.is_some_and(|meta| meta.keys().any(|key| key.starts_with(OWN_KEYS)))
}

/// Returns the part if a client wrote it in the format of one family: `Some(None)` if that is another family.
/// Thinking is not written by users.
pub(crate) fn client_part<'a>(content: &'a Content, meta_key: &str) -> Option<Option<&'a Value>> {
    let Content::Other(value) = content else { return None };
    let is_native = is_provider_data(content) && content.type_name() != Some("thinking");
    is_native.then(|| value.get("_meta")?.get(meta_key))
}

/// Converts a block of a result to a part that the API accepts. A part that a client wrote is sent in the
/// format of this family.
pub(super) fn result_part(block: &Content, meta_key: &str, limits: &ContentLimits) -> ContentPart {
    let Some(part) = client_part(block, meta_key) else { return content_part(block, limits) };
    let Some(part) = part else {
        // Images and files in the format of another family were refused before.
        let text = any_form(block).map(|part| without_base64(part).to_string());
        return ContentPart::Text(clean(&text.unwrap_or_default()));
    };
    let accepts_images = limits.images && !limits.image_types.is_empty();
    match MediaKind::of(part) {
        Some(kind @ MediaKind::Image) if !accepts_images => {
            ContentPart::Text(clean(&kind.note(part, "omitted")))
        }
        Some(kind @ MediaKind::File) if !limits.files => {
            ContentPart::Text(clean(&kind.note(part, "omitted")))
        }
        _ => ContentPart::Native(part.clone()),
    }
}

/// Returns the first format of a part that a client wrote.
fn any_form(content: &Content) -> Option<&Value> {
    let Content::Other(value) = content else { return None };
    let mut meta = value.get("_meta")?.as_object()?.iter();
    meta.find(|(key, _)| key.starts_with(OWN_KEYS)).map(|(_, part)| part)
}

/// The kind of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MediaKind {
    Image,
    File,
}

impl MediaKind {
    /// Returns the kind of a part of a client; `None` if it is not media.
    pub(crate) fn of(part: &Value) -> Option<MediaKind> {
        match part.get("type")?.as_str()? {
            "image" | "image_url" | "input_image" => Some(MediaKind::Image),
            "document" | "file" | "input_file" => Some(MediaKind::File),
            _ => None,
        }
    }

    /// Describes a part without its data, such as `[image, https://example.com/a.png, omitted]`.
    pub(crate) fn note(self, part: &Value, location: &str) -> String {
        let kind = match self {
            MediaKind::Image => "image",
            MediaKind::File => "file",
        };
        let places = ["/image_url/url", "/image_url", "/source/url", "/file_url"];
        let url = places.into_iter().find_map(|place| part.pointer(place)?.as_str());
        let is_shown = |url: &&str| url.starts_with("http") && url.chars().count() <= MAX_URL_CHARS;
        let url = url.filter(is_shown).map(|url| format!("{url}, ")).unwrap_or_default();
        format!("[{kind}, {url}{location}]")
    }
}
