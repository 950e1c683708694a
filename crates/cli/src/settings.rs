//! Toolwire's own settings: the key `toolwire` of the configuration.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::Value;
use toolwire_contract::Secret;
use toolwire_contract::keys::KeyRights;
use toolwire_llm::EndpointConfigs;

use crate::command_error::{CommandError, HINT, NOTE, print_stderr};
use crate::storage::{Period, StoreSettings};
use crate::terminal_text::sanitize;

/// The value of the key `toolwire`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// The model that is used if the command line names none.
    pub(crate) model: Option<String>,
    pub(crate) models: EndpointConfigs,
    /// The model whose embeddings the tool search uses.
    pub(crate) embeddings: Option<String>,
    pub(crate) store: StoreSettings,
    pub(crate) agent: toolwire_agent::AgentSettings,
    pub(crate) gateway: GatewayConfig,
}

/// The key `toolwire.gateway`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GatewayConfig {
    /// The address and the port; `--listen` has precedence.
    pub(crate) listen: Option<String>,
    /// Keys of clients, by name.
    pub(crate) keys: BTreeMap<String, ClientKey>,
    /// Names of this server, besides its address.
    pub(crate) hosts: Vec<String>,
    /// Origins of web pages that may use the gateway.
    pub(crate) origins: Vec<String>,
    /// Hosts of MCP servers that requests may name by URL.
    pub(crate) allowed_hosts: Vec<String>,
    /// Addresses that these hosts may have although they are not public.
    pub(crate) allowed_addresses: Vec<String>,
    /// Whether deceptive characters in results of tools are replaced.
    pub(crate) screen_results: bool,
    /// The log of the calls of tools.
    pub(crate) audit: Option<AuditConfig>,
    /// OpenID providers whose tokens clients may use.
    pub(crate) oidc: Vec<OidcConfig>,
    /// The models to list, besides those of `toolwire.models`.
    pub(crate) models: Vec<String>,
    /// Other names of models: a name, or a pattern that ends with `*`.
    pub(crate) aliases: BTreeMap<String, String>,
    /// The time for which responses of the Responses API are stored; 0 if they are not stored.
    pub(crate) response_retention: Option<Period>,
    /// Whether Chat Completions contain the model's reasoning.
    pub(crate) show_reasoning: bool,
    /// Whether requests may refer to data that the provider has stored.
    pub(crate) provider_state: Option<bool>,
    /// A secret that gateways behind one address share, so that each of them can continue the MCP sessions of
    /// the others.
    pub(crate) session_key: Option<Secret>,
    /// The address of the gateway for browsers, where users log in to servers.
    pub(crate) public_url: Option<String>,
    /// A secret that encrypts the stored tokens of users, and those of servers in a shared store.
    pub(crate) credential_key: Option<Secret>,
    pub(crate) limits: toolwire_gateway::GatewayLimits,
    /// The files for TLS.
    pub(crate) tls: Option<TlsFiles>,
}

/// The key `toolwire.gateway.tls`: the paths of files in PEM format.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TlsFiles {
    /// The certificate of the gateway, and those of its issuers.
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// A key of a client.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a key, or an object with `key`, `tenant` and rights such as `models`, `tools` and `admin`"
)]
pub(crate) enum ClientKey {
    Plain(Secret),
    WithRights(Box<KeyWithRights>),
}

/// The log of the calls of tools: a file, or an object.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected the path of a file, or an object with `file` and `arguments`")]
pub(crate) enum AuditConfig {
    File(String),
    WithArguments(AuditSettings),
}

impl AuditConfig {
    pub(crate) fn file(&self) -> &str {
        let (AuditConfig::File(file) | AuditConfig::WithArguments(AuditSettings { file, .. })) = self;
        file
    }

