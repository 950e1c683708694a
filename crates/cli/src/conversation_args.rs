//! The options that `chat` and `ask` share.

use std::path::Path;

use clap::Args;
use toolwire_contract::conversations::{ConversationId, Conversations};

use crate::command_error::CommandError;
use crate::conversations::find;
use crate::servers::{self, LoadedConfig};
use crate::settings::{self, Settings};

/// The model, the servers, the tools and the conversation of a run.
#[derive(Args)]
pub(crate) struct ConversationArgs {
    /// The model, such as openai/…, anthropic/… or ollama/… [default: `toolwire.model` of the configuration,
    /// else a model of the provider whose key is set, else `demo`]
    #[arg(short, long, value_name = "M")]
    pub(crate) model: Option<String>,
    /// Continue a stored conversation: its id, or words of its title or messages
    #[arg(long, value_name = "ID|WORDS", num_args = 0..=1, default_missing_value = "")]
    pub(crate) resume: Option<String>,
    /// Continue the last conversation
    #[arg(long = "continue", conflicts_with = "resume")]
    pub(crate) continue_last: bool,
    /// Allow a tool that needs approval: a name or a pattern; can be repeated
    #[arg(long, value_name = "TOOL")]
    pub(crate) allow: Vec<String>,
    /// Use only this server
    #[arg(long, value_name = "S")]
    pub(crate) server: Option<String>,
}

impl ConversationArgs {
    /// Loads the configuration, with the servers and the approvals of the command line.
    pub(crate) fn load(&self, config: Option<&Path>) -> Result<(LoadedConfig, Settings), CommandError> {
        let loaded = servers::find_config(config)?.only(self.server.as_deref())?;
        let mut settings = settings::read(loaded.config.toolwire.as_ref(), &loaded.origin)?;
        settings.agent.approvals.allow.extend(self.allow.iter().cloned());
        Ok((loaded, settings))
    }

    /// Finds the conversation to continue, if there is one.
    pub(crate) async fn resumed(
        &self,
        store: &dyn Conversations,
    ) -> Result<Option<ConversationId>, CommandError> {
        let found = match &self.resume {
            Some(reference) if reference.trim().is_empty() => {
                return Err(CommandError::usage("`--resume` does not name a conversation")
                    .with_hint("add its id or words from it; `--continue` continues the last conversation"));
            }
            Some(reference) => find::one(store, reference).await?,
            None if self.continue_last => find::last(store).await?.ok_or_else(|| {
                CommandError::usage("no conversation is stored yet").with_hint("remove `--continue`")
            })?,
            None => return Ok(None),
        };
        Ok(Some(found.id))
    }
}
