//! Whole requests: a conversation with its tools, in an API's own JSON.

mod history;

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolwire_contract::{Block, Message, ModelRequest, ToolChoice, ToolResult};

use crate::results::{Carrier, Piece};
use crate::{
    Dialect, Family, ReceivedCall, ResultError, ResultOptions, Toolset, anthropic, bedrock, cohere, gemini,
    mcp, ollama, openai_chat, openai_responses, write_results,
};
use history::{Ordering, alternates, answered};
pub(crate) use history::{Said, Turn};

/// How a request is written. The default is what the API's current models take.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestOptions {
    /// The model's name at the API. Left out of the body where it stands in the URL (Gemini, Bedrock).
    pub model: String,
    /// Whether the answer is to be streamed. Left out of the body where the URL says it (Gemini, Bedrock).
    pub stream: bool,
    /// How results are written; `images` and `files` hold for the messages of the user too.
    pub results: ResultOptions,
    /// Whether the model hears. Without, each sound is a note. Gemini's models always hear.
    pub audio: bool,
    /// Chat Completions: the name of the output limit. `None`: as the dialect names it.
    pub output_limit: Option<OutputLimit>,
    /// The output limit where the request names none and the API demands one (Anthropic, MCP).
    pub default_output_tokens: u64,
    /// Chat Completions: whether a stream is asked for its usage (`stream_options`). `None`: where the dialect knows it.
    pub stream_usage: Option<bool>,
    /// Whether several calls at once are allowed; `None` leaves it unsaid. Only OpenAI's APIs and Anthropic have a word
    /// for it.
    pub parallel_calls: Option<bool>,
    /// Whether a call may be demanded. Without (thinking models of Anthropic and DeepSeek refuse it), the model is free.
    pub forced_choice: bool,
    /// Whether one tool may be demanded by its name. Without (llama.cpp), it is the only tool listed and some call is
    /// demanded. `None`: where the dialect knows it.
    pub named_choice: Option<bool>,
    /// Chat Completions: whether reasoning of earlier answers (`reasoning_content`, `reasoning`, `reasoning_details`)
    /// goes back. `None`: where the dialect wants it (DeepSeek, with calls). Other servers refuse keys they do not know.
    pub reasoning: Option<bool>,
    /// Responses: whether encrypted reasoning is asked for. Models that do not reason refuse to be asked.
    pub encrypted_reasoning: bool,
    /// Fields of the body that this crate has no name for (`reasoning_effort`, `thinking`); objects are merged key by
    /// key, and what stands here wins.
    pub extra: Map<String, Value>,
}

/// What Chat Completions call the limit of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputLimit {
    MaxTokens,
    MaxCompletionTokens,
}

/// A request that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("there is no message to answer")]
    NoMessages,
    /// `tool_choice` demands a tool that is not offered.
    #[error("the tool `{tool}` is demanded and not offered")]
    UnknownTool { tool: String, nearest: Vec<String> },
    /// A call is demanded and there is no tool.
    #[error("a call is demanded and no tool is offered")]
    NoTools,
    /// The tools were bound to another dialect.
    #[error("the tools are bound to `{bound}`, and the request is for `{dialect}`")]
    OtherDialect { dialect: Dialect, bound: Dialect },
    /// A result in the history is a question (`resultType: "input_required"`).
    #[error("the tool `{name}` asks for input before it answers call `{id}`")]
    InputRequired { name: String, id: String },
}

