//! Reads forms with files (`multipart/form-data`), which some paths of OpenAI's API require, and which the
//! page sends.
//!
//! A form for a provider is forwarded unchanged except for the name of the model, so it must mean the same to
//! every parser. Forms that some parsers read differently are rejected: those with a boundary inside a part,
//! escaped or repeated names, line breaks that are not CRLF, nested forms, or encoded parts.

mod disposition;
#[cfg(test)]
mod tests;

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderMap};
use memchr::memmem;

use disposition::{Disposition, parameters};

/// The media type of forms with files.
pub(crate) const MEDIA_TYPE: &str = "multipart/form-data";

/// The maximum number of parts. OpenAI's API has at most a few dozen.
const MAX_PARTS: usize = 1_000;
/// The maximum size and number of the headers of a part.
const MAX_PART_HEADER_BYTES: usize = 8 * 1024;
const MAX_PART_HEADERS: usize = 16;
const MAX_BOUNDARY_BYTES: usize = 70;
const MAX_MODEL_BYTES: usize = 1_024;

const DISPOSITION: &str = "content-disposition";

/// A form, and the position of its field `model`.
#[derive(Debug)]
pub(crate) struct Form {
    bytes: Bytes,
    boundary: Boundary,
    model: Range<usize>,
    stored_reference: Option<String>,
}

/// The text between the parts of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Boundary(String);

/// The error for a form that cannot be forwarded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidForm {
    #[error("the header `Content-Type: multipart/form-data` needs one valid `boundary`")]
    Boundary,
    #[error("the form does not begin with its boundary")]
    Start,
    #[error("the form ends before its last boundary")]
    Truncated,
    #[error("the form continues after its last boundary")]
    Rest,
    #[error("the boundary of the form occurs within one of its parts")]
    BoundaryInPart,
    #[error("the form has more than {MAX_PARTS} parts")]
    TooManyParts,
    #[error(
        "the headers of a part of the form are invalid, or exceed {MAX_PART_HEADER_BYTES} bytes or {MAX_PART_HEADERS} lines"
    )]
    PartHeaders,
    #[error("a part of the form has an invalid or ambiguous header `{0}`")]
    PartHeader(&'static str),
    #[error("the field `{0}` of the form has an ambiguous name")]
    FieldName(String),
    #[error("`model` is required, as a field of the form")]
    NoModel,
    #[error("the form has several fields `model`")]
    SeveralModels,
    #[error("the field `model` of the form is not the name of a model")]
    Model,
}

impl InvalidForm {
    /// Returns the name of the field that is wrong.
    pub(crate) fn parameter(&self) -> Option<&str> {
        match self {
            InvalidForm::NoModel | InvalidForm::SeveralModels | InvalidForm::Model => Some("model"),
            InvalidForm::FieldName(name) => Some(name),
            _ => None,
        }
    }
}

impl Boundary {
    /// Reads the boundary from the header of a request whose media type is [`MEDIA_TYPE`].
    pub(crate) fn of(headers: &HeaderMap) -> Result<Boundary, InvalidForm> {
        let content_type = headers.get(CONTENT_TYPE).ok_or(InvalidForm::Boundary)?;
        let (_, rest) = split_media_type(content_type.as_bytes());
        let mut found = None;
        for (name, value) in parameters(rest).ok_or(InvalidForm::Boundary)? {
            let is_boundary = name.eq_ignore_ascii_case(b"boundary");
            if is_boundary && found.replace(value).is_some() {
                return Err(InvalidForm::Boundary);
            }
        }
        let text = found.and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default();
        // RFC 2046 allows spaces too, which parsers trim differently.
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(&byte);
        match (1..=MAX_BOUNDARY_BYTES).contains(&text.len()) && text.bytes().all(is_allowed) {
            true => Ok(Boundary(text.to_owned())),
            false => Err(InvalidForm::Boundary),
        }
    }

    /// Returns the header with which the form is sent.
    pub(crate) fn content_type(&self) -> String {
        format!("{MEDIA_TYPE}; boundary=\"{}\"", self.0)
    }
}

