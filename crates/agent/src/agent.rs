//! An agent: a model, its tools, and the settings of their runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use toolwire_contract::conversations::{ConversationId, Conversations, StoreError};
use toolwire_contract::model::{Embedder, Generation, Model, OutputFormat, ToolChoice};
use toolwire_contract::toolbox::Toolbox;
use toolwire_contract::{Message, Tool};

use crate::approval::{ApprovalPolicy, Approver};
use crate::combined::CombinedToolbox;
use crate::drive::RunStream;
use crate::elicitation::ElicitationHandler;
use crate::embeddings::ToolEmbeddings;
use crate::event::FinishedRun;
#[cfg(feature = "schemars")]
use crate::event::NoOutput;
use crate::functions::Functions;
use crate::outcome::RunError;
use crate::run::{Catalog, Run};
use crate::settings::{AgentSettings, ContextSettings, SearchSettings};

const DEFAULT_PARALLEL_CALLS: usize = 8;

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

/// The reason why an agent cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    #[error("an agent needs a model")]
    NoModel,
    #[error("`{setting}` must be at least 1")]
    Zero { setting: &'static str },
    /// The schema of the response is not a JSON Schema.
    #[error("the schema of the response is not a JSON Schema: {problem}")]
    InvalidSchema { problem: String },
}

impl BuildError {
    /// Returns the next thing to try, in one line.
    pub const fn hint(&self) -> &'static str {
        match self {
            BuildError::NoModel => "set one with `.model(…)`",
            BuildError::InvalidSchema { .. } => "correct the schema; references must be local",
            BuildError::Zero { .. } => "omit it to use the default, or set it to 1 or more",
        }
    }
}

/// Builds an [`Agent`].
#[derive(Default)]
#[must_use]
pub struct AgentBuilder {
    model: Option<Arc<dyn Model>>,
    toolboxes: Vec<(String, Arc<dyn Toolbox>)>,
    conversations: Option<Arc<dyn Conversations>>,
    approver: Option<Arc<dyn Approver>>,
    approval_timeout: Option<Duration>,
    unattended: Unattended,
    parallel_calls: Option<usize>,
    call_timeout: Option<Duration>,
    elicitation: Option<Arc<dyn ElicitationHandler>>,
    embedder: Option<Arc<dyn Embedder>>,
    settings: AgentSettings,
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

impl AgentBuilder {
    /// The model that responds. Required.
    pub fn model(mut self, model: Arc<dyn Model>) -> AgentBuilder {
        self.model = Some(model);
        self
    }

    /// Adds tools; may be called several times. If two toolboxes have a tool of the same name, both get a
    /// numbered prefix (`tools2_search`); [`AgentBuilder::tools_of`] sets a better one.
    pub fn tools(self, tools: Arc<dyn Toolbox>) -> AgentBuilder {
        let label = format!("tools{}", self.toolboxes.len() + 1);
        self.tools_of(label, tools)
    }

    /// Adds tools, with a label that is the prefix of ambiguous names: `files_search`.
    pub fn tools_of(mut self, label: impl Into<String>, tools: Arc<dyn Toolbox>) -> AgentBuilder {
        self.toolboxes.push((label.into(), tools));
        self
    }

    /// Replaces all settings, including those set before.
    pub fn settings(mut self, settings: AgentSettings) -> AgentBuilder {
        self.settings = settings;
        self
    }

    /// The system prompt.
    pub fn instructions(mut self, instructions: impl Into<String>) -> AgentBuilder {
        self.settings.instructions = Some(instructions.into());
        self
    }

    /// The maximum number of model requests per user message; 50 by default.
    pub fn max_steps(mut self, steps: u32) -> AgentBuilder {
        self.settings.max_steps = steps;
        self
    }

    /// The maximum number of calls in one response of the model; 128 by default. Further calls get an error
    /// as their result.
    pub fn max_calls_per_step(mut self, calls: u32) -> AgentBuilder {
        self.settings.max_calls_per_step = calls;
        self
    }

    /// The maximum number of calls per user message; 1,024 by default. Further calls get an error as their
    /// result.
    pub fn max_calls(mut self, calls: u32) -> AgentBuilder {
        self.settings.max_calls = calls;
        self
    }

    /// The maximum number of input and output tokens per user message; unlimited by default.
    pub fn token_budget(mut self, tokens: u64) -> AgentBuilder {
        self.settings.token_budget = Some(tokens);
        self
    }

