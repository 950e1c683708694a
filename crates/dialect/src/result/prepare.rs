//! Prepares a result: converts its content into parts that an API accepts.

use serde_json::Value;
use toolwire_contract::model::UnsupportedContent;
use toolwire_contract::text::format_size;
use toolwire_contract::{Content, ResourceBody, ResourceContents, ResourceLink};

use super::client_part::{MediaKind, result_part};
use super::media::{self, Media, decode, encode, file_name, is_recognizable, is_textual, normalize_type};
use super::text::{
    FOR_USER_ONLY, NO_OUTPUT, clean, clean_value, duplicates, has_exact_numbers, has_ref_key, truncate_all,
    without_base64,
};
use super::{CallOutcome, ResultOptions};
use crate::Dialect;
use crate::request::wire_id;
use crate::response::ReceivedCall;

/// The content that an API accepts in a tool result or a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContentLimits {
    pub(crate) image_types: &'static [&'static str],
    pub(crate) max_image_bytes: usize,
    /// The maximum length of the longer side in pixels.
    pub(crate) max_image_side: u32,
    pub(crate) file_types: &'static [&'static str],
    pub(crate) max_file_bytes: usize,
    /// Whether media of any type is accepted, including audio.
    pub(crate) accepts_any_media: bool,
    /// Whether the model accepts images and files, see [`ResultOptions`].
    pub(crate) images: bool,
    pub(crate) files: bool,
    /// The maximum number of characters of text in one result.
    pub(crate) max_text_chars: usize,
    pub(crate) structured: StructuredContent,
}

/// The format in which structured content is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StructuredContent {
    /// As JSON text.
    Text,
    /// As a value, unless its numbers would lose digits.
    Value,
    /// As a value, unless its numbers would lose digits or it has a key `$ref`, which the API reads as its
    /// own reference.
    ValueWithoutRefs,
}

impl ContentLimits {
    /// Only text.
    pub(crate) const TEXT: ContentLimits = ContentLimits {
        image_types: &[],
        max_image_bytes: 0,
        max_image_side: u32::MAX,
        file_types: &[],
        max_file_bytes: 0,
        accepts_any_media: false,
        images: true,
        files: true,
        // OpenAI's limit is 10,485,760; the rest is reserved for line breaks, notes and the prefix `Error:`.
        max_text_chars: 10_000_000,
        structured: StructuredContent::Text,
    };

    /// Applies the limits of the model.
    pub(crate) fn with_options(self, options: &ResultOptions) -> ContentLimits {
        let budget = options.text_budget.unwrap_or(usize::MAX);
        let max_text_chars = self.max_text_chars.min(budget);
        ContentLimits { images: options.images, files: options.files, max_text_chars, ..self }
    }

    /// Returns the media types that the API and the model accept.
    fn accepted_types(&self) -> Vec<&'static str> {
        let images = self.image_types.iter().filter(|_| self.images);
        images.chain(self.file_types.iter().filter(|_| self.files)).copied().collect()
    }

    /// Whether every image, or every other file, is accepted.
    fn accepts_every(&self, is_image: bool) -> bool {
        self.accepts_any_media && if is_image { self.images } else { self.files }
    }
}

/// A result whose content an API accepts, ready to be written in a family's JSON.
pub(crate) struct PreparedResult<'a> {
    pub(crate) call: &'a ReceivedCall,
    /// The id of the call in this dialect.
    pub(crate) id: String,
    /// In the result's order. No text is empty.
    pub(crate) parts: Vec<ContentPart>,
    /// Structured content that is sent as a value; the parts do not repeat it.
    pub(crate) structured: Option<Value>,
    pub(crate) is_error: bool,
    /// The result as the client wrote it in the format of this family, if no content can represent it.
    pub(crate) client_item: Option<&'a Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ContentPart {
    Text(String),
    Image(Media),
    /// A file that the API accepts, or any media where it accepts all.
    File(Media),
    /// A part that the client wrote in the format of this family.
    Native(Value),
}

impl ContentPart {
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            ContentPart::Text(text) => Some(text),
            ContentPart::Image(_) | ContentPart::File(_) | ContentPart::Native(_) => None,
        }
    }

    pub(crate) fn as_media(&self) -> Option<&Media> {
        match self {
            ContentPart::Text(_) | ContentPart::Native(_) => None,
            ContentPart::Image(media) | ContentPart::File(media) => Some(media),
        }
    }
}

