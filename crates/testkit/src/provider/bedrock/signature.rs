//! AWS signatures, version 4, verified by signing the request again.
//!
//! The canonical request is built here; the signing key and the signature come from `aws-sigv4`.
//!
//! Rules in `docs/providers.md`: `bedrock/endpoint`.

use std::time::SystemTime;

use aws_sigv4::sign::v4::{calculate_signature, generate_signing_key};
use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use sha2::{Digest as _, Sha256};

use super::error;
use crate::provider::check::{ApiRequest, Rejection};
use crate::provider::{ACCESS_KEY, ReceivedRequest, SECRET_KEY};

/// The parts of `Authorization: AWS4-HMAC-SHA256 …`.
struct AuthorizationHeader<'header> {
    key: &'header str,
    date: &'header str,
    region: &'header str,
    service: &'header str,
    headers: Vec<&'header str>,
    signature: &'header str,
}

impl<'header> AuthorizationHeader<'header> {
    fn parse(header: &'header str) -> Option<AuthorizationHeader<'header>> {
        let mut parts = header.strip_prefix("AWS4-HMAC-SHA256 ")?.split(", ");
        let scope = parts.next()?.strip_prefix("Credential=")?;
        let headers = parts.next()?.strip_prefix("SignedHeaders=")?.split(';').collect();
        let signature = parts.next()?.strip_prefix("Signature=")?;
        let mut scope = scope.split('/');
        let parsed = AuthorizationHeader {
            key: scope.next()?,
            date: scope.next()?,
            region: scope.next()?,
            service: scope.next()?,
            headers,
            signature,
        };
        (scope.next() == Some("aws4_request") && parts.next().is_none()).then_some(parsed)
    }

    fn scope(&self) -> String {
        format!("{}/{}/{}/aws4_request", self.date, self.region, self.service)
    }
}

/// Checks that a request has the form of a signed request.
pub(super) fn check_form(request: &ApiRequest<'_>) -> Result<(), Rejection> {
    let Some(header) = request.header("authorization") else {
        return Err(error(403, "MissingAuthenticationTokenException", "Missing Authentication Token"));
    };
    let incomplete = || {
        error(403, "IncompleteSignatureException", "Authorization header is not a signature of version 4.")
    };
    let signed = AuthorizationHeader::parse(header).ok_or_else(incomplete)?;
    let Some(time) = request.header("x-amz-date").filter(|time| time.len() == 16 && time.ends_with('Z'))
    else {
        let message = "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.";
        return Err(error(403, "IncompleteSignatureException", message));
    };
    if !time.starts_with(signed.date) {
        let message = format!(
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '{}' != '{}'.",
            signed.date,
            &time[..8]
        );
        return Err(error(403, "InvalidSignatureException", &message));
    }
    if signed.service != "bedrock" {
        let message = "Credential should be scoped to correct service: 'bedrock'.";
        return Err(error(403, "InvalidSignatureException", message));
    }
    if signed.key != ACCESS_KEY {
        let message = "The security token included in the request is invalid.";
        return Err(error(403, "UnrecognizedClientException", message));
    }
    if !["host", "x-amz-date"].iter().all(|name| signed.headers.contains(name)) {
        let message = "'Host' and 'X-Amz-Date' must be 'SignedHeaders' in the AWS Authorization.";
        return Err(error(403, "InvalidSignatureException", message));
    }
    Ok(())
}

/// Verifies the signature of a signed request; other requests pass.
pub(in crate::provider) fn verify(request: &ReceivedRequest) -> Result<(), Rejection> {
    let text = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok());
    let (Some(signed), Some(time)) =
        (text("authorization").and_then(AuthorizationHeader::parse), text("x-amz-date"))
    else {
        return Ok(());
    };
    let lines: String = signed
        .headers
        .iter()
        .map(|name| format!("{name}:{}\n", text(name).unwrap_or_default().trim()))
        .collect();
    let canonical = format!(
        "{}\n{}\n{}\n{lines}\n{}\n{}",
        request.method,
        encode_path(&request.path),
        sort_query(&request.query),
        signed.headers.join(";"),
        hash(&request.bytes)
    );
    let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{}\n{}", signed.scope(), hash(canonical.as_bytes()));
    let expected = parse_day(signed.date).map(|day| {
        let key = generate_signing_key(SECRET_KEY, day, signed.region, signed.service);
        calculate_signature(key, to_sign.as_bytes())
    });
    if expected.as_deref() == Some(signed.signature) {
        return Ok(());
    }
    let message = "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access \
                   Key and signing method. Consult the service documentation for details.";
    Err(error(403, "InvalidSignatureException", message))
}

/// Encodes the path a second time, as every service except S3 requires.
fn encode_path(path: &str) -> String {
    let mut encoded = String::new();
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                encoded.push(byte.into())
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn sort_query(query: &str) -> String {
    let mut pairs: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty()).collect();
    pairs.sort_unstable();
    pairs.join("&")
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses `YYYYMMDD`.
fn parse_day(date: &str) -> Option<SystemTime> {
    let (year, rest) = date.split_at_checked(4)?;
    let (month, day) = rest.split_at_checked(2)?;
    let time = DateTime::from_str(&format!("{year}-{month}-{day}T00:00:00Z"), Format::DateTime).ok()?;
    time.try_into().ok()
}
