//! Files that a user attaches to a message. They are embedded resources with a `file:` URI.

use serde_json::Map;

use crate::text::format_size;
use crate::{Content, ResourceBody, ResourceContents};

impl Content {
    /// Creates a block for an attached text file. `path` is the path as the user wrote it.
    ///
    /// ```
    /// use toolwire_contract::Content;
    ///
    /// let block = Content::attached_text("my notes.md", "# Tides");
    /// assert_eq!(block.resource_name().as_deref(), Some("my notes.md"));
    /// ```
    pub fn attached_text(path: &str, text: impl Into<String>) -> Content {
        attached(path, "text/plain", ResourceBody::Text(text.into()))
    }

    /// Creates a block for an attached image or document; `data` is base64.
    pub fn attached_file(path: &str, mime_type: &str, data: impl Into<String>) -> Content {
        attached(path, mime_type, ResourceBody::Blob(data.into()))
    }

    /// Returns the name of an embedded resource: the path of a `file:` URI, or the URI itself.
    pub fn resource_name(&self) -> Option<String> {
        let Content::Resource { resource, .. } = self else { return None };
        let Some(path) = resource.uri.strip_prefix("file:") else { return Some(resource.uri.clone()) };
        Some(decode_percent(path.strip_prefix("//").unwrap_or(path)))
    }

    /// Describes the type and the size of a file, an image or audio: `image/png, 12 kB`. `None` for other
    /// content.
    pub fn type_and_size(&self) -> Option<String> {
        let decoded_bytes = |base64: &str| base64.trim_end_matches('=').len() * 3 / 4;
        let (media_type, bytes) = match self {
            Content::Resource { resource, .. } => match &resource.body {
                ResourceBody::Text(text) => ("text", text.len()),
                ResourceBody::Blob(data) => {
                    (resource.mime_type.as_deref().unwrap_or("file"), decoded_bytes(data))
                }
            },
            Content::Image { data, mime_type, .. } | Content::Audio { data, mime_type, .. } => {
                (mime_type.as_str(), decoded_bytes(data))
            }
            _ => return None,
        };
        Some(format!("{media_type}, {}", format_size(bytes)))
    }
}

fn attached(path: &str, mime_type: &str, body: ResourceBody) -> Content {
    let mime_type = Some(mime_type.to_owned());
    let resource = ResourceContents {
        uri: format!("file:{}", encode_percent(path)),
        mime_type,
        body,
        extra: Map::new(),
    };
    Content::Resource { resource, extra: Map::new() }
}

fn encode_percent(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte);
    path.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Decodes percent escapes such as `%20`; a malformed escape stays as it is.
fn decode_percent(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = tail.get(..2).filter(|_| byte == b'%').and_then(|digits| str::from_utf8(digits).ok());
        let escaped = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &tail[2..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_attached_file_round_trips_with_its_path() {
        for path in ["notes.md", "a b/100%.txt", "/tmp/Größe.pdf", "C:\\x.png", "a?b#c", "%41"] {
            let block = Content::attached_file(path, "image/png", "AA==");
            let value = Value::from(block.clone());
            assert!(value["resource"]["uri"].as_str().is_some_and(|uri| uri.is_ascii()), "{value}");
            assert_eq!(Content::from(value), block);
            assert_eq!(block.resource_name().as_deref(), Some(path));
        }
    }

    #[test]
    fn files_have_a_type_and_a_size() {
        let describe = |content: Content| content.type_and_size();
        assert_eq!(describe(Content::attached_text("a.md", "four")).as_deref(), Some("text, 4 bytes"));
        let file = Content::attached_file("a.pdf", "application/pdf", "AAAAAA==");
        assert_eq!(describe(file).as_deref(), Some("application/pdf, 4 bytes"));
        assert_eq!(describe(Content::image("AAA=", "image/png")).as_deref(), Some("image/png, 2 bytes"));
        assert_eq!(describe(Content::text("a")), None);
    }

    #[test]
    fn other_resources_are_named_by_their_uri() {
        let name = |uri: &str| {
            Content::from(json!({"type": "resource", "resource": {"uri": uri, "text": ""}})).resource_name()
        };
        assert_eq!(name("file:///a/b%20c.txt").as_deref(), Some("/a/b c.txt"));
        assert_eq!(name("file:50%").as_deref(), Some("50%"));
        assert_eq!(name("db://rows/1%20").as_deref(), Some("db://rows/1%20"));
        assert_eq!(Content::text("x").resource_name(), None);
    }
}
