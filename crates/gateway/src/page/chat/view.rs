//! The pages: an open conversation, the start, the list.

mod conversation_list;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Map;
use toolwire_contract::conversations::{Conversation, ConversationId, Conversations, Entry, Timestamp};
use toolwire_contract::text::counted;
use toolwire_contract::{Block, Message, Role, ToolCall, ToolResult};
use toolwire_page::Markup;
use toolwire_page::chat::{self, Branches, Call, CallState, Composer, Window};
use toolwire_page::shell::{Shell, View};

use super::super::Context;
use super::super::events::Event;
use super::super::failure::PageFailure;
use super::super::reply::Reply;
use super::super::request::{PageRequest, accepts_html};
use super::super::views::small_matrix;
use super::active::{ActiveChat, default_model, store_failure};
use super::calls::ended;
use super::live::LiveChat;
use super::{branches, input, uploads};
pub(super) use conversation_list::list;

/// The maximum number of messages after a message that are searched for the results of its calls.
const MAX_RESULTS: usize = 200;

/// A section with fewer messages is drawn together with the one before it.
const MIN_DRAWN: u64 = 12;

/// Returns the page without a conversation, or the results of a search.
pub(super) async fn start(context: &Context<'_>, request: &PageRequest) -> Result<Reply, PageFailure> {
    let query = request.query("q").unwrap_or_default();
    let open = request.query("in").and_then(|id| id.parse::<ConversationId>().ok());
    let list = list(context, open.as_ref(), &query, request.query("after").as_deref()).await?;
    if !accepts_html(&request.head.headers) {
        return Ok(Reply::changes(&[Event::put("chat-list", list)]));
    }
    let model = default_model(context);
    let models = context.model_names();
    let tools: Vec<String> = context.tools.tools().iter().map(|tool| tool.name.clone()).collect();
    let composer = composer(context, None, &models, &model, false, None);
    let main =
        chat::new_conversation(&chat::start(&tools, model == "demo", small_matrix(context)), &composer);
    let event = context.page.events.last_id();
    Ok(page(
        context,
        "New chat",
        &["chat".to_owned()],
        &event,
        chat::list(&list, &query, open.as_ref().map(ConversationId::as_str)),
        main,
    ))
}

/// Returns the page of a conversation.
pub(super) async fn open(
    context: &Context<'_>,
    request: &PageRequest,
    id: &ConversationId,
) -> Result<Reply, PageFailure> {
    let store = &*context.page.parts.conversations;
    // Events after this one are applied to the page, so the id is read before the data.
    let event = context.page.events.last_id();
    let conversation = store.get(id).await.map_err(store_failure)?;
    let active = context.page.chats.restore(context, &conversation).await?;
    let list = list(context, Some(id), "", None).await?;
    let drawn = draw(context, &conversation, active.as_deref()).await?;
    let edited = match request.query("edit").and_then(|position| position.parse::<u64>().ok()) {
        Some(position) if position > 0 => {
            let transcript = store.load_range(id, position - 1, 1).await.map_err(store_failure)?;
            let entry = transcript.entries.into_iter().find(|entry| input::is_user_input(&entry.message));
            entry.map(|entry| (position, input::text_of(&entry.message)))
        }
        _ => None,
    };
    let models = context.model_names();
    let model = conversation.model.clone().unwrap_or_else(|| default_model(context));
    let edited = edited.as_ref().map(|(position, text)| (*position, text.as_str()));
    let composer = composer(context, Some(id.as_str()), &models, &model, drawn.is_running, edited);
    let main = chat::conversation(&chat::Conversation {
        id: id.as_str(),
        title: conversation.title.as_deref(),
        facts: &facts(context, &conversation),
        windows: &drawn.windows,
        ending: drawn.ending,
        composer,
        is_running: drawn.is_running,
    });
    let waiting = active.as_ref().and_then(|active| active.lock().waiting_name());
    let stored = || conversation.title.clone().unwrap_or_else(|| "untitled".to_owned());
    let title = waiting.map_or_else(stored, |name| format!("? {name}"));
    let topics = ["chat".to_owned(), format!("chat.{id}")];
    let list = chat::list(&list, "", Some(id.as_str()));
    Ok(page(context, &title, &topics, &event, list, main))
}

/// Returns the messages of one section.
pub(super) async fn window(
    context: &Context<'_>,
    request: &PageRequest,
    id: &ConversationId,
) -> Result<Reply, PageFailure> {
    let store = &*context.page.parts.conversations;
    let from: u64 = request.query("from").and_then(|from| from.parse().ok()).unwrap_or(1).max(1);
    let conversation = store.get(id).await.map_err(store_failure)?;
    let found = branches::find(store, &conversation).await.map_err(store_failure)?;
    let last = from.saturating_add(chat::WINDOW - 1).min(conversation.messages);
    let entries = entries(store, id, from, last).await?;
    let active = context.page.chats.find(id);
    let html = messages(context, &conversation, active.as_deref(), &entries, from..last + 1, &found);
    Ok(Reply::fragment(html))
}