/// Splits a header such as `text/plain; charset=utf-8` after the media type, which is trimmed.
pub(crate) fn split_media_type(header: &[u8]) -> (&[u8], &[u8]) {
    let end = header.iter().position(|byte| *byte == b';').unwrap_or(header.len());
    (header[..end].trim_ascii(), &header[end..])
}

impl Form {
    /// Reads a complete form.
    pub(crate) fn read(bytes: Bytes, boundary: Boundary) -> Result<Form, InvalidForm> {
        let (mut model, mut stored_reference) = (None, None);
        for part in parts(&bytes, &boundary)? {
            let Disposition { name, file_name } = part.disposition;
            check_name(name)?;
            if refers_to_stored_data(name) {
                stored_reference.get_or_insert_with(|| name.to_owned());
            }
            if name != "model" {
                continue;
            }
            if file_name.is_some() || !is_model_name(&bytes[part.content.clone()]) {
                return Err(InvalidForm::Model);
            }
            if model.replace(part.content).is_some() {
                return Err(InvalidForm::SeveralModels);
            }
        }
        let model = model.ok_or(InvalidForm::NoModel)?;
        Ok(Form { bytes, boundary, model, stored_reference })
    }

    /// Returns the size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the name of the model.
    pub(crate) fn model(&self) -> &str {
        // It was checked when the form was read.
        std::str::from_utf8(&self.bytes[self.model.clone()]).unwrap_or_default()
    }

    pub(crate) fn content_type(&self) -> String {
        self.boundary.content_type()
    }

    /// Returns the name of the first field that refers to data that the provider has stored.
    pub(crate) fn stored_reference(&self) -> Option<&str> {
        self.stored_reference.as_deref()
    }

    /// Returns the form with another name of the model. All other bytes are unchanged. They are usually not
    /// copied to another buffer, because files are large.
    pub(crate) fn with_model(self, name: &str) -> Bytes {
        let Form { bytes, model, .. } = self;
        if bytes[model.clone()] == *name.as_bytes() {
            return bytes;
        }
        let (old_length, name_end) = (bytes.len(), model.start + name.len());
        let new_length = old_length - model.len() + name.len();
        let mut bytes = BytesMut::from(bytes);
        bytes.resize(old_length.max(new_length), 0);
        bytes.copy_within(model.end..old_length, name_end);
        bytes[model.start..name_end].copy_from_slice(name.as_bytes());
        bytes.truncate(new_length);
        bytes.freeze()
    }
}

/// A part of a form: its names, and the position of its content.
pub(crate) struct FormPart<'f> {
    pub(crate) disposition: Disposition<'f>,
    pub(crate) content: Range<usize>,
}

/// Finds the parts of a form: `--B CRLF headers CRLF CRLF content CRLF --B … CRLF --B--`.
pub(crate) fn parts<'f>(bytes: &'f [u8], boundary: &Boundary) -> Result<Vec<FormPart<'f>>, InvalidForm> {
    let delimiter = format!("--{}", boundary.0);
    if !bytes.starts_with(delimiter.as_bytes()) {
        return Err(InvalidForm::Start);
    }
    let mut parts = Vec::new();
    let mut open: Option<(Disposition<'f>, usize)> = None;
    for position in memmem::find_iter(bytes, &delimiter) {
        // Parsers ignore the boundary in the middle of a line.
        if position > 0 && !matches!(bytes[position - 1], b'\r' | b'\n') {
            continue;
        }
        if let Some((disposition, start)) = open.take() {
            let end =
                position.checked_sub(2).filter(|end| start <= *end && bytes[*end..].starts_with(b"\r\n"));
            let content = start..end.ok_or(InvalidForm::BoundaryInPart)?;
            if parts.len() == MAX_PARTS {
                return Err(InvalidForm::TooManyParts);
            }
            parts.push(FormPart { disposition, content });
        }
        let after = position + delimiter.len();
        match &bytes[after..] {
            [b'\r', b'\n', ..] => {
                let start = after + 2;
                let limit = bytes.len().min(start + MAX_PART_HEADER_BYTES);
                let length = memmem::find(&bytes[start..limit], b"\r\n\r\n").ok_or(match limit {
                    limit if limit == bytes.len() => InvalidForm::Truncated,
                    _ => InvalidForm::PartHeaders,
                })?;
                open = Some((part_headers(&bytes[start..start + length])?, start + length + 4));
            }
            [b'-', b'-', rest @ ..] => {
                return if matches!(rest, b"" | b"\r\n" | b"\r\n\r\n") {
                    Ok(parts)
                } else {
                    Err(InvalidForm::Rest)
                };
            }
            [] | [b'\r' | b'-'] => return Err(InvalidForm::Truncated),
            _ => return Err(InvalidForm::BoundaryInPart),
        }
    }
    Err(InvalidForm::Truncated)
}

