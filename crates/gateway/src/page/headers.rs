//! The headers of all responses of the page.

use http::HeaderMap;
use http::header::{CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, VARY};

/// No inline script, no other origin. Data that tools and models write can neither run nor cause requests.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
    media-src 'self' blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types toolwire; report-uri /-/csp";

pub(super) fn add(headers: &mut HeaderMap) {
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(POLICY));
    // With `no-referrer`, browsers would send `Origin: null` with the forms of the page, which is refused.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    );
    // The page differs by session and theme.
    headers.entry(VARY).or_insert(HeaderValue::from_static("cookie, origin, accept, accept-encoding"));
}