impl<'a> PreparedResult<'a> {
    pub(crate) fn new(
        dialect: Dialect,
        outcome: &CallOutcome<'a>,
        limits: &ContentLimits,
    ) -> PreparedResult<'a> {
        let missing;
        let result = match outcome.result {
            Some(result) => result,
            None => {
                missing = super::missing_result();
                &missing
            }
        };
        let blocks: Vec<&Content> = result.blocks().iter().filter(|block| block.is_for_model()).collect();

        let mut structured = None;
        let mut structured_text = None;
        let mut duplicate_blocks = Vec::new();
        if let Some(value) = &result.structured_content {
            let (positions, texts): (Vec<usize>, Vec<&str>) = blocks
                .iter()
                .enumerate()
                .filter_map(|(position, block)| match block {
                    Content::Text { text, .. } => Some((position, text.as_str())),
                    _ => None,
                })
                .unzip();
            let duplicates = duplicates(value, &texts);
            if is_sent_as_value(value, limits) {
                structured = Some(clean_value(value));
                duplicate_blocks = duplicates.into_iter().map(|duplicate| positions[duplicate]).collect();
            } else if duplicates.is_empty() {
                structured_text = Some(value.to_string());
            }
        }

        let sent = blocks.iter().enumerate().filter(|(position, _)| !duplicate_blocks.contains(position));
        let meta_key = dialect.family().meta_key();
        let part = |(_, block): (usize, &&Content)| result_part(block, meta_key, limits);
        let mut parts: Vec<ContentPart> = sent.map(part).collect();
        parts.extend(structured_text.map(ContentPart::Text));
        if parts.is_empty() && structured.is_none() && blocks.len() < result.blocks().len() {
            parts.push(ContentPart::Text(FOR_USER_ONLY.to_owned()));
        }
        let texts = parts.iter_mut().filter_map(|part| match part {
            ContentPart::Text(text) => Some(text),
            _ => None,
        });
        truncate_all(texts, limits.max_text_chars);
        parts.retain(|part| part.as_text() != Some(""));
        let id = wire_id(dialect, outcome.call.id.as_str());
        let meta = outcome.result.and_then(|result| result.extra.get("_meta"));
        let client_item = meta.and_then(|meta| meta.get(meta_key));
        let is_error = result.is_error();
        PreparedResult { call: outcome.call, id, parts, structured, is_error, client_item }
    }

    /// Returns the texts. Each media part is replaced by a note with its location, such as
    /// `[image/png, 12 kB, attached]`. There is always at least one text.
    pub(crate) fn texts(&self, location: &str) -> Vec<String> {
        let mut texts: Vec<String> = self
            .parts
            .iter()
            .map(|part| match part {
                ContentPart::Text(text) => text.clone(),
                ContentPart::Native(part) => match MediaKind::of(part) {
                    Some(kind) => kind.note(part, location),
                    None => part.to_string(),
                },
                ContentPart::Image(media) | ContentPart::File(media) => {
                    format!("[{}, {}, {location}]", media.media_type, format_size(media.bytes))
                }
            })
            .collect();
        if texts.is_empty() {
            texts.push(NO_OUTPUT.to_owned());
        }
        texts
    }

    /// Returns [`PreparedResult::texts`] for APIs without an error flag: the first text is marked as an
    /// error.
    pub(crate) fn texts_with_error(&self, location: &str) -> Vec<String> {
        let mut texts = self.texts(location);
        if self.is_error {
            texts[0] = error_text(&texts[0]);
        }
        texts
    }

    /// Iterates over the media parts.
    pub(crate) fn media(&self) -> impl Iterator<Item = &Media> {
        self.parts.iter().filter_map(ContentPart::as_media)
    }

    /// Iterates over the media parts that are separate from their result, each with the line before it.
    pub(crate) fn separate_media(&self) -> impl Iterator<Item = (String, &ContentPart)> {
        self.parts.iter().filter_map(|part| {
            let kind = match part {
                ContentPart::Text(_) => return None,
                ContentPart::Native(part) => MediaKind::of(part)?,
                ContentPart::Image(media) | ContentPart::File(media) => media.kind(),
            };
            Some((self.label_of(kind), part))
        })
    }

    /// Returns the line before media that is separate from its result. It names the call and quotes nothing
    /// from the tool: text of a tool must not look like text of the user.
    pub(crate) fn label(&self, media: &Media) -> String {
        self.label_of(media.kind())
    }

    fn label_of(&self, kind: MediaKind) -> String {
        let kind = match kind {
            MediaKind::Image => "Image",
            MediaKind::File => "File",
        };
        format!("{kind} returned by `{}` (call {}):", self.call.name, self.id)
    }
}

