//! Requests to an authorization server, with rmcp's `AuthorizationManager`.

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
    AuthConfig, GrantKind,
    client_assertion::request_with_assertion,
    error::AuthProblem,
    signing_key::SigningKey,
    token_response::{TokenEndpointError, apply_token_response, redact, single_line},
    token_store::{Grant, OAuthClient},
};
use crate::{Secret, transport::install_tls_provider};

/// For the complete discovery, which is up to ten requests.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(30);
/// For one request to the token or registration endpoint; the same as the SDK's timeout.
pub(super) const TOKEN_TIMEOUT: Duration = Duration::from_secs(30);

/// The scope for a refresh token.
pub(super) const OFFLINE_ACCESS: &str = "offline_access";

/// The server that a token is for.
pub(super) struct ProtectedServer {
    pub(super) name: String,
    pub(super) url: Url,
    pub(super) config: AuthConfig,
}

/// The authorization server that discovery found.
pub(super) struct AuthorizationServer {
    pub(super) issuer: String,
    pub(super) manager: AuthorizationManager,
    pub(super) metadata: AuthorizationMetadata,
    /// Whether it publishes metadata. Otherwise its endpoints are the defaults of MCP 2025-03-26.
    pub(super) has_metadata: bool,
}

impl AuthorizationServer {
    pub(super) fn configure_client(
        &mut self,
        client: &OAuthClient,
        redirect_uri: &str,
    ) -> Result<(), SdkError> {
        let mut config = OAuthClientConfig::new(client.id.clone(), redirect_uri);
        if let Some(secret) = &client.secret {
            config = config.with_client_secret(secret.expose());
        }
        self.manager.configure_client(config)
    }

    pub(super) async fn initial_scopes(&self, config: &AuthConfig) -> Vec<String> {
        match config.scopes.as_slice() {
            [] => self.manager.select_initial_scopes(&[]).await,
            configured => configured.to_vec(),
        }
    }

    /// Whether the metadata sets a boolean field to true.
    pub(super) fn supports(&self, field: &str) -> bool {
        self.metadata.additional_fields.get(field).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn token_endpoint_error(&self, error: &SdkError, secrets: &[Secret]) -> TokenEndpointError {
        TokenEndpointError::from_sdk(error, &self.metadata.token_endpoint, secrets)
    }
}

pub(super) enum RefreshError {
    /// The refresh token is invalid from now on.
    Rejected(String),
    /// The refresh may succeed later.
    Temporary(String),
}

pub(super) async fn discover(
    server: &ProtectedServer,
    challenge: Option<&str>,
) -> Result<AuthorizationServer, AuthProblem> {
    // The query of a URL often contains a key, and the SDK's messages quote the URL.
    let query: Vec<Secret> = server.url.query().map(Secret::new).into_iter().collect();
    let failed = |detail| AuthProblem::Discovery { detail };
    let sdk_failed = |error: SdkError| failed(single_line(&redact(&error.to_string(), &query)));
    install_tls_provider();
    // Addresses in the user's private network are allowed, but not a cloud's metadata service.
    let mut manager =
        AuthorizationManager::new_allowing_private_addresses(server.url.clone()).await.map_err(sdk_failed)?;
    let resolving = timeout(DISCOVERY_TIMEOUT, manager.resolve_metadata_from_challenge(challenge));
    let resolved = if query.is_empty() { resolving.await } else { without_logging(resolving).await };
    let resolution = resolved
        .map_err(|_| failed(format!("no response within {DISCOVERY_TIMEOUT:?}")))?
        .map_err(sdk_failed)?;
    let metadata = resolution.metadata;
    let endpoints = [&metadata.authorization_endpoint, &metadata.token_endpoint];
    for endpoint in endpoints.into_iter().chain(&metadata.registration_endpoint) {
        check_endpoint(server, endpoint)?;
    }
    // Since MCP 2025-06-18, a server has resource metadata, and clients must require PKCE.
    if resolution.source == AuthorizationMetadataSource::ProtectedResourceMetadata
        && metadata.code_challenge_methods_supported.is_none()
        && server.config.grant == GrantKind::AuthorizationCode
    {
        let detail = "it does not advertise PKCE support (`code_challenge_methods_supported`)";
        return Err(failed(detail.to_owned()));
    }
    // In MCP 2025-03-26, a server is its own authorization server and may have no metadata.
    let issuer = metadata.issuer.clone().unwrap_or_else(|| server.url.origin().ascii_serialization());
    manager.set_metadata(metadata.clone());
    let has_metadata = resolution.source.is_discovered();
    Ok(AuthorizationServer { issuer, manager, metadata, has_metadata })
}

/// Requires `https`, or `http` if both the endpoint and the server are on this machine: endpoints receive
/// secrets or are opened in a browser.
fn check_endpoint(server: &ProtectedServer, endpoint: &str) -> Result<(), AuthProblem> {
    let unsafe_endpoint = |problem| Err(AuthProblem::UnsafeEndpoint { url: single_line(endpoint), problem });
    let Ok(url) = Url::parse(endpoint) else { return unsafe_endpoint("it is not a URL") };
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_local(&url) && is_local(&server.url) => Ok(()),
        "http" => unsafe_endpoint("it is not encrypted"),
        _ => unsafe_endpoint("it is not a web address"),
    }
}

fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

pub(super) async fn refresh(
    server: &ProtectedServer,
    authorization_server: &mut AuthorizationServer,
    grant: &Grant,
) -> Result<Grant, RefreshError> {
    let failed = |error: SdkError| RefreshError::Temporary(single_line(&error.to_string()));
    // Without scopes, the request is for the scopes that were granted.
    let current = json!({
        "access_token": grant.access_token.as_ref().map(Secret::expose).unwrap_or_default(),
        "token_type": "bearer",
        "refresh_token": grant.refresh_token.as_ref().map(Secret::expose),
    });
    let current: OAuthTokenResponse = serde_json::from_value(current)
        .map_err(|_| RefreshError::Rejected("the stored token is invalid".to_owned()))?;
    let store = InMemoryCredentialStore::new();
    let credentials = StoredCredentials::new(grant.client.id.clone(), Some(current), Vec::new(), None);
    store.save(credentials).await.map_err(failed)?;
    authorization_server.manager.set_credential_store(store);
    authorization_server.configure_client(&grant.client, server.url.as_str()).map_err(failed)?;

    let refreshing = without_logging(authorization_server.manager.refresh_token());
    let response = match timeout(TOKEN_TIMEOUT, refreshing).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            let is_invalid_grant = matches!(error, SdkError::TokenRefreshRejected(_));
            let error = authorization_server.token_endpoint_error(&error, &secrets(server, grant));
            let is_rejected = match error.code.as_deref() {
                _ if is_invalid_grant => true,
                // The server may have deleted a registration. The user can correct a configured client.
                Some("invalid_client" | "unauthorized_client") => grant.client.registered,
                Some("temporarily_unavailable" | "server_error" | "slow_down") | None => false,
                Some(_) => true,
            };
            return Err(if is_rejected {
                RefreshError::Rejected(error.message)
            } else {
                RefreshError::Temporary(error.message)
            });
        }
        Err(_) => return Err(RefreshError::Temporary(format!("no response within {TOKEN_TIMEOUT:?}"))),
    };
    let mut renewed = grant.clone();
    apply_token_response(&mut renewed, &response, &grant.scopes).map_err(RefreshError::Temporary)?;
    Ok(renewed)
}

