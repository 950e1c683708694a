//! Writes the request of a client for a provider that supports the client's API.
//!
//! The client's JSON text is sent unchanged, and prepared texts are added: the definitions of tools, and
//! messages that the client did not send. Fields that no type represents are kept this way, and prompt caches
//! see the same bytes.

mod cache_marks;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use toolwire_contract::model::{ModelRequest, ToolChoice, VerbatimRequest};
use toolwire_contract::{Block, Message, Role, Tool};

use crate::output::has_native_output;
use crate::request::{ApiSupport, RequestError, RequestOptions, wire_id};
use crate::request::{Choice, PreparedRequest, Turn, find_foreign_content, require_final_results};
use crate::write::{OUTPUT_LIMITS, history_reader, merge, merge_extra, write_request};
use crate::{Dialect, Toolset};
use cache_marks::CacheMarks;

/// Fields that APIs reject if there are no tools.
const CHOICES: [&str; 2] = ["tool_choice", "parallel_tool_calls"];

/// The mark at the end of a prefix that the provider caches.
const CACHE_MARK: &str = r#","cache_control":{"type":"ephemeral"}}"#;

/// The differences between families in writing a request with the client's JSON text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VerbatimFormat {
    /// The key of the messages.
    pub(crate) items: &'static str,
    /// The dialects that have exactly this API.
    pub(crate) dialects: [Dialect; 2],
    /// Adds instructions to those of the client.
    pub(crate) add_instructions: fn(&mut VerbatimBody<'_>, &str),
    /// Adds what the last response has reported and this request needs; the argument is the data that its
    /// message has for this family.
    pub(crate) continue_response: fn(&mut VerbatimBody<'_>, &Value),
}

/// A body of JSON texts that is being written.
#[derive(Debug)]
pub(crate) struct VerbatimBody<'a> {
    fields: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    pub(crate) items: Vec<Cow<'a, str>>,
}

impl<'a> VerbatimBody<'a> {
    /// Removes a field and returns its text.
    pub(crate) fn take(&mut self, name: &str) -> Option<Cow<'a, str>> {
        let position = self.fields.iter().position(|(known, _)| *known == name)?;
        Some(self.fields.remove(position).1)
    }

    pub(crate) fn set(&mut self, name: &'a str, text: impl ToString) {
        self.fields.push((name.into(), text.to_string().into()));
    }

    fn finish(self, items_key: &str, tools: &[Cow<'_, str>]) -> String {
        let mut text = String::from("{");
        for (name, value) in &self.fields {
            text.push_str(&format!("{}:{value},", Value::from(&**name)));
        }
        if !tools.is_empty() {
            text.push_str(&format!("\"tools\":[{}],", tools.join(",")));
        }
        text.push_str(&format!("\"{items_key}\":[{}]}}", self.items.join(",")));
        text
    }
}

/// Returns the request of the client if the server supports its API (`dialect` and
/// [`RequestOptions::api_support`]). [`write_request_text`] then sends its parts unchanged.
pub fn verbatim_request<'r>(
    dialect: Dialect,
    request: &'r ModelRequest,
    options: &RequestOptions,
) -> Option<&'r VerbatimRequest> {
    let verbatim = request.verbatim.as_deref()?;
    let has_api = options.api_support == ApiSupport::Complete
        && dialect.has_api_of(dialect.family())
        && verbatim.family == dialect.family().meta_key();
    // Otherwise only the required tool must be listed.
    let has_choice = !matches!(request.tool_choice, ToolChoice::Tool(_))
        || !options.forced_choice
        || options.named_choice != Some(false);
    let instructions = request.instructions.as_deref().unwrap_or_default();
    let has_instructions =
        verbatim.instructions.as_deref().is_none_or(|client| instructions.contains(client));
    // Some APIs reject calls in the history if there are no tools, so the called tools are listed.
    let has_tools = || {
        !request.tools.is_empty()
            || !verbatim.provider_tools.is_empty()
            || client_items(dialect, request, verbatim).iter().all(Option::is_some)
    };
    let is_possible = has_api
        && has_choice
        && has_instructions
        && has_native_output(dialect, &request.output, options)
        && has_tools();
    is_possible.then_some(verbatim)
}