    pub(crate) fn arguments(&self) -> LoggedArguments {
        match self {
            AuditConfig::File(_) => LoggedArguments::default(),
            AuditConfig::WithArguments(settings) => settings.arguments,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AuditSettings {
    pub(crate) file: String,
    #[serde(default)]
    pub(crate) arguments: LoggedArguments,
}

/// The part of the arguments of a call that the audit log contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum LoggedArguments {
    #[default]
    Hash,
    Full,
    None,
}

/// An OpenID provider whose tokens clients may use.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(not(feature = "oidc"), allow(dead_code))]
pub(crate) struct OidcConfig {
    pub(crate) issuer: String,
    pub(crate) audience: OneOrMany,
    /// The address of the keys; by default, the issuer's configuration names it.
    #[serde(default)]
    pub(crate) jwks_url: Option<String>,
    #[serde(default)]
    pub(crate) types: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) algorithms: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) tenant_claim: Option<String>,
    #[serde(default)]
    pub(crate) name_claim: Option<String>,
    /// The rights of tokens that match no rule.
    #[serde(default)]
    pub(crate) rights: Option<KeyRights>,
    #[serde(default)]
    pub(crate) rules: Vec<OidcRule>,
}

/// The rights of tokens with a value in a claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(not(feature = "oidc"), allow(dead_code))]
pub(crate) struct OidcRule {
    pub(crate) claim: String,
    pub(crate) value: String,
    pub(crate) rights: KeyRights,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text, or an array of texts")]
#[cfg_attr(not(feature = "oidc"), allow(dead_code))]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

#[cfg(feature = "oidc")]
impl OneOrMany {
    pub(crate) fn values(&self) -> &[String] {
        match self {
            OneOrMany::One(text) => std::slice::from_ref(text),
            OneOrMany::Many(texts) => texts,
        }
    }
}

/// A key and its rights.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "serde_json::Map<String, Value>")]
pub(crate) struct KeyWithRights {
    pub(crate) key: Secret,
    /// Keys of one tenant share stored data.
    pub(crate) tenant: Option<String>,
    pub(crate) rights: KeyRights,
}

impl TryFrom<serde_json::Map<String, Value>> for KeyWithRights {
    type Error = serde_json::Error;

    fn try_from(mut fields: serde_json::Map<String, Value>) -> Result<KeyWithRights, serde_json::Error> {
        let key = serde_json::from_value(fields.shift_remove("key").unwrap_or_default())?;
        let tenant = serde_json::from_value(fields.shift_remove("tenant").unwrap_or_default())?;
        let rights: KeyRights = serde_json::from_value(Value::Object(fields))?;
        rights.check().map_err(serde_json::Error::custom)?;
        Ok(KeyWithRights { key, tenant, rights })
    }
}

impl ClientKey {
    pub(crate) fn secret(&self) -> &Secret {
        match self {
            ClientKey::Plain(key) => key,
            ClientKey::WithRights(with_rights) => &with_rights.key,
        }
    }

    pub(crate) fn tenant(&self) -> Option<&str> {
        match self {
            ClientKey::Plain(_) => None,
            ClientKey::WithRights(with_rights) => with_rights.tenant.as_deref(),
        }
    }

