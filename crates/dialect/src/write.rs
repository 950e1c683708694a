//! Writes requests, calls and results.

use std::sync::Arc;

use serde_json::{Map, Value};
use toolwire_contract::model::{ModelRequest, UnsupportedContent};
use toolwire_contract::{Content, Message, Role, ToolResult};

use crate::families::ClientFields;
use crate::output::BoundOutput;
use crate::request::{ApiSupport, RequestError, RequestOptions};
use crate::request::{
    HistoryReader, PreparedRequest, Turn, choose_tools, find_foreign_content, require_final_results,
};
use crate::response::ReceivedCall;
use crate::result::{self, ContentLimits, ContentPart, ResultTurn};
use crate::result::{CallOutcome, ResultOptions};
use crate::{Dialect, Toolset};

/// The keys of the output limit. A request has at most one of them.
pub(crate) const OUTPUT_LIMITS: [&str; 2] = ["max_tokens", "max_completion_tokens"];

/// The first user message of a conversation that the assistant started, for APIs that require one.
const OPENING: &str = "(the conversation begins with the assistant)";

/// A user message without text, and the last one if it has no content that can be sent.
pub(crate) const EMPTY_MESSAGE: &str = "(empty message)";

/// Writes the complete body of a request.
///
/// `tools` are the tools of the request, converted for `dialect`. Each call in the history is sent with
/// exactly one result: a call without a result gets an error, and a result without a call is left out. Blocks
/// that only another provider understands are left out.
pub fn write_request(
    dialect: Dialect,
    request: &ModelRequest,
    tools: &Toolset,
    options: &RequestOptions,
) -> Result<Value, RequestError> {
    if tools.dialect() != dialect {
        return Err(RequestError::OtherDialect { dialect, bound: tools.dialect() });
    }
    let format = dialect.family().format();
    let rules = &format.rules;
    if let Some(type_name) = find_foreign_content(&request.messages, dialect.family().meta_key()) {
        return Err(RequestError::ForeignContent { dialect, type_name });
    }
    let mut turns = history_reader(dialect, tools, options).turns(&request.messages);
    let ends_with_user = request.messages.last().is_some_and(|last| last.role == Role::User);
    if ends_with_user && matches!(turns.last(), None | Some(Turn::Assistant(_))) {
        // Without it, the request would end with the assistant's message, which some models continue.
        turns.push(Turn::User(vec![ContentPart::Text(EMPTY_MESSAGE.to_owned())]));
    }
    if turns.is_empty() {
        return Err(RequestError::NoMessages);
    }
    if rules.alternates_roles && matches!(turns[0], Turn::Assistant(_)) {
        turns.insert(0, Turn::User(vec![ContentPart::Text(OPENING.to_owned())]));
    }
    let output = BoundOutput::new(request, tools, options)?;
    let (mut tools, mut choice) = choose_tools(dialect, rules, request, tools, options)?;
    if let Some(output) = &output {
        output.choose(&mut tools, &mut choice, options, rules.has_named_choice)?;
    }
    let note = output.as_ref().and_then(|output| output.instructions(request, !tools.is_empty()));
    let instructions = request.instructions.as_deref().filter(|text| !text.trim().is_empty());
    let instructions: Vec<&str> = instructions.into_iter().chain(note.as_deref()).collect();
    let instructions = instructions.join("\n\n");
    require_final_results(&turns)?;
    let generation_format = (format.generation)(dialect);
    let parallel_calls = request.generation.parallel_calls.filter(|_| generation_format.has_parallel_calls);
    let mut body = (format.write_request)(&PreparedRequest {
        dialect,
        options,
        instructions: Some(&*instructions).filter(|text| !text.is_empty()),
        output: output.as_ref().and_then(|output| output.field(!tools.is_empty())),
        turns,
        tools,
        choice,
        max_output_tokens: request.max_output_tokens,
        temperature: generation_format.temperature(request.temperature),
        parallel_calls: parallel_calls.or(options.parallel_calls),
    });
    generation_format.write(&request.generation, &mut body);
    merge(&mut body, &ClientFields::new(dialect, options.api_support, &request.generation).sent);
    merge_extra(&mut body, &options.extra);
    Ok(Value::Object(body))
}

/// Returns a reader of the messages of a request.
pub(crate) fn history_reader<'a>(
    dialect: Dialect,
    tools: &'a Toolset,
    options: &RequestOptions,
) -> HistoryReader<'a> {
    let rules = &dialect.family().format().rules;
    let user_limits = user_limits(dialect, options);
    let assistant_limits = if rules.accepts_assistant_media { user_limits } else { ContentLimits::TEXT };
    HistoryReader { dialect, rules, tools, user_limits, assistant_limits }
}

/// Returns the type of the first part of a user message that this API does not accept, and that no note can
/// replace, such as the URL of a file. [`write_request`] fails with [`RequestError::ForeignContent`] for it.
pub fn foreign_content(dialect: Dialect, message: &Arc<Message>) -> Option<String> {
    find_foreign_content(std::slice::from_ref(message), dialect.family().meta_key())
}

