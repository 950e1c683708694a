//! Reads the messages in requests of clients.

mod approvals;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use toolwire_contract::{Block, Content, Message, Role, ToolCall, ToolResult};

use super::{ApprovalResponse, ClientRequest, InvalidRequest, Problem, ReadRequest, RequestFields, Sources};
use crate::read::read_response;
use crate::result::IMAGE_DETAIL;
use crate::write::EMPTY_MESSAGE;
use crate::{Dialect, Family, Options, Toolset};

/// Collects the messages of a conversation as types of `toolwire-contract`.
pub(crate) struct ConversationReader {
    dialect: Dialect,
    /// An empty toolset, so that names and arguments of calls in the history are not converted.
    no_tools: Toolset,
    messages: Vec<Message>,
    /// The last message with a call of each id, and the number of its calls without a result.
    calls: HashMap<String, (usize, usize)>,
    /// The ids of the calls in a message, by the names of their tools, and the position of this message. It
    /// is created for the first result without an id.
    named_calls: Option<(usize, HashMap<String, Vec<String>>)>,
    instructions: Vec<String>,
    approvals: Vec<ApprovalResponse>,
    /// The ids of the requests that have a decision in `approvals`.
    decided: HashSet<String>,
    /// The ids and paths of the requests for approval after which the model has not continued.
    requests: Vec<(String, String)>,
    /// The ids of those requests, except for the ones whose decision was already applied.
    requested: HashSet<String>,
    /// The position of the last request for approval: the number of messages before it, and of blocks in the
    /// last of them.
    asked_at: Option<(usize, usize)>,
    sources: Sources,
    /// The items that are not assigned to a message yet.
    items: Vec<usize>,
    /// Whether the current item is not sent as the client wrote it.
    is_rewritten: bool,
}

impl ConversationReader {
    pub(crate) fn new(dialect: Dialect) -> ConversationReader {
        let no_tools = Toolset::new(&[], dialect, &Options::default());
        ConversationReader {
            dialect,
            no_tools,
            messages: Vec::new(),
            calls: HashMap::new(),
            named_calls: None,
            instructions: Vec::new(),
            approvals: Vec::new(),
            decided: HashSet::new(),
            requests: Vec::new(),
            requested: HashSet::new(),
            asked_at: None,
            sources: Sources::default(),
            items: Vec::new(),
            is_rewritten: false,
        }
    }

    /// Begins to read an item of the history. `None`: it is not sent as the client wrote it.
    pub(crate) fn begin_item(&mut self, position: Option<usize>) {
        self.is_rewritten = position.is_none();
        self.items.extend(position);
    }

    /// Adds a system or developer message. Those at the start become instructions; later ones keep their
    /// position as marked text of the user.
    pub(crate) fn add_instructions(&mut self, text: String) {
        match (self.messages.is_empty(), text.trim().is_empty()) {
            (_, true) => {}
            (true, false) => {
                self.instructions.push(text);
                self.sources.instruction_items.append(&mut self.items);
            }
            (false, false) => {
                let text = format!("<system>\n{text}\n</system>");
                self.add_user(vec![Block::Content(Content::text(text))]);
            }
        }
    }

    /// Adds the definitions of tools that an item contains.
    pub(crate) fn add_tools(&mut self, tools: impl IntoIterator<Item = (String, Value)>) {
        self.sources.item_tools.extend(tools);
    }

    /// Sends the current item before the conversation, so that it does not depend on the messages around it.
    pub(crate) fn keep_item(&mut self) {
        self.sources.instruction_items.extend(self.items.pop());
    }

    /// Whether an earlier message has a call with this id.
    pub(crate) fn has_call(&self, id: &str) -> bool {
        self.calls.contains_key(id)
    }

    /// Returns the id of the only call of a tool in the last response that has no result.
    pub(crate) fn open_call_of(&mut self, tool: &str) -> Option<String> {
        let last = self.messages.iter().rposition(|message| message.role == Role::Assistant)?;
        if self.named_calls.as_ref().is_none_or(|(position, _)| *position != last) {
            let mut ids: HashMap<String, Vec<String>> = HashMap::new();
            for (id, call) in self.messages[last].calls() {
                ids.entry(call.name.clone()).or_default().push(id.to_owned());
            }
            self.named_calls = Some((last, ids));
        }
        let (_, named) = self.named_calls.as_ref()?;
        let is_open =
            |id: &&String| self.calls.get(*id).is_some_and(|(position, open)| *position == last && *open > 0);
        let mut open = named.get(tool)?.iter().filter(is_open);
        let id = open.next()?;
        open.next().is_none().then(|| id.clone())
    }

    pub(crate) fn add_user(&mut self, blocks: Vec<Block>) {
        self.add(Message::new(Role::User, blocks));
    }

