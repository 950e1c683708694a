//! A person's login, from the page that opens to the token.

use std::{sync::Arc, time::Duration};

use rmcp::transport::auth::AuthError as SdkError;
use tokio::time::timeout;

use super::{
    AuthError, Browser,
    answer::{Told, accept, shown},
    flow::{
        Issuer, TOKEN_TIME, Target, client_secrets, configure, initial_scopes, last_parameter, no_token,
        quietly, says,
    },
    redirect::{Callback, Redirect},
    store::{Client, Grant},
};
use crate::Secret;

const CLIENT_NAME: &str = "Toolwire";

/// Asks a person. `scopes` are asked for instead of those that the server names.
pub(super) async fn log_in(
    target: &Target,
    mut issuer: Issuer,
    scopes: Option<Vec<String>>,
    browser: &dyn Browser,
    patience: Duration,
) -> Result<Grant, AuthError> {
    let server = || target.server.clone();
    let port = target.config.redirect_port;
    let redirect = Redirect::bind(port).await.map_err(|error| AuthError::Listen {
        server: server(),
        port: port.unwrap_or_default(),
        source: Arc::new(error),
    })?;
    let mut scopes = match scopes {
        Some(scopes) => scopes,
        None => initial_scopes(target, &issuer).await,
    };
    // Without it many authorization servers give no refresh token (SEP-2207).
    let offline = "offline_access";
    let supported = issuer.metadata.scopes_supported.as_deref().unwrap_or_default();
    if !scopes.is_empty()
        && supported.iter().any(|scope| scope == offline)
        && !scopes.iter().any(|scope| scope == offline)
    {
        scopes.push(offline.to_owned());
    }
    let asked: Vec<&str> = scopes.iter().map(String::as_str).collect();

    let client = choose_client(target, &mut issuer, &redirect.uri(), &asked).await?;
    let url = issuer
        .manager
        .get_authorization_url(&asked)
        .await
        .map_err(|error| AuthError::Discovery { server: server(), detail: shown(&error.to_string()) })?;
    let state = last_parameter(&url, "state").ok_or_else(|| AuthError::Discovery {
        server: server(),
        detail: "its login page cannot be addressed".to_owned(),
    })?;

    let callback = timeout(patience, visit(target, browser, &redirect, &url, &state))
        .await
        .map_err(|_| AuthError::LoginTimedOut { server: server(), after: patience })??;
    drop(redirect);
    let code = match callback.answer {
        Ok(code) => code,
        Err(refusal) => {
            // What another authorization server says is not shown as this one's word (RFC 9207 section 2.4).
            check_issuer(target, &issuer, callback.issuer.as_deref())?;
            let description = refusal.description.map(|text| format!(": {text}")).unwrap_or_default();
            let detail = shown(&format!("{}{description}", refusal.error));
            return Err(AuthError::LoginRefused { server: server(), detail });
        }
    };
    let exchange =
        issuer.manager.exchange_code_for_token_with_issuer(code.expose(), &state, callback.issuer.as_deref());
    let answer = timeout(TOKEN_TIME, quietly(exchange))
        .await
        .map_err(|_| no_token(target, format!("no answer within {TOKEN_TIME:?}")))?
        .map_err(|error| match error {
            SdkError::AuthorizationServerMismatch { .. }
            | SdkError::AuthorizationServerMissingIssuer { .. }
            | SdkError::AuthorizationFailed(_) => {
                AuthError::WrongIssuer { server: server(), detail: shown(&error.to_string()) }
            }
            error => {
                let mut hidden = client_secrets(target, &client);
                hidden.push(code.clone());
                no_token(target, Told::read(&error, &issuer.metadata.token_endpoint, &hidden).text)
            }
        })?;
    let mut grant = Grant::new(target.url.to_string(), issuer.name, client);
    accept(&mut grant, &answer, &scopes).map_err(|detail| no_token(target, detail))?;
    Ok(grant)
}

/// Opens the page and waits for it to come back, whichever ends first.
async fn visit(
    target: &Target,
    browser: &dyn Browser,
    redirect: &Redirect,
    url: &str,
    state: &str,
) -> Result<Callback, AuthError> {
    let back = redirect.wait(state);
    let open = browser.open(&target.server, url);
    tokio::pin!(back);
    let waited = tokio::select! {
        waited = &mut back => waited,
        opened = open => match opened {
            Ok(()) => back.await,
            Err(error) => {
                return Err(AuthError::Browser { server: target.server.clone(), source: Arc::new(error) });
            }
        },
    };
    waited.map_err(|error| AuthError::Listen {
        server: target.server.clone(),
        port: target.config.redirect_port.unwrap_or_default(),
        source: Arc::new(error),
    })
}

/// In MCP's order: a client that is configured, one that is published, one that registers itself.
///
/// It registers for each login. A login is rare, and a registration of old has another port, may lack the rights
/// asked for now, or may be forgotten by the authorization server, which then shows an error page and never
/// comes back.
async fn choose_client(
    target: &Target,
    issuer: &mut Issuer,
    redirect_uri: &str,
    scopes: &[&str],
) -> Result<Client, AuthError> {
    let published = issuer.published;
    let failed = |error: SdkError| {
        let server = target.server.clone();
        if !published {
            let detail = "it wants a token, and does not say where to get one".to_owned();
            return AuthError::Discovery { server, detail };
        }
        let text = error.to_string();
        let detail = shown(text.strip_prefix("Registration failed: ").unwrap_or(&text));
        AuthError::Registration { server, detail }
    };
    let document = || {
        target
            .config
            .client_metadata_url
            .clone()
            .filter(|_| says(issuer, "client_id_metadata_document_supported"))
    };
    let known = match target.config.client_id.clone() {
        Some(id) => Some(Client { id, secret: target.config.client_secret.clone(), registered: false }),
        None => document().map(|id| Client { id, secret: None, registered: false }),
    };
    if let Some(client) = known {
        configure(issuer, &client, redirect_uri).map_err(failed)?;
        return Ok(client);
    }
    let register = issuer.manager.register_client(CLIENT_NAME, redirect_uri, scopes);
    let registered = timeout(TOKEN_TIME, register)
        .await
        .map_err(|_| AuthError::Registration {
            server: target.server.clone(),
            detail: format!("no answer within {TOKEN_TIME:?}"),
        })?
        .map_err(failed)?;
    let secret = registered.client_secret.map(Secret::new);
    Ok(Client { id: registered.client_id, secret, registered: true })
}

/// What the SDK checks of a code, for an answer without one.
fn check_issuer(target: &Target, issuer: &Issuer, received: Option<&str>) -> Result<(), AuthError> {
    let expected = issuer.metadata.issuer.as_deref();
    let required = says(issuer, "authorization_response_iss_parameter_supported");
    match (expected, received) {
        (_, None) if !required => Ok(()),
        (Some(expected), Some(received)) if expected == received => Ok(()),
        (expected, received) => {
            let detail = shown(&format!(
                "expected `{}`, received `{}`",
                expected.unwrap_or("none"),
                received.unwrap_or("none")
            ));
            Err(AuthError::WrongIssuer { server: target.server.clone(), detail })
        }
    }
}