    pub(crate) fn rights(&self) -> KeyRights {
        match self {
            ClientKey::Plain(_) => KeyRights::default(),
            ClientKey::WithRights(with_rights) => with_rights.rights.clone(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Keys {
    model: Option<String>,
    models: Value,
    embeddings: Option<String>,
    store: StoreSettings,
    agent: toolwire_agent::AgentSettings,
    /// Read by [`read_hub`], because every command needs them.
    #[serde(rename = "limits")]
    _limits: Value,
    #[serde(rename = "pins")]
    _pins: Value,
    gateway: GatewayConfig,
}

/// The keys of `toolwire` for the hub.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HubSettings {
    pub(crate) limits: Option<Limits>,
    pub(crate) pins: Option<Pins>,
    /// The store and the secret decide where tokens of servers are stored.
    pub(crate) store: StoreSettings,
    pub(crate) gateway: HubGatewaySettings,
}

/// The part of [`GatewayConfig`] that every command needs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct HubGatewaySettings {
    pub(crate) credential_key: Option<Secret>,
}

/// The key `toolwire.limits`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Limits {
    /// The maximum number of servers that start at the same time.
    pub(crate) concurrent_starts: Option<NonZeroUsize>,
}

/// The key `toolwire.pins`: what happens to tools whose definition changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Pins {
    Warn,
    Block,
}

/// Returns the problems of the keys for the hub: the path of each value below `toolwire`, and what is wrong
/// with it.
pub(crate) fn hub_problems(settings: &Value) -> Vec<(String, String)> {
    fn problem<'v, T: Deserialize<'v>>(settings: &'v Value, key: &str) -> Option<(String, String)> {
        let value = settings.get(key).filter(|value| !value.is_null())?;
        let error = serde_path_to_error::deserialize::<_, T>(value).err()?;
        let path = error.path().to_string();
        let path = if path == "." { key.to_owned() } else { format!("{key}.{path}") };
        Some((path, error.into_inner().to_string()))
    }
    let problems = [problem::<Limits>(settings, "limits"), problem::<Pins>(settings, "pins")];
    problems.into_iter().flatten().collect()
}

/// Parses the keys for the hub of the configuration from `origin`.
pub(crate) fn read_hub(value: Option<&Value>, origin: &str) -> Result<HubSettings, CommandError> {
    let (settings, mut unknown) = parse(value, origin)?;
    // The other commands read the other keys.
    unknown.retain(|key| key.starts_with("limits."));
    warn_unknown(unknown, origin);
    Ok(settings)
}

/// Parses the key `toolwire` of the configuration from `origin`, and warns about unknown keys.
pub(crate) fn read(value: Option<&Value>, origin: &str) -> Result<Settings, CommandError> {
    let (keys, mut unknown): (Keys, _) = parse(value, origin)?;
    let models = match &keys.models {
        Value::Null => EndpointConfigs::default(),
        models => EndpointConfigs::read(models).map_err(|error| {
            let message = format!("{origin}: `toolwire.models.{}`: {}", error.path, error.problem);
            CommandError::usage(sanitize(&message)).with_hint(error.hint())
        })?,
    };
    unknown.extend(models.unknown_keys.iter().map(|key| format!("models.{key}")));
    warn_unknown(unknown, origin);
    let Keys { model, embeddings, store, agent, gateway, .. } = keys;
    Ok(Settings { model, models, embeddings, store, agent, gateway })
}

/// Parses a value of the key `toolwire`, and returns the unknown keys too.
fn parse<'v, T: Deserialize<'v> + Default>(
    value: Option<&'v Value>,
    origin: &str,
) -> Result<(T, Vec<String>), CommandError> {
    let mut unknown = Vec::new();
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok((T::default(), unknown)) };
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
    let mut collect = |path: serde_ignored::Path<'_>| unknown.push(path.to_string());
    let parsed =
        T::deserialize(serde_ignored::Deserializer::new(tracked, &mut collect)).map_err(|error| {
            let path = track.path().to_string();
            let guide = guide(&path);
            let path = if path == "." { String::new() } else { format!(".{path}") };
            CommandError::usage(format!("{origin}: `toolwire{path}`: {}", sanitize(&error.to_string())))
                .with_hint(format!("`{guide}` describes the keys"))
        })?;
    Ok((parsed, unknown))
}

/// Returns the guide that describes a key of `toolwire`.
fn guide(key: &str) -> &'static str {
    match key.split(['.', '[']).next().unwrap_or_default() {
        "gateway" => "docs/guide/gateway.md",
        "limits" | "pins" => "docs/guide/configuration.md",
        _ => "docs/guide/models.md",
    }
}

fn warn_unknown(keys: Vec<String>, origin: &str) {
    for key in keys {
        let guide = guide(&key);
        print_stderr(&format!(
            "{NOTE}warning:{NOTE:#} {origin}: unknown key `toolwire.{}`\n\
             {HINT}hint:{HINT:#} the key is ignored; `{guide}` lists the keys\n",
            sanitize(&key)
        ));
    }
}
