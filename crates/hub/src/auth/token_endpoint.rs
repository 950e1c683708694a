//! Requests to the token endpoint (RFC 6749 section 3.2).
//!
//! The SDK can send them too, but it reports an error response only as a sentence. Here the OAuth error code
//! stays a value, because it decides whether a refresh token is still valid.

use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::{
    Client, Response, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
    redirect::Policy,
};
use serde::Deserialize;
use serde_json::Value;

use super::{
    authorization_server::{AuthorizationServer, TOKEN_TIMEOUT},
    text::{redact, single_line},
    token_response::TokenResponse,
    token_store::OAuthClient,
};
use crate::{Secret, transport::install_tls_provider};

const MAX_RESPONSE_BYTES: usize = 1024 * 1024;
/// The parameters whose values are redacted in errors, because authorization servers repeat what they
/// received.
const SECRET_PARAMETERS: [&str; 5] =
    ["client_assertion", "client_secret", "code", "code_verifier", "refresh_token"];

/// How a client proves its identity.
#[derive(Clone, Copy)]
pub(super) enum ClientAuthentication<'a> {
    /// `client_secret_basic`, or only the id if the client has no secret.
    Header(&'a OAuthClient),
    /// `client_secret_post`, or only the id if the client has no secret.
    Body(&'a OAuthClient),
    /// `private_key_jwt`: the token names the client.
    Assertion(&'a str),
}

/// The reason why the token endpoint issued no token. Messages contain no secret of the request.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TokenEndpointError {
    /// An error response (RFC 6749 section 5.2).
    #[error("{message}")]
    Refused {
        /// OAuth's error code, such as `invalid_grant`.
        code: String,
        message: String,
    },
    #[error("HTTP {status} from `{endpoint}`")]
    Status { status: StatusCode, endpoint: String },
    #[error("no response from `{endpoint}`")]
    NoResponse { endpoint: String },
    #[error("no response within {TOKEN_TIMEOUT:?}")]
    TimedOut,
    // The parser's message would quote the response, which may contain a token.
    #[error("invalid token response from `{endpoint}`")]
    Invalid { endpoint: String },
}

impl AuthorizationServer {
    /// Requests a token. `parameters` with empty values are omitted.
    pub(super) async fn request_token(
        &self,
        parameters: &[(&str, &str)],
        authentication: ClientAuthentication<'_>,
    ) -> Result<TokenResponse, TokenEndpointError> {
        let endpoint = &self.metadata.token_endpoint;
        let mut form: Vec<(&str, &str)> = parameters.to_vec();
        let mut basic = None;
        match authentication {
            ClientAuthentication::Header(OAuthClient { id, secret: Some(secret), .. }) => {
                basic = Some(basic_credentials(id, secret));
            }
            ClientAuthentication::Header(client) | ClientAuthentication::Body(client) => {
                form.push(("client_id", &client.id));
                form.extend(client.secret.as_ref().map(|secret| ("client_secret", secret.expose())));
            }
            ClientAuthentication::Assertion(assertion) => {
                let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
                form.extend([("client_assertion_type", kind), ("client_assertion", assertion)]);
            }
        }
        form.retain(|(_, value)| !value.is_empty());
        let sent_secrets = form.iter().filter(|(name, _)| SECRET_PARAMETERS.contains(name));
        let mut sent_secrets: Vec<Secret> = sent_secrets.map(|(_, value)| Secret::new(*value)).collect();
        if let ClientAuthentication::Header(OAuthClient { secret: Some(secret), .. }) = authentication {
            sent_secrets.extend(basic.clone().into_iter().chain([secret.clone()]));
        }
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();

        let failed = |error: reqwest::Error| match error.is_timeout() {
            true => TokenEndpointError::TimedOut,
            false => TokenEndpointError::NoResponse { endpoint: single_line(endpoint) },
        };
        install_tls_provider();
        // A redirect would send the secrets to another address. Unlike in discovery, the IP addresses of the
        // host are not restricted, because `check_endpoint` requires TLS, except on this machine.
        let client = Client::builder().redirect(Policy::none()).timeout(TOKEN_TIMEOUT).build();
        let request = client.map_err(failed)?.post(endpoint).body(body);
        let request = request
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json");
        let request = match &basic {
            Some(credentials) => request.header(AUTHORIZATION, format!("Basic {}", credentials.expose())),
            None => request,
        };
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        let body = read_body(response).await.map_err(failed)?;
        read_response(status, &body, endpoint, &sent_secrets)
    }

    /// Returns the authentication methods that the metadata names, if it names them.
    pub(super) fn authentication_methods(&self) -> Option<Vec<&str>> {
        self.string_list("token_endpoint_auth_methods_supported")
    }

    /// Returns a list of texts in the metadata.
    pub(super) fn string_list(&self, field: &str) -> Option<Vec<&str>> {
        let values = self.metadata.additional_fields.get(field)?.as_array()?;
        Some(values.iter().filter_map(Value::as_str).collect())
    }
}

/// The credentials of HTTP Basic. RFC 6749 section 2.3.1 requires both parts to be encoded as in a form.
fn basic_credentials(id: &str, secret: &Secret) -> Secret {
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    Secret::new(STANDARD.encode(format!("{}:{}", encode(id), encode(secret.expose()))))
}

async fn read_body(mut response: Response) -> reqwest::Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = MAX_RESPONSE_BYTES - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() >= room {
            break;
        }
    }
    Ok(body)
}

