//! Signs requests to Bedrock with AWS Signature Version 4.

use std::time::SystemTime;

use aws_credential_types::Credentials as AwsCredentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::Secret;

/// The service name of the Bedrock runtime in signatures.
const SERVICE: &str = "bedrock";

/// Returns the headers that authenticate a request.
pub(crate) fn signature_headers(
    (access_key, secret_key, session_token): (&Secret, &Secret, Option<&Secret>),
    region: &str,
    url: &Url,
    body: &[u8],
    time: SystemTime,
) -> Result<HeaderMap, String> {
    let credentials = AwsCredentials::new(
        access_key.expose(),
        secret_key.expose(),
        session_token.map(|token| token.expose().to_owned()),
        None,
        "toolwire",
    );
    let identity = credentials.into();
    let parameters = SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(SERVICE)
        .time(time)
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| error.to_string())?;
    let headers = [("content-type", "application/json")];
    let request = SignableRequest::new("POST", url.as_str(), headers.into_iter(), SignableBody::Bytes(body))
        .map_err(|error| error.to_string())?;
    let signed = sign(request, &parameters.into()).map_err(|error| error.to_string())?;
    let (instructions, _) = signed.into_parts();
    let (headers, _) = instructions.into_parts();
    let mut signed = HeaderMap::new();
    for header in headers {
        let mut value = HeaderValue::from_str(header.value()).map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        let name = HeaderName::from_bytes(header.name().as_bytes()).map_err(|error| error.to_string())?;
        signed.insert(name, value);
    }
    Ok(signed)
}
