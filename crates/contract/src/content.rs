//! Content blocks of tool results and messages.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::fields::{Fields, take_object, take_text};

/// One block of content.
///
/// Reading never fails: a block of an unknown type, or one without the fields its type requires, becomes
/// [`Content::Other`] and is preserved as it is. `extra` holds `annotations`, `_meta` and all other fields of
/// a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Value", into = "Value")]
pub enum Content {
    Text {
        text: String,
        extra: Map<String, Value>,
    },
    Image {
        /// Base64, as the server wrote it.
        data: String,
        mime_type: String,
        extra: Map<String, Value>,
    },
    Audio {
        /// Base64, as the server wrote it.
        data: String,
        mime_type: String,
        extra: Map<String, Value>,
    },
    /// An embedded resource.
    Resource {
        resource: ResourceContents,
        extra: Map<String, Value>,
    },
    /// A resource that can be read from the server.
    ResourceLink(ResourceLink),
    Other(Value),
}

/// The contents of one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceContents {
    pub uri: String,
    pub mime_type: Option<String>,
    pub body: ResourceBody,
    pub extra: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceBody {
    Text(String),
    /// Base64, as the server wrote it.
    Blob(String),
}

/// A resource that can be read from the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceLink {
    pub uri: String,
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub mime_type: Option<String>,
    /// All other fields: `size`, `icons`, `annotations`, `_meta`, and fields of later revisions.
    pub extra: Map<String, Value>,
}

impl Content {
    pub fn text(text: impl Into<String>) -> Content {
        Content::Text { text: text.into(), extra: Map::new() }
    }

    /// Creates an image block; `data` is base64.
    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Content {
        Content::Image { data: data.into(), mime_type: mime_type.into(), extra: Map::new() }
    }

    /// Creates an audio block; `data` is base64.
    pub fn audio(data: impl Into<String>, mime_type: impl Into<String>) -> Content {
        Content::Audio { data: data.into(), mime_type: mime_type.into(), extra: Map::new() }
    }

    /// Returns the block's `type`, if it has one.
    pub fn type_name(&self) -> Option<&str> {
        Some(match self {
            Content::Text { .. } => "text",
            Content::Image { .. } => "image",
            Content::Audio { .. } => "audio",
            Content::Resource { .. } => "resource",
            Content::ResourceLink(_) => "resource_link",
            Content::Other(value) => return value.get("type")?.as_str(),
        })
    }

    /// Returns the block's `annotations`.
    pub fn annotations(&self) -> Option<&Map<String, Value>> {
        let annotations = match self {
            Content::Text { extra, .. }
            | Content::Image { extra, .. }
            | Content::Audio { extra, .. }
            | Content::Resource { extra, .. } => extra.get("annotations"),
            Content::ResourceLink(link) => link.extra.get("annotations"),
            Content::Other(value) => value.get("annotations"),
        };
        annotations?.as_object()
    }

    /// Whether the model should see the block: true unless its `audience` excludes the assistant.
    pub fn is_for_model(&self) -> bool {
        let audience = self.annotations().and_then(|annotations| annotations.get("audience"));
        match audience.and_then(Value::as_array) {
            Some(audience) if !audience.is_empty() => audience.iter().any(|role| role == "assistant"),
            _ => true,
        }
    }
}

impl From<Value> for Content {
    fn from(value: Value) -> Content {
        match value {
            // Checked first, so that large base64 data is moved and never copied.
            Value::Object(fields) if is_well_formed(&fields) => {
                read(fields).expect("`is_well_formed` checked every field that `read` requires")
            }
            other => Content::Other(other),
        }
    }
}

/// Whether the block has a known type and the fields that the type requires.
fn is_well_formed(fields: &Map<String, Value>) -> bool {
    let is_text = |key: &str| fields.get(key).is_some_and(Value::is_string);
    match fields.get("type").and_then(Value::as_str) {
        Some("text") => is_text("text"),
        Some("image" | "audio") => is_text("data") && is_text("mimeType"),
        Some("resource_link") => is_text("uri") && is_text("name"),
        Some("resource") => fields.get("resource").and_then(Value::as_object).is_some_and(|resource| {
            let is_text = |key: &str| resource.get(key).is_some_and(Value::is_string);
            is_text("uri") && (is_text("text") || is_text("blob"))
        }),
        _ => false,
    }
}

fn read(mut fields: Map<String, Value>) -> Option<Content> {
    let type_name = take_text(&mut fields, "type")?;
    Some(match type_name.as_str() {
        "text" => Content::Text { text: take_text(&mut fields, "text")?, extra: fields },
        "image" | "audio" => {
            let data = take_text(&mut fields, "data")?;
            let mime_type = take_text(&mut fields, "mimeType")?;
            match type_name.as_str() {
                "image" => Content::Image { data, mime_type, extra: fields },
                _ => Content::Audio { data, mime_type, extra: fields },
            }
        }
        "resource" => {
            let resource = read_resource(take_object(&mut fields, "resource")?)?;
            Content::Resource { resource, extra: fields }
        }
        _ => Content::ResourceLink(ResourceLink {
            uri: take_text(&mut fields, "uri")?,
            name: take_text(&mut fields, "name")?,
            title: take_text(&mut fields, "title"),
            description: take_text(&mut fields, "description"),
            mime_type: take_text(&mut fields, "mimeType"),
            extra: fields,
        }),
    })
}

