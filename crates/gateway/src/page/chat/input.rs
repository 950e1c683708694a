//! The forms that a person sends: texts, files, decisions.

use http::header::{CONTENT_TYPE, HeaderValue};
pub(super) use toolwire_agent::run::is_user_input;
use toolwire_contract::{Content, Message};
use toolwire_dialect::result::FileContent;

use super::super::failure::PageFailure;
use super::super::request::PageRequest;
use crate::form::{self, Boundary, FormPart, InvalidForm, MEDIA_TYPE, split_media_type};

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
        let content_type = request.head.headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        let (media_type, _) = split_media_type(content_type);
        if !media_type.eq_ignore_ascii_case(MEDIA_TYPE.as_bytes()) {
            return Ok(Input { fields: request.fields()?, files: Vec::new() });
        }
        let invalid = |error: InvalidForm| PageFailure::invalid(error.to_string());
        let boundary = Boundary::of(&request.head.headers).map_err(invalid)?;
        Ok(Input::from_parts(&request.body, form::parts(&request.body, &boundary).map_err(invalid)?))
    }

    fn from_parts(body: &[u8], parts: Vec<FormPart<'_>>) -> Input {
        let mut input = Input::default();
        for FormPart { disposition, content } in parts {
            let body = &body[content];
            match disposition.file_name {
                // A browser sends an empty part for a field without a file.
                Some(name) if name.is_empty() && body.is_empty() => {}
                Some(name) => {
                    let name = decoded(&String::from_utf8_lossy(name));
                    input.files.push(File { name, bytes: body.to_vec() });
                }
                None => {
                    let text = String::from_utf8_lossy(body).replace("\r\n", "\n");
                    input.fields.push((decoded(disposition.name), text));
                }
            }
        }
        input
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

/// Decodes a name: browsers write `"` as `%22`, and line breaks as `%0D%0A`.
fn decoded(name: &str) -> String {
    name.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n")
}

/// Returns the content of an uploaded file. Its type is recognized by its bytes, not by its name.
pub(super) fn recognize(file: File) -> Result<Content, PageFailure> {
    let File { name, bytes } = file;
    let failed = |problem: &str| PageFailure::invalid(format!("cannot attach `{name}`: {problem}"));
    match FileContent::recognize(bytes) {
        Ok(FileContent::Media { media_type, data }) => Ok(Content::attached_file(&name, media_type, data)),
        Ok(FileContent::Text(text)) if text.trim().is_empty() => Err(failed("the file is empty")),
        Ok(FileContent::Text(text)) => Ok(Content::attached_text(&name, text)),
        Err(problem) => Err(failed(&problem.to_string()).with_hint(problem.hint())),
    }
}

/// Returns the texts of a message, without calls and results.
pub(super) fn text_of(message: &Message) -> String {
    message.texts().collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: Result<&str, &str>) {
        let file = File { name: "../<a>.png".to_owned(), bytes: bytes.to_vec() };
        match (recognize(file), expected) {
            (Ok(content), Ok(expected)) => {
                assert_eq!(content.type_and_size().as_deref(), Some(expected));
                assert_eq!(content.resource_name().as_deref(), Some("../<a>.png"));
            }
            (Err(failure), Err(expected)) => {
                assert_eq!(failure.message, format!("cannot attach `../<a>.png`: {expected}"));
            }
            (found, expected) => panic!("found {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn a_form_of_a_browser_is_read() {
        let body = b"--X\r\nContent-Disposition: form-data; name=\"v/a~1b%22\"\r\n\r\nhi\r\nthere\r\n\
            --X\r\nContent-Disposition: form-data; name=\"empty\"; filename=\"\"\r\n\
            Content-Type: application/octet-stream\r\n\r\n\r\n\
            --X\r\nContent-Disposition: form-data; name=\"file\"; filename=\"\xc3\xa4;%22 name=.png\"\r\n\
            Content-Type: image/png\r\n\r\n\x89\r\n--Y\r\n--X--\r\n";
        let mut headers = http::HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("multipart/form-data; boundary=X"));
        let boundary = Boundary::of(&headers).expect("a boundary");
        let input = Input::from_parts(body, form::parts(body, &boundary).expect("a form"));
        assert_eq!(input.fields, [("v/a~1b\"".to_owned(), "hi\nthere".to_owned())]);
        let files: Vec<_> =
            input.files.iter().map(|file| (file.name.as_str(), file.bytes.as_slice())).collect();
        assert_eq!(files, [("\u{e4};\" name=.png", b"\x89\r\n--Y".as_slice())]);
    }

    #[test]
    fn files_are_recognized_by_their_bytes() {
        check(b"\x89PNG\r\n\x1a\n...", Ok("image/png, 11 bytes"));
        check(b"<svg onload=alert(1)>", Ok("text, 21 bytes"));
        check(b" \n", Err("the file is empty"));
        check(b"ab\xff", Err("neither UTF-8 text (invalid byte at 2) nor an image or a PDF"));
    }
}
