//! Reads the bodies of requests, within limits of size and time, and checks their headers.

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode, Uri};
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::time::{Duration, Instant, timeout_at};
use toolwire_dialect::client::ErrorKind;

use crate::admission::BodyRoom;
use crate::form::split_media_type;
use crate::response::Failure;
use crate::settings::GatewayLimits;

/// The maximum size of the path and the headers of a request.
pub(crate) const MAX_HEADER_BYTES: usize = 16 * 1024;
/// The maximum number of headers of a request.
pub(crate) const MAX_HEADERS: usize = 64;

/// The minimum rate of a body after `body_timeout`. A slower request is rejected.
const MIN_BYTES_PER_SECOND: usize = 1_024;

/// The maximum time for a body in addition to `body_timeout`, so that a slow client does not occupy memory
/// for long.
const MAX_EXTRA_SECONDS: usize = 300;

/// Checks the size and the number of headers.
pub(crate) fn check_headers(uri: &Uri, headers: &HeaderMap) -> Result<(), Failure> {
    let length = |text: Option<&str>| text.map_or(0, str::len);
    let target = uri.path().len() + length(uri.query());
    // Each header has a colon, a space and a line break.
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if headers.len() <= MAX_HEADERS && target + bytes <= MAX_HEADER_BYTES {
        return Ok(());
    }
    let message = format!(
        "the request has more than {MAX_HEADERS} headers, or more than {MAX_HEADER_BYTES} bytes of them"
    );
    let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    Err(Failure::new(ErrorKind::InvalidRequest, message).with_status(status))
}

/// Checks that the body has the only content type of its path, and no compression. Browsers send content
/// types other than JSON without a CORS preflight, so a path accepts forms only if it has no other requests;
/// the checks of `Origin` and `Sec-Fetch-Site` then reject other web pages.
pub(crate) fn check_type(headers: &HeaderMap, expected: &str) -> Result<(), Failure> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let content_type = types.next().map_or(&b""[..], |value| value.as_bytes());
    let (media_type, _) = split_media_type(content_type);
    if !media_type.eq_ignore_ascii_case(expected.as_bytes()) || types.next().is_some() {
        return Err(unsupported_type(format!("the request needs the header `Content-Type: {expected}`")));
    }
    check_encoding(headers)
}

/// Checks that the body is not compressed. It would be read as it is, or could fill the memory.
pub(crate) fn check_encoding(headers: &HeaderMap) -> Result<(), Failure> {
    let is_identity = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(CONTENT_ENCODING).iter().all(is_identity) {
        let message = "compressed requests are not supported: send no `Content-Encoding`";
        return Err(unsupported_type(message.to_owned()));
    }
    Ok(())
}

/// Checks the type of a body that may be absent, because the path does not need one.
pub(crate) fn check_optional_type(headers: &HeaderMap) -> Result<(), Failure> {
    let is_empty = headers.get(CONTENT_LENGTH).is_none_or(|length| length.as_bytes() == b"0");
    if is_empty && !headers.contains_key(TRANSFER_ENCODING) && !headers.contains_key(CONTENT_TYPE) {
        return Ok(());
    }
    check_type(headers, "application/json")
}

fn unsupported_type(message: String) -> Failure {
    Failure::new(ErrorKind::InvalidRequest, message).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

/// Reads a body, and reserves memory for it as it arrives.
pub(crate) async fn read<B>(
    headers: &HeaderMap,
    mut body: B,
    limits: &GatewayLimits,
    room: &mut BodyRoom,
) -> Result<Bytes, Failure>
where
    B: Body<Data = Bytes> + Unpin,
{
    let too_large = || {
        let message = format!("the body is larger than {} bytes", limits.body_bytes);
        Failure::new(ErrorKind::TooLarge, message)
    };
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|length| length > limits.body_bytes) {
        return Err(too_large());
    }
    let start = Instant::now();
    let mut read = Bytes::new();
    let mut more = BytesMut::new();
    loop {
        let length = read.len() + more.len();
        let extra = length.saturating_sub(30 * MIN_BYTES_PER_SECOND) / MIN_BYTES_PER_SECOND;
        let extra = extra.min(MAX_EXTRA_SECONDS);
        let deadline = start + limits.body_timeout + Duration::from_secs(extra as u64);
        let frame = timeout_at(deadline, body.frame()).await.map_err(|_| {
            Failure::new(ErrorKind::InvalidRequest, "the body arrived too slowly")
                .with_status(StatusCode::REQUEST_TIMEOUT)
        })?;
        let Some(frame) = frame else { break };
        let frame =
            frame.map_err(|_| Failure::new(ErrorKind::InvalidRequest, "the body could not be read"))?;
        let Ok(data) = frame.into_data() else { continue };
        if length + data.len() > limits.body_bytes {
            return Err(too_large());
        }
        room.grow_to(length + data.len())?;
        if read.is_empty() && more.is_empty() {
            // Most bodies arrive in one part, which is not copied.
            read = data;
        } else {
            if more.is_empty() {
                more.extend_from_slice(&std::mem::take(&mut read));
            }
            more.extend_from_slice(&data);
        }
    }
    Ok(if more.is_empty() { read } else { more.freeze() })
}
