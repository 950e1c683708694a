//! Builds an agent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use toolwire_contract::Tool;
use toolwire_contract::conversations::Conversations;
use toolwire_contract::model::{Embedder, Generation, Model, OutputFormat, ToolChoice};
use toolwire_contract::toolbox::Toolbox;

use super::{Agent, AgentInner, Unattended};
use crate::approval::{ApprovalPolicy, Approver};
use crate::combined::CombinedToolbox;
use crate::elicitation::ElicitationHandler;
use crate::embeddings::ToolEmbeddings;
use crate::functions::Functions;
use crate::settings::{AgentSettings, ContextSettings, SearchSettings};

const DEFAULT_PARALLEL_CALLS: usize = 8;

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