/// Writes the whole body of a request.
///
/// `tools` are the request's, bound to `dialect`. Each call in the history is answered exactly once: a call without a
/// result gets an error, a result without a call is left out. What only another provider understands is left out.
pub fn write_request(
    dialect: Dialect,
    request: &ModelRequest,
    tools: &Toolset,
    options: &RequestOptions,
) -> Result<Value, RequestError> {
    if tools.dialect() != dialect {
        return Err(RequestError::OtherDialect { dialect, bound: tools.dialect() });
    }
    let family = dialect.family();
    let user = match family {
        Family::OpenAiChat => openai_chat::user_carrier(dialect, options.audio),
        Family::OpenAiResponses => openai_responses::CARRIER,
        Family::Anthropic => anthropic::CARRIER,
        Family::Gemini => gemini::USER_CARRIER,
        Family::Bedrock => bedrock::CARRIER,
        Family::Cohere => cohere::USER_CARRIER,
        Family::Ollama => ollama::CARRIER,
        Family::Mcp => mcp::CARRIER,
    };
    let assistant = match family {
        Family::Gemini | Family::Mcp => user,
        _ => Carrier::TEXT,
    };
    let ordering = Ordering { dialect, tools, options, user, assistant };
    let mut turns = ordering.turns(&request.messages);
    if turns.is_empty() {
        return Err(RequestError::NoMessages);
    }
    if alternates(family) && matches!(turns[0], Turn::Assistant(_)) {
        turns.insert(0, Turn::User(vec![Piece::Text(OPENING.to_owned())]));
    }
    let (tools, choice) = choose(dialect, request, tools, options)?;
    let instructions = request.instructions.as_deref().filter(|words| !words.trim().is_empty());
    let temperature = request.temperature.filter(|temperature| temperature.is_finite());
    let max_output_tokens = request.max_output_tokens;
    let draft =
        RequestDraft { dialect, options, instructions, turns, tools, choice, max_output_tokens, temperature };
    let written = match family {
        Family::OpenAiChat => openai_chat::write_request(&draft),
        Family::OpenAiResponses => openai_responses::write_request(&draft),
        Family::Anthropic => anthropic::write_request(&draft),
        Family::Gemini => gemini::write_request(&draft),
        Family::Bedrock => bedrock::write_request(&draft),
        Family::Cohere => cohere::write_request(&draft),
        Family::Ollama => ollama::write_request(&draft),
        Family::Mcp => mcp::write_request(&draft),
    };
    let mut body = written.map_err(|error| match error {
        RequestError::InputRequired { .. } => asking(&request.messages).unwrap_or(error),
        other => other,
    })?;
    merge(&mut body, &options.extra);
    Ok(Value::Object(body))
}

/// The tool that asks, by the name and the id that the history has for its call.
fn asking(messages: &[Arc<Message>]) -> Option<RequestError> {
    let blocks = || messages.iter().flat_map(|message| &message.content);
    let id = blocks().find_map(|block| match block {
        Block::Result { id, result } if result.needs_input() => Some(id),
        _ => None,
    })?;
    let name = blocks().find_map(|block| match block {
        Block::Call { id: known, call } if known == id => Some(call.name.clone()),
        _ => None,
    })?;
    Some(RequestError::InputRequired { name, id: id.clone() })
}

/// What stands before an assistant who speaks first, where the API wants the user to.
const OPENING: &str = "(the conversation begins with the assistant)";

/// A request as every family sees it.
pub(crate) struct RequestDraft<'a> {
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
}

/// Whether the model calls tools, in words the API has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice<'a> {
    Auto,
    Required,
    None,
    /// By the name the model knows it by.
    Tool(&'a str),
}

impl RequestDraft<'_> {
    /// The results of a turn, in the API's own messages.
    pub(crate) fn results(
        &self,
        turn: &[(ReceivedCall, Option<&ToolResult>)],
    ) -> Result<Vec<Value>, RequestError> {
        write_results(self.dialect, &answered(turn), &self.options.results).map_err(|error| match error {
            ResultError::InputRequired { name, id } => RequestError::InputRequired { name, id },
        })
    }

    /// The names of the tools that the history calls, each once.
    pub(crate) fn called(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for turn in &self.turns {
            if let Turn::Results(results) = turn {
                for (call, _) in results {
                    if !names.contains(&call.name.as_str()) {
                        names.push(&call.name);
                    }
                }
            }
        }
        names
    }

    /// The definitions to list, as one value. Copied as they are: taking them apart and putting them together again, as
    /// `json!` does, takes several times as long.
    pub(crate) fn listed(&self) -> Value {
        Value::Array(self.tools.iter().map(|tool| (*tool).clone()).collect())
    }

    /// The model, as most bodies begin.
    pub(crate) fn head(&self) -> Map<String, Value> {
        Map::from_iter([("model".to_owned(), json!(self.options.model))])
    }
}

