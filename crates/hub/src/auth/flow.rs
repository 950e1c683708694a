//! The conversations with an authorization server, on rmcp's `AuthorizationManager`.

use std::time::Duration;

use reqwest::Url;
use rmcp::transport::auth::{
    AuthError as SdkError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource,
    ClientCredentialsConfig, CredentialStore, InMemoryCredentialStore, OAuthClientConfig, OAuthTokenResponse,
    StoredCredentials,
};
use serde_json::{Value, json};
use tokio::{runtime::Handle, task::spawn_blocking, time::timeout};
use tracing::{Dispatch, instrument::WithSubscriber};

use super::{
    AuthConfig, AuthError, GrantKind,
    answer::{Told, accept, hide, shown},
    key::SigningKey,
    store::{Client, Grant},
};
use crate::Secret;

/// For all of discovery, which is up to ten requests.
const DISCOVERY_TIME: Duration = Duration::from_secs(30);
/// For one request to the token or registration endpoint; the SDK's own limit is as long.
pub(super) const TOKEN_TIME: Duration = Duration::from_secs(30);

/// The server a token is for.
pub(super) struct Target {
    pub(super) server: String,
    pub(super) url: Url,
    pub(super) config: AuthConfig,
}

/// An authorization server, as the server names it today.
pub(super) struct Issuer {
    pub(super) name: String,
    pub(super) manager: AuthorizationManager,
    pub(super) metadata: AuthorizationMetadata,
    /// It published its metadata. Otherwise its endpoints are a guess, as 2025-03-26 has it.
    pub(super) published: bool,
}

/// Why there is no new token for a refresh token.
pub(super) enum NotRefreshed {
    /// The refresh token is of no more use.
    Refused(String),
    /// It may work later.
    Failed(String),
}

pub(super) async fn discover(target: &Target, challenge: Option<&str>) -> Result<Issuer, AuthError> {
    // Keys are often part of a server's URL, and the SDK's messages quote it.
    let query: Vec<Secret> = target.url.query().map(Secret::new).into_iter().collect();
    let failed = |detail: String| AuthError::Discovery { server: target.server.clone(), detail };
    let told = |error: SdkError| failed(shown(&hide(&error.to_string(), &query)));
    // An address the server names may be in the person's own network, never a cloud's metadata service.
    let mut manager =
        AuthorizationManager::new_allowing_private_addresses(target.url.clone()).await.map_err(told)?;
    let resolving = timeout(DISCOVERY_TIME, manager.resolve_metadata_from_challenge(challenge));
    let resolved = if query.is_empty() { resolving.await } else { quietly(resolving).await };
    let resolution =
        resolved.map_err(|_| failed(format!("no answer within {DISCOVERY_TIME:?}")))?.map_err(told)?;
    let metadata = resolution.metadata;
    for endpoint in [&metadata.authorization_endpoint, &metadata.token_endpoint] {
        check_endpoint(target, endpoint)?;
    }
    if let Some(endpoint) = &metadata.registration_endpoint {
        check_endpoint(target, endpoint)?;
    }
    // Since 2025-06-18 a server has resource metadata, and a client refuses one that does not promise PKCE.
    if resolution.source == AuthorizationMetadataSource::ProtectedResourceMetadata
        && metadata.code_challenge_methods_supported.is_none()
        && target.config.grant == GrantKind::AuthorizationCode
    {
        let detail = "its authorization server does not say that it supports PKCE \
                      (`code_challenge_methods_supported`)";
        return Err(failed(detail.to_owned()));
    }
    // Servers of 2025-03-26 are their own authorization server, and need not say so.
    let name = metadata.issuer.clone().unwrap_or_else(|| target.url.origin().ascii_serialization());
    manager.set_metadata(metadata.clone());
    let published = resolution.source.is_discovered();
    Ok(Issuer { name, manager, metadata, published })
}