/// Checks the headers of a part, and returns its names.
fn part_headers(headers: &[u8]) -> Result<Disposition<'_>, InvalidForm> {
    const ENCODING: &str = "content-transfer-encoding";
    if headers.iter().any(|byte| matches!(byte, 0..=8 | 11 | 12 | 14..=31 | 127)) {
        return Err(InvalidForm::PartHeaders);
    }
    let mut disposition = None;
    let mut rest = Some(headers);
    let mut count = 0;
    while let Some(headers) = rest {
        let end = memmem::find(headers, b"\r\n");
        let line = &headers[..end.unwrap_or(headers.len())];
        rest = end.map(|end| &headers[end + 2..]);
        count += 1;
        let colon = line.iter().position(|byte| *byte == b':').ok_or(InvalidForm::PartHeaders)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        // A line that begins with a space would continue the previous header.
        let is_name =
            !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
        if count > MAX_PART_HEADERS || !is_name || line.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
            return Err(InvalidForm::PartHeaders);
        }
        if name.eq_ignore_ascii_case(DISPOSITION.as_bytes()) {
            let read = Disposition::read(value).ok_or(InvalidForm::PartHeader(DISPOSITION))?;
            if disposition.replace(read).is_some() {
                return Err(InvalidForm::PartHeader(DISPOSITION));
            }
        } else if name.eq_ignore_ascii_case(ENCODING.as_bytes()) {
            let is_plain =
                ["7bit", "8bit", "binary"].iter().any(|plain| value.eq_ignore_ascii_case(plain.as_bytes()));
            if !is_plain {
                return Err(InvalidForm::PartHeader(ENCODING));
            }
        } else if name.eq_ignore_ascii_case(CONTENT_TYPE.as_str().as_bytes())
            && value.get(..10).is_some_and(|start| start.eq_ignore_ascii_case(b"multipart/"))
        {
            return Err(InvalidForm::PartHeader("content-type"));
        }
    }
    disposition.ok_or(InvalidForm::PartHeader(DISPOSITION))
}

/// Rejects names that some parsers take for `model`, or that they decode.
fn check_name(name: &str) -> Result<(), InvalidForm> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.[]".contains(&byte);
    if !name.bytes().all(is_plain) {
        return Err(InvalidForm::PartHeader(DISPOSITION));
    }
    let base = name.split(['[', '.']).next().unwrap_or(name);
    match name != "model" && base.eq_ignore_ascii_case("model") {
        true => Err(InvalidForm::FieldName(name.to_owned())),
        false => Ok(()),
    }
}

/// Whether a field such as `images[0][file_id]` contains the id of a file.
fn refers_to_stored_data(name: &str) -> bool {
    let mut keys = name.split(['[', ']', '.']);
    keys.any(|key| ["file_id", "file_ids"].iter().any(|stored| key.eq_ignore_ascii_case(stored)))
}

fn is_model_name(value: &[u8]) -> bool {
    (1..=MAX_MODEL_BYTES).contains(&value.len())
        && std::str::from_utf8(value).is_ok_and(|text| !text.chars().any(char::is_control))
}
