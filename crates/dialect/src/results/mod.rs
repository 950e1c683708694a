//! MCP results as an API's tool-result messages.
//!
//! What a result holds is prepared once, by what the API can carry (a [`Carrier`]): texts cleaned and cut, media checked
//! or replaced by a note, structured content said once. Each family then only puts the pieces into its own JSON.

mod media;
mod prepare;
mod text;

use serde_json::Value;
use toolwire_contract::ToolResult;

pub(crate) use media::Media;
pub(crate) use prepare::{Carrier, Piece, Prepared, Structured, error_text, note, piece};
pub(crate) use text::{NO_OUTPUT, clean};

use crate::{
    Dialect, Family, ReceivedCall, anthropic, bedrock, cohere, gemini, mcp, ollama, openai_chat,
    openai_responses, wire_id,
};

/// A call and what it gave.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    pub call: &'a ReceivedCall,
    /// `None` when the call gave nothing: it timed out, was cancelled or crashed. It is answered with an error, as every
    /// API refuses a conversation with an unanswered call.
    pub result: Option<&'a ToolResult>,
}

/// How results are written. The default is what the API's current models take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultOptions {
    /// The most characters of text in one result. The rest is cut off, with a mark that says how much.
    pub text_budget: Option<usize>,
    /// Whether the model sees images. Without, each is a note.
    pub images: bool,
    /// Whether the model reads files such as PDF. Without, each is a note.
    pub files: bool,
    /// Gemini: media inside the `functionResponse`, as Gemini 3 and later take it. Without, it stands after the
    /// responses in the same turn.
    pub nested_media: bool,
    /// Bedrock: `status` in the result. Without (some models refuse it), an error says so in its text.
    pub error_flag: bool,
}

/// A result that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResultError {
    /// The tool asks for input first (`resultType: "input_required"`), so there is no result yet.
    #[error("the tool `{name}` asks for input before it answers call `{id}`")]
    InputRequired { name: String, id: String },
}

/// Writes the results of one assistant turn: the messages, items or contents to append to the request, in order.
///
/// Give one entry per call, in the order of the calls.
///
/// ```
/// use serde_json::json;
/// use toolwire_contract::ToolResult;
/// use toolwire_dialect::{Answered, Dialect, ResultOptions, read_calls, write_results};
///
/// let calls = read_calls(Dialect::Anthropic, &json!({"role": "assistant", "content": [
///     {"type": "tool_use", "id": "toolu_1", "name": "get", "input": {"q": 1}}]}))?;
/// let result = ToolResult::text("42");
/// let answers = [Answered { call: &calls[0], result: Some(&result) }];
/// let messages = write_results(Dialect::Anthropic, &answers, &ResultOptions::default())?;
/// assert_eq!(messages, [json!({"role": "user", "content": [
///     {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "42"}]}]})]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_results(
    dialect: Dialect,
    answers: &[Answered<'_>],
    options: &ResultOptions,
) -> Result<Vec<Value>, ResultError> {
    for answer in answers {
        if answer.result.is_some_and(ToolResult::needs_input) {
            let call = answer.call;
            return Err(ResultError::InputRequired {
                name: call.name.clone(),
                id: call.id.as_str().to_owned(),
            });
        }
    }
    if answers.is_empty() {
        return Ok(Vec::new());
    }
    let replies = |carrier: Carrier| -> Vec<Reply<'_>> {
        answers.iter().map(|answer| Reply::new(dialect, answer, &carrier, options)).collect()
    };
    Ok(match dialect.family() {
        Family::OpenAiChat => openai_chat::write_results(dialect, replies(openai_chat::carrier(dialect))),
        Family::OpenAiResponses => openai_responses::write_results(replies(openai_responses::CARRIER)),
        Family::Anthropic => anthropic::write_results(replies(anthropic::CARRIER)),
        Family::Gemini => gemini::write_results(replies(gemini::CARRIER), options),
        Family::Bedrock => bedrock::write_results(replies(bedrock::CARRIER), options),
        Family::Cohere => cohere::write_results(replies(cohere::CARRIER)),
        Family::Ollama => ollama::write_results(replies(ollama::CARRIER)),
        Family::Mcp => mcp::write_results(answers),
    })
}

/// A result ready to be put into a family's JSON.
pub(crate) struct Reply<'a> {
    pub(crate) call: &'a ReceivedCall,
    /// The call's id on the wire.
    pub(crate) id: String,
    pub(crate) prepared: Prepared,
}

impl<'a> Reply<'a> {
    fn new(dialect: Dialect, answer: &Answered<'a>, carrier: &Carrier, options: &ResultOptions) -> Reply<'a> {
        let prepared = match answer.result {
            Some(result) => Prepared::new(result, carrier, options),
            None => Prepared::new(&missing(), carrier, options),
        };
        Reply { call: answer.call, id: wire_id(dialect, answer.call.id.as_str()), prepared }
    }

    /// The line before a piece of media that stands apart from its result. It names the call and quotes nothing the
    /// tool said: tool text must not speak with the user's voice.
    pub(crate) fn label(&self, media: &Media) -> String {
        let thing = if media.media_type.starts_with("image/") { "Image" } else { "File" };
        format!("{thing} returned by `{}` (call {}):", self.call.name, self.id)
    }
}

/// What the model reads when a call gave nothing.
pub(crate) fn missing() -> ToolResult {
    ToolResult::error("the tool gave no result: the call timed out, was cancelled or failed")
}

impl Default for ResultOptions {
    fn default() -> ResultOptions {
        ResultOptions { text_budget: None, images: true, files: true, nested_media: true, error_flag: true }
    }
}

impl ResultError {
    /// The next thing to try, in one line.
    pub fn hint(&self) -> &'static str {
        match self {
            ResultError::InputRequired { .. } => {
                "answer its `inputRequests`, then repeat the call with `inputResponses` and the `requestState`"
            }
        }
    }
}