/// Marks a text as an error, unless it already is.
pub(crate) fn error_text(text: &str) -> String {
    if text.starts_with("Error:") { text.to_owned() } else { format!("Error: {text}") }
}

fn is_sent_as_value(value: &Value, limits: &ContentLimits) -> bool {
    let is_in_budget = || value.to_string().chars().count() <= limits.max_text_chars;
    match limits.structured {
        StructuredContent::Text => false,
        StructuredContent::Value => has_exact_numbers(value) && is_in_budget(),
        StructuredContent::ValueWithoutRefs => {
            has_exact_numbers(value) && !has_ref_key(value) && is_in_budget()
        }
    }
}

/// Converts a block to a part that the API accepts.
pub(crate) fn content_part(block: &Content, limits: &ContentLimits) -> ContentPart {
    match block {
        Content::Text { text, .. } => ContentPart::Text(clean(text)),
        Content::Resource {
            resource: ResourceContents { uri, body: ResourceBody::Text(text), .. }, ..
        } => ContentPart::Text(clean(&format!("{uri}\n{text}"))),
        Content::ResourceLink(link) => ContentPart::Text(clean(&link_text(link))),
        Content::Other(value) => ContentPart::Text(clean(&without_base64(value).to_string())),
        media => match EncodedMedia::of(media) {
            Some(media) => media_part(&media, limits),
            None => ContentPart::Text(String::new()),
        },
    }
}

/// Checks whether an API accepts a block as it is.
pub(crate) fn check_content(block: &Content, limits: &ContentLimits) -> Result<(), UnsupportedContent> {
    let Some(media) = EncodedMedia::of(block) else { return Ok(()) };
    supported_media(&media, limits).map(drop).map_err(|(problem, _)| problem)
}

/// Media as a block contains it.
struct EncodedMedia<'a> {
    /// Base64.
    data: &'a str,
    declared: Option<&'a str>,
    uri: Option<&'a str>,
    /// The name of the resource.
    name: Option<String>,
    detail: Option<String>,
}

