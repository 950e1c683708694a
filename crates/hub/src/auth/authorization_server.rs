//! Requests to an authorization server. Discovery and registration use rmcp's `AuthorizationManager`.

use std::time::Duration;

use reqwest::Url;
use rmcp::transport::auth::{
    AuthError as SdkError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource,
    OAuthClientConfig,
};
use serde_json::Value;
use tokio::time::timeout;
use tracing::{Dispatch, instrument::WithSubscriber};

use super::{
    AuthConfig, GrantKind,
    client_assertion::client_assertion,
    error::AuthProblem,
    signing_key::SigningKey,
    text::{redact, single_line},
    token_endpoint::{ClientAuthentication, TokenEndpointError},
    token_response::apply_token_response,
    token_store::{Grant, OAuthClient},
};
use crate::{Secret, transport::install_tls_provider};

/// For the complete discovery, which is up to ten requests.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(30);
/// For one request to the token or registration endpoint.
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

    /// Returns how a user's client authenticates: in the header, unless the metadata names only the body.
    pub(super) fn authentication<'a>(&self, client: &'a OAuthClient) -> ClientAuthentication<'a> {
        let methods = self.authentication_methods().unwrap_or_default();
        match methods.contains(&"client_secret_post") && !methods.contains(&"client_secret_basic") {
            true => ClientAuthentication::Body(client),
            false => ClientAuthentication::Header(client),
        }
    }

    /// Returns the resource indicator of the server. The SDK exposes it only in the URL of a login page.
    async fn resource_indicator(&mut self, server: &ProtectedServer, client: &OAuthClient) -> String {
        let login_url = match self.configure_client(client, server.url.as_str()) {
            Ok(()) => self.manager.get_authorization_url(&[]).await.ok(),
            Err(_) => None,
        };
        let resource = login_url.and_then(|url| last_parameter(&url, "resource"));
        resource.unwrap_or_else(|| server.url.to_string())
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
    let Some(refresh_token) = &grant.refresh_token else {
        return Err(RefreshError::Rejected("there is no refresh token".to_owned()));
    };
    let resource = authorization_server.resource_indicator(server, &grant.client).await;
    // Without scopes, the request is for the scopes that were granted.
    let parameters =
        [("grant_type", "refresh_token"), ("refresh_token", refresh_token.expose()), ("resource", &resource)];
    let authentication = authorization_server.authentication(&grant.client);
    let response = authorization_server.request_token(&parameters, authentication).await.map_err(
        |error| match is_final(&error, &grant.client) {
            true => RefreshError::Rejected(error.to_string()),
            false => RefreshError::Temporary(error.to_string()),
        },
    )?;
    let mut renewed = grant.clone();
    apply_token_response(&mut renewed, response, &grant.scopes).map_err(RefreshError::Temporary)?;
    Ok(renewed)
}

/// Whether the refresh token is permanently unusable.
fn is_final(error: &TokenEndpointError, client: &OAuthClient) -> bool {
    let TokenEndpointError::Refused { code, .. } = error else { return false };
    match code.as_str() {
        // The server may have deleted a registration. The user can correct a configured client.
        "invalid_client" | "unauthorized_client" => client.registered,
        "temporarily_unavailable" | "server_error" | "slow_down" => false,
        _ => true,
    }
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
    let resource = authorization_server.resource_indicator(server, &client).await;
    let no_token = |detail| AuthProblem::NoToken { detail };
    let assertion;
    let authentication = match (&server.config.private_key, secret) {
        (Some(key), _) => {
            let key = SigningKey::read(key).map_err(|problem| config_error("privateKey", problem))?;
            assertion = client_assertion(&authorization_server, &client_id, &key).map_err(no_token)?;
            ClientAuthentication::Assertion(&assertion)
        }
        (None, Some(_)) => secret_authentication(&authorization_server, &client).map_err(no_token)?,
        (None, None) => return Err(config_error("clientSecret", "is missing".to_owned())),
    };
    let scope = scopes.join(" ");
    let parameters = [("grant_type", "client_credentials"), ("resource", &resource), ("scope", &scope)];
    let response = authorization_server.request_token(&parameters, authentication).await;
    let response = response.map_err(|error| no_token(error.to_string()))?;
    let mut grant = Grant::new(server.url.to_string(), authorization_server.issuer.clone(), client);
    apply_token_response(&mut grant, response, &scopes).map_err(no_token)?;
    // A client with credentials needs no refresh token (RFC 6749 section 4.4.3).
    grant.refresh_token = None;
    Ok(grant)
}

/// Returns how a client with its own credentials sends its secret: in the body, as MCP requires, unless the
/// metadata names only the header.
fn secret_authentication<'a>(
    authorization_server: &AuthorizationServer,
    client: &'a OAuthClient,
) -> Result<ClientAuthentication<'a>, String> {
    match authorization_server.authentication_methods() {
        None => Ok(ClientAuthentication::Body(client)),
        Some(methods) if methods.contains(&"client_secret_post") => Ok(ClientAuthentication::Body(client)),
        Some(methods) if methods.contains(&"client_secret_basic") => Ok(ClientAuthentication::Header(client)),
        Some(methods) => {
            let methods = single_line(&methods.join(", "));
            Err(format!("it does not accept a client secret (`client_secret_post`), only {methods}"))
        }
    }
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
