//! Requests of browsers.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, COOKIE, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Method, Uri};
use http_body::Body;
use percent_encoding::percent_decode_str;
use toolwire_page::shell::Theme;

use super::failure::PageFailure;
use crate::body;
use crate::gateway::Inner;
use crate::principal::Principal;
use crate::settings::GatewayLimits;

/// The maximum size of a request of a visitor who is not signed in.
const MAX_SMALL_BYTES: usize = 16 * 1024;

pub(super) const THEME_COOKIE: &str = "toolwire-theme";

/// A request with its complete body.
pub(super) struct PageRequest {
    pub(super) head: Parts,
    pub(super) body: Bytes,
    /// The decoded segments of the path, without the suffix of the format.
    pub(super) segments: Vec<String>,
    pub(super) format: Format,
}

/// The format of a view: the suffix of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Html,
    Json,
    Markdown,
}

impl PageRequest {
    pub(super) async fn read<B>(
        inner: &Inner,
        head: Parts,
        body: B,
        principal: &Principal,
        client: IpAddr,
    ) -> Result<PageRequest, PageFailure>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        read(inner, head, body, principal, client, &inner.settings.limits).await
    }

    /// Reads the request of a visitor who is not signed in.
    pub(super) async fn read_small<B>(
        inner: &Inner,
        head: Parts,
        body: B,
        client: IpAddr,
    ) -> Result<PageRequest, PageFailure>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let limits = GatewayLimits { body_bytes: MAX_SMALL_BYTES, ..inner.settings.limits.clone() };
        read(inner, head, body, &Principal::without_key(), client, &limits).await
    }

    /// Returns the segments of the path.
    pub(super) fn path(&self) -> Vec<&str> {
        self.segments.iter().map(String::as_str).collect()
    }

    pub(super) fn is_post(&self) -> bool {
        self.head.method == Method::POST
    }

    /// Returns an error unless the method is POST.
    pub(super) fn require_post(&self) -> Result<(), PageFailure> {
        if self.is_post() { Ok(()) } else { Err(PageFailure::method("POST")) }
    }

    /// Returns the first value of a query parameter.
    pub(super) fn query(&self, name: &str) -> Option<String> {
        find(self.head.uri.query().unwrap_or_default().as_bytes(), name)
    }

    /// Returns the fields of a form in their order.
    pub(super) fn fields(&self) -> Result<Vec<(String, String)>, PageFailure> {
        let content_type = self.head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if !media_type.eq_ignore_ascii_case("application/x-www-form-urlencoded") && !self.body.is_empty() {
            return Err(PageFailure::invalid("the request is not a form"));
        }
        Ok(form_urlencoded::parse(&self.body).into_owned().collect())
    }

    /// Returns the first value of a field of a form.
    pub(super) fn field(&self, name: &str) -> Result<Option<String>, PageFailure> {
        Ok(self.fields()?.into_iter().find(|(field, _)| field == name).map(|(_, value)| value))
    }
}

async fn read<B>(
    inner: &Inner,
    head: Parts,
    body: B,
    principal: &Principal,
    client: IpAddr,
    limits: &GatewayLimits,
) -> Result<PageRequest, PageFailure>
where
    B: Body<Data = Bytes> + Unpin,
{
    body::check_encoding(&head.headers)?;
    let mut room = inner.admission.body_room(principal, client);
    let body = body::read(&head.headers, body, limits, &mut room).await?;
    let (segments, format) = with_format(&head.uri);
    Ok(PageRequest { head, body, segments, format })
}

/// Returns the decoded segments of a path.
pub(super) fn segments(uri: &Uri) -> Vec<String> {
    let decode = |segment: &str| percent_decode_str(segment).decode_utf8_lossy().into_owned();
    uri.path().split('/').filter(|segment| !segment.is_empty()).map(decode).collect()
}

/// Returns the decoded segments of a path, and the format of its suffix. An escaped `.` is not a suffix.
fn with_format(uri: &Uri) -> (Vec<String>, Format) {
    let mut segments = segments(uri);
    let suffixes = [(".json", Format::Json), (".md", Format::Markdown)];
    let found = suffixes.into_iter().find(|(suffix, _)| uri.path().ends_with(suffix));
    let (Some((suffix, format)), Some(last)) = (found, segments.last_mut()) else {
        return (segments, Format::Html);
    };
    last.truncate(last.len() - suffix.len());
    (segments, format)
}

fn find(form: &[u8], name: &str) -> Option<String> {
    form_urlencoded::parse(form).find(|(field, _)| field == name).map(|(_, value)| value.into_owned())
}

/// Whether the request is a navigation of the browser. The script requests JSON.
pub(super) fn accepts_html(headers: &HeaderMap) -> bool {
    headers
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"))
}

/// Checks that a change comes from the page itself. The values of `Host`, `Origin` and `Sec-Fetch-Site` were
/// checked before. A browser sends `Origin` or `Sec-Fetch-Site` with each change; other programs use the
/// APIs.
pub(super) fn check_source(head: &Parts) -> Result<(), PageFailure> {
    let is_read = head.method == Method::GET || head.method == Method::HEAD;
    let is_post = head.method == Method::POST;
    if !is_read && !is_post {
        return Err(PageFailure::method("GET, POST"));
    }
    let names_source = head.headers.contains_key("sec-fetch-site") || head.headers.contains_key(ORIGIN);
    if is_post && !names_source {
        return Err(PageFailure::forbidden(
            "the request has neither `Origin` nor `Sec-Fetch-Site`",
            "programs use the APIs below `/v1`",
        ));
    }
    Ok(())
}

/// Returns the value of a cookie.
pub(super) fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// Returns the colors that the visitor chose.
pub(super) fn theme(headers: &HeaderMap) -> Option<Theme> {
    cookie(headers, THEME_COOKIE).and_then(Theme::from_name)
}
