//! The logins of users at servers.

use std::sync::Arc;

use toolwire_contract::Secret;
use toolwire_contract::state::StateStore;
use toolwire_gateway::{UserLogin, UserLoginError};
use toolwire_hub::ServerConfig;
use toolwire_hub::auth::{OAuth, TokenStorage};
use toolwire_hub::config::UserCredentials;
use toolwire_page::link::Link;

use crate::command_error::CommandError;
use crate::stored_secrets::{Seal, StoredLogin, StoredSecrets, StoredTokens};
use crate::terminal_text::sanitize;

/// The path of the gateway to which authorization servers redirect browsers.
const CALLBACK: &str = "/-/logged-in";

/// What logins of users need.
pub(in crate::serve) struct LoginPlace {
    /// The address of the gateway for browsers, without a path.
    address: Option<String>,
    secrets: Option<Arc<StoredSecrets>>,
}

impl LoginPlace {
    /// Checks the address and the secret of the configuration. `local` is the address if the gateway serves
    /// only this machine.
    pub(in crate::serve) fn new(
        public_url: Option<&str>,
        local: Option<String>,
        secret: Option<(&Secret, Arc<dyn StateStore>)>,
    ) -> Result<LoginPlace, CommandError> {
        let address = public_url.map(|url| url.trim_end_matches('/').to_owned());
        let is_address = |url: &String| {
            let rest = url.split_once("://").map_or("", |(_, rest)| rest);
            Link::external(url).is_some() && url.starts_with("http") && !rest.contains(['/', '?', '#', '@'])
        };
        if let Some(url) = address.as_ref().filter(|url| !is_address(url)) {
            let message =
                format!("`toolwire.gateway.publicUrl`: `{}` is not the address of a gateway", sanitize(url));
            return Err(CommandError::usage(message)
                .with_hint("write a scheme and a host, such as `https://gateway.example`"));
        }
        if let Some((secret, _)) = &secret {
            Seal::check(secret)?;
        }
        let secrets = secret.map(|(secret, store)| Arc::new(StoredSecrets::new(store, secret)));
        Ok(LoginPlace { address: address.or(local), secrets })
    }

    /// Checks that users can log in to those of the servers that require it.
    pub(super) fn check(&self, servers: &[ServerConfig]) -> Result<(), CommandError> {
        let Some(server) = servers.iter().find(|server| has_login(server)) else { return Ok(()) };
        let needs = |key: &str, hint: &str| {
            let message = format!(
                "users log in to the server `{}`, which requires `toolwire.gateway.{key}`",
                sanitize(server.name.as_str())
            );
            Err(CommandError::usage(message).with_hint(hint))
        };
        match (&self.address, &self.secrets) {
            (_, None) => needs(
                "credentialKey",
                "set it to a random text, such as the output of `openssl rand -hex 32`, and restart the gateway",
            ),
            (None, _) => needs(
                "publicUrl",
                "set it to the address that browsers use, such as `https://gateway.example`, and restart the gateway",
            ),
            _ => Ok(()),
        }
    }

    /// Returns the address of the gateway for browsers, without a path.
    pub(super) fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// Returns the address of the page where users log in to a server.
    pub(super) fn page(&self, server: &str) -> String {
        let address = self.address.as_deref().unwrap_or_default();
        format!("{address}{}", Link::to(&["-", "login", server]))
    }

    /// Returns the storage of a user's tokens.
    pub(super) fn tokens(&self, user: &str) -> Option<Arc<dyn TokenStorage>> {
        let secrets = self.secrets.clone()?;
        Some(Arc::new(StoredTokens::of_user(secrets, user)))
    }

    /// Starts a login, and returns the address of its page.
    pub(super) async fn start(
        &self,
        servers: &[ServerConfig],
        login: UserLogin,
    ) -> Result<String, UserLoginError> {
        let (oauth, secrets) = self.find(servers, &login.server, &login.user)?;
        let address = self.address.as_deref().unwrap_or_default();
        let started = oauth.start_login(&format!("{address}{CALLBACK}")).await;
        let started = started.map_err(|error| failed(error.reason()))?;
        let stored = StoredLogin::new(login.user, login.server, &login.browser, &started.pending);
        secrets.add_login(&started.state, &stored).await.map_err(|error| failed(error.to_string()))?;
        Ok(started.url)
    }

    /// Completes a login with the query of its redirect.
    pub(super) async fn complete(
        &self,
        servers: &[ServerConfig],
        query: &str,
        browser: &Secret,
    ) -> Result<StoredLogin, UserLoginError> {
        let secrets = self.secrets.clone().ok_or(UserLoginError::UnknownLogin)?;
        let state = single_parameter(query, "state").ok_or(UserLoginError::UnknownLogin)?;
        let login = secrets.take_login(&state, browser).await;
        let login = login.map_err(|error| failed(error.to_string()))?.ok_or(UserLoginError::UnknownLogin)?;
        let (oauth, _) = self.find(servers, &login.server, &login.user)?;
        oauth.complete_login(&login.pending(), query).await.map_err(|error| failed(error.reason()))?;
        Ok(login)
    }

    /// Returns the OAuth of a user at a server.
    fn find(
        &self,
        servers: &[ServerConfig],
        name: &str,
        user: &str,
    ) -> Result<(OAuth, Arc<StoredSecrets>), UserLoginError> {
        let unknown = || UserLoginError::UnknownServer { server: name.to_owned() };
        let server = servers.iter().find(|server| server.name.as_str() == name && has_login(server));
        let (server, secrets) = server.zip(self.secrets.clone()).ok_or_else(unknown)?;
        let tokens = StoredTokens::of_user(secrets.clone(), user);
        let oauth = OAuth::of_user(server, Arc::new(tokens)).ok_or_else(unknown)?;
        Ok((oauth.map_err(|error| failed(error.reason()))?, secrets))
    }
}

fn has_login(server: &ServerConfig) -> bool {
    server.user_credentials == Some(UserCredentials::Login)
}

fn failed(reason: String) -> UserLoginError {
    UserLoginError::Failed { reason }
}

/// Returns the value of a query parameter that occurs once.
fn single_parameter(query: &str, name: &str) -> Option<String> {
    let mut values = form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == name);
    match (values.next(), values.next()) {
        (Some((_, value)), None) => Some(value.into_owned()),
        _ => None,
    }
}
