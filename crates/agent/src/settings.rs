//! The settings of a run.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolwire_contract::Tool;
use toolwire_contract::model::{Generation, ModelLimits, OutputFormat, ToolChoice, VerbatimRequest};
use toolwire_contract::text::json_kind;
use toolwire_validation::Validator;

use crate::agent::BuildError;
use crate::approval::ApprovalPolicy;

/// The settings of a run. They are saved with it, so the process that resumes it does not need them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct AgentSettings {
    /// The system prompt.
    pub instructions: Option<String>,
    /// The maximum number of model requests per user message.
    pub max_steps: u32,
    /// The maximum number of calls in one response of the model. Further calls in it get an error as their
    /// result. Calls of client tools are not counted.
    #[serde(skip_serializing_if = "is_default_calls_per_step")]
    pub max_calls_per_step: u32,
    /// The maximum number of calls per user message. Further calls get an error as their result, and the run
    /// continues. Calls of client tools, searches for tools, and denied calls are not counted.
    #[serde(skip_serializing_if = "is_default_calls")]
    pub max_calls: u32,
    /// The maximum number of empty responses in a row: an empty response before that is requested again.
    #[serde(skip_serializing_if = "is_default_empty_responses")]
    pub max_empty_responses: u32,
    /// The maximum number of input and output tokens per user message. The response that exceeds the budget
    /// stays in the history; no further request is made.
    pub token_budget: Option<u64>,
    pub max_output_tokens: Option<u64>,
    pub temperature: Option<f64>,
    #[serde(skip_serializing_if = "is_default")]
    pub generation: Generation,
    /// Applies to the first request after a user message; after that, the model chooses.
    pub tool_choice: ToolChoice,
    /// Decides which calls run, which need approval, and which are denied.
    pub approvals: ApprovalPolicy,
    pub search: SearchSettings,
    pub context: ContextSettings,
    /// Tools that the caller runs itself. A call of one of them ends the run with
    /// [`Ending::NeedsResults`](crate::Ending::NeedsResults) as soon as all other calls have results. Such a
    /// tool hides a tool of the toolbox that has the same name.
    #[serde(skip_serializing_if = "<[Tool]>::is_empty")]
    pub client_tools: Arc<[Tool]>,
    /// The format of the final response. Text in another format is never shown: [`AgentEvent::Text`] is the
    /// complete final response. The first response in another format is rejected with the reason, so that the
    /// model can correct it; the second one ends the run with the code `invalid_output`.
    ///
    /// [`AgentEvent::Text`]: crate::AgentEvent::Text
    #[serde(skip_serializing_if = "OutputFormat::is_text")]
    pub output: OutputFormat,
    /// The request of a client that the run responds to, in the format of its API. It is not saved with the
    /// run.
    #[serde(skip)]
    pub verbatim: Option<Arc<VerbatimRequest>>,
}

const MAX_CALLS_PER_STEP: u32 = 128;
const MAX_CALLS: u32 = 1_024;
const MAX_EMPTY_RESPONSES: u32 = 3;

fn is_default_calls_per_step(calls: &u32) -> bool {
    *calls == MAX_CALLS_PER_STEP
}

fn is_default_calls(calls: &u32) -> bool {
    *calls == MAX_CALLS
}

fn is_default_empty_responses(responses: &u32) -> bool {
    *responses == MAX_EMPTY_RESPONSES
}

fn is_default(generation: &Generation) -> bool {
    *generation == Generation::default()
}

impl AgentSettings {
    /// Checks that a run is possible with these settings.
    pub fn check(&self) -> Result<(), BuildError> {
        if self.max_steps == 0 {
            return Err(BuildError::Zero { setting: "max_steps" });
        }
        if let OutputFormat::Schema { schema, .. } = &self.output {
            let invalid = |problem: String| BuildError::InvalidSchema { problem };
            if !(schema.is_object() || schema.is_boolean()) {
                return Err(invalid(format!("it is {}", json_kind(schema))));
            }
            Validator::new(schema.clone()).map_err(|error| invalid(error.to_string()))?;
        }
        Ok(())
    }

    pub(crate) fn is_client_tool(&self, name: &str) -> bool {
        self.client_tools.iter().any(|tool| tool.name == name)
    }
}

impl Default for AgentSettings {
    fn default() -> AgentSettings {
        AgentSettings {
            instructions: None,
            max_steps: 50,
            max_calls_per_step: MAX_CALLS_PER_STEP,
            max_calls: MAX_CALLS,
            max_empty_responses: MAX_EMPTY_RESPONSES,
            token_budget: None,
            max_output_tokens: None,
            temperature: None,
            generation: Generation::default(),
            tool_choice: ToolChoice::Auto,
            approvals: ApprovalPolicy::default(),
            search: SearchSettings::default(),
            context: ContextSettings::default(),
            client_tools: Arc::default(),
            output: OutputFormat::Text,
            verbatim: None,
        }
    }
}

/// Settings of the tool search, which replaces sending all definitions if there are too many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct SearchSettings {
    /// The model searches if there are more tools than this.
    pub tools: usize,
    /// It also searches if the definitions need more than this share of the context window, in percent.
    pub percent_of_context: u8,
    /// The maximum number of tools that one search returns.
    pub hits: usize,
    /// The maximum number of found tools in a request; beyond it, the least recently used are removed.
    pub kept: usize,
    /// The names of tools that are only found by a search, however many tools there are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deferred: Vec<String>,
}

impl SearchSettings {
    pub(crate) fn is_deferred(&self, tool: &Tool) -> bool {
        self.deferred.contains(&tool.name)
    }
}

impl Default for SearchSettings {
    fn default() -> SearchSettings {
        SearchSettings { tools: 40, percent_of_context: 20, hits: 5, kept: 40, deferred: Vec::new() }
    }
}

/// Settings for reducing requests to the size of the context window. The history itself is never changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ContextSettings {
    /// The size of the window in tokens; overrides the size that the model reports.
    pub tokens: Option<u64>,
    /// A request that needs more than this share of the window, in percent, is reduced.
    pub begin_percent: u8,
    /// The share of the window, in percent, that a request is reduced to. If it is well below
    /// `begin_percent`, the prefix of many requests stays the same, and prompt caches stay valid.
    pub until_percent: u8,
    /// The number of characters that an old result is shortened to.
    pub result_characters: usize,
    /// Whether the model summarizes earlier turns before they would be omitted. If it fails, they are
    /// omitted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub summarize: bool,
}

impl Default for ContextSettings {
    fn default() -> ContextSettings {
        ContextSettings {
            tokens: None,
            begin_percent: 80,
            until_percent: 50,
            result_characters: 1_000,
            summarize: false,
        }
    }
}

impl ContextSettings {
    /// Returns the size of the context window in tokens, if it is known.
    pub(crate) fn window(&self, limits: ModelLimits) -> Option<u64> {
        self.tokens.or(limits.context_tokens)
    }
}