/// The parts of a conversation that are drawn at once.
struct Drawn {
    windows: Vec<Window>,
    ending: Markup,
    is_running: bool,
}

async fn draw(
    context: &Context<'_>,
    conversation: &Conversation,
    active: Option<&ActiveChat>,
) -> Result<Drawn, PageFailure> {
    let store = &*context.page.parts.conversations;
    let branches = branches::find(store, conversation).await.map_err(store_failure)?;
    let mut conversation = conversation.clone();
    // A response may add messages while they are loaded; what comes later arrives as events.
    let (first, loaded) = loop {
        let first_drawn = first_drawn(conversation.messages);
        let loaded = entries(store, &conversation.id, first_drawn, conversation.messages).await?;
        let position = active.map_or(0, |active| active.lock().position());
        if position <= conversation.messages {
            break (first_drawn, loaded);
        }
        conversation = store.get(&conversation.id).await.map_err(store_failure)?;
    };
    let last = conversation.messages;
    let live_position = active.and_then(|active| active.lock().live_message().map(|_| last + 1));
    let end = live_position.unwrap_or(last).max(1);
    let mut windows = Vec::new();
    let mut from = 1;
    while from <= end {
        let to = (from + chat::WINDOW - 1).min(end.max(from));
        let messages = (to >= first)
            .then(|| messages(context, &conversation, active, &loaded, from..to.min(last) + 1, &branches));
        windows.push(Window { from, to, messages });
        from += chat::WINDOW;
    }
    // The message that is being written follows the stored ones.
    if let (Some(active), Some(window)) = (active, windows.last_mut()) {
        let live = active.lock();
        if let Some(html) = live.live_message().filter(|_| live.position() == last) {
            window.messages = Some(chat::joined(&[window.messages.take().unwrap_or_default(), html]));
        }
    }
    let is_running = active.is_some_and(|active| active.lock().is_busy());
    let ending = ending(&conversation, active, loaded.last());
    Ok(Drawn { windows, ending, is_running })
}

/// Returns the position of the first message that is drawn at once.
fn first_drawn(messages: u64) -> u64 {
    let in_last = messages.saturating_sub(1) % chat::WINDOW + 1;
    let start = messages.saturating_sub(in_last) + 1;
    if in_last < MIN_DRAWN { start.saturating_sub(chat::WINDOW).max(1) } else { start }
}

/// Loads messages, and those after them that contain the results of the last one's calls.
async fn entries(
    store: &dyn Conversations,
    id: &ConversationId,
    first: u64,
    last: u64,
) -> Result<Vec<Entry>, PageFailure> {
    if last < first {
        return Ok(Vec::new());
    }
    let count = usize::try_from(last + 1 - first).unwrap_or(usize::MAX);
    let limit = count.saturating_add(MAX_RESULTS);
    Ok(store.load_range(id, first - 1, limit).await.map_err(store_failure)?.entries)
}

/// Draws the messages at these positions.
fn messages(
    context: &Context<'_>,
    conversation: &Conversation,
    active: Option<&ActiveChat>,
    entries: &[Entry],
    positions: Range<u64>,
    branches: &BTreeMap<u64, Branches>,
) -> Markup {
    let live = active.map(ActiveChat::lock);
    let drawn: Vec<Markup> = entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| positions.contains(&entry.sequence))
        .filter(|(_, entry)| entry.message.role == Role::Assistant || has_content(&entry.message))
        .map(|(index, entry)| {
            let following = &entries[index + 1..];
            let cards = cards(context, conversation, live.as_deref(), entry, following);
            message(conversation, entry, &cards, branches.get(&entry.sequence))
        })
        .collect();
    chat::joined(&drawn)
}

fn has_content(message: &Message) -> bool {
    message.content.iter().any(|block| matches!(block, Block::Content(_)))
}

/// Draws a stored message.
fn message(
    conversation: &Conversation,
    entry: &Entry,
    cards: &[Markup],
    branches: Option<&Branches>,
) -> Markup {
    chat::message(&chat::Message {
        conversation: conversation.id.as_str(),
        position: entry.sequence,
        message: &entry.message,
        time: Some(time(entry.time)),
        model: entry.model.as_deref(),
        calls: cards,
        branches,
        is_summary: toolwire_agent::run::is_summary(&entry.message),
    })
}

