//! What a person sends: texts, files, decisions.

use http::header::CONTENT_TYPE;
use toolwire_contract::text::format_size;
use toolwire_contract::{Block, Content, Message, ResourceBody, Role};

use super::super::failure::PageFailure;
use super::super::request::PageRequest;
use super::multipart;

/// The fields of a form, and its files.
#[derive(Default)]
pub(super) struct Input {
    fields: Vec<(String, String)>,
    pub(super) files: Vec<File>,
}

/// A file of a form.
pub(super) struct File {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

impl Input {
    /// Reads a form of either encoding.
    pub(super) fn read(request: &PageRequest) -> Result<Input, PageFailure> {
        let content_type = request.head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let Some(boundary) = content_type.and_then(multipart::boundary) else {
            return Ok(Input { fields: request.fields()?, files: Vec::new() });
        };
        let parts = multipart::parts(&request.body, &boundary)
            .ok_or_else(|| PageFailure::invalid("the form is not valid `multipart/form-data`"))?;
        let mut input = Input::default();
        for part in parts {
            match part.file_name {
                // A browser sends an empty part for a field without a file.
                Some(name) if name.is_empty() && part.body.is_empty() => {}
                Some(name) => input.files.push(File { name, bytes: part.body.to_vec() }),
                None => {
                    let text = String::from_utf8_lossy(part.body).replace("\r\n", "\n");
                    input.fields.push((part.name, text));
                }
            }
        }
        Ok(input)
    }

    pub(super) fn fields(&self) -> &[(String, String)] {
        &self.fields
    }

    /// Returns the first value of a field.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// Returns all values of a field.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_str())
    }
}

/// Returns the content of an uploaded file. Its type is recognized by its bytes; the name is only a name.
pub(super) fn recognize(file: File) -> Result<Content, PageFailure> {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    let File { name, bytes } = file;
    let failed = |problem: String| {
        PageFailure::invalid(format!("cannot attach `{name}`: {problem}"))
            .with_hint("attach UTF-8 text, a PDF, or a PNG, JPEG, GIF or WebP image")
    };
    if let Some(media_type) = toolwire_dialect::result::media_type(&bytes) {
        return Ok(Content::attached_file(&name, media_type, BASE64_STANDARD.encode(&bytes)));
    }
    match String::from_utf8(bytes) {
        Ok(text) if text.trim().is_empty() => Err(failed("the file is empty".to_owned())),
        Ok(text) if text.contains('\0') => Err(failed("it is neither text nor an image or a PDF".to_owned())),
        Ok(text) => {
            let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
            Ok(Content::attached_text(&name, text))
        }
        Err(error) => {
            let position = error.utf8_error().valid_up_to();
            Err(failed(format!("neither UTF-8 text (invalid byte at {position}) nor an image or a PDF")))
        }
    }
}

/// Describes an attached file: `image/png, 12 kB`.
pub(super) fn describe(content: &Content) -> String {
    let Content::Resource { resource, .. } = content else { return String::new() };
    match &resource.body {
        ResourceBody::Text(text) => format!("text, {}", format_size(text.len())),
        ResourceBody::Blob(data) => {
            let bytes = data.trim_end_matches('=').len() * 3 / 4;
            format!("{}, {}", resource.mime_type.as_deref().unwrap_or("file"), format_size(bytes))
        }
    }
}

/// Returns the texts of a message, without calls and results.
pub(super) fn text_of(message: &Message) -> String {
    let texts: Vec<&str> = message
        .content
        .iter()
        .filter_map(|block| match block {
            Block::Content(Content::Text { text, .. }) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    texts.join("\n\n")
}

/// Whether a person wrote the message. Messages of the role `user` that contain only results are not.
pub(super) fn is_user_input(message: &Message) -> bool {
    message.role == Role::User
        && !toolwire_agent::run::is_summary(message)
        && message.content.iter().any(|block| matches!(block, Block::Content(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: Result<&str, &str>) {
        let file = File { name: "../<a>.png".to_owned(), bytes: bytes.to_vec() };
        match (recognize(file), expected) {
            (Ok(content), Ok(expected)) => {
                assert_eq!(describe(&content), expected);
                assert_eq!(content.resource_name().as_deref(), Some("../<a>.png"));
            }
            (Err(failure), Err(expected)) => {
                assert_eq!(failure.message, format!("cannot attach `../<a>.png`: {expected}"));
            }
            (found, expected) => panic!("found {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn files_are_recognized_by_their_bytes() {
        check(b"\x89PNG\r\n\x1a\n...", Ok("image/png, 11 bytes"));
        check(b"<svg onload=alert(1)>", Ok("text, 21 bytes"));
        check(b" \n", Err("the file is empty"));
        check(b"ab\xff", Err("neither UTF-8 text (invalid byte at 2) nor an image or a PDF"));
    }
}
