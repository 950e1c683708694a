//! Creates models, agents and hubs from the configuration.

use std::sync::Arc;

use toolwire_agent::{Agent, AgentBuilder};
use toolwire_contract::Model;
use toolwire_hub::{Hub, ResultBudget};
use toolwire_llm::{Demo, EndpointError, Models};

use crate::command_error::{CommandError, HINT, NOTE, print_stderr};
use crate::servers::LoadedConfig;
use crate::settings::Settings;
use crate::terminal_text::sanitize;

/// Returns the models of the configuration and of the known providers, with API keys from the environment.
pub(crate) fn models(settings: &Settings) -> Result<Models, CommandError> {
    Models::new(settings.models.endpoints.clone(), |name| std::env::var(name).ok()).map_err(to_command_error)
}

/// Returns the name of the model: from the command line, from the configuration, or `demo` with a note.
pub(crate) fn choose_model<'a>(argument: Option<&'a str>, settings: &'a Settings) -> &'a str {
    argument.or(settings.model.as_deref()).unwrap_or_else(|| {
        print_stderr(&format!(
            "{NOTE}note:{NOTE:#} no model is configured; using `demo`, which selects tools by matching words \
             and is not a language model\n\
             {HINT}hint:{HINT:#} for a real model, set its API key and pass its name: OPENAI_API_KEY and \
             openai/…, ANTHROPIC_API_KEY and anthropic/…, GEMINI_API_KEY and gemini/…; ollama/… needs no \
             key\n",
        ));
        Demo::NAME
    })
}

/// Returns the model with this name.
pub(crate) fn model(models: &Models, name: &str) -> Result<Arc<dyn Model>, CommandError> {
    models.model(name).map_err(to_command_error)
}

/// Returns an agent builder with the model and the configured settings. The caller adds tools, approvals and
/// a store.
pub(crate) fn agent(model: Arc<dyn Model>, settings: &Settings) -> AgentBuilder {
    Agent::builder().settings(settings.agent.clone()).model(model)
}

/// Starts a hub for a model: long results are truncated, and the model can read the rest.
pub(crate) fn hub(loaded: &LoadedConfig) -> Hub {
    Hub::start(&loaded.config, loaded.options().with_result_budget(Some(ResultBudget::default())))
}

fn to_command_error(error: EndpointError) -> CommandError {
    CommandError::usage(sanitize(&error.to_string())).with_hint(sanitize(&error.hint()))
}