impl<'a> EncodedMedia<'a> {
    fn of(block: &'a Content) -> Option<EncodedMedia<'a>> {
        let (data, declared, uri) = match block {
            Content::Image { data, mime_type, .. } | Content::Audio { data, mime_type, .. } => {
                (data, Some(mime_type.as_str()), None)
            }
            Content::Resource { resource: ResourceContents { uri, mime_type, body, .. }, .. } => match body {
                ResourceBody::Blob(blob) => (blob, mime_type.as_deref(), Some(uri.as_str())),
                ResourceBody::Text(_) => return None,
            },
            _ => return None,
        };
        let detail = image_detail(block).map(str::to_owned);
        Some(EncodedMedia { data, declared, uri, name: block.resource_name(), detail })
    }
}

/// The key of `_meta` for the resolution in which OpenAI's models see an image: `low`, `high` or `original`.
pub(crate) const IMAGE_DETAIL: &str = "toolwire/detail";

/// Returns the resolution in which OpenAI's models see an image, if a client has set it.
pub(crate) fn image_detail(content: &Content) -> Option<&str> {
    let Content::Image { extra, .. } = content else { return None };
    extra.get("_meta")?.get(IMAGE_DETAIL)?.as_str()
}

/// Describes a link. The link is not followed.
fn link_text(link: &ResourceLink) -> String {
    let mut text = format!("[resource link: {}", link.name);
    if let Some(title) = link.title.as_deref().filter(|title| *title != link.name) {
        text.push_str(&format!(" ({title})"));
    }
    text.push_str(&format!(", {}", link.uri));
    if let Some(mime_type) = &link.mime_type {
        text.push_str(&format!(", {mime_type}"));
    }
    if let Some(bytes) = link.extra.get("size").and_then(Value::as_u64) {
        text.push_str(&format!(", {}", format_size(usize::try_from(bytes).unwrap_or(usize::MAX))));
    }
    text.push(']');
    if let Some(description) = &link.description {
        text.push_str(&format!("\n{description}"));
    }
    text
}

/// Converts media to media that the API accepts, to text, or to a note. Media that an API rejects must not be
/// sent: it would stay in the history, and the API would reject every later request.
fn media_part(media: &EncodedMedia<'_>, limits: &ContentLimits) -> ContentPart {
    supported_media(media, limits).unwrap_or_else(|(problem, bytes)| {
        let (media_type, reason) = match &problem {
            UnsupportedContent::InvalidBase64 { media_type } => {
                (media_type.as_str(), ": invalid base64".to_owned())
            }
            UnsupportedContent::OtherType { media_type } => {
                (media_type.as_str(), ": the bytes have another type".to_owned())
            }
            UnsupportedContent::TooLarge { media_type, max_bytes, .. } => {
                (media_type.as_str(), format!(": over the limit of {}", format_size(*max_bytes)))
            }
            UnsupportedContent::TooLong { media_type, max_pixels, .. } => {
                (media_type.as_str(), format!(": longer than {max_pixels} pixels"))
            }
            UnsupportedContent::MediaType { media_type, .. } => (media_type.as_str(), String::new()),
            _ => ("", String::new()),
        };
        let uri = media.uri.map(|uri| format!("{uri}, ")).unwrap_or_default();
        let bytes = bytes.map(|bytes| format!("{}, ", format_size(bytes))).unwrap_or_default();
        ContentPart::Text(clean(&format!("[{uri}{media_type}, {bytes}omitted{reason}]")))
    })
}

/// Converts media to media that the API accepts, or to text. The error has the number of bytes, if it is
/// known.
fn supported_media(
    EncodedMedia { data, declared, uri, name, detail }: &EncodedMedia<'_>,
    limits: &ContentLimits,
) -> Result<ContentPart, (UnsupportedContent, Option<usize>)> {
    let declared = normalize_type(declared.unwrap_or_default());
    let Some(bytes) = decode(data) else {
        return Err((UnsupportedContent::InvalidBase64 { media_type: declared }, None));
    };
    let count = bytes.len();
    let unsupported = |problem: UnsupportedContent| Err((problem, Some(count)));
    let media_type = match media::media_type(&bytes) {
        Some(actual) => actual.to_owned(),
        None if is_recognizable(&declared) => {
            return unsupported(UnsupportedContent::OtherType { media_type: declared });
        }
        None => declared,
    };
    if is_textual(&media_type)
        && let Ok(text) = std::str::from_utf8(&bytes)
    {
        let head = uri.map(|uri| format!("{uri}\n")).unwrap_or_default();
        return Ok(ContentPart::Text(clean(&format!("{head}{text}"))));
    }
    let is_image = media_type.starts_with("image/");
    let accepted = limits.accepted_types();
    let is_accepted = accepted.contains(&media_type.as_str()) || limits.accepts_every(is_image);
    if !is_accepted {
        let accepted = accepted.into_iter().map(str::to_owned).collect();
        return unsupported(UnsupportedContent::MediaType { media_type, accepted });
    }
    let max_bytes = if is_image { limits.max_image_bytes } else { limits.max_file_bytes };
    if count > max_bytes {
        return unsupported(UnsupportedContent::TooLarge { media_type, bytes: count, max_bytes });
    }
    let max_pixels = limits.max_image_side;
    if let Some(pixels) = media::image_size(&bytes)
        .map(|(width, height)| width.max(height))
        .filter(|side| is_image && *side > max_pixels)
    {
        return unsupported(UnsupportedContent::TooLong { media_type, pixels, max_pixels });
    }
    let name = file_name(name.as_deref(), &media_type);
    let media = Media { data: encode(&bytes), bytes: count, name, media_type, detail: detail.clone() };
    Ok(if is_image { ContentPart::Image(media) } else { ContentPart::File(media) })
}