/// Draws a message that was just stored.
pub(super) fn new_message(conversation: &Conversation, position: u64, message: Message) -> Markup {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let time = Timestamp(u64::try_from(since_epoch.as_millis()).unwrap_or_default());
    let entry = Entry { sequence: position, time, model: None, usage: None, message: Arc::new(message) };
    self::message(conversation, &entry, &[], None)
}

/// Draws the calls of a message, with the results in the messages after it.
fn cards(
    context: &Context<'_>,
    conversation: &Conversation,
    live: Option<&LiveChat>,
    entry: &Entry,
    following: &[Entry],
) -> Vec<Markup> {
    let calls: Vec<(&str, &ToolCall)> = entry.message.calls().collect();
    if calls.is_empty() {
        return Vec::new();
    }
    let results = results(&calls, following);
    let card = |(position, ((_, call), result)): (usize, (&(&str, &ToolCall), Option<&ToolResult>))| {
        if let Some(card) = live.and_then(|live| live.card((entry.sequence, position))) {
            return card;
        }
        let state = match result {
            Some(result) => ended(result, None, None),
            None => CallState::Unknown { result: None },
        };
        let server = context.tools.server_of(&call.name).map(|server| server.name);
        let none = Map::new();
        chat::call_card(&Call {
            conversation: conversation.id.as_str(),
            message: entry.sequence,
            position,
            name: &call.name,
            server: server.as_deref(),
            arguments: call.arguments.as_ref().unwrap_or(&none),
            state,
        })
    };
    calls.iter().zip(results).enumerate().map(card).collect()
}

/// Returns the result of each call. They are in the messages up to the next response.
pub(super) fn results<'e>(
    calls: &[(&str, &ToolCall)],
    following: &'e [Entry],
) -> Vec<Option<&'e ToolResult>> {
    let until_response = following.iter().take_while(|entry| entry.message.role == Role::User);
    let results = until_response.flat_map(|entry| entry.message.results());
    toolwire_contract::pair_results(calls.iter().map(|(id, _)| *id), results)
}

/// Returns the line after the last message.
fn ending(conversation: &Conversation, active: Option<&ActiveChat>, last: Option<&Entry>) -> Markup {
    let retry = conversation.messages;
    match active.map(ActiveChat::lock).filter(|live| live.is_current(retry)) {
        Some(live) => live.ending(),
        None => {
            // A message without a response, or calls without results.
            let is_open = last.is_some_and(|entry| {
                entry.message.role == Role::User || entry.message.calls().next().is_some()
            });
            let interrupted = is_open.then_some(chat::Ending::Interrupted);
            chat::ending(conversation.id.as_str(), is_open.then_some(retry), interrupted.as_ref())
        }
    }
}

fn composer(
    context: &Context<'_>,
    conversation: Option<&str>,
    models: &[String],
    model: &str,
    is_running: bool,
    edited: Option<(u64, &str)>,
) -> Markup {
    // The form around a file has some bytes too.
    let body_bytes = context.inner.settings.limits.body_bytes.saturating_sub(4_096);
    let max_bytes = uploads::MAX_FILE_BYTES.min(body_bytes);
    chat::composer(&Composer { conversation, models, model, is_running, edited, max_bytes })
}

/// Returns what a conversation has and has used: `2 tools · 14 messages · 565 tokens`.
fn facts(context: &Context<'_>, conversation: &Conversation) -> String {
    let tools = counted(context.tools.tools().len(), "tool");
    let messages = counted(conversation.messages, "message");
    let tokens = conversation.usage.input_tokens.saturating_add(conversation.usage.output_tokens);
    match tokens {
        0 => format!("{tools} · {messages}"),
        tokens => format!("{tools} · {messages} · {tokens} tokens used"),
    }
}

/// Returns the heading of a conversation.
pub(super) fn heading(context: &Context<'_>, conversation: &Conversation) -> Markup {
    let facts = facts(context, conversation);
    chat::heading(conversation.id.as_str(), conversation.title.as_deref(), &facts)
}

/// Returns a page of this view. Events after `event` are applied to it.
fn page(
    context: &Context<'_>,
    title: &str,
    topics: &[String],
    event: &str,
    list: Markup,
    main: Markup,
) -> Reply {
    let shell = Shell {
        visitor: &context.visitor,
        view: View::Chat,
        title,
        topics,
        event,
        has_item: true,
        list: Some(list),
        main,
    };
    Reply::html(shell.document())
}

/// Converts a time of the store.
fn time(time: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(time.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_section_is_drawn_and_a_short_one_with_the_section_before_it() {
        let drawn = |messages| first_drawn(messages);
        assert_eq!([0, 1, 50].map(drawn), [1, 1, 1]);
        assert_eq!([51, 61, 62, 100].map(drawn), [1, 1, 51, 51]);
        assert_eq!(drawn(10_000), 9_951);
    }
}
