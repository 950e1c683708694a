//! The headers of all responses.

use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN};
use http::header::{ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL};
use http::header::{HeaderValue, VARY};

use crate::response::{HttpResponse, ResponseBody};

/// Headers that SDKs in browsers send.
const CORS_HEADERS: &str = "authorization, content-type, x-api-key, anthropic-version, anthropic-beta, \
    anthropic-dangerous-direct-browser-access, idempotency-key, x-toolwire-servers, x-toolwire-tools, \
    x-toolwire-max-steps, x-toolwire-show-calls, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, last-event-id, \
    x-stainless-arch, x-stainless-lang, x-stainless-os, x-stainless-package-version, x-stainless-retry-count, \
    x-stainless-runtime, x-stainless-runtime-version, x-stainless-timeout, x-stainless-read-timeout, \
    x-stainless-helper-method";

/// Response headers that web pages may read, in addition to those that browsers always allow.
const EXPOSED_HEADERS: &str = "x-request-id, request-id, retry-after, retry-after-ms, x-should-retry, x-toolwire-dropped, x-toolwire-unavailable, \
    x-toolwire-servers-omitted, idempotent-replayed, mcp-session-id, mcp-protocol-version, \
    x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, \
    x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens";

/// Responds to the CORS preflight of a browser for a configured web page.
pub(super) fn preflight() -> HttpResponse {
    let mut response = http::Response::new(ResponseBody::Whole(Bytes::new()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(CORS_HEADERS));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// Adds the headers that all responses have, and those that allow a configured web page to read the response.
pub(super) fn add_headers(response: &mut HttpResponse, request_id: &str, origin: Option<HeaderValue>) {
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(request_id) {
        // OpenAI's SDKs read the first one, Anthropic's the second one.
        headers.insert("x-request-id", id.clone());
        headers.insert("request-id", id);
    }
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(VARY).or_insert(HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_HEADERS));
        headers.insert("cross-origin-resource-policy", HeaderValue::from_static("cross-origin"));
    }
}