/// Writes the complete body of a request as JSON text. If the request has a client's text for this API
/// ([`verbatim_request`]), the parts of that text are used, and `tools` must have only the tools that are not
/// the client's. Otherwise, the body is that of [`write_request`].
pub fn write_request_text(
    dialect: Dialect,
    request: &ModelRequest,
    tools: &Toolset,
    options: &RequestOptions,
) -> Result<String, RequestError> {
    let client = verbatim_request(dialect, request, options).zip(dialect.family().format().verbatim);
    let Some((verbatim, format)) = client else {
        return Ok(write_request(dialect, request, tools, options)?.to_string());
    };
    if tools.dialect() != dialect {
        return Err(RequestError::OtherDialect { dialect, bound: tools.dialect() });
    }
    if request.messages.is_empty() {
        return Err(RequestError::NoMessages);
    }
    // A request can have only a few cache marks. If the client sets any, none is added.
    let prompt_cache = options.prompt_cache && !has_cache_marks(verbatim);
    let options = RequestOptions { prompt_cache, ..options.clone() };
    let writer = Writer { dialect, request, verbatim, tools, options: &options, format };
    let definitions = writer.definitions();
    let is_of_client = |tool: &Tool| verbatim.tool(&tool.name).is_some();
    let mut body = writer.fields(!definitions.is_empty() || request.tools.iter().any(is_of_client));
    if let Some(text) = added_instructions(request, verbatim) {
        (format.add_instructions)(&mut body, &text);
    }
    if let Some(data) = data_of_turn(dialect, request).filter(|_| !verbatim.provider_tools.is_empty()) {
        (format.continue_response)(&mut body, data);
    }
    writer.add_messages(&mut body)?;
    Ok(body.finish(format.items, &definitions))
}

struct Writer<'a> {
    dialect: Dialect,
    request: &'a ModelRequest,
    verbatim: &'a VerbatimRequest,
    tools: &'a Toolset,
    options: &'a RequestOptions,
    format: VerbatimFormat,
}

