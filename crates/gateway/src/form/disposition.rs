//! Reads the header `Content-Disposition` of a part, and parameters of headers.

/// The names of a part of a form, as they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disposition<'h> {
    pub(crate) name: &'h str,
    /// Set if the part is a file.
    pub(crate) file_name: Option<&'h [u8]>,
}

impl Disposition<'_> {
    /// Reads the header; `None` if some parsers could read another name.
    pub(super) fn read(value: &[u8]) -> Option<Disposition<'_>> {
        let (kind, rest) = super::split_media_type(value);
        let mut name = None;
        let mut file_names = [None, None];
        for (key, value) in parameters(rest)? {
            let known = if key.eq_ignore_ascii_case(b"name") {
                &mut name
            } else if key.eq_ignore_ascii_case(b"filename") {
                &mut file_names[0]
            } else if key.eq_ignore_ascii_case(b"filename*") {
                &mut file_names[1]
            } else {
                // This includes `name*`, which replaces the name for some parsers.
                return None;
            };
            if known.replace(value).is_some() {
                return None;
            }
        }
        let name = std::str::from_utf8(name?).ok()?;
        let is_clear = kind.eq_ignore_ascii_case(b"form-data") && !name.is_empty();
        is_clear.then_some(Disposition { name, file_name: file_names[0].or(file_names[1]) })
    }
}

/// Splits `; name=value; name="value"`. Returns `None` for a syntax that parsers read differently, such as a
/// quotation mark after a backslash.
pub(super) fn parameters(mut text: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut found = Vec::new();
    loop {
        text = text.trim_ascii();
        if text.is_empty() {
            return Some(found);
        }
        text = text.strip_prefix(b";")?.trim_ascii_start();
        if text.is_empty() {
            return Some(found);
        }
        let equals = text.iter().position(|byte| *byte == b'=')?;
        let (name, after) = (&text[..equals], &text[equals + 1..]);
        if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
            return None;
        }
        let value;
        if let Some(quoted) = after.strip_prefix(b"\"") {
            let end = quoted.iter().position(|byte| *byte == b'"')?;
            value = &quoted[..end];
            if value.ends_with(b"\\") {
                return None;
            }
            text = &quoted[end + 1..];
        } else {
            let end = after.iter().position(|byte| !is_token(*byte)).unwrap_or(after.len());
            value = &after[..end];
            text = &after[end..];
        }
        found.push((name, value));
    }
}

/// Whether a byte may be part of a value without quotation marks. Boundaries contain more than RFC 9110
/// allows.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\";,\\".contains(&byte)
}
