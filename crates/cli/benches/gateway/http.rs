//! The parts of HTTP/1.1 that the benchmark needs. A complete HTTP library would use more CPU time and
//! distort the figures.

/// The way in which the end of a body is determined.
pub(crate) enum Framing {
    Length(usize),
    Chunked,
}

/// Returns the length of a head that is complete, and how its body ends.
pub(crate) fn framing(bytes: &[u8]) -> Option<(usize, Framing)> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).ok()?;
    let mut framing = Framing::Length(0);
    for line in text.lines().skip(1) {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.eq_ignore_ascii_case("content-length") {
            framing = Framing::Length(value.trim().parse().ok()?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            framing = Framing::Chunked;
        }
    }
    Some((head, framing))
}

/// Whether a response is complete.
pub(crate) fn is_complete(bytes: &[u8]) -> bool {
    match framing(bytes) {
        Some((head, Framing::Length(length))) => bytes.len() >= head + length,
        Some((_, Framing::Chunked)) => bytes.ends_with(b"\r\n0\r\n\r\n"),
        None => false,
    }
}
