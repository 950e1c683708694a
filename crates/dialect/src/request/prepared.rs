//! A request, prepared so that every family can write it as JSON.

use serde_json::{Map, Value, json};
use toolwire_contract::ToolResult;
use toolwire_contract::model::{ModelRequest, ToolChoice};
use toolwire_contract::text::nearest_names;

use super::{PairedCall, RequestError, RequestOptions, SetFields, Turn};
use crate::output::OutputField;
use crate::result::CallOutcome;
use crate::result::ResultTurn;
use crate::{Dialect, Toolset};

/// The description of a tool that the history calls but the request does not list.
pub(crate) const UNAVAILABLE_TOOL: &str = "No longer available. Do not call it.";

/// The differences between families other than their JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FamilyRules {
    /// Whether every call must have an id. Otherwise a synthetic id is not sent.
    pub(crate) requires_call_ids: bool,
    /// Whether user and assistant messages must alternate, starting with the user.
    pub(crate) alternates_roles: bool,
    /// Whether the assistant's messages accept the same media as the user's.
    pub(crate) accepts_assistant_media: bool,
    /// Whether an empty text can have a signature, and must then be sent back.
    pub(crate) signs_empty_text: bool,
    /// Whether the tool choice can name a tool.
    pub(crate) has_named_choice: bool,
    /// Whether the tool choice can forbid calls while tools are listed.
    pub(crate) can_forbid_calls: bool,
    /// Whether `data: [DONE]` can be the only end of a stream, without a finish reason.
    pub(crate) has_done_marker: bool,
}

impl FamilyRules {
    pub(crate) const DEFAULT: FamilyRules = FamilyRules {
        requires_call_ids: true,
        alternates_roles: false,
        accepts_assistant_media: false,
        signs_empty_text: false,
        has_named_choice: true,
        can_forbid_calls: true,
        has_done_marker: false,
    };
}

/// A request, prepared for one dialect.
pub(crate) struct PreparedRequest<'a> {
    pub(crate) dialect: Dialect,
    pub(crate) options: &'a RequestOptions,
    pub(crate) instructions: Option<&'a str>,
    /// Never empty.
    pub(crate) turns: Vec<Turn<'a>>,
    /// The definitions to list.
    pub(crate) tools: Vec<&'a Value>,
    pub(crate) choice: Choice<'a>,
    pub(crate) max_output_tokens: Option<u64>,
    pub(crate) temperature: Option<f64>,
    /// Whether the model may request several calls at once.
    pub(crate) parallel_calls: Option<bool>,
    /// The required format of the response.
    pub(crate) output: Option<OutputField<'a>>,
}

/// Whether the model calls tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice<'a> {
    Auto,
    Required,
    None,
    /// The tool's name in this dialect.
    Tool(&'a str),
}

impl PreparedRequest<'_> {
    /// Returns a body that contains only the model, as most bodies start.
    pub(crate) fn body(&self) -> Map<String, Value> {
        Map::from_iter([("model".to_owned(), json!(self.options.model))])
    }

    /// Returns the definitions as one value. They are cloned directly, which is several times faster than
    /// `json!`.
    pub(crate) fn definitions(&self) -> Value {
        Value::Array(self.tools.iter().map(|tool| (*tool).clone()).collect())
    }

    /// Returns the names of the tools that the history calls, without duplicates.
    pub(crate) fn called_tools(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for turn in &self.turns {
            let Turn::Results(calls) = turn else { continue };
            for call in calls {
                if !names.contains(&call.received.name.as_str()) {
                    names.push(&call.received.name);
                }
            }
        }
        names
    }

    /// Writes the results of a turn with a function of the family.
    pub(crate) fn write_results(
        &self,
        calls: &[PairedCall<'_>],
        write: fn(&ResultTurn<'_>) -> Vec<Value>,
    ) -> Vec<Value> {
        let outcomes: Vec<CallOutcome<'_>> = calls.iter().map(PairedCall::outcome).collect();
        write(&ResultTurn { dialect: self.dialect, outcomes: &outcomes, options: &self.options.results })
    }

    /// Sets the fields that most APIs name alike.
    pub(crate) fn set_common(&self, body: &mut Map<String, Value>, output_limit_key: &str) {
        body.set_some(output_limit_key, self.max_output_tokens);
        body.set_some("temperature", self.temperature);
        body.set_some("stream", self.options.stream.then_some(true));
    }
}

/// Fails if a result requests input, so that the call is not complete.
pub(crate) fn require_final_results(turns: &[Turn<'_>]) -> Result<(), RequestError> {
    let calls = turns.iter().flat_map(|turn| match turn {
        Turn::Results(calls) => calls.as_slice(),
        _ => &[],
    });
    match calls.into_iter().find(|call| call.result.is_some_and(ToolResult::needs_input)) {
        Some(call) => Err(RequestError::InputRequired { name: call.tool.to_owned(), id: call.id.to_owned() }),
        None => Ok(()),
    }
}

/// Returns the tools to list, and the choice in a form that the API accepts.
pub(crate) fn choose_tools<'a>(
    dialect: Dialect,
    rules: &FamilyRules,
    request: &'a ModelRequest,
    tools: &'a Toolset,
    options: &RequestOptions,
) -> Result<(Vec<&'a Value>, Choice<'a>), RequestError> {
    let listed = tools.definitions();
    // Mistral's models write calls as text if tools are listed and forbidden.
    let can_forbid_calls = rules.can_forbid_calls && dialect != Dialect::Mistral;
    let choice = match &request.tool_choice {
        ToolChoice::Auto => Choice::Auto,
        ToolChoice::None if listed.is_empty() => Choice::Auto,
        ToolChoice::None if can_forbid_calls => Choice::None,
        ToolChoice::None => return Ok((Vec::new(), Choice::None)),
        ToolChoice::Required if listed.is_empty() => return Err(RequestError::NoTools),
        ToolChoice::Required => Choice::Required,
        ToolChoice::Tool(tool) => {
            let Some((index, name)) = tools.index_and_wire_name(tool) else {
                let names = request.tools.iter().map(|known| known.name.as_str());
                let nearest = nearest_names(tool, names).into_iter().map(str::to_owned).collect();
                return Err(RequestError::UnknownTool { tool: tool.clone(), nearest });
            };
            if options.forced_choice && !options.named_choice.unwrap_or(rules.has_named_choice) {
                return Ok((vec![listed[index]], Choice::Required));
            }
            Choice::Tool(name)
        }
    };
    Ok((listed, if options.forced_choice || choice == Choice::None { choice } else { Choice::Auto }))
}

/// Adds blocks to the last message if it has the same role, or else adds a message: roles must alternate.
pub(crate) fn add_content(messages: &mut Vec<Value>, role: &str, key: &str, blocks: Vec<Value>) {
    if blocks.is_empty() {
        return;
    }
    if let Some(last) = messages.last_mut()
        && last["role"] == role
        && let Some(known) = last[key].as_array_mut()
    {
        known.extend(blocks);
        return;
    }
    messages.push(json!({"role": role, key: blocks}));
}

/// Returns the last two messages of the user, the last one first.
pub(crate) fn last_user_messages(messages: &mut [Value]) -> impl Iterator<Item = &mut Value> {
    messages.iter_mut().rev().filter(|message| message["role"] == "user").take(2)
}