/// Which tools are listed, and what is said about calling them.
fn choose<'a>(
    dialect: Dialect,
    request: &'a ModelRequest,
    tools: &'a Toolset,
    options: &RequestOptions,
) -> Result<(Vec<&'a Value>, Choice<'a>), RequestError> {
    let listed = tools.definitions();
    let has_names = !matches!(dialect.family(), Family::Cohere | Family::Ollama | Family::Mcp);
    // Mistral's models write raw calls as text when tools are listed and forbidden; the others have no word for it.
    let has_none =
        !(dialect == Dialect::Mistral || matches!(dialect.family(), Family::Ollama | Family::Bedrock));
    let choice = match &request.tool_choice {
        ToolChoice::Auto => Choice::Auto,
        ToolChoice::None if listed.is_empty() => Choice::Auto,
        ToolChoice::None if has_none => Choice::None,
        ToolChoice::None => return Ok((Vec::new(), Choice::None)),
        ToolChoice::Required if listed.is_empty() => return Err(RequestError::NoTools),
        ToolChoice::Required => Choice::Required,
        ToolChoice::Tool(tool) => {
            let Some((place, name)) = tools.place_of(tool) else {
                let known = request.tools.iter().map(|known| known.name.as_str());
                let nearest = toolwire_contract::nearest_names(tool, known);
                let nearest = nearest.into_iter().map(str::to_owned).collect();
                return Err(RequestError::UnknownTool { tool: tool.clone(), nearest });
            };
            if !options.forced_choice || options.named_choice.unwrap_or(has_names) {
                Choice::Tool(name)
            } else {
                return Ok((vec![listed[place]], Choice::Required));
            }
        }
    };
    let is_forced = matches!(choice, Choice::Required | Choice::Tool(_));
    Ok((listed, if is_forced && !options.forced_choice { Choice::Auto } else { choice }))
}

/// Adds fields to a body, objects key by key.
fn merge(body: &mut Map<String, Value>, extra: &Map<String, Value>) {
    for (key, value) in extra {
        match (body.get_mut(key), value) {
            (Some(Value::Object(known)), Value::Object(more)) => merge(known, more),
            _ => {
                body.insert(key.clone(), value.clone());
            }
        }
    }
}

impl Default for RequestOptions {
    fn default() -> RequestOptions {
        RequestOptions {
            model: String::new(),
            stream: false,
            results: ResultOptions::default(),
            audio: false,
            output_limit: None,
            default_output_tokens: 8_192,
            stream_usage: None,
            parallel_calls: None,
            forced_choice: true,
            named_choice: None,
            reasoning: None,
            encrypted_reasoning: true,
            extra: Map::new(),
        }
    }
}

impl RequestError {
    /// The next thing to try, in one line.
    pub fn hint(&self) -> String {
        match self {
            RequestError::NoMessages => "add a message of the user".to_owned(),
            RequestError::UnknownTool { nearest, .. } if nearest.is_empty() => {
                "demand one of the tools that are offered".to_owned()
            }
            RequestError::UnknownTool { nearest, .. } => {
                let names: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
                format!("did you mean {}?", names.join(" or "))
            }
            RequestError::NoTools => "offer tools, or leave the choice to the model".to_owned(),
            RequestError::OtherDialect { .. } => "bind the tools to the dialect of the request".to_owned(),
            RequestError::InputRequired { .. } => {
                "answer its `inputRequests`, then repeat the call with `inputResponses` and the `requestState`"
                    .to_owned()
            }
        }
    }
}

/// Adds to the last message, or begins one: user and assistant alternate.
pub(crate) fn add_content(messages: &mut Vec<Value>, role: &str, content: Vec<Value>) {
    if content.is_empty() {
        return;
    }
    if let Some(last) = messages.last_mut()
        && last["role"] == role
        && let Some(known) = last["content"].as_array_mut()
    {
        known.extend(content);
        return;
    }
    messages.push(json!({"role": role, "content": content}));
}
