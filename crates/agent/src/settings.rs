//! What holds for a run from its beginning to its end.

use serde::{Deserialize, Serialize};
use toolwire_contract::ToolChoice;

use crate::approval::Policy;

/// What holds for a run. It is part of the run: who resumes it elsewhere need not know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// What the model is told before the conversation.
    pub instructions: Option<String>,
    /// How often the model is asked for one message of the person.
    pub max_steps: u32,
    /// How many tokens, in and out together, one message of the person may cost. What the model answers beyond it is
    /// kept, and nothing more is asked.
    pub token_budget: Option<u64>,
    pub max_output_tokens: Option<u64>,
    pub temperature: Option<f64>,
    /// Holds for the first request after a message of the person; after that the model chooses.
    pub tool_choice: ToolChoice,
    /// Which calls run, which are asked about, which do not run.
    pub approvals: Policy,
    pub search: Search,
    pub context: Context,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            instructions: None,
            max_steps: 50,
            token_budget: None,
            max_output_tokens: None,
            temperature: None,
            tool_choice: ToolChoice::Auto,
            approvals: Policy::default(),
            search: Search::default(),
            context: Context::default(),
        }
    }
}

/// When the model searches for tools instead of being given all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Search {
    /// With more tools than this, it searches.
    pub tools: usize,
    /// So it does when their definitions would take more than this share of the context window, in percent.
    pub percent_of_context: u8,
    /// How many tools one search finds.
    pub hits: usize,
    /// How many found tools are offered at the same time; beyond it those go that were not called for longest.
    pub kept: usize,
}

impl Default for Search {
    fn default() -> Search {
        Search { tools: 40, percent_of_context: 20, hits: 5, kept: 40 }
    }
}

/// How a conversation is kept within the context window. Only what is sent is made shorter, never the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Context {
    /// The size of the window in tokens, where the model does not say or is not to be believed.
    pub tokens: Option<u64>,
    /// When so much of it is used, in percent, …
    pub begin_percent: u8,
    /// … it is brought down to this. The distance is what keeps prompt caches warm: between two cuts nothing changes.
    pub until_percent: u8,
    /// How many characters of an old result stay.
    pub result_characters: usize,
}

impl Default for Context {
    fn default() -> Context {
        Context { tokens: None, begin_percent: 80, until_percent: 50, result_characters: 1_000 }
    }
}
