//! A result as pieces that an API can carry.

use serde_json::Value;
use toolwire_contract::{Content, ResourceBody, ResourceContents, ResourceLink, ToolResult};

use super::ResultOptions;
use super::media::{self, Media, decode, encode, file_name, is_recognisable, is_textual, plain_type, sniff};
use super::text::{
    FOR_USER_ONLY, NO_OUTPUT, clean, clean_value, cut, has_plain_numbers, has_ref_key, readable, size, twins,
};

/// What an API takes in a tool result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carrier {
    pub(crate) image_types: &'static [&'static str],
    pub(crate) image_bytes: usize,
    /// The longest side of an image in pixels.
    pub(crate) image_side: u32,
    pub(crate) file_types: &'static [&'static str],
    pub(crate) file_bytes: usize,
    /// Whether media of any type may be attached, sounds too.
    pub(crate) attaches_all: bool,
    /// The most characters of text in one result.
    pub(crate) text_characters: usize,
    pub(crate) structured: Structured,
}

/// How structured content goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Structured {
    /// As JSON text.
    Text,
    /// As a value, unless its numbers would lose digits.
    Value,
    /// As a value, unless its numbers would lose digits or it has a key `$ref`, which the API takes for a link of its own.
    ValueWithoutRefs,
}

impl Carrier {
    /// Text and nothing else.
    pub(crate) const TEXT: Carrier = Carrier {
        image_types: &[],
        image_bytes: 0,
        image_side: u32::MAX,
        file_types: &[],
        file_bytes: 0,
        attaches_all: false,
        // OpenAI's limit is 10,485,760; the rest is room for line breaks, notes and the word `Error`.
        text_characters: 10_000_000,
        structured: Structured::Text,
    };
}

/// A result as pieces that an API can carry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prepared {
    /// In the result's order. No text is empty.
    pub(crate) pieces: Vec<Piece>,
    /// Structured content that goes out as a value; it stands in no piece then.
    pub(crate) structured: Option<Value>,
    pub(crate) failed: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    Image(Media),
    /// A file the API takes, or anything where it attaches all.
    File(Media),
}

impl Prepared {
    pub(crate) fn new(result: &ToolResult, carrier: &Carrier, options: &ResultOptions) -> Prepared {
        let budget = options.text_budget.unwrap_or(usize::MAX).min(carrier.text_characters);
        let blocks: Vec<&Content> = result.blocks().iter().filter(|block| block.is_for_model()).collect();
        let is_withheld = blocks.len() < result.blocks().len();

        let mut structured = None;
        let mut structured_text = None;
        let mut twin_blocks = Vec::new();
        if let Some(value) = &result.structured_content {
            let places: Vec<usize> =
                (0..blocks.len()).filter(|&place| text_of(blocks[place]).is_some()).collect();
            let texts: Vec<&str> = blocks.iter().filter_map(|block| text_of(block)).collect();
            let twins: Vec<usize> = twins(value, &texts).into_iter().map(|twin| places[twin]).collect();
            if goes_as_value(value, carrier, budget) {
                structured = Some(clean_value(value));
                twin_blocks = twins;
            } else if twins.is_empty() {
                structured_text = Some(value.to_string());
            }
        }

        let shown = blocks.iter().enumerate().filter(|(place, _)| !twin_blocks.contains(place));
        let mut pieces: Vec<Piece> = shown.map(|(_, block)| piece(block, carrier, options)).collect();
        pieces.extend(structured_text.map(Piece::Text));
        if pieces.is_empty() && structured.is_none() && is_withheld {
            pieces.push(Piece::Text(FOR_USER_ONLY.to_owned()));
        }
        let texts = pieces.iter_mut().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text),
            _ => None,
        });
        cut(texts, budget);
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        Prepared { pieces, structured, failed: result.is_error() }
    }

    /// The texts, with a line from `note` in place of each piece of media; never none.
    pub(crate) fn texts(&self, note: impl Fn(&Media) -> String) -> Vec<String> {
        let mut texts: Vec<String> = self
            .pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Image(media) | Piece::File(media) => note(media),
            })
            .collect();
        if texts.is_empty() {
            texts.push(NO_OUTPUT.to_owned());
        }
        texts
    }

    /// [`Prepared::texts`] for APIs without a flag for errors: the first text says it.
    pub(crate) fn plain_texts(&self, note: impl Fn(&Media) -> String) -> Vec<String> {
        let mut texts = self.texts(note);
        if self.failed {
            texts[0] = error_text(&texts[0]);
        }
        texts
    }

    /// The media, in order.
    pub(crate) fn media(&self) -> impl Iterator<Item = &Media> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Image(media) | Piece::File(media) => Some(media),
        })
    }
}

