//! What belongs to Toolwire itself: the key `toolwire` of the configuration.

use serde::Deserialize;
use serde_json::Value;
use toolwire_llm::EndpointConfigs;

use crate::command_error::{CommandError, HINT, NOTE, print_stderr};
use crate::storage::StoreSettings;
use crate::terminal_text::sanitize;

/// What the key `toolwire` says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// The model to ask when the command line names none.
    pub(crate) model: Option<String>,
    pub(crate) models: EndpointConfigs,
    pub(crate) store: StoreSettings,
    pub(crate) agent: toolwire_agent::AgentSettings,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Keys {
    model: Option<String>,
    models: Value,
    store: StoreSettings,
    agent: toolwire_agent::AgentSettings,
    /// The gateway's own, which it reads itself.
    #[serde(rename = "gateway")]
    _gateway: serde::de::IgnoredAny,
}

/// Reads the key `toolwire` of the configuration at `place`; a key that nothing knows is warned of by name.
pub(crate) fn read(value: Option<&Value>, place: &str) -> Result<Settings, CommandError> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(Settings::default()) };
    let mut unknown = Vec::new();
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
    let mut note = |path: serde_ignored::Path<'_>| unknown.push(path.to_string());
    let keys = Keys::deserialize(serde_ignored::Deserializer::new(tracked, &mut note)).map_err(|error| {
        let way = track.path().to_string();
        let way = if way == "." { String::new() } else { format!(".{way}") };
        CommandError::usage(format!("{place}: `toolwire{way}`: {}", sanitize(&error.to_string())))
            .with_hint("`docs/guide/models.md` describes the keys")
    })?;
    let models = match &keys.models {
        Value::Null => EndpointConfigs::default(),
        models => EndpointConfigs::read(models).map_err(|error| {
            let words = format!("{place}: `toolwire.models.{}`: {}", error.path, error.problem);
            CommandError::usage(sanitize(&words)).with_hint(error.hint())
        })?,
    };
    unknown.extend(models.unknown_keys.iter().map(|key| format!("models.{key}")));
    for key in unknown {
        print_stderr(&format!("{NOTE}warning:{NOTE:#} {place}: unknown key `toolwire.{}`\n", sanitize(&key)));
        print_stderr(&format!(
            "{HINT}hint:{HINT:#} the key is ignored; `docs/guide/models.md` lists the keys\n"
        ));
    }
    Ok(Settings { model: keys.model, models, store: keys.store, agent: keys.agent })
}
