//! An agent: a model, its tools, and what holds for their runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use toolwire_contract::{ConversationId, Conversations, Message, Model, StoreError, ToolChoice, Toolbox};

use crate::approval::{Person, Policy};
use crate::combined::Combined;
use crate::drive::Running;
use crate::event::Finished;
use crate::functions::Functions;
use crate::run::{Catalog, Run};
use crate::settings::{Context, Search, Settings};

/// A model, its tools, and what holds for their runs. Cheap to clone; any number of runs may be under way.
#[derive(Clone)]
pub struct Agent(Arc<World>);

/// All that a run needs from outside.
pub(crate) struct World {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: Arc<dyn Toolbox>,
    pub(crate) conversations: Option<Arc<dyn Conversations>>,
    pub(crate) person: Option<Arc<dyn Person>>,
    pub(crate) person_timeout: Option<Duration>,
    pub(crate) unattended: Unattended,
    pub(crate) parallel: usize,
    pub(crate) call_timeout: Option<Duration>,
    settings: Settings,
    /// Worked out once for all runs.
    catalog: Mutex<Catalog>,
}

/// What becomes of a call that a person must decide about when there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unattended {
    /// It does not run, and the model is told why.
    #[default]
    Refuse,
    /// The run pauses: it ends with [`Ending::NeedsApproval`](crate::Ending::NeedsApproval), and goes on, here or in
    /// another process, once [`Run::person_said`] was told.
    Pause,
}

/// Why an agent cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    #[error("an agent needs a model")]
    NoModel,
    #[error("`{setting}` must not be 0")]
    Zero { setting: &'static str },
}

impl BuildError {
    /// What to try next, in one line.
    pub const fn hint(&self) -> &'static str {
        match self {
            BuildError::NoModel => "name one with `.model(…)`",
            BuildError::Zero { .. } => "leave it out for the default, or set it to 1 or more",
        }
    }
}

/// Makes an [`Agent`].
#[derive(Default)]
pub struct AgentBuilder {
    model: Option<Arc<dyn Model>>,
    toolboxes: Vec<(String, Arc<dyn Toolbox>)>,
    conversations: Option<Arc<dyn Conversations>>,
    person: Option<Arc<dyn Person>>,
    person_timeout: Option<Duration>,
    unattended: Unattended,
    parallel: Option<usize>,
    call_timeout: Option<Duration>,
    settings: Settings,
}

impl Agent {
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    /// Answers one message, in a conversation of its own.
    pub async fn run(&self, text: impl Into<String>) -> Finished {
        self.stream(text).finish().await
    }

    /// The same, with everything that happens on the way.
    pub fn stream(&self, text: impl Into<String>) -> Running {
        let mut run = self.new_run();
        run.say(text);
        self.drive(run)
    }

    /// A run in which nothing has been said; see [`Run::say`].
    pub fn new_run(&self) -> Run {
        Run::new(self.0.settings.clone())
    }

    /// A run that begins with messages which are kept elsewhere; see [`Run::resume`].
    pub fn resume(&self, messages: impl IntoIterator<Item = impl Into<Arc<Message>>>) -> Run {
        Run::resume(self.0.settings.clone(), messages, self.0.tools.tools(), self.0.model.limits())
    }

    /// A run that goes on with a conversation of [`AgentBuilder::conversations`]; see [`Run::resume`].
    pub async fn load(&self, conversation: &ConversationId) -> Result<Run, StoreError> {
        let Some(conversations) = &self.0.conversations else {
            return Err(StoreError::UnknownConversation { conversation: conversation.clone() });
        };
        let transcript = conversations.load(conversation, 0).await?;
        let position = transcript.conversation.messages;
        let mut run = self.resume(transcript.entries.into_iter().map(|entry| entry.message));
        run.keep_in(conversation.clone(), position);
        Ok(run)
    }

    /// Keeps the messages of a run that are complete and not yet kept, as driving it does: for whoever adds to a run himself, and
    /// after a store was away.
    pub async fn keep(&self, run: &mut Run) -> Result<(), StoreError> {
        crate::drive::keep(&self.0, run).await.map(drop)
    }

    /// Goes on with a run until it ends or pauses. Nothing happens unless the stream is polled.
    pub fn drive(&self, run: Run) -> Running {
        Running::new(self.0.clone(), run)
    }

    pub fn model(&self) -> &Arc<dyn Model> {
        &self.0.model
    }

    /// All its tools, as one toolbox.
    pub fn tools(&self) -> &Arc<dyn Toolbox> {
        &self.0.tools
    }
}

impl World {
    /// Tells a run which tools there are now.
    pub(crate) fn show_tools(&self, run: &mut Run) {
        let mut catalog = self.catalog.lock().unwrap_or_else(PoisonError::into_inner);
        *catalog = catalog.updated(self.tools.tools(), self.model.limits());
        run.set_catalog(catalog.clone());
        run.set_missing(&self.tools.missing_servers());
    }
}

