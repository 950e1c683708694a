//! Toolwire's own settings: the key `toolwire` of the configuration.

use std::num::NonZeroUsize;

use serde::Deserialize;
use serde_json::Value;
use toolwire_hub::pins::PinPolicy;
use toolwire_llm::EndpointConfigs;

use crate::command_error::{CommandError, HINT, NOTE, print_stderr};
use crate::storage::StoreSettings;
use crate::terminal_text::sanitize;

/// The value of the key `toolwire`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// The model that is used if the command line names none.
    pub(crate) model: Option<String>,
    pub(crate) models: EndpointConfigs,
    pub(crate) store: StoreSettings,
    pub(crate) agent: toolwire_agent::AgentSettings,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Keys {
    model: Option<String>,
    models: Value,
    store: StoreSettings,
    agent: toolwire_agent::AgentSettings,
    /// Read by [`read_limits`].
    #[serde(rename = "limits")]
    _limits: Limits,
    /// Read by [`pin_policy`], because every command needs it.
    #[serde(rename = "pins")]
    _pins: Value,
    /// Reserved for the gateway, which reads it itself.
    #[serde(rename = "gateway")]
    _gateway: Value,
}

/// Parses the key `toolwire.pins` of the configuration from `origin`.
pub(crate) fn pin_policy(value: Option<&Value>, origin: &str) -> Result<PinPolicy, CommandError> {
    match value.and_then(|value| value.get("pins")) {
        None | Some(Value::Null) => Ok(PinPolicy::Warn),
        Some(Value::String(policy)) if policy == "warn" => Ok(PinPolicy::Warn),
        Some(Value::String(policy)) if policy == "block" => Ok(PinPolicy::Block),
        Some(other) => Err(CommandError::usage(format!(
            "{origin}: `toolwire.pins`: unknown value {}",
            sanitize(&other.to_string())
        ))
        .with_hint("write \"warn\" or \"block\"")),
    }
}

/// The key `toolwire.limits`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Limits {
    /// The maximum number of servers that start at the same time.
    pub(crate) concurrent_starts: Option<NonZeroUsize>,
}

/// Parses the limits alone, for commands that use no other setting.
pub(crate) fn read_limits(settings: Option<&Value>, origin: &str) -> Result<Limits, CommandError> {
    let Some(limits) =
        settings.and_then(|settings| settings.get("limits")).filter(|limits| !limits.is_null())
    else {
        return Ok(Limits::default());
    };
    serde_path_to_error::deserialize(limits).map_err(|error| {
        let message = format!("{origin}: `toolwire.limits.{}`: {}", error.path(), error.inner());
        CommandError::usage(sanitize(&message)).with_hint("`docs/guide/configuration.md` describes the keys")
    })
}

/// Parses the key `toolwire` of the configuration from `origin`, and warns about unknown keys.
pub(crate) fn read(value: Option<&Value>, origin: &str) -> Result<Settings, CommandError> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(Settings::default()) };
    let mut unknown = Vec::new();
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
    let mut collect = |path: serde_ignored::Path<'_>| unknown.push(path.to_string());
    let keys =
        Keys::deserialize(serde_ignored::Deserializer::new(tracked, &mut collect)).map_err(|error| {
            let path = track.path().to_string();
            let path = if path == "." { String::new() } else { format!(".{path}") };
            CommandError::usage(format!("{origin}: `toolwire{path}`: {}", sanitize(&error.to_string())))
                .with_hint("`docs/guide/models.md` describes the keys")
        })?;
    let models = match &keys.models {
        Value::Null => EndpointConfigs::default(),
        models => EndpointConfigs::read(models).map_err(|error| {
            let message = format!("{origin}: `toolwire.models.{}`: {}", error.path, error.problem);
            CommandError::usage(sanitize(&message)).with_hint(error.hint())
        })?,
    };
    unknown.extend(models.unknown_keys.iter().map(|key| format!("models.{key}")));
    for key in unknown {
        print_stderr(&format!(
            "{NOTE}warning:{NOTE:#} {origin}: unknown key `toolwire.{}`\n\
             {HINT}hint:{HINT:#} the key is ignored; `docs/guide/models.md` lists the keys\n",
            sanitize(&key)
        ));
    }
    Ok(Settings { model: keys.model, models, store: keys.store, agent: keys.agent })
}
