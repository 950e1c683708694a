//! An agent: a model, its tools, and the settings of their runs.

mod builder;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use toolwire_contract::Message;
use toolwire_contract::conversations::{ConversationId, Conversations, StoreError};
use toolwire_contract::model::Model;
#[cfg(feature = "schemars")]
use toolwire_contract::model::OutputFormat;
use toolwire_contract::toolbox::Toolbox;

use crate::approval::Approver;
use crate::drive::RunStream;
use crate::elicitation::ElicitationHandler;
use crate::embeddings::ToolEmbeddings;
use crate::event::FinishedRun;
#[cfg(feature = "schemars")]
use crate::event::NoOutput;
use crate::outcome::RunError;
use crate::run::{Catalog, Run};
use crate::settings::AgentSettings;
pub use builder::{AgentBuilder, BuildError};

/// A model, its tools, and the settings of their runs. Cheap to clone; any number of runs can be in progress.
#[derive(Clone)]
pub struct Agent(Arc<AgentInner>);

/// The parts of an agent that its clones and its runs share.
pub(crate) struct AgentInner {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: Arc<dyn Toolbox>,
    pub(crate) conversations: Option<Arc<dyn Conversations>>,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) approval_timeout: Option<Duration>,
    pub(crate) unattended: Unattended,
    pub(crate) parallel_calls: usize,
    pub(crate) call_timeout: Option<Duration>,
    pub(crate) elicitation: Option<Arc<dyn ElicitationHandler>>,
    pub(crate) embeddings: Option<Arc<ToolEmbeddings>>,
    settings: AgentSettings,
    /// Shared by all runs, so that it is computed once.
    catalog: Mutex<Catalog>,
}

/// The handling of calls that need approval when the agent has no [`Approver`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unattended {
    /// The call does not run. Its result contains the reason, for the model.
    #[default]
    Refuse,
    /// The run ends with [`Ending::NeedsApproval`](crate::Ending::NeedsApproval). It continues, in this or
    /// another process, after [`Run::decide`].
    Pause,
}

impl Agent {
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    /// Responds to one message, in a new conversation.
    pub async fn run(&self, text: impl Into<String>) -> FinishedRun {
        self.stream(text).finish().await
    }

    /// Like [`Agent::run`], but yields every event.
    pub fn stream(&self, text: impl Into<String>) -> RunStream {
        let mut run = self.new_run();
        run.say(text);
        self.drive(run)
    }

    /// Like [`Agent::run`], with a final response that matches the schema of a type.
    #[cfg(feature = "schemars")]
    pub async fn run_as<T>(&self, text: impl Into<String>) -> Result<T, NoOutput>
    where
        T: serde::de::DeserializeOwned + schemars::JsonSchema,
    {
        let schema = schemars::SchemaGenerator::default().into_root_schema_for::<T>();
        let mut run = self.new_run();
        run.settings_mut().output = OutputFormat::Schema {
            name: T::schema_name().into_owned(),
            description: None,
            schema: schema.to_value(),
            strict: true,
        };
        run.say(text);
        self.drive(run).finish().await.output_as()
    }

    /// Creates a run without messages; see [`Run::say`].
    pub fn new_run(&self) -> Run {
        Run::new(self.0.settings.clone())
    }

    /// Creates a run that continues messages which are stored elsewhere; see [`Run::resume`].
    pub fn resume(&self, messages: impl IntoIterator<Item = impl Into<Arc<Message>>>) -> Run {
        Run::resume(self.0.settings.clone(), messages, self.0.tools.tools(), self.0.model.limits())
    }

    /// Creates a run that continues a conversation of [`AgentBuilder::conversations`]; see [`Run::resume`].
    pub async fn load(&self, conversation: &ConversationId) -> Result<Run, StoreError> {
        let Some(conversations) = &self.0.conversations else {
            return Err(StoreError::UnknownConversation { conversation: conversation.clone() });
        };
        let transcript = conversations.load(conversation, 0).await?;
        let position = transcript.conversation.messages;
        let mut run = self.resume(transcript.entries.into_iter().map(|entry| entry.message));
        run.store_in(conversation.clone(), position);
        Ok(run)
    }

    /// Saves the unsaved messages of a run, as driving it does. Use it after adding messages without driving
    /// the run, or after the store was unavailable.
    pub async fn persist(&self, run: &mut Run) -> Result<(), StoreError> {
        crate::drive::persist(&self.0, run).await.map(drop)
    }

    /// Summarizes all complete turns of a run with the model, and stores the summary as a message. From then
    /// on, requests contain the summary instead of these turns, also after [`Agent::load`]; the history and
    /// the stored messages stay complete. `keep` says what the summary must contain.
    ///
    /// Returns the number of messages that the summary covers; `None` if there is nothing new to summarize.
    /// If it fails or is dropped before its end, nothing changes.
    pub async fn compact(&self, run: &mut Run, keep: Option<&str>) -> Result<Option<usize>, RunError> {
        self.0.model.prepare().await;
        self.0.update_tools(run);
        let Some((task, messages)) = run.summary_task(keep) else { return Ok(None) };
        let (text, usage) = task.run(&*self.0.model).await?;
        run.add_summary(text, messages, usage);
        self.persist(run).await?;
        Ok(Some(messages))
    }

    /// Continues a run until it ends or pauses. The run advances only while the stream is polled.
    pub fn drive(&self, run: Run) -> RunStream {
        RunStream::new(self.0.clone(), run)
    }

    pub fn model(&self) -> &Arc<dyn Model> {
        &self.0.model
    }

    /// Returns all tools of the agent as one toolbox.
    pub fn tools(&self) -> &Arc<dyn Toolbox> {
        &self.0.tools
    }

    /// Returns the same agent with another model.
    #[must_use]
    pub fn with_model(&self, model: Arc<dyn Model>) -> Agent {
        self.with(model, self.0.tools.clone())
    }

    /// Returns the same agent with other tools. If the list is the same, the data that was computed for it is
    /// reused.
    #[must_use]
    pub fn with_tools(&self, tools: Arc<dyn Toolbox>) -> Agent {
        self.with(self.0.model.clone(), tools)
    }

    fn with(&self, model: Arc<dyn Model>, tools: Arc<dyn Toolbox>) -> Agent {
        let agent = &self.0;
        Agent(Arc::new(AgentInner {
            catalog: Mutex::new(agent.catalog()),
            tools,
            model,
            conversations: agent.conversations.clone(),
            approver: agent.approver.clone(),
            approval_timeout: agent.approval_timeout,
            unattended: agent.unattended,
            parallel_calls: agent.parallel_calls,
            call_timeout: agent.call_timeout,
            elicitation: agent.elicitation.clone(),
            embeddings: agent.embeddings.clone(),
            settings: agent.settings.clone(),
        }))
    }
}

impl AgentInner {
    /// Returns the tools that are available now.
    fn catalog(&self) -> Catalog {
        let mut catalog = self.catalog.lock().unwrap_or_else(PoisonError::into_inner);
        let server_of = |tool: &str| self.tools.server_of(tool);
        *catalog = catalog.updated(self.tools.tools(), self.model.limits(), server_of);
        catalog.clone()
    }

    /// Gives a run the tools that are available now.
    pub(crate) fn update_tools(&self, run: &mut Run) {
        run.set_catalog(self.catalog());
        run.set_model(self.model.name());
        run.set_missing_servers(&self.tools.missing_servers());
    }
}