impl<'a> Writer<'a> {
    /// Returns a body with the client's fields and instructions, and with those fields that the client does
    /// not set.
    fn fields(&self, has_tools: bool) -> VerbatimBody<'a> {
        let verbatim = self.verbatim;
        let mut own = self.write(Vec::new(), has_tools, self.options);
        own.shift_remove(self.format.items);
        own.shift_remove("tools");
        if OUTPUT_LIMITS.iter().any(|name| verbatim.field(name).is_some()) {
            own.retain(|name, _| !OUTPUT_LIMITS.contains(&name.as_str()));
        }
        let extra = &self.options.extra;
        merge_extra(&mut own, extra);
        let has_limit = OUTPUT_LIMITS.iter().any(|name| extra.contains_key(*name));
        let mut client = Vec::new();
        for (name, text) in &verbatim.fields {
            match own.get_mut(name) {
                _ if name == "tool_choice" && !self.keeps_choice() => {}
                // A choice of the configuration has precedence, as every other field of it.
                None if CHOICES.contains(&name.as_str()) && !has_tools => {}
                None if OUTPUT_LIMITS.contains(&name.as_str()) && has_limit => {}
                Some(Value::Object(fields)) if extra.contains_key(name) => {
                    let mut sent: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
                    merge(&mut sent, fields);
                    *fields = sent;
                }
                Some(_) if extra.contains_key(name) => {}
                Some(Value::Array(values)) => {
                    let mut sent: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
                    values.retain(|value| !sent.contains(value));
                    sent.append(values);
                    *values = sent;
                }
                _ => {
                    own.shift_remove(name);
                    client.push((Cow::from(name), Cow::from(text)));
                }
            }
        }
        let own = own.into_iter().map(|(name, value)| (Cow::from(name), Cow::from(value.to_string())));
        VerbatimBody {
            fields: own.chain(client).collect(),
            items: verbatim.instruction_items.iter().map(Cow::from).collect(),
        }
    }

    /// Whether the client's own `tool_choice` is sent. It applies only to the first request, and can only
    /// name a tool of the client.
    fn keeps_choice(&self) -> bool {
        let has_same_name = match &self.request.tool_choice {
            ToolChoice::Tool(name) => self.tools.wire_name(name).is_none_or(|wire| wire == name),
            _ => true,
        };
        let is_possible = self.options.forced_choice
            || matches!(self.request.tool_choice, ToolChoice::Auto | ToolChoice::None);
        has_same_name && is_possible && self.request.tool_choice == self.verbatim.tool_choice
    }

    /// Returns the definitions of the client and the prepared ones, in the order of the request.
    fn definitions(&self) -> Vec<Cow<'a, str>> {
        let (verbatim, tools) = (self.verbatim, self.tools);
        let own = |name: &str| tools.definition_text(name);
        let mut of_provider = verbatim.provider_tools.iter().peekable();
        let mut texts: Vec<&str> = Vec::new();
        for tool in self.request.tools.iter() {
            // The client's tools come first, in the client's order.
            let known = verbatim.tools.iter().position(|(name, _)| *name == tool.name);
            let position = known.unwrap_or(usize::MAX);
            while let Some(of_provider) = of_provider.next_if(|tool| tool.position <= position) {
                texts.push(&of_provider.definition);
            }
            texts.extend(known.map(|known| verbatim.tools[known].1.as_str()).or_else(|| own(&tool.name)));
        }
        texts.extend(of_provider.map(|tool| tool.definition.as_str()));
        // A tool without a text is part of another definition, or an item of the conversation defines it.
        let texts = texts.into_iter().filter(|text| !text.is_empty());
        let mut texts: Vec<Cow<'a, str>> = texts.map(Cow::from).collect();
        let is_last_own = self.request.tools.last().is_some_and(|tool| own(&tool.name).is_some());
        if let Some(last) = texts.last_mut().filter(|_| self.options.prompt_cache && is_last_own) {
            *last = format!("{}{CACHE_MARK}", last.strip_suffix('}').unwrap_or(last)).into();
        }
        texts
    }

    /// Adds the messages. Consecutive messages that are not the client's are converted together, so that a
    /// call and its result are not separated.
    fn add_messages(&self, body: &mut VerbatimBody<'a>) -> Result<(), RequestError> {
        let messages = &self.request.messages;
        let family = self.dialect.family();
        let client = client_items(self.dialect, self.request, self.verbatim);
        let mut marks = CacheMarks::of_rewritten_items(self.verbatim, &client);
        let mut position = 0;
        while position < messages.len() {
            if let Some(items) = client[position] {
                body.items.extend(items.iter().map(Cow::from));
                position += 1;
                continue;
            }
            let end = (position..messages.len()).find(|end| client[*end].is_some()).unwrap_or(messages.len());
            let sequence = &messages[position..end];
            if let Some(type_name) = find_foreign_content(sequence, family.meta_key()) {
                return Err(RequestError::ForeignContent { dialect: self.dialect, type_name });
            }
            let mut turns = history_reader(self.dialect, self.tools, self.options).turns(sequence);
            if messages.get(end).is_some_and(|next| next.results().next().is_some()) {
                // The client's own results follow, so the placeholders for missing results are removed.
                turns.pop_if(|turn| matches!(turn, Turn::Results(_)));
            }
            require_final_results(&turns)?;
            let prompt_cache = self.options.prompt_cache && end == messages.len();
            let options = RequestOptions { prompt_cache, ..self.options.clone() };
            if let Some(Value::Array(mut items)) =
                self.write(turns, false, &options).shift_remove(self.format.items)
            {
                marks.restore(&mut items);
                body.items.extend(items.iter().map(|item| Cow::from(item.to_string())));
            }
            position = end;
        }
        Ok(())
    }

    /// Writes a body in which the tools are only a placeholder.
    fn write(&self, turns: Vec<Turn<'a>>, has_tools: bool, options: &RequestOptions) -> Map<String, Value> {
        let family = self.dialect.family().format();
        let has_parallel_calls = (family.generation)(self.dialect).has_parallel_calls;
        let parallel_calls = self.request.generation.parallel_calls.filter(|_| has_parallel_calls);
        (family.write_request)(&PreparedRequest {
            dialect: self.dialect,
            options,
            instructions: None,
            turns,
            tools: has_tools.then_some(&Value::Null).into_iter().collect(),
            choice: match &self.request.tool_choice {
                // If the API cannot require a call, the model decides.
                ToolChoice::Required | ToolChoice::Tool(_) if !options.forced_choice => Choice::Auto,
                ToolChoice::Auto => Choice::Auto,
                ToolChoice::Required => Choice::Required,
                ToolChoice::None => Choice::None,
                ToolChoice::Tool(name) => Choice::Tool(self.tools.wire_name(name).unwrap_or(name)),
            },
            max_output_tokens: self.request.max_output_tokens,
            temperature: (family.generation)(self.dialect).temperature(self.request.temperature),
            parallel_calls: parallel_calls.or(options.parallel_calls),
            output: None,
        })
    }
}

