//! Signs requests to Bedrock with AWS Signature Version 4.

use std::{collections::BTreeMap, time::SystemTime};

use chrono::{DateTime, Utc};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use ring::{
    digest::{SHA256, digest},
    hmac::{self, HMAC_SHA256},
};

use crate::Secret;

/// The service name of the Bedrock runtime in signatures.
const SERVICE: &str = "bedrock";
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE_HEADER: &str = "x-amz-date";
const TOKEN_HEADER: &str = "x-amz-security-token";

/// The characters that URLs escape: all but the unreserved characters of RFC 3986.
pub(crate) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the headers that authenticate a request with a JSON body.
pub(crate) fn signature_headers(
    (access_key, secret_key, session_token): (&Secret, &Secret, Option<&Secret>),
    region: &str,
    url: &Url,
    body: &[u8],
    time: SystemTime,
) -> Result<HeaderMap, String> {
    let time = DateTime::<Utc>::from(time);
    let (date, timestamp) = (time.format("%Y%m%d").to_string(), time.format("%Y%m%dT%H%M%SZ").to_string());
    let mut headers = BTreeMap::from([
        ("content-type", "application/json".to_owned()),
        ("host", host(url)?),
        (DATE_HEADER, timestamp.clone()),
    ]);
    if let Some(token) = session_token {
        headers.insert(TOKEN_HEADER, token.expose().to_owned());
    }
    let names = headers.keys().copied().collect::<Vec<_>>().join(";");
    let scope = format!("{date}/{region}/{SERVICE}/aws4_request");
    let request = hex(digest(&SHA256, canonical_request(url, &headers, &names, body).as_bytes()));
    let text = format!("{ALGORITHM}\n{timestamp}\n{scope}\n{request}");

    let mut key = hmac::Key::new(HMAC_SHA256, format!("AWS4{}", secret_key.expose()).as_bytes());
    for part in [&*date, region, SERVICE, "aws4_request"] {
        key = hmac::Key::new(HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref());
    }
    let signature = hex(hmac::sign(&key, text.as_bytes()));
    let credential = access_key.expose();
    let authorization =
        format!("{ALGORITHM} Credential={credential}/{scope}, SignedHeaders={names}, Signature={signature}");

    let token = headers.remove(TOKEN_HEADER).map(|token| (HeaderName::from_static(TOKEN_HEADER), token));
    let signed = [(AUTHORIZATION, authorization), (HeaderName::from_static(DATE_HEADER), timestamp)];
    let mut signed_headers = HeaderMap::new();
    for (name, value) in signed.into_iter().chain(token) {
        let mut value = HeaderValue::from_str(&value).map_err(|error| format!("header `{name}`: {error}"))?;
        value.set_sensitive(true);
        signed_headers.insert(name, value);
    }
    Ok(signed_headers)
}

fn host(url: &Url) -> Result<String, String> {
    let host = url.host_str().ok_or("the URL has no host")?;
    Ok(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

fn canonical_request(url: &Url, headers: &BTreeMap<&str, String>, names: &str, body: &[u8]) -> String {
    let encode = |text: &str| utf8_percent_encode(text, RESERVED).to_string();
    // The path in the URL is encoded already, and is encoded again.
    let path = url.path().split('/').map(encode).collect::<Vec<_>>().join("/");
    let mut query: Vec<_> = url.query_pairs().map(|(name, value)| (encode(&name), encode(&value))).collect();
    query.sort_unstable();
    let query = query.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&");
    let headers: String = headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    format!("POST\n{path}\n{query}\n{headers}\n{names}\n{}", hex(digest(&SHA256, body)))
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use aws_credential_types::Credentials;
    use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
    use aws_sigv4::sign::v4::SigningParams;

    use super::*;

    /// The headers that the AWS SDK signs with.
    fn sdk_headers(
        token: Option<&str>,
        url: &str,
        body: &[u8],
        time: SystemTime,
    ) -> BTreeMap<String, String> {
        let credentials = Credentials::new("AKID", "secret/key+", token.map(str::to_owned), None, "test");
        let identity = credentials.into();
        let parameters = SigningParams::builder()
            .identity(&identity)
            .region("eu-central-1")
            .name(SERVICE)
            .time(time)
            .settings(SigningSettings::default())
            .build()
            .expect("complete parameters");
        let headers = [("content-type", "application/json")].into_iter();
        let request = SignableRequest::new("POST", url, headers, SignableBody::Bytes(body));
        let signed = sign(request.expect("a request"), &parameters.into()).expect("signed");
        let headers = signed.into_parts().0.into_parts().0;
        headers.iter().map(|header| (header.name().to_owned(), header.value().to_owned())).collect()
    }

    #[track_caller]
    fn check(token: Option<&str>, url: &str, body: &[u8], seconds: u64) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let token_secret = token.map(Secret::new);
        let credentials = (&Secret::new("AKID"), &Secret::new("secret/key+"), token_secret.as_ref());
        let parsed = Url::parse(url).expect("a valid URL");
        let headers =
            signature_headers(credentials, "eu-central-1", &parsed, body, time).expect("a signed request");
        assert!(headers.values().all(HeaderValue::is_sensitive));
        let headers: BTreeMap<_, _> = headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned()))
            .collect();
        assert_eq!(headers, sdk_headers(token, parsed.as_str(), body, time), "{url}");
    }

    #[test]
    fn signatures_equal_those_of_the_aws_sdk() {
        let host = "https://bedrock-runtime.eu-central-1.amazonaws.com";
        let model = format!("{host}/model/anthropic.claude-sonnet-4-20250514-v1%3A0/converse");
        check(None, &model, b"{}", 1_700_000_000);
        check(Some("session/token=="), &model, b"{}", 951_782_400);
        check(None, &format!("{host}/model/a:b c/converse-stream"), "{\"text\":\"ü\"}".as_bytes(), 0);
        check(None, "http://127.0.0.1:8080/a/model/x/converse", b"", 4_102_444_799);
        check(None, &format!("{host}/x?b=2&a=1&a=0&c=%2F&d"), b"{}", 1_700_000_000);
        let profile = "arn%3Aaws%3Abedrock%3Aeu-central-1%3A1%3Ainference-profile%2Feu.x";
        check(None, &format!("{host}/model/{profile}/converse"), b"{}", 1_700_000_000);
    }
}
