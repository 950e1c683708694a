//! The parts, put together: the model that is asked, and an agent with the servers' tools.

use std::sync::Arc;

use toolwire_agent::{Agent, AgentBuilder};
use toolwire_contract::Model;
use toolwire_hub::{Hub, ResultBudget};
use toolwire_llm::{Demo, EndpointError, Models};

use crate::command_error::{CommandError, HINT, NOTE, print_stderr};
use crate::servers::Found;
use crate::settings::Settings;
use crate::terminal_text::sanitize;

/// The models that can be asked: those of the configuration and those of the providers, with the
/// environment's keys.
pub(crate) fn models(settings: &Settings) -> Result<Models, CommandError> {
    Models::new(settings.models.endpoints.clone(), |name| std::env::var(name).ok()).map_err(unusable)
}

/// The name of the model to ask: what the command line says, else the configuration; else the stand-in, which
/// is told.
pub(crate) fn choose<'a>(asked: Option<&'a str>, settings: &'a Settings) -> &'a str {
    match asked.or(settings.model.as_deref()) {
        Some(name) => name,
        None => {
            tell_of_demo();
            Demo::NAME
        }
    }
}

/// The model of this name, ready to be asked.
pub(crate) fn model(models: &Models, name: &str) -> Result<Arc<dyn Model>, CommandError> {
    models.model(name).map_err(unusable)
}

/// Says plainly what answers, and how to have a real model.
fn tell_of_demo() {
    print_stderr(&format!(
        "{NOTE}note:{NOTE:#} no model is configured; using `demo`, which selects tools by matching words and is not a language model\n\
         {HINT}hint:{HINT:#} for a real model, set its API key and pass its name: OPENAI_API_KEY and openai/…, ANTHROPIC_API_KEY and anthropic/…, \
         GEMINI_API_KEY and gemini/…; ollama/… needs no key\n",
    ));
}

/// An agent that asks `model`. Whoever builds it adds the tools, who decides and where it is kept.
pub(crate) fn agent(model: Arc<dyn Model>, settings: &Settings) -> AgentBuilder {
    Agent::builder().settings(settings.agent.clone()).model(model)
}

/// A hub whose results a model reads: what is too long for it is cut, and can be paged through.
pub(crate) fn hub(found: &Found) -> Hub {
    Hub::start(&found.config, found.options().with_result_budget(Some(ResultBudget::default())))
}

fn unusable(error: EndpointError) -> CommandError {
    CommandError::usage(sanitize(&error.to_string())).with_hint(sanitize(&error.hint()))
}
