//! The files of the page.

use std::sync::LazyLock;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, HeaderValue};
use http::request::Parts;
use toolwire_page::assets::{ASSETS, build};

use super::reply::{Reply, accepts_gzip, gzip};

/// The address contains a hash of the content.
const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// Returns a file, if the path is that of one.
pub(super) fn respond(request: &Parts) -> Option<Reply> {
    static PACKED: LazyLock<Vec<Option<Bytes>>> =
        LazyLock::new(|| ASSETS.iter().map(|asset| gzip(asset.bytes)).collect());
    let (hash, name) = request.uri.path().strip_prefix("/-/assets/")?.split_once('/')?;
    let position = ASSETS.iter().position(|asset| asset.name == name && hash == build())?;
    let asset = ASSETS[position];
    let packed = PACKED[position].clone().filter(|_| accepts_gzip(&request.headers));
    let is_packed = packed.is_some();
    let reply = Reply::data(asset.media_type, packed.unwrap_or(Bytes::from_static(asset.bytes)));
    let reply = reply.with_header(CACHE_CONTROL, FOREVER);
    Some(if is_packed {
        reply.with_header(CONTENT_ENCODING, HeaderValue::from_static("gzip"))
    } else {
        reply
    })
}