/// Requests a token with the client's own credentials (SEP-1046).
pub(super) async fn request_with_client_credentials(
    server: &ProtectedServer,
    mut authorization_server: AuthorizationServer,
    scopes: Option<Vec<String>>,
) -> Result<Grant, AuthProblem> {
    let config_error = |key, problem| AuthProblem::Config { key, problem };
    let mut scopes = match scopes {
        Some(scopes) => scopes,
        None => authorization_server.initial_scopes(&server.config).await,
    };
    scopes.retain(|scope| scope != OFFLINE_ACCESS);
    let client_id = server.config.client_id.clone();
    let client_id = client_id.ok_or_else(|| config_error("clientId", "is missing".to_owned()))?;
    let secret = server.config.client_secret.clone();
    let client = OAuthClient { id: client_id.clone(), secret: secret.clone(), registered: false };
    let resource = resource_indicator(server, &mut authorization_server, &client).await;
    let no_token = |detail| AuthProblem::NoToken { detail };
    let (response, authorization_server) = match (&server.config.private_key, secret) {
        (Some(key), _) => {
            let key = SigningKey::read(key).map_err(|problem| config_error("privateKey", problem))?;
            let request = request_with_assertion(&authorization_server, &client_id, &key, &scopes, &resource);
            (request.await.map_err(no_token)?, authorization_server)
        }
        (None, Some(secret)) => {
            let credentials = ClientCredentialsConfig::ClientSecret {
                client_id,
                client_secret: secret.expose().to_owned(),
                scopes: scopes.clone(),
                resource: Some(resource),
            };
            let secrets = client_secrets(server, &client);
            request_with_secret(authorization_server, credentials, &secrets).await.map_err(no_token)?
        }
        (None, None) => return Err(config_error("clientSecret", "is missing".to_owned())),
    };
    let mut grant = Grant::new(server.url.to_string(), authorization_server.issuer, client);
    apply_token_response(&mut grant, &response, &scopes).map_err(no_token)?;
    // A client with credentials needs no refresh token (RFC 6749 section 4.4.3).
    grant.refresh_token = None;
    Ok(grant)
}

async fn request_with_secret(
    mut authorization_server: AuthorizationServer,
    credentials: ClientCredentialsConfig,
    secrets: &[Secret],
) -> Result<(OAuthTokenResponse, AuthorizationServer), String> {
    let failed = |authorization_server: &AuthorizationServer, error: SdkError| {
        authorization_server.token_endpoint_error(&error, secrets).message
    };
    let manager = &mut authorization_server.manager;
    manager
        .validate_client_credentials_metadata(&credentials)
        .and_then(|()| manager.configure_client_credentials(&credentials))
        .map_err(|error| failed(&authorization_server, error))?;
    // The SDK's future is not `Send`, so a separate thread polls it.
    let runtime = Handle::current();
    let exchange = spawn_blocking(move || {
        let manager = &authorization_server.manager;
        let exchange = without_logging(manager.exchange_client_credentials(&credentials));
        let response = runtime.block_on(async { timeout(TOKEN_TIMEOUT, exchange).await });
        (response, authorization_server)
    });
    let (response, authorization_server) =
        exchange.await.map_err(|_| "the request was cancelled".to_owned())?;
    let response = response
        .map_err(|_| format!("no response within {TOKEN_TIMEOUT:?}"))?
        .map_err(|error| failed(&authorization_server, error))?;
    Ok((response, authorization_server))
}

/// Returns the resource indicator of the server. The SDK exposes it only in the URL of a login page.
async fn resource_indicator(
    server: &ProtectedServer,
    authorization_server: &mut AuthorizationServer,
    client: &OAuthClient,
) -> String {
    let login_url = match authorization_server.configure_client(client, server.url.as_str()) {
        Ok(()) => authorization_server.manager.get_authorization_url(&[]).await.ok(),
        Err(_) => None,
    };
    let resource = login_url.and_then(|url| last_parameter(&url, "resource"));
    resource.unwrap_or_else(|| server.url.to_string())
}

/// Returns the last value of a query parameter: the SDK appends its own after those of the metadata.
pub(super) fn last_parameter(url: &str, name: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    url.query_pairs().filter(|(key, _)| key == name).last().map(|(_, value)| value.into_owned())
}

/// Discards log messages of the SDK, because they contain authorization codes and token responses.
pub(super) fn without_logging<F: Future>(future: F) -> impl Future<Output = F::Output> {
    future.with_subscriber(Dispatch::none())
}

fn secrets(server: &ProtectedServer, grant: &Grant) -> Vec<Secret> {
    let mut secrets = client_secrets(server, &grant.client);
    secrets.extend(grant.access_token.clone());
    secrets.extend(grant.refresh_token.clone());
    secrets
}

pub(super) fn client_secrets(server: &ProtectedServer, client: &OAuthClient) -> Vec<Secret> {
    client.secret.iter().chain(&server.config.client_secret).cloned().collect()
}
