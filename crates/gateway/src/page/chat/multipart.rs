//! Forms with files: `multipart/form-data` (RFC 7578), as browsers send it.

use memchr::memmem;

/// The maximum number of parts of a form.
const MAX_PARTS: usize = 256;

/// The maximum length of the headers of a part.
const MAX_HEAD: usize = 8 * 1024;

/// A part of a form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'b> {
    pub(super) name: String,
    /// Set if the part is a file. It is only a name: nothing is stored under it.
    pub(super) file_name: Option<String>,
    pub(super) body: &'b [u8],
}

/// Returns the boundary that a content type names.
pub(super) fn boundary(content_type: &str) -> Option<String> {
    let (media_type, parameters) = content_type.split_once(';')?;
    if !media_type.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.trim().split_once('=')?;
        name.eq_ignore_ascii_case("boundary").then(|| value.trim_matches('"').to_owned())
    })?;
    (!boundary.is_empty() && boundary.len() <= 70).then_some(boundary)
}

/// Splits a body into its parts; `None` if it is malformed.
pub(super) fn parts<'b>(body: &'b [u8], boundary: &str) -> Option<Vec<Part<'b>>> {
    let first = format!("--{boundary}");
    let delimiter = format!("\r\n--{boundary}");
    let mut rest = body.strip_prefix(first.as_bytes())?;
    let mut parts = Vec::new();
    while !rest.starts_with(b"--") {
        let part = rest.strip_prefix(b"\r\n")?;
        let end = memmem::find(part, delimiter.as_bytes())?;
        parts.push(read(&part[..end])?);
        if parts.len() > MAX_PARTS {
            return None;
        }
        rest = &part[end + delimiter.len()..];
    }
    Some(parts)
}

fn read(part: &[u8]) -> Option<Part<'_>> {
    let end = memmem::find(part, b"\r\n\r\n").filter(|end| *end <= MAX_HEAD)?;
    let head = String::from_utf8_lossy(&part[..end]);
    let disposition = head.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-disposition").then(|| value.trim().to_owned())
    })?;
    let name = parameter(&disposition, "name")?;
    Some(Part { name, file_name: parameter(&disposition, "filename"), body: &part[end + 4..] })
}

/// Returns a quoted parameter. Browsers write `"` as `%22`, and line breaks as `%0D%0A`.
fn parameter(disposition: &str, wanted: &str) -> Option<String> {
    let mut rest = disposition;
    while let Some((before, after)) = rest.split_once("=\"") {
        let name = before.rsplit([';', ' ']).next().unwrap_or_default();
        let (value, others) = after.split_once('"')?;
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n"));
        }
        rest = others;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_of_a_browser_is_read() {
        let body = b"--X\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\nhi\r\nthere\r\n\
            --X\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a;%22 name=.png\"\r\nContent-Type: image/png\r\n\r\n\x89\r\n--Y\r\n\
            --X--\r\n";
        let parts = parts(body, "X").expect("a form");
        let part = |name: &str, file_name: Option<&str>, body| Part {
            name: name.to_owned(),
            file_name: file_name.map(str::to_owned),
            body,
        };
        assert_eq!(
            parts,
            [
                part("text", None, b"hi\r\nthere".as_slice()),
                part("file", Some("a;\" name=.png"), b"\x89\r\n--Y".as_slice()),
            ]
        );
    }

    #[test]
    fn malformed_forms_are_rejected() {
        let bodies: [&[u8]; 5] = [
            b"",
            b"--X",
            b"--X\r\n\r\n",
            b"--X\r\nContent-Disposition: form-data\r\n\r\n\r\n--X--",
            b"--X\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nno end",
        ];
        for body in bodies {
            assert_eq!(parts(body, "X"), None, "{}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn the_boundary_is_a_parameter_of_the_type() {
        assert_eq!(boundary("multipart/form-data; boundary=\"a b\"").as_deref(), Some("a b"));
        assert_eq!(boundary("Multipart/Form-Data;charset=x; Boundary=X").as_deref(), Some("X"));
        for content_type in
            ["text/plain; boundary=X", "multipart/form-data", "multipart/form-data; boundary="]
        {
            assert_eq!(boundary(content_type), None, "{content_type}");
        }
    }
}