/// Returns the client's items of each message; `None` for messages that must be written. A call and its
/// result have the same id, so they are both written if the id changes, or if the result is not the client's.
fn client_items<'a>(
    dialect: Dialect,
    request: &ModelRequest,
    verbatim: &'a VerbatimRequest,
) -> Vec<Option<&'a [String]>> {
    let messages = &request.messages;
    let positions = verbatim.messages.iter().enumerate();
    let positions: HashMap<*const Message, usize> =
        positions.map(|(position, (known, _))| (Arc::as_ptr(known), position)).collect();
    let mut next = 0;
    let mut items: Vec<Option<&[String]>> = Vec::with_capacity(messages.len());
    for message in messages {
        let found = positions.get(&Arc::as_ptr(message)).copied().filter(|position| *position >= next);
        items.push(found.map(|position| verbatim.messages[position].1.as_slice()));
        next = found.map_or(next, |position| position + 1);
    }
    // Some providers use an id again; such ids change when calls are written.
    let mut calls: HashMap<&str, usize> = HashMap::new();
    for (id, _) in messages.iter().flat_map(|message| message.calls()) {
        *calls.entry(id).or_default() += 1;
    }
    let keeps_id = |id: &str| wire_id(dialect, id) == id && calls.get(id).is_none_or(|count| *count == 1);
    for index in 1..messages.len() {
        if messages[index].results().next().is_none() {
            continue;
        }
        let keeps_ids = messages[index].results().all(|(id, _)| keeps_id(id));
        match (items[index - 1], items[index]) {
            (None, Some(_)) if !keeps_ids => items[index] = None,
            (Some(_), None) => items[index - 1] = None,
            _ => {}
        }
    }
    items
}

/// Returns the data of the last response in the current turn that has any for this family. Earlier turns do
/// not count: the client decides whether it uses their data again.
fn data_of_turn(dialect: Dialect, request: &ModelRequest) -> Option<&Value> {
    let is_of_turn = |message: &&Arc<Message>| {
        message.role == Role::Assistant
            || message.content.iter().any(|block| matches!(block, Block::Result { .. }))
    };
    let turn = request.messages.iter().rev().take_while(is_of_turn);
    let mut responses = turn.filter(|message| message.role == Role::Assistant);
    responses.find_map(|message| message.extra.get("_meta")?.get(dialect.family().meta_key()))
}

/// Returns the instructions that are not the client's.
fn added_instructions(request: &ModelRequest, verbatim: &VerbatimRequest) -> Option<String> {
    let all = request.instructions.as_deref().unwrap_or_default();
    let before = verbatim.preceding_instructions.as_deref().unwrap_or_default();
    let client = verbatim.instructions.as_deref().unwrap_or_default();
    let after = all.strip_prefix(before).and_then(|rest| rest.trim_start().strip_prefix(client.trim_start()));
    // If the instructions no longer contain the client's, all of them are added, so that none is lost.
    let (before, after) = after.map_or((all, ""), |after| (before, after));
    let added: Vec<&str> =
        [before.trim(), after.trim()].into_iter().filter(|text| !text.is_empty()).collect();
    (!added.is_empty()).then(|| added.join("\n\n"))
}

/// Whether the client marks prefixes for the provider's cache itself.
fn has_cache_marks(verbatim: &VerbatimRequest) -> bool {
    let mut fields = verbatim.fields.iter();
    let items = verbatim.messages.iter().flat_map(|(_, items)| items);
    let of_provider = verbatim.provider_tools.iter().map(|tool| &tool.definition);
    let tools = verbatim.tools.iter().map(|(_, text)| text).chain(of_provider);
    fields.any(|(name, text)| name == "cache_control" || text.contains("\"cache_control\""))
        || items.chain(tools).any(|text| text.contains("\"cache_control\""))
}
