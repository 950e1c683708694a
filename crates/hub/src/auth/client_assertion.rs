//! Client authentication with a private key (RFC 7523). The SDK supports it only with a second cryptography
//! library.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::json;

use super::{
    authorization_server::AuthorizationServer, signing_key::SigningKey, text::single_line,
    token_store::unix_now,
};

const ASSERTION_LIFETIME_SECONDS: u64 = 300;

/// Returns a signed token that names the client. The error is a sentence without secrets.
pub(super) fn client_assertion(
    server: &AuthorizationServer,
    client_id: &str,
    key: &SigningKey,
) -> Result<String, String> {
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
    key.sign_token(algorithm, &claims).ok_or_else(|| "cannot sign with the private key".to_owned())
}

/// Returns an algorithm that both the key and the authorization server support.
fn choose_algorithm(server: &AuthorizationServer, key: &SigningKey) -> Result<&'static str, String> {
    let is_missing =
        |names: &Option<Vec<&str>>, name| names.as_ref().is_some_and(|names| !names.contains(&name));
    let methods = server.authentication_methods();
    if is_missing(&methods, "private_key_jwt") {
        let methods = single_line(&methods.unwrap_or_default().join(", "));
        return Err(format!("it does not accept a private key (`private_key_jwt`), only {methods}"));
    }
    let algorithms = server.string_list("token_endpoint_auth_signing_alg_values_supported");
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