    /// Adds a complete message of a user. An empty one is a turn too.
    pub(crate) fn add_user_message(&mut self, mut blocks: Vec<Block>) {
        let is_turn = self.messages.last().is_none_or(|last| last.role == Role::Assistant);
        if blocks.is_empty() && is_turn {
            blocks.push(Block::Content(Content::text("")));
        }
        self.add_user(blocks);
    }

    /// Adds the result of a call directly after the message with the call, even if the client sends it later.
    pub(crate) fn add_result(&mut self, path: &str, id: String, result: ToolResult) -> ReadRequest<()> {
        let invalid = |problem: String| InvalidRequest {
            parameter: path.to_owned(),
            problem: Problem::Invalid(problem),
        };
        let position = match self.calls.get_mut(&id) {
            Some((position, open)) if *open > 0 => {
                *open -= 1;
                *position
            }
            Some(_) => return Err(invalid(format!("is a second result of the call `{id}`"))),
            None => {
                return Err(invalid(format!(
                    "is the result of the call `{id}`, which no earlier message has"
                )));
            }
        };
        let block = Block::Result { id, result };
        match self.messages.get_mut(position + 1) {
            Some(next) => {
                next.content.push(block);
                self.assign_items(position + 1);
            }
            None => self.add_user(vec![block]),
        }
        Ok(())
    }

    /// Adds an assistant message, which has the format of a response of this API.
    pub(crate) fn add_assistant(&mut self, path: &str, response: &Value) -> ReadRequest<()> {
        let seed = self.messages.len().to_string();
        let mut response =
            read_response(self.dialect, response, &self.no_tools, &seed).map_err(|error| InvalidRequest {
                parameter: path.to_owned(),
                problem: Problem::Invalid(format!("is not a message of the assistant: {error}")),
            })?;
        // What a provider reports about its message as a whole is not a part of the history.
        response.message.extra.clear();
        self.add(response.message);
        Ok(())
    }

    /// Adds a call that was made for the client, and its result.
    pub(crate) fn add_server_call(&mut self, id: String, call: ToolCall, result: ToolResult) {
        self.add(Message::new(Role::Assistant, vec![Block::Call { id: id.clone(), call }]));
        self.calls.remove(&id);
        self.add_user(vec![Block::Result { id, result }]);
    }

    /// Adds a message; consecutive messages of one role become one.
    fn add(&mut self, message: Message) {
        if message.content.is_empty() {
            return;
        }
        let is_new = self.messages.last().is_none_or(|last| last.role != message.role);
        let position = self.messages.len() - usize::from(!is_new);
        for (id, _) in message.calls() {
            let call = self.calls.entry(id.to_owned()).or_insert((position, 0));
            *call = if call.0 == position { (position, call.1 + 1) } else { (position, 1) };
        }
        match self.messages.last_mut().filter(|_| !is_new) {
            Some(last) => last.content.extend(message.content),
            None => {
                self.messages.push(message);
                self.sources.messages.push(Some(Vec::new()));
            }
        }
        self.assign_items(position);
    }

    /// Assigns the items that belong to no message yet to this one.
    fn assign_items(&mut self, message: usize) {
        let items = std::mem::take(&mut self.items);
        match self.sources.messages.get_mut(message) {
            Some(source) if self.is_rewritten => *source = None,
            Some(Some(known)) => known.extend(items),
            _ => {}
        }
    }

    /// Adds the instructions and the messages to a request. APIs other than the client's reject user messages
    /// without text.
    pub(crate) fn finish(mut self, client: &mut ClientRequest) {
        self.is_rewritten = false;
        self.assign_items(self.messages.len().saturating_sub(1));
        for message in self.messages.iter_mut().filter(|message| message.role == Role::User) {
            if message.content.iter().all(is_blank) {
                message.content = vec![Block::Content(Content::text(EMPTY_MESSAGE))];
            }
        }
        let request = &mut client.request;
        request.instructions = (!self.instructions.is_empty()).then(|| self.instructions.join("\n\n"));
        request.messages = self.messages.into_iter().map(Arc::new).collect();
        client.sources = self.sources;
    }
}

fn is_blank(block: &Block) -> bool {
    matches!(block, Block::Content(Content::Text { text, .. }) if text.trim().is_empty())
}

/// Returns text content, unless the text is empty.
pub(crate) fn text_block(text: String) -> Option<Block> {
    (!text.is_empty()).then(|| Block::Content(Content::text(text)))
}

/// Returns the media in a data URL; `None` if the URL is of another kind.
pub(crate) fn from_data_url(url: &str, file_name: Option<&str>) -> Option<Content> {
    let (media_type, data) = url.strip_prefix("data:")?.split_once(',')?;
    let media_type = media_type.strip_suffix(";base64")?;
    Some(media(media_type, data.to_owned(), file_name))
}

