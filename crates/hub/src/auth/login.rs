//! A user's login, from opening the login page to the token.

use std::{io, sync::Arc, time::Duration};

use rmcp::transport::auth::{AuthError as SdkError, InMemoryStateStore, StateStore};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{
    Browser,
    authorization_server::{
        AuthorizationServer, OFFLINE_ACCESS, ProtectedServer, TOKEN_TIMEOUT, last_parameter,
    },
    error::AuthProblem,
    redirect::{Callback, Redirect, RedirectListener},
    text::single_line,
    token_response::apply_token_response,
    token_store::{Grant, OAuthClient, plain_text},
};
use crate::Secret;

const CLIENT_NAME: &str = "Toolwire";

/// A login whose page was not opened yet.
pub(super) struct StartedLogin {
    /// The login page.
    pub(super) url: String,
    pub(super) pending: PendingLogin,
}

/// What completes a login, in the same process or in another one.
#[derive(Serialize, Deserialize)]
pub(super) struct PendingLogin {
    /// The value of `state` in the redirect.
    pub(super) state: String,
    #[serde(with = "plain_text")]
    verifier: Option<Secret>,
    redirect_uri: String,
    resource: Option<String>,
    issuer: String,
    client: OAuthClient,
    scopes: Vec<String>,
}

/// Lets the user log in. `scopes` are requested instead of the scopes that the server names.
pub(super) async fn log_in(
    server: &ProtectedServer,
    mut authorization_server: AuthorizationServer,
    scopes: Option<Vec<String>>,
    browser: &dyn Browser,
    login_timeout: Duration,
) -> Result<Grant, AuthProblem> {
    let listener = RedirectListener::bind(server.config.redirect_port)
        .await
        .map_err(|error| listen_problem(server, error))?;
    let StartedLogin { url, pending } =
        start(server, &mut authorization_server, scopes, &listener.uri()).await?;
    let redirect = timeout(login_timeout, open_and_wait(server, browser, &listener, &url, &pending.state))
        .await
        .map_err(|_| AuthProblem::LoginTimedOut { after: login_timeout })??;
    drop(listener);
    let granted = complete(server, &authorization_server, &pending, &redirect.callback).await;
    // Not earlier, because the login can still fail: the response may come from another authorization server.
    redirect.show_outcome(granted.is_ok()).await;
    granted
}

/// Starts a login. `scopes` are requested instead of the scopes that the server names.
pub(super) async fn start(
    server: &ProtectedServer,
    authorization_server: &mut AuthorizationServer,
    scopes: Option<Vec<String>>,
    redirect_uri: &str,
) -> Result<StartedLogin, AuthProblem> {
    let mut scopes = match scopes {
        Some(scopes) => scopes,
        None => authorization_server.initial_scopes(&server.config).await,
    };
    // Many authorization servers issue a refresh token only with this scope (SEP-2207).
    let supported = authorization_server.metadata.scopes_supported.as_deref().unwrap_or_default();
    let is_offline = |scope: &String| scope == OFFLINE_ACCESS;
    if !scopes.is_empty() && supported.iter().any(is_offline) && !scopes.iter().any(is_offline) {
        scopes.push(OFFLINE_ACCESS.to_owned());
    }
    let requested: Vec<&str> = scopes.iter().map(String::as_str).collect();

    let states = InMemoryStateStore::new();
    authorization_server.manager.set_state_store(states.clone());
    let client = choose_client(server, authorization_server, redirect_uri, &requested).await?;
    let discovery_problem = |detail| AuthProblem::Discovery { detail };
    let url = authorization_server
        .manager
        .get_authorization_url(&requested)
        .await
        .map_err(|error| discovery_problem(single_line(&error.to_string())))?;
    let state = last_parameter(&url, "state")
        .ok_or_else(|| discovery_problem("the login URL has no `state` parameter".to_owned()))?;
    // Stored by `get_authorization_url`.
    let verifier = states.load(&state).await.ok().flatten().map(|state| Secret::new(state.pkce_verifier));
    let resource = last_parameter(&url, "resource");
    let (redirect_uri, issuer) = (redirect_uri.to_owned(), authorization_server.issuer.clone());
    let pending = PendingLogin { state, verifier, redirect_uri, resource, issuer, client, scopes };
    Ok(StartedLogin { url, pending })
}

/// Exchanges the code in the redirect for tokens.
pub(super) async fn complete(
    server: &ProtectedServer,
    authorization_server: &AuthorizationServer,
    login: &PendingLogin,
    callback: &Callback,
) -> Result<Grant, AuthProblem> {
    if authorization_server.issuer != login.issuer {
        let detail = "the server now uses a different authorization server".to_owned();
        return Err(AuthProblem::WrongIssuer { detail });
    }
    let code = read_code(authorization_server, callback)?;
    let parameters = [
        ("grant_type", "authorization_code"),
        ("code", code.expose()),
        ("code_verifier", login.verifier.as_ref().map_or("", Secret::expose)),
        ("redirect_uri", &login.redirect_uri),
        ("resource", login.resource.as_deref().unwrap_or_default()),
    ];
    request_grant(server, authorization_server, login.client.clone(), &parameters, &login.scopes).await
}

