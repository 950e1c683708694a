//! Creates models, agents and hubs from the configuration.

use std::sync::Arc;

use toolwire_agent::{Agent, AgentBuilder};
use toolwire_contract::model::Model;
use toolwire_hub::{Hub, HubOptions, ResultBudget};
use toolwire_llm::{Demo, EndpointError, Models};
use toolwire_store::CachedEmbedder;

use crate::command_error::{CommandError, HINT, NOTE, print_stderr};
use crate::servers::{LoadedConfig, data_folder};
use crate::settings::Settings;
use crate::terminal_text::sanitize;

/// Returns the models of the configuration and of the known providers, with API keys from the environment.
pub(crate) fn models(settings: &Settings) -> Result<Models, CommandError> {
    Models::new(settings.models.endpoints.clone(), |name| std::env::var(name).ok()).map_err(to_command_error)
}

/// Returns the model of the command line, else of the configuration, else the default model of a provider
/// whose key is set, else `demo`. If the user named no model, also returns the reason for the choice.
pub(crate) fn choose_model(
    argument: Option<&str>,
    settings: &Settings,
    models: &Models,
) -> Result<(Arc<dyn Model>, Option<String>), CommandError> {
    let (name, reason) = match (argument.or(settings.model.as_deref()), models.default_model()) {
        (Some(name), _) => (name.to_owned(), None),
        (None, Some((name, variable))) => {
            let reason = format!("using `{name}`, because {variable} is set");
            (name, Some(reason))
        }
        (None, None) => (Demo::NAME.to_owned(), None),
    };
    Ok((model(models, &name)?, reason))
}

/// Prints what is used in place of missing configuration, in at most two lines.
pub(crate) fn print_notes(loaded: &LoadedConfig, model: &Arc<dyn Model>, reason: Option<String>) {
    let is_demo_model = model.name() == Demo::NAME;
    let (note, hint) = match (loaded.is_demo(), is_demo_model) {
        (true, true) => (
            "using the demo server and `demo`, which is not a language model".to_owned(),
            Some("add servers with `toolwire import`, and set a key such as ANTHROPIC_API_KEY"),
        ),
        (true, false) => (
            "no servers are configured; using the demo server".to_owned(),
            Some("`toolwire import` adds the servers of other programs"),
        ),
        (false, true) => (
            "using `demo`, which is not a language model".to_owned(),
            Some("set a key such as ANTHROPIC_API_KEY, or name a model: `-m ollama/…`"),
        ),
        (false, false) => match reason {
            Some(reason) => (reason, None),
            None => return,
        },
    };
    print_stderr(&format!("{NOTE}note:{NOTE:#} {note}\n"));
    if let Some(hint) = hint {
        print_stderr(&format!("{HINT}hint:{HINT:#} {hint}\n"));
    }
}

/// Returns the model with this name.
pub(crate) fn model(models: &Models, name: &str) -> Result<Arc<dyn Model>, CommandError> {
    models.model(name).map_err(to_command_error)
}

/// Returns an agent builder with the models and the configured settings. The caller adds tools, approvals and
/// a store.
pub(crate) fn agent(model: Arc<dyn Model>, settings: &Settings) -> Result<AgentBuilder, CommandError> {
    let builder = Agent::builder().settings(settings.agent.clone()).model(model);
    let Some(name) = &settings.embeddings else { return Ok(builder) };
    let embedder = models(settings)?.embedder(name).map_err(to_command_error)?;
    Ok(match data_folder() {
        Some(folder) => {
            builder.embedder(Arc::new(CachedEmbedder::new(embedder, folder.join("embeddings.db"))))
        }
        None => builder.embedder(embedder),
    })
}

/// Starts a hub for a model: long results are truncated, and the model can read the rest.
pub(crate) fn hub(loaded: &LoadedConfig) -> Hub {
    hub_with(loaded, loaded.options())
}

/// Does the same as [`hub`] with other options.
pub(crate) fn hub_with(loaded: &LoadedConfig, options: HubOptions) -> Hub {
    Hub::start(&loaded.config, options.with_result_budget(Some(ResultBudget::default())))
}

fn to_command_error(error: EndpointError) -> CommandError {
    CommandError::usage(sanitize(&error.to_string())).with_hint(sanitize(&error.hint()))
}