/// A text that says it is an error, once.
pub(crate) fn error_text(text: &str) -> String {
    if text.starts_with("Error:") { text.to_owned() } else { format!("Error: {text}") }
}

/// `[image/png, 12 kB, attached]`: a line in place of media that stands elsewhere, or nowhere.
pub(crate) fn note(media: &Media, where_it_is: &str) -> String {
    format!("[{}, {}, {where_it_is}]", media.media_type, size(media.bytes))
}

fn text_of(block: &Content) -> Option<&str> {
    match block {
        Content::Text { text, .. } => Some(text),
        _ => None,
    }
}

fn goes_as_value(value: &Value, carrier: &Carrier, budget: usize) -> bool {
    let fits = || value.to_string().chars().count() <= budget;
    match carrier.structured {
        Structured::Text => false,
        Structured::Value => has_plain_numbers(value) && fits(),
        Structured::ValueWithoutRefs => has_plain_numbers(value) && !has_ref_key(value) && fits(),
    }
}

/// One block, as far as the API can carry it.
pub(crate) fn piece(block: &Content, carrier: &Carrier, options: &ResultOptions) -> Piece {
    match block {
        Content::Text { text, .. } => Piece::Text(clean(text)),
        Content::Image { data, mime_type, .. } | Content::Audio { data, mime_type, .. } => {
            media_piece(data, Some(mime_type), None, carrier, options)
        }
        Content::Resource { resource, .. } => resource_piece(resource, carrier, options),
        Content::ResourceLink(link) => Piece::Text(clean(&link_text(link))),
        Content::Other(value) => Piece::Text(clean(&readable(value).to_string())),
    }
}

fn resource_piece(resource: &ResourceContents, carrier: &Carrier, options: &ResultOptions) -> Piece {
    let uri = resource.uri.as_str();
    match &resource.body {
        ResourceBody::Text(text) => Piece::Text(clean(&format!("{uri}\n{text}"))),
        ResourceBody::Blob(blob) => {
            media_piece(blob, resource.mime_type.as_deref(), Some(uri), carrier, options)
        }
    }
}

/// A link, told and not followed.
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
        text.push_str(&format!(", {}", size(usize::try_from(bytes).unwrap_or(usize::MAX))));
    }
    text.push(']');
    if let Some(description) = &link.description {
        text.push_str(&format!("\n{description}"));
    }
    text
}

/// Media the API takes, text that came as bytes, or a note. What an API would refuse must not go out: it would stay in
/// the history and every later request would be refused for it.
fn media_piece(
    data: &str,
    declared: Option<&str>,
    uri: Option<&str>,
    carrier: &Carrier,
    options: &ResultOptions,
) -> Piece {
    let declared = plain_type(declared.unwrap_or_default());
    let noted = |media_type: &str, bytes: Option<usize>, reason: &str| {
        let uri = uri.map(|uri| format!("{uri}, ")).unwrap_or_default();
        let bytes = bytes.map(|bytes| format!("{}, ", size(bytes))).unwrap_or_default();
        Piece::Text(clean(&format!("[{uri}{media_type}, {bytes}not shown{reason}]")))
    };
    let Some(bytes) = decode(data) else { return noted(&declared, None, ": not readable as base64") };
    let count = Some(bytes.len());
    let media_type = match sniff(&bytes) {
        Some(actual) => actual.to_owned(),
        None if is_recognisable(&declared) => {
            return noted(&declared, count, ": the bytes are of another type");
        }
        None => declared,
    };
    if is_textual(&media_type)
        && let Ok(text) = std::str::from_utf8(&bytes)
    {
        let head = uri.map(|uri| format!("{uri}\n")).unwrap_or_default();
        return Piece::Text(clean(&format!("{head}{text}")));
    }
    let is_image = media_type.starts_with("image/");
    let (types, limit, is_wanted) = if is_image {
        (carrier.image_types, carrier.image_bytes, options.images)
    } else {
        (carrier.file_types, carrier.file_bytes, options.files)
    };
    if !is_wanted || !(carrier.attaches_all || types.contains(&media_type.as_str())) {
        return noted(&media_type, count, "");
    }
    if bytes.len() > limit {
        return noted(&media_type, count, &format!(": over the limit of {}", size(limit)));
    }
    if is_image && media::longer_side(&bytes).is_some_and(|side| side > carrier.image_side) {
        return noted(&media_type, count, &format!(": wider than {} pixels", carrier.image_side));
    }
    let name = file_name(uri, &media_type);
    let media = Media { data: encode(&bytes), bytes: bytes.len(), name, media_type };
    if is_image { Piece::Image(media) } else { Piece::File(media) }
}