fn read_resource(mut fields: Map<String, Value>) -> Option<ResourceContents> {
    let uri = take_text(&mut fields, "uri")?;
    let mime_type = take_text(&mut fields, "mimeType");
    let body = match take_text(&mut fields, "text") {
        Some(text) => ResourceBody::Text(text),
        None => ResourceBody::Blob(take_text(&mut fields, "blob")?),
    };
    Some(ResourceContents { uri, mime_type, body, extra: fields })
}

impl From<Content> for Value {
    fn from(content: Content) -> Value {
        let typed = |name: &str| Fields::default().set("type", name);
        match content {
            Content::Text { text, extra } => typed("text").set("text", text).with_extra(extra),
            Content::Image { data, mime_type, extra } => {
                typed("image").set("data", data).set("mimeType", mime_type).with_extra(extra)
            }
            Content::Audio { data, mime_type, extra } => {
                typed("audio").set("data", data).set("mimeType", mime_type).with_extra(extra)
            }
            Content::Resource { resource, extra } => {
                typed("resource").set("resource", resource).with_extra(extra)
            }
            Content::ResourceLink(link) => typed("resource_link")
                .set("uri", link.uri)
                .set("name", link.name)
                .set_some("title", link.title)
                .set_some("description", link.description)
                .set_some("mimeType", link.mime_type)
                .with_extra(link.extra),
            Content::Other(value) => value,
        }
    }
}

impl From<ResourceContents> for Value {
    fn from(resource: ResourceContents) -> Value {
        let fields = Fields::default().set("uri", resource.uri).set_some("mimeType", resource.mime_type);
        match resource.body {
            ResourceBody::Text(text) => fields.set("text", text),
            ResourceBody::Blob(blob) => fields.set("blob", blob),
        }
        .with_extra(resource.extra)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_round_trip(text: &str, type_name: Option<&str>, is_known: bool) {
        let content: Content = serde_json::from_str(text).expect("valid content");
        assert_eq!(serde_json::to_string(&content).expect("valid JSON"), text);
        assert_eq!(content.type_name(), type_name);
        assert_eq!(!matches!(content, Content::Other(_)), is_known, "{content:?}");
    }

    #[test]
    fn known_blocks_round_trip_byte_for_byte() {
        let cases = [
            (r#"{"type":"text","text":"a"}"#, "text"),
            (
                r#"{"type":"text","text":"","annotations":{"audience":["user"],"priority":0.50},"_meta":{"a":1e+2}}"#,
                "text",
            ),
            (r#"{"type":"image","data":"AA==","mimeType":"image/png","later":[1.0]}"#, "image"),
            (r#"{"type":"audio","data":"AA==","mimeType":"audio/wav"}"#, "audio"),
            (
                r#"{"type":"resource","resource":{"uri":"a:b","mimeType":"text/plain","text":"t","_meta":{}},"annotations":{}}"#,
                "resource",
            ),
            (r#"{"type":"resource","resource":{"uri":"a:b","blob":"AA=="}}"#, "resource"),
            (
                r#"{"type":"resource_link","uri":"a:b","name":"n","title":"t","description":"d","mimeType":"m","size":12345678901234567890,"icons":[]}"#,
                "resource_link",
            ),
        ];
        for (text, type_name) in cases {
            check_round_trip(text, Some(type_name), true);
        }
    }

    #[test]
    fn unknown_and_malformed_blocks_are_preserved() {
        let cases = [
            (r#"{"type":"video","data":"AA==","n":1.50}"#, Some("video")),
            (r#"{"type":"text"}"#, Some("text")),
            (r#"{"type":"text","text":5}"#, Some("text")),
            (r#"{"type":"image","data":"AA=="}"#, Some("image")),
            (r#"{"type":"resource","resource":{"uri":"a:b"}}"#, Some("resource")),
            (r#"{"type":"resource","resource":null}"#, Some("resource")),
            (r#"{"type":7}"#, None),
            ("null", None),
            ("12345678901234567890", None),
            (r#"["a"]"#, None),
        ];
        for (text, type_name) in cases {
            check_round_trip(text, type_name, false);
        }
    }

    #[test]
    fn the_audience_decides_whether_the_model_sees_a_block() {
        let cases = [
            (json!({"type": "text", "text": "a"}), true),
            (json!({"type": "text", "text": "a", "annotations": {"audience": ["user"]}}), false),
            (json!({"type": "text", "text": "a", "annotations": {"audience": ["user", "assistant"]}}), true),
            (json!({"type": "text", "text": "a", "annotations": {"audience": []}}), true),
            (json!({"type": "video", "annotations": {"audience": ["user"]}}), false),
            (
                json!({"type": "resource_link", "uri": "a", "name": "n", "annotations": {"audience": ["user"]}}),
                false,
            ),
        ];
        for (value, expected) in cases {
            assert_eq!(Content::from(value.clone()).is_for_model(), expected, "{value}");
        }
    }
}
