//! Responses: pages, changes for the script, redirects.

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderName, HeaderValue,
    IF_NONE_MATCH, LOCATION, SET_COOKIE,
};
use http::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use toolwire_page::Markup;

use super::events::Event;
use super::failure::PageFailure;
use crate::response::{self, HttpResponse, ResponseBody};

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
/// Browsers revalidate a cached page before they use it, because its content changes.
const REVALIDATE: HeaderValue = HeaderValue::from_static("private, no-cache");

/// Smaller bodies are not compressed.
const MIN_COMPRESSED_BYTES: usize = 4_096;

/// A response of a view.
pub(super) struct Reply {
    body: ReplyBody,
    headers: Vec<(HeaderName, HeaderValue)>,
}

enum ReplyBody {
    Html(Bytes),
    Data { media_type: HeaderValue, bytes: Bytes },
    Json(Value),
    Events(ResponseBody),
    Redirect(HeaderValue),
    Empty,
}

impl Reply {
    pub(super) fn html(document: Markup) -> Reply {
        Reply::from(ReplyBody::Html(document.into_string().into()))
    }

    /// Returns a part of a page, which the script inserts.
    pub(super) fn fragment(html: Markup) -> Reply {
        Reply::html(html)
    }

    pub(super) fn json(value: Value) -> Reply {
        Reply::from(ReplyBody::Json(value))
    }

    /// Returns data that browsers do not display as a page.
    pub(super) fn data(media_type: &'static str, bytes: impl Into<Bytes>) -> Reply {
        Reply::from(ReplyBody::Data { media_type: HeaderValue::from_static(media_type), bytes: bytes.into() })
    }

    /// Returns changes, which the script applies to the page.
    pub(super) fn changes(events: &[Event]) -> Reply {
        let events: Vec<Value> = events.iter().map(Event::to_json).collect();
        Reply::json(json!({"events": events}))
    }

    pub(super) fn stream(body: ResponseBody) -> Reply {
        Reply::from(ReplyBody::Events(body))
    }

    /// Sends the browser to a path of the page.
    pub(super) fn redirect(path: &str) -> Reply {
        let path = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
        Reply::from(ReplyBody::Redirect(path))
    }

    pub(super) fn empty() -> Reply {
        Reply::from(ReplyBody::Empty)
    }

    pub(super) fn with_cookie(self, cookie: &str) -> Reply {
        match HeaderValue::from_str(cookie) {
            Ok(value) => self.with_header(SET_COOKIE, value),
            Err(_) => self,
        }
    }

    pub(super) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Reply {
        self.headers.push((name, value));
        self
    }

    /// Creates the response to a request with these headers.
    pub(super) fn respond(self, request: &HeaderMap) -> Result<HttpResponse, PageFailure> {
        let mut response = match self.body {
            ReplyBody::Html(bytes) => with_etag(HTML, bytes, request),
            ReplyBody::Data { media_type, bytes } => {
                let mut response = Response::new(ResponseBody::Whole(bytes));
                response.headers_mut().insert(CONTENT_TYPE, media_type);
                response
            }
            ReplyBody::Json(value) => response::json(StatusCode::OK, &value),
            ReplyBody::Events(body) => {
                let mut response = Response::new(body);
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
                headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
                response
            }
            // The script follows `location`; without JavaScript, the browser follows the status.
            ReplyBody::Redirect(path) => match super::request::accepts_html(request) {
                true => {
                    let mut response = Response::new(ResponseBody::Whole(Bytes::new()));
                    *response.status_mut() = StatusCode::SEE_OTHER;
                    response.headers_mut().insert(LOCATION, path);
                    response
                }
                false => response::json(StatusCode::OK, &json!({"location": path.to_str().unwrap_or("/")})),
            },
            ReplyBody::Empty => {
                let mut response = Response::new(ResponseBody::Whole(Bytes::new()));
                *response.status_mut() = StatusCode::NO_CONTENT;
                response
            }
        };
        for (name, value) in self.headers {
            response.headers_mut().append(name, value);
        }
        Ok(response)
    }
}

impl From<ReplyBody> for Reply {
    fn from(body: ReplyBody) -> Reply {
        Reply { body, headers: Vec::new() }
    }
}

/// Creates a response with HTML.
pub(super) fn html(document: Markup) -> HttpResponse {
    let mut response = Response::new(ResponseBody::Whole(document.into_string().into()));
    response.headers_mut().insert(CONTENT_TYPE, HTML);
    response
}

/// Creates a response with an `ETag`, so that a browser that has the same content gets only status 304.
fn with_etag(media_type: HeaderValue, bytes: Bytes, request: &HeaderMap) -> HttpResponse {
    let mut tag = String::from("W/\"");
    for byte in Sha256::digest(&bytes).iter().take(12) {
        // Writing to a string does not fail.
        let _ = write!(tag, "{byte:02x}");
    }
    tag.push('"');
    let is_same = request.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = match is_same {
        true => {
            let mut response = Response::new(ResponseBody::Whole(Bytes::new()));
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        }
        false => compressed(bytes, request),
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(CACHE_CONTROL, REVALIDATE);
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    response
}

fn compressed(bytes: Bytes, request: &HeaderMap) -> HttpResponse {
    let packed =
        (bytes.len() >= MIN_COMPRESSED_BYTES && accepts_gzip(request)).then(|| gzip(&bytes)).flatten();
    let is_packed = packed.is_some();
    let mut response = Response::new(ResponseBody::Whole(packed.unwrap_or(bytes)));
    if is_packed {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

pub(super) fn accepts_gzip(request: &HeaderMap) -> bool {
    let accepted = request.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|part| {
        let mut parts = part.split(';').map(str::trim);
        parts.next() == Some("gzip") && parts.next().is_none_or(|weight| !matches!(weight, "q=0" | "q=0.0"))
    })
}

/// Returns the compressed bytes; `None` without the feature `compression`.
#[cfg(feature = "compression")]
pub(super) fn gzip(bytes: &[u8]) -> Option<Bytes> {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 3), Compression::new(5));
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

#[cfg(not(feature = "compression"))]
pub(super) fn gzip(_: &[u8]) -> Option<Bytes> {
    None
}
