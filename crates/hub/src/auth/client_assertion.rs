//! The token request of a client that signs with a private key (RFC 7523). The SDK can send it too, but only
//! with a second cryptography library.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use reqwest::{Client, Response, header::CONTENT_TYPE, redirect::Policy};
use ring::rand::{SecureRandom, SystemRandom};
use rmcp::transport::auth::OAuthTokenResponse;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    authorization_server::{AuthorizationServer, TOKEN_TIMEOUT},
    signing_key::SigningKey,
    token_response::{redact, single_line},
    token_store::unix_now,
};
use crate::{Secret, transport::install_tls_provider};

const ASSERTION_LIFETIME_SECONDS: u64 = 300;
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;

/// Requests a token with a signed assertion. The error is a sentence without secrets.
pub(super) async fn request_with_assertion(
    server: &AuthorizationServer,
    client_id: &str,
    key: &SigningKey,
    scopes: &[String],
    resource: &str,
) -> Result<OAuthTokenResponse, String> {
    let algorithm = choose_algorithm(server, key)?;
    let now = unix_now();
    let claims = json!({
        "iss": client_id,
        "sub": client_id,
        "aud": server.issuer,
        "iat": now,
        "exp": now + ASSERTION_LIFETIME_SECONDS,
        "jti": random_id()?,
    });
    let assertion = key.sign_token(algorithm, &claims).ok_or("cannot sign with the private key")?;
    let scope = scopes.join(" ");
    let form = [
        ("grant_type", "client_credentials"),
        ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
        ("client_assertion", &assertion),
        ("resource", resource),
        ("scope", &scope),
    ];
    let form = form.into_iter().filter(|(_, value)| !value.is_empty());
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let endpoint = &server.metadata.token_endpoint;
    let no_response = |_| format!("no response from `{}`", single_line(endpoint));
    install_tls_provider();
    let client = Client::builder().redirect(Policy::none()).timeout(TOKEN_TIMEOUT).build();
    let request = client.map_err(no_response)?.post(endpoint).body(body);
    let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    let response = request.send().await.map_err(no_response)?;
    let status = response.status();
    let body = read_body(response).await.map_err(no_response)?;
    if !status.is_success() {
        return Err(match serde_json::from_slice::<ErrorResponse>(&body) {
            Ok(ErrorResponse { error, error_description: None }) => single_line(&error),
            Ok(ErrorResponse { error, error_description: Some(description) }) => {
                // Some authorization servers repeat the assertion in their message.
                single_line(&redact(&format!("{error}: {description}"), &[Secret::new(assertion)]))
            }
            Err(_) => format!("HTTP {status} from `{}`", single_line(endpoint)),
        });
    }
    // The parser's message would quote the response, which contains a token.
    serde_json::from_slice(&body)
        .map_err(|_| format!("invalid token response from `{}`", single_line(endpoint)))
}

/// An error of the token endpoint (RFC 6749 section 5.2).
#[derive(Deserialize)]
struct ErrorResponse {
    error: String,
    error_description: Option<String>,
}

/// Returns an algorithm that both the key and the authorization server support.
fn choose_algorithm(server: &AuthorizationServer, key: &SigningKey) -> Result<&'static str, String> {
    let names = |field: &str| -> Option<Vec<&str>> {
        let values = server.metadata.additional_fields.get(field)?.as_array()?;
        Some(values.iter().filter_map(Value::as_str).collect())
    };
    let is_missing =
        |names: &Option<Vec<&str>>, name| names.as_ref().is_some_and(|names| !names.contains(&name));
    let methods = names("token_endpoint_auth_methods_supported");
    if is_missing(&methods, "private_key_jwt") {
        let methods = single_line(&methods.unwrap_or_default().join(", "));
        return Err(format!("it does not accept a private key (`private_key_jwt`), only {methods}"));
    }
    let algorithms = names("token_endpoint_auth_signing_alg_values_supported");
    let algorithm = key.algorithm(algorithms.as_deref());
    if is_missing(&algorithms, algorithm) {
        let algorithms = single_line(&algorithms.unwrap_or_default().join(", "));
        return Err(format!("it does not accept the signing algorithm `{algorithm}`, only {algorithms}"));
    }
    Ok(algorithm)
}

fn random_id() -> Result<String, String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "no random numbers".to_owned())?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
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