/// An endpoint gets secrets or is opened in a browser: it is `https`, or on this machine when the server is.
fn check_endpoint(target: &Target, endpoint: &str) -> Result<(), AuthError> {
    let refuse = |why| Err(AuthError::Unsafe { server: target.server.clone(), url: shown(endpoint), why });
    let Ok(url) = Url::parse(endpoint) else { return refuse("it is no URL") };
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_local(&url) && is_local(&target.url) => Ok(()),
        "http" => refuse("it is not encrypted"),
        _ => refuse("it is no web page"),
    }
}

pub(super) fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

pub(super) async fn refresh(
    target: &Target,
    issuer: &mut Issuer,
    grant: &Grant,
) -> Result<Grant, NotRefreshed> {
    let failed = |error: SdkError| NotRefreshed::Failed(shown(&error.to_string()));
    // The scopes stay out of it: a request without them asks for what was granted.
    let known = json!({
        "access_token": grant.access_token.as_ref().map(Secret::expose).unwrap_or_default(),
        "token_type": "bearer",
        "refresh_token": grant.refresh_token.as_ref().map(Secret::expose),
    });
    let known: OAuthTokenResponse = serde_json::from_value(known)
        .map_err(|_| NotRefreshed::Refused("what was kept is no token".to_owned()))?;
    let store = InMemoryCredentialStore::new();
    let credentials = StoredCredentials::new(grant.client.id.clone(), Some(known), Vec::new(), None);
    store.save(credentials).await.map_err(failed)?;
    issuer.manager.set_credential_store(store);
    configure(issuer, &grant.client, target.url.as_str()).map_err(failed)?;

    let answer = match timeout(TOKEN_TIME, quietly(issuer.manager.refresh_token())).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            let told = Told::read(&error, &issuer.metadata.token_endpoint, &secrets(target, grant));
            let gone = match told.code.as_deref() {
                // The registration may have been forgotten. A configured client's may be mended.
                Some("invalid_client" | "unauthorized_client") => grant.client.registered,
                Some("temporarily_unavailable" | "server_error" | "slow_down") | None => false,
                Some(_) => true,
            };
            return Err(if gone {
                NotRefreshed::Refused(told.text)
            } else {
                NotRefreshed::Failed(told.text)
            });
        }
        Err(_) => return Err(NotRefreshed::Failed(format!("no answer within {TOKEN_TIME:?}"))),
    };
    let mut renewed = grant.clone();
    accept(&mut renewed, &answer, &grant.scopes).map_err(NotRefreshed::Failed)?;
    Ok(renewed)
}

pub(super) fn configure(issuer: &mut Issuer, client: &Client, redirect_uri: &str) -> Result<(), SdkError> {
    let mut config = OAuthClientConfig::new(client.id.clone(), redirect_uri);
    if let Some(secret) = &client.secret {
        config = config.with_client_secret(secret.expose());
    }
    issuer.manager.configure_client(config)
}