impl AgentBuilder {
    /// Who answers.
    #[must_use]
    pub fn model(mut self, model: Arc<dyn Model>) -> AgentBuilder {
        self.model = Some(model);
        self
    }

    /// What it may call. May be said several times; where two toolboxes have a tool of the same name, both get a number
    /// in front (`tools2_search`). [`AgentBuilder::tools_of`] gives them a better label.
    #[must_use]
    pub fn tools(self, tools: Arc<dyn Toolbox>) -> AgentBuilder {
        let label = format!("tools{}", self.toolboxes.len() + 1);
        self.tools_of(label, tools)
    }

    /// The same, with a label for names that are taken: `files_search`.
    #[must_use]
    pub fn tools_of(mut self, label: impl Into<String>, tools: Arc<dyn Toolbox>) -> AgentBuilder {
        self.toolboxes.push((label.into(), tools));
        self
    }

    /// All settings at once; what was set before is gone.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> AgentBuilder {
        self.settings = settings;
        self
    }

    /// What the model is told before the conversation.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> AgentBuilder {
        self.settings.instructions = Some(instructions.into());
        self
    }

    /// How often the model is asked for one message of the person; 50 unless set.
    #[must_use]
    pub fn max_steps(mut self, steps: u32) -> AgentBuilder {
        self.settings.max_steps = steps;
        self
    }

    /// How many tokens, in and out together, one message of the person may cost.
    #[must_use]
    pub fn token_budget(mut self, tokens: u64) -> AgentBuilder {
        self.settings.token_budget = Some(tokens);
        self
    }

    #[must_use]
    pub fn max_output_tokens(mut self, tokens: u64) -> AgentBuilder {
        self.settings.max_output_tokens = Some(tokens);
        self
    }

    #[must_use]
    pub fn temperature(mut self, temperature: f64) -> AgentBuilder {
        self.settings.temperature = Some(temperature);
        self
    }

    /// Whether the first answer to a message of the person calls tools.
    #[must_use]
    pub fn tool_choice(mut self, choice: ToolChoice) -> AgentBuilder {
        self.settings.tool_choice = choice;
        self
    }

    /// Which calls run. Unless set, those that only read or add run, and all others need a person.
    #[must_use]
    pub fn approvals(mut self, policy: Policy) -> AgentBuilder {
        self.settings.approvals = policy;
        self
    }

    /// Who decides about calls that need a person.
    #[must_use]
    pub fn person(mut self, person: Arc<dyn Person>) -> AgentBuilder {
        self.person = Some(person);
        self
    }

    /// How long a person may take; then the answer is no. Unless set, the run waits until it is cancelled.
    #[must_use]
    pub fn person_timeout(mut self, timeout: Duration) -> AgentBuilder {
        self.person_timeout = Some(timeout);
        self
    }

    /// What becomes of such calls when there is no person.
    #[must_use]
    pub fn unattended(mut self, unattended: Unattended) -> AgentBuilder {
        self.unattended = unattended;
        self
    }

    /// Where messages are kept. Each is acknowledged there before anything follows from it.
    #[must_use]
    pub fn conversations(mut self, conversations: Arc<dyn Conversations>) -> AgentBuilder {
        self.conversations = Some(conversations);
        self
    }

    #[must_use]
    pub fn search(mut self, search: Search) -> AgentBuilder {
        self.settings.search = search;
        self
    }

    #[must_use]
    pub fn context(mut self, context: Context) -> AgentBuilder {
        self.settings.context = context;
        self
    }

    /// How many calls are made at the same time; 8 unless set.
    #[must_use]
    pub fn parallel_calls(mut self, calls: usize) -> AgentBuilder {
        self.parallel = Some(calls);
        self
    }

    /// How long to wait for a call; unless set, the toolbox has its own limit.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> AgentBuilder {
        self.call_timeout = Some(timeout);
        self
    }

    pub fn build(self) -> Result<Agent, BuildError> {
        let model = self.model.ok_or(BuildError::NoModel)?;
        if self.settings.max_steps == 0 {
            return Err(BuildError::Zero { setting: "max_steps" });
        }
        let parallel = self.parallel.unwrap_or(8);
        if parallel == 0 {
            return Err(BuildError::Zero { setting: "parallel_calls" });
        }
        let mut toolboxes = self.toolboxes;
        let tools: Arc<dyn Toolbox> = match toolboxes.len() {
            0 => Arc::new(Functions::new()),
            1 => toolboxes.remove(0).1,
            _ => Arc::new(Combined::new(toolboxes)),
        };
        Ok(Agent(Arc::new(World {
            model,
            tools,
            conversations: self.conversations,
            person: self.person,
            person_timeout: self.person_timeout,
            unattended: self.unattended,
            parallel,
            call_timeout: self.call_timeout,
            settings: self.settings,
            catalog: Mutex::default(),
        })))
    }
}