/// Checks whether a user message of a request may contain a block. [`write_request`] replaces other images
/// and files with a note, because they would make the API reject the conversation from then on.
pub fn check_content(
    dialect: Dialect,
    content: &Content,
    options: &RequestOptions,
) -> Result<(), UnsupportedContent> {
    result::check_content(content, &user_limits(dialect, options))
}

fn user_limits(dialect: Dialect, options: &RequestOptions) -> ContentLimits {
    (dialect.family().format().user_limits)(dialect, options).with_options(&options.results)
}

/// Returns the names of the generation parameters of a request that are not sent to this API, as Chat
/// Completions names them, followed by the fields of the client that the API does not have. A temperature
/// that is too high for the API is one of them: the highest one is sent instead.
///
/// ```
/// use toolwire_contract::model::ModelRequest;
/// use toolwire_dialect::Dialect;
/// use toolwire_dialect::request::{ApiSupport, dropped_parameters};
///
/// let mut request = ModelRequest::default();
/// request.generation.seed = Some(7);
/// assert_eq!(dropped_parameters(Dialect::OpenAi, ApiSupport::Complete, &request), [""; 0]);
/// assert_eq!(dropped_parameters(Dialect::Anthropic, ApiSupport::Complete, &request), ["seed"]);
/// ```
pub fn dropped_parameters(dialect: Dialect, api_support: ApiSupport, request: &ModelRequest) -> Vec<String> {
    let generation = &request.generation;
    let format = (dialect.family().format().generation)(dialect);
    let mut names: Vec<String> = format.unsupported(generation).into_iter().map(str::to_owned).collect();
    if format.temperature(request.temperature) != request.temperature {
        names.push("temperature".to_owned());
    }
    names.extend(ClientFields::new(dialect, api_support, generation).dropped);
    names
}

/// Writes an assistant turn with `calls`, as messages or items for a request.
///
/// Within one provider, send the provider's own message back instead: it may contain reasoning and state that
/// the provider needs. Ids are converted with [`wire_id`](crate::request::wire_id) here and in
/// [`write_results`], so they match.
pub fn write_calls(dialect: Dialect, calls: &[ReceivedCall]) -> Vec<Value> {
    if calls.is_empty() {
        return Vec::new();
    }
    let calls: Vec<&ReceivedCall> = calls.iter().collect();
    (dialect.family().format().write_calls)(dialect, &calls)
}

/// Writes the results of one assistant turn: the messages, items or contents to append to the request, in
/// order.
///
/// Pass one outcome per call, in the order of the calls. The only error is [`RequestError::InputRequired`].
///
/// ```
/// use serde_json::json;
/// use toolwire_contract::ToolResult;
/// use toolwire_dialect::Dialect;
/// use toolwire_dialect::result::{CallOutcome, ResultOptions, write_results};
/// use toolwire_dialect::response::read_calls;
///
/// let calls = read_calls(Dialect::Anthropic, &json!({"role": "assistant", "content": [
///     {"type": "tool_use", "id": "toolu_1", "name": "get", "input": {"q": 1}}]}))?;
/// let result = ToolResult::text("42");
/// let outcomes = [CallOutcome { call: &calls[0], result: Some(&result) }];
/// let messages = write_results(Dialect::Anthropic, &outcomes, &ResultOptions::default())?;
/// assert_eq!(messages, [json!({"role": "user", "content": [
///     {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "42"}]}]})]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_results(
    dialect: Dialect,
    outcomes: &[CallOutcome<'_>],
    options: &ResultOptions,
) -> Result<Vec<Value>, RequestError> {
    let needs_input = |outcome: &&CallOutcome<'_>| outcome.result.is_some_and(ToolResult::needs_input);
    if let Some(CallOutcome { call, .. }) = outcomes.iter().find(needs_input) {
        let (name, id) = (call.name.clone(), call.id.as_str().to_owned());
        return Err(RequestError::InputRequired { name, id });
    }
    if outcomes.is_empty() {
        return Ok(Vec::new());
    }
    Ok((dialect.family().format().write_results)(&ResultTurn { dialect, outcomes, options }))
}

/// Merges the fields of the configuration into a body. An output limit among them replaces that of the
/// request, whatever its key is.
pub(crate) fn merge_extra(body: &mut Map<String, Value>, extra: &Map<String, Value>) {
    if OUTPUT_LIMITS.iter().any(|key| extra.contains_key(*key)) {
        body.retain(|key, _| !OUTPUT_LIMITS.contains(&key.as_str()));
    }
    merge(body, extra);
}

/// Merges fields into a body. Objects are merged key by key.
pub(crate) fn merge(body: &mut Map<String, Value>, extra: &Map<String, Value>) {
    for (key, value) in extra {
        match (body.get_mut(key), value) {
            (Some(Value::Object(known)), Value::Object(more)) => merge(known, more),
            _ => {
                body.insert(key.clone(), value.clone());
            }
        }
    }
}