/// Shows the client's own credentials (SEP-1046).
pub(super) async fn show_credentials(
    target: &Target,
    mut issuer: Issuer,
    scopes: Option<Vec<String>>,
) -> Result<Grant, AuthError> {
    let config_error = |key, why: String| AuthError::Config { server: target.server.clone(), key, why };
    let mut scopes = match scopes {
        Some(scopes) => scopes,
        None => initial_scopes(target, &issuer).await,
    };
    scopes.retain(|scope| scope != "offline_access");
    let client_id = target.config.client_id.clone();
    let client_id = client_id.ok_or_else(|| config_error("clientId", "is missing".to_owned()))?;
    let secret = target.config.client_secret.clone();
    let client = Client { id: client_id.clone(), secret: secret.clone(), registered: false };
    let resource = Some(resource(target, &mut issuer, &client).await);
    let credentials = match (&target.config.private_key, secret) {
        (Some(key), _) => {
            let key = SigningKey::read(key).map_err(|why| config_error("privateKey", why))?;
            let supported =
                issuer.metadata.additional_fields.get("token_endpoint_auth_signing_alg_values_supported");
            let supported: Option<Vec<&str>> = supported
                .and_then(Value::as_array)
                .map(|names| names.iter().filter_map(Value::as_str).collect());
            ClientCredentialsConfig::PrivateKeyJwt {
                client_id,
                signing_algorithm: key.algorithm(supported.as_deref()),
                signing_key: key.pem.expose().as_bytes().to_vec(),
                token_endpoint_audience: None,
                scopes: scopes.clone(),
                resource,
            }
        }
        (None, Some(secret)) => ClientCredentialsConfig::ClientSecret {
            client_id,
            client_secret: secret.expose().to_owned(),
            scopes: scopes.clone(),
            resource,
        },
        (None, None) => {
            return Err(config_error("clientSecret", "is missing, and so is `oauth.privateKey`".to_owned()));
        }
    };
    let refused = |issuer: &Issuer, error: SdkError| {
        no_token(
            target,
            Told::read(&error, &issuer.metadata.token_endpoint, &client_secrets(target, &client)).text,
        )
    };
    issuer
        .manager
        .validate_client_credentials_metadata(&credentials)
        .map_err(|error| refused(&issuer, error))?;
    if let Err(error) = issuer.manager.configure_client_credentials(&credentials) {
        return Err(refused(&issuer, error));
    }
    // The SDK's future cannot move between threads, so a thread of its own drives it.
    let runtime = Handle::current();
    let exchange = spawn_blocking(move || {
        let exchange = quietly(issuer.manager.exchange_client_credentials(&credentials));
        let answer = runtime.block_on(async { timeout(TOKEN_TIME, exchange).await });
        (answer, issuer)
    });
    let (answer, issuer) = exchange.await.map_err(|_| no_token(target, "it was stopped".to_owned()))?;
    let answer = answer
        .map_err(|_| no_token(target, format!("no answer within {TOKEN_TIME:?}")))?
        .map_err(|error| refused(&issuer, error))?;
    let mut grant = Grant::new(target.url.to_string(), issuer.name, client);
    accept(&mut grant, &answer, &scopes).map_err(|detail| no_token(target, detail))?;
    // It is of no use to a client that can always ask again (RFC 6749 section 4.4.3).
    grant.refresh_token = None;
    Ok(grant)
}

/// The resource as the server's metadata spells it. The SDK keeps it to itself but for the URL of a login page.
async fn resource(target: &Target, issuer: &mut Issuer, client: &Client) -> String {
    let page = match configure(issuer, client, target.url.as_str()) {
        Ok(()) => issuer.manager.get_authorization_url(&[]).await.ok(),
        Err(_) => None,
    };
    let resource = page.and_then(|page| last_parameter(&page, "resource"));
    resource.unwrap_or_else(|| target.url.to_string())
}

/// The SDK appends its parameters: one of that name before it is from the server's metadata.
pub(super) fn last_parameter(url: &str, name: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    url.query_pairs().filter(|(key, _)| key == name).last().map(|(_, value)| value.into_owned())
}

pub(super) async fn initial_scopes(target: &Target, issuer: &Issuer) -> Vec<String> {
    match target.config.scopes.as_slice() {
        [] => issuer.manager.select_initial_scopes(&[]).await,
        configured => configured.to_vec(),
    }
}

pub(super) fn says(issuer: &Issuer, field: &str) -> bool {
    issuer.metadata.additional_fields.get(field).and_then(Value::as_bool).unwrap_or(false)
}

/// The SDK logs authorization codes and what else a token response holds: nothing of it reaches a log from here.
pub(super) fn quietly<F: Future>(future: F) -> impl Future<Output = F::Output> {
    future.with_subscriber(Dispatch::none())
}

pub(super) fn no_token(target: &Target, detail: String) -> AuthError {
    AuthError::NoToken { server: target.server.clone(), detail }
}

fn secrets(target: &Target, grant: &Grant) -> Vec<Secret> {
    let mut secrets = client_secrets(target, &grant.client);
    secrets.extend(grant.access_token.clone());
    secrets.extend(grant.refresh_token.clone());
    secrets
}

pub(super) fn client_secrets(target: &Target, client: &Client) -> Vec<Secret> {
    client.secret.iter().chain(&target.config.client_secret).cloned().collect()
}