    pub fn max_output_tokens(mut self, tokens: u64) -> AgentBuilder {
        self.settings.max_output_tokens = Some(tokens);
        self
    }

    pub fn temperature(mut self, temperature: f64) -> AgentBuilder {
        self.settings.temperature = Some(temperature);
        self
    }

    /// Further parameters of the responses.
    pub fn generation(mut self, generation: Generation) -> AgentBuilder {
        self.settings.generation = generation;
        self
    }

    /// The format of the final response; see [`AgentSettings::output`].
    pub fn output(mut self, format: OutputFormat) -> AgentBuilder {
        self.settings.output = format;
        self
    }

    /// Requires a final response that is JSON and matches a schema; see [`AgentSettings::output`].
    pub fn output_schema(self, schema: Value) -> AgentBuilder {
        self.output(OutputFormat::schema(schema))
    }

    /// Tools that the caller runs itself; see [`AgentSettings::client_tools`].
    pub fn client_tools(mut self, tools: impl Into<Arc<[Tool]>>) -> AgentBuilder {
        self.settings.client_tools = tools.into();
        self
    }

    /// Whether the first response to a user message must call tools.
    pub fn tool_choice(mut self, choice: ToolChoice) -> AgentBuilder {
        self.settings.tool_choice = choice;
        self
    }

    /// Which calls need approval. By default, tools that only read or only add data run without it.
    pub fn approvals(mut self, policy: ApprovalPolicy) -> AgentBuilder {
        self.settings.approvals = policy;
        self
    }

    /// Decides about calls that need approval.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> AgentBuilder {
        self.approver = Some(approver);
        self
    }

    /// The maximum wait for the approver; after that, the call does not run. Unlimited by default.
    pub fn approval_timeout(mut self, timeout: Duration) -> AgentBuilder {
        self.approval_timeout = Some(timeout);
        self
    }

    /// The handling of calls that need approval when there is no approver.
    pub fn unattended(mut self, unattended: Unattended) -> AgentBuilder {
        self.unattended = unattended;
        self
    }

    /// Stores all messages. Each message is acknowledged by the store before the next step.
    pub fn conversations(mut self, conversations: Arc<dyn Conversations>) -> AgentBuilder {
        self.conversations = Some(conversations);
        self
    }

    pub fn search(mut self, search: SearchSettings) -> AgentBuilder {
        self.settings.search = search;
        self
    }

    /// Lets the tool search compare the meaning of tools and queries, in addition to their words.
    pub fn embedder(mut self, embedder: Arc<dyn Embedder>) -> AgentBuilder {
        self.embedder = Some(embedder);
        self
    }

    pub fn context(mut self, context: ContextSettings) -> AgentBuilder {
        self.settings.context = context;
        self
    }

    /// The maximum number of calls that run at the same time; 8 by default.
    pub fn parallel_calls(mut self, calls: usize) -> AgentBuilder {
        self.parallel_calls = Some(calls);
        self
    }

    /// The maximum wait for the result of a call; by default, the toolbox decides.
    pub fn call_timeout(mut self, timeout: Duration) -> AgentBuilder {
        self.call_timeout = Some(timeout);
        self
    }

    /// Asks the user the questions of servers during calls. Without it, the toolbox decides where they go.
    pub fn elicitation(mut self, handler: Arc<dyn ElicitationHandler>) -> AgentBuilder {
        self.elicitation = Some(handler);
        self
    }

    pub fn build(self) -> Result<Agent, BuildError> {
        let model = self.model.ok_or(BuildError::NoModel)?;
        self.settings.check()?;
        let parallel_calls = self.parallel_calls.unwrap_or(DEFAULT_PARALLEL_CALLS);
        if parallel_calls == 0 {
            return Err(BuildError::Zero { setting: "parallel_calls" });
        }
        let mut toolboxes = self.toolboxes;
        let tools: Arc<dyn Toolbox> = match toolboxes.len() {
            0 => Arc::new(Functions::new()),
            1 => toolboxes.remove(0).1,
            _ => Arc::new(CombinedToolbox::new(toolboxes)),
        };
        Ok(Agent(Arc::new(AgentInner {
            model,
            tools,
            conversations: self.conversations,
            approver: self.approver,
            approval_timeout: self.approval_timeout,
            unattended: self.unattended,
            parallel_calls,
            call_timeout: self.call_timeout,
            elicitation: self.elicitation,
            embeddings: self.embedder.map(ToolEmbeddings::new).map(Arc::new),
            settings: self.settings,
            catalog: Mutex::default(),
        })))
    }
}
