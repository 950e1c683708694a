//! Reading the body of a request, up to a limit.

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::Body;
use http_body_util::BodyExt;

use super::http::{HttpResponse, refusal};

/// The size up to which a rejected body is still read completely, because a client that is still writing
/// would not see the response.
const MAX_DRAINED_BYTES: u64 = 64 * 1024 * 1024;

/// Returns the complete body, or an error response.
pub(super) async fn read_body<B>(body: B, max_bytes: usize) -> Result<Bytes, HttpResponse>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let too_large = || {
        let text = format!("the body is larger than {max_bytes} bytes");
        refusal(StatusCode::PAYLOAD_TOO_LARGE, -32600, &text)
    };
    if body.size_hint().lower() > MAX_DRAINED_BYTES.max(max_bytes as u64) {
        return Err(too_large());
    }
    let mut body = std::pin::pin!(body);
    let mut length = 0;
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    while let Some(frame) = body.as_mut().frame().await {
        let frame = frame.map_err(|error| {
            let text = format!("the body ended early: {error}");
            refusal(StatusCode::BAD_REQUEST, -32600, &text)
        })?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len() as u64;
        if length > max_bytes as u64 {
            if length > MAX_DRAINED_BYTES.max(max_bytes as u64) {
                return Err(too_large());
            }
            (first, whole) = (Bytes::new(), BytesMut::new());
            continue;
        }
        // Most bodies arrive in one piece, which is not copied.
        if first.is_empty() && whole.is_empty() {
            first = data;
        } else {
            whole.extend_from_slice(&std::mem::take(&mut first));
            whole.extend_from_slice(&data);
        }
    }
    if length > max_bytes as u64 {
        return Err(too_large());
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}