/// Returns the code in the redirect, if it comes from this authorization server.
fn read_code<'a>(
    authorization_server: &AuthorizationServer,
    callback: &'a Callback,
) -> Result<&'a Secret, AuthProblem> {
    // A code or a message from a different authorization server must not be used (RFC 9207 section 2.4).
    check_issuer(authorization_server, callback.issuer.as_deref())?;
    callback.outcome.as_ref().map_err(|refusal| {
        let description = refusal.description.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
        AuthProblem::LoginRefused { detail: single_line(&format!("{}{description}", refusal.error)) }
    })
}

/// Exchanges the code for tokens.
async fn request_grant(
    server: &ProtectedServer,
    authorization_server: &AuthorizationServer,
    client: OAuthClient,
    parameters: &[(&str, &str)],
    scopes: &[String],
) -> Result<Grant, AuthProblem> {
    let no_token = |detail| AuthProblem::NoToken { detail };
    let authentication = authorization_server.authentication(&client);
    let response = authorization_server.request_token(parameters, authentication).await;
    let response = response.map_err(|error| no_token(error.to_string()))?;
    let mut grant = Grant::new(server.url.to_string(), authorization_server.issuer.clone(), client);
    apply_token_response(&mut grant, response, scopes).map_err(no_token)?;
    Ok(grant)
}

/// Opens the login page and waits for the redirect.
async fn open_and_wait(
    server: &ProtectedServer,
    browser: &dyn Browser,
    listener: &RedirectListener,
    url: &str,
    state: &str,
) -> Result<Redirect, AuthProblem> {
    let redirect = listener.wait(state);
    let open = browser.open(&server.name, url);
    tokio::pin!(redirect);
    let received = tokio::select! {
        received = &mut redirect => received,
        opened = open => match opened {
            Ok(()) => redirect.await,
            Err(error) => return Err(AuthProblem::Browser { source: Arc::new(error) }),
        },
    };
    received.map_err(|error| listen_problem(server, error))
}

fn listen_problem(server: &ProtectedServer, error: io::Error) -> AuthProblem {
    let port = server.config.redirect_port.unwrap_or_default();
    AuthProblem::Listen { port, source: Arc::new(error) }
}

/// Chooses a client in MCP's order: a configured one, one with a metadata document, or a new registration.
///
/// A client is registered for each login. Logins are rare, and an earlier registration has another port, may
/// lack the scopes that are requested now, or may have been deleted by the authorization server, which then
/// displays an error page and never redirects.
async fn choose_client(
    server: &ProtectedServer,
    authorization_server: &mut AuthorizationServer,
    redirect_uri: &str,
    scopes: &[&str],
) -> Result<OAuthClient, AuthProblem> {
    let has_metadata = authorization_server.has_metadata;
    let failed = |error: SdkError| {
        if !has_metadata {
            return AuthProblem::NoAuthorizationServer;
        }
        let detail = match error {
            SdkError::RegistrationFailed(detail) => single_line(&detail),
            error => single_line(&error.to_string()),
        };
        AuthProblem::Registration { detail }
    };
    let config = &server.config;
    let existing = match config.client_id.clone() {
        Some(id) => Some((id, config.client_secret.clone())),
        None if authorization_server.supports("client_id_metadata_document_supported") => {
            config.client_metadata_url.clone().map(|url| (url, None))
        }
        None => None,
    };
    if let Some((id, secret)) = existing {
        let client = OAuthClient { id, secret, registered: false };
        authorization_server.configure_client(&client, redirect_uri).map_err(failed)?;
        return Ok(client);
    }
    let register = authorization_server.manager.register_client(CLIENT_NAME, redirect_uri, scopes);
    let registered = timeout(TOKEN_TIMEOUT, register)
        .await
        .map_err(|_| AuthProblem::Registration { detail: format!("no response within {TOKEN_TIMEOUT:?}") })?
        .map_err(failed)?;
    let secret = registered.client_secret.map(Secret::new);
    Ok(OAuthClient { id: registered.client_id, secret, registered: true })
}

/// Checks the issuer of a login response (RFC 9207).
fn check_issuer(
    authorization_server: &AuthorizationServer,
    received: Option<&str>,
) -> Result<(), AuthProblem> {
    let expected = authorization_server.metadata.issuer.as_deref();
    let is_required = authorization_server.supports("authorization_response_iss_parameter_supported");
    match (expected, received) {
        (_, None) if !is_required => Ok(()),
        (_, None) => Err(AuthProblem::NoIssuer),
        (Some(expected), Some(received)) if expected == received => Ok(()),
        (expected, received) => {
            let detail = single_line(&format!(
                "expected `{}`, received `{}`",
                expected.unwrap_or("none"),
                received.unwrap_or("none")
            ));
            Err(AuthProblem::WrongIssuer { detail })
        }
    }
}