/// `sent_secrets` are redacted in the message of an error response.
fn read_response(
    status: StatusCode,
    body: &[u8],
    endpoint: &str,
    sent_secrets: &[Secret],
) -> Result<TokenResponse, TokenEndpointError> {
    #[derive(Deserialize)]
    struct ErrorResponse {
        error: String,
        error_description: Option<String>,
        error_uri: Option<String>,
    }
    if status.is_success()
        && let Ok(response) = serde_json::from_slice(body)
    {
        return Ok(response);
    }
    // Some authorization servers send an error with status 200.
    if let Ok(response) = serde_json::from_slice::<ErrorResponse>(body) {
        let description = response.error_description.map(|text| format!(": {text}")).unwrap_or_default();
        let uri = response.error_uri.map(|uri| format!(" (see {uri})")).unwrap_or_default();
        let message = format!("{}{description}{uri}", response.error);
        let message = single_line(&redact(&message, sent_secrets));
        return Err(TokenEndpointError::Refused { code: response.error, message });
    }
    let endpoint = single_line(endpoint);
    Err(match status.is_success() {
        true => TokenEndpointError::Invalid { endpoint },
        false => TokenEndpointError::Status { status, endpoint },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ENDPOINT: &str = "https://issuer.example/token";

    fn error(status: u16, body: &[u8]) -> TokenEndpointError {
        let secrets = [Secret::new("hush-1"), Secret::new("")];
        let status = StatusCode::from_u16(status).expect("a status");
        read_response(status, body, ENDPOINT, &secrets).err().expect("an error")
    }

    #[track_caller]
    fn check_refusal(status: u16, body: Value, code: &str, message: &str) {
        let expected = TokenEndpointError::Refused { code: code.to_owned(), message: message.to_owned() };
        assert_eq!(error(status, body.to_string().as_bytes()), expected);
    }

    #[test]
    fn the_error_code_is_a_value_and_the_message_contains_no_secret_of_the_request() {
        let body = json!({"error": "invalid_grant", "error_description": "token hush-1 is\nunknown"});
        check_refusal(400, body, "invalid_grant", "invalid_grant: token … is unknown");
        check_refusal(401, json!({"error": "invalid_client"}), "invalid_client", "invalid_client");
        let body = json!({"error": "slow_down", "error_uri": "https://issuer.example/limits"});
        check_refusal(429, body, "slow_down", "slow_down (see https://issuer.example/limits)");
        let body = json!({"error": "bad_verification_code", "error_description": "it expired"});
        check_refusal(200, body, "bad_verification_code", "bad_verification_code: it expired");
        // A colon or a space in the code does not end it.
        let body = json!({"error": "a: b", "error_description": "c: d"});
        check_refusal(400, body, "a: b", "a: b: c: d");
    }

    #[test]
    fn a_response_without_an_error_code_is_not_quoted() {
        let endpoint = || ENDPOINT.to_owned();
        for body in ["", "<p>hush</p>", "{}", r#"{"error": {"code": 1}}"#, r#"{"access_token": "new"}"#] {
            let expected = TokenEndpointError::Status {
                status: StatusCode::INTERNAL_SERVER_ERROR,
                endpoint: endpoint(),
            };
            assert_eq!(error(500, body.as_bytes()), expected, "{body}");
            assert_eq!(error(200, body.as_bytes()), TokenEndpointError::Invalid { endpoint: endpoint() });
        }
        assert_eq!(error(302, b"").to_string(), format!("HTTP 302 Found from `{ENDPOINT}`"));
    }

    #[test]
    fn an_empty_error_beside_a_token_is_ignored() {
        let body = json!({"access_token": "new", "token_type": "bearer", "error": ""}).to_string();
        assert!(read_response(StatusCode::OK, body.as_bytes(), ENDPOINT, &[]).is_ok());
    }

    #[test]
    fn basic_credentials_are_encoded_as_in_a_form() {
        let credentials = basic_credentials("a client", &Secret::new("p:ä+"));
        assert_eq!(credentials.expose(), STANDARD.encode("a+client:p%3A%C3%A4%2B"));
    }
}
