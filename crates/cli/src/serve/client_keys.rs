//! The keys of clients: those of the configuration and the environment, the key table, and tokens of issuers.

use toolwire_contract::keys::KeyRights;
use toolwire_gateway::Keys;

#[cfg(feature = "oidc")]
use super::oidc;
use crate::command_error::CommandError;
use crate::settings::Settings;
use crate::storage::{self, KeyStore};

/// The environment variable with a key for clients.
pub(crate) const KEY_VARIABLE: &str = "TOOLWIRE_KEY";

/// Returns the keys from the configuration and the environment.
pub(crate) fn keys(settings: &Settings) -> Result<Keys, CommandError> {
    let variable = std::env::var(KEY_VARIABLE).ok();
    let variable = variable.map(|key| (KEY_VARIABLE, key, None, KeyRights::default()));
    let configured = settings
        .gateway
        .keys
        .iter()
        .map(|(name, key)| (name.as_str(), key.secret().expose().to_owned(), key.tenant(), key.rights()));
    let mut keys = Keys::default();
    for (name, key, tenant, rights) in configured.chain(variable) {
        let key = key.trim();
        if key.is_empty() {
            return Err(
                CommandError::usage(format!("the key `{name}` is empty")).with_hint("set it, or remove it")
            );
        }
        keys = keys.with_rights(name, key, rights);
        if let Some(tenant) = tenant {
            keys = keys.with_tenant(tenant);
        }
    }
    Ok(keys)
}

/// Opens the key table. Without a folder for data, the table is empty.
pub(super) async fn key_store(settings: &Settings) -> Result<KeyStore, CommandError> {
    match storage::open_keys(&settings.store).await {
        // Other gateways use the same keys, so this one must not start without them.
        Err(error) if storage::is_shared(&settings.store) => Err(error),
        Err(_) => Ok(KeyStore::in_memory()),
        Ok(opened) => Ok(opened),
    }
}

#[cfg(feature = "oidc")]
pub(super) fn add_issuers(keys: Keys, settings: &Settings) -> Result<Keys, CommandError> {
    oidc::add_issuers(keys, settings)
}

#[cfg(not(feature = "oidc"))]
pub(super) fn add_issuers(keys: Keys, settings: &Settings) -> Result<Keys, CommandError> {
    match settings.gateway.oidc.is_empty() {
        true => Ok(keys),
        false => Err(CommandError::usage("this build of toolwire does not include `toolwire.gateway.oidc`")
            .with_hint("build it with its default features")),
    }
}