/// Sets the resolution in which OpenAI's models see an image. `auto` is the default.
pub(crate) fn with_detail(mut content: Content, detail: Option<&str>) -> Content {
    if let (Content::Image { extra, .. }, Some(detail)) =
        (&mut content, detail.filter(|name| *name != "auto"))
    {
        extra.insert("_meta".to_owned(), json!({IMAGE_DETAIL: detail}));
    }
    content
}

/// Returns base64 data as an image, audio or a file.
pub(crate) fn media(media_type: &str, data: String, file_name: Option<&str>) -> Content {
    match (media_type.split('/').next(), file_name) {
        (Some("image"), None) => Content::image(data, media_type),
        (Some("audio"), None) => Content::audio(data, media_type),
        _ => Content::attached_file(file_name.unwrap_or("file"), media_type, data),
    }
}

/// Returns a text file.
pub(crate) fn text_file(text: String, file_name: Option<&str>) -> Content {
    Content::attached_text(file_name.unwrap_or("file"), text)
}

/// Returns content that only APIs of this family can read, such as the URL of an image.
pub(crate) fn native(dialect: Dialect, part: Value) -> Content {
    let type_name = part.get("type").cloned().unwrap_or_default();
    Content::Other(json!({"type": type_name, "_meta": {dialect.family().meta_key(): part}}))
}

/// Returns an image that the provider fetches from a URL, in the format of each family that supports it.
pub(crate) fn remote_image(dialect: Dialect, part: Value, url: &str, detail: Option<&str>) -> Content {
    let mut image = json!({"url": url});
    let mut item = json!({"type": "input_image", "image_url": url});
    if let Some(detail) = detail {
        image["detail"] = json!(detail);
        item["detail"] = json!(detail);
    }
    let forms = [
        (Family::OpenAiChat, json!({"type": "image_url", "image_url": image})),
        (Family::OpenAiResponses, item),
        (Family::Anthropic, json!({"type": "image", "source": {"type": "url", "url": url}})),
    ];
    remote(dialect, part, url, forms)
}

/// Returns a document that the provider fetches from a URL, in the format of each family that supports it.
pub(crate) fn remote_document(dialect: Dialect, part: Value, url: &str) -> Content {
    let forms = [
        (Family::OpenAiResponses, json!({"type": "input_file", "file_url": url})),
        (Family::Anthropic, json!({"type": "document", "source": {"type": "url", "url": url}})),
    ];
    remote(dialect, part, url, forms)
}

/// Returns content that several families can read, in the format of each. The client's own family gets the
/// part as the client wrote it.
fn remote<const N: usize>(dialect: Dialect, part: Value, url: &str, forms: [(Family, Value); N]) -> Content {
    let is_web =
        |scheme: &str| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    let mut content = native(dialect, part);
    if let Content::Other(value) = &mut content
        && (is_web("https://") || is_web("http://"))
        && let Some(meta) = value.get_mut("_meta").and_then(Value::as_object_mut)
    {
        for (family, form) in forms {
            meta.entry(family.meta_key()).or_insert(form);
        }
    }
    content
}

/// Reads content that is a string or an array of parts.
pub(crate) fn read_parts(
    fields: &mut RequestFields,
    key: &str,
    read: impl Fn(&str, Value) -> ReadRequest<Option<Content>>,
) -> ReadRequest<Vec<Block>> {
    match fields.take(key) {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(text_block(text).into_iter().collect()),
        Some(Value::Array(parts)) => {
            let path = fields.path(key);
            let mut blocks = Vec::new();
            for (index, part) in parts.into_iter().enumerate() {
                blocks.extend(read(&format!("{path}[{index}]"), part)?.map(Block::Content));
            }
            Ok(blocks)
        }
        Some(other) => Err(super::expected(fields.path(key), "a string or an array", &other)),
    }
}

/// Reads the content of a result.
pub(crate) fn read_result(
    fields: &mut RequestFields,
    key: &str,
    read: impl Fn(&str, Value) -> ReadRequest<Option<Content>>,
) -> ReadRequest<ToolResult> {
    let blocks = read_parts(fields, key, read)?;
    let content = blocks.into_iter().filter_map(|block| match block {
        Block::Content(content) => Some(content),
        _ => None,
    });
    Ok(ToolResult { content: Some(content.collect()), ..ToolResult::default() })
}

/// Returns the texts of blocks, joined.
pub(crate) fn joined_text(blocks: Vec<Block>) -> String {
    let texts = blocks.into_iter().filter_map(|block| match block {
        Block::Content(Content::Text { text, .. }) => Some(text),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
