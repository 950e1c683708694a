//! Messages of a person, and actions on conversations.

use std::time::Duration;

use toolwire_contract::conversations::{Conversation, ConversationId, NewConversation};
use toolwire_contract::{Block, Content, Message, Role};
use toolwire_page::chat;
use toolwire_page::text::shortened;

use super::super::Context;
use super::super::events::Event;
use super::super::failure::PageFailure;
use super::super::reply::Reply;
use super::super::request::{PageRequest, accepts_html};
use super::active::{default_model, store_failure};
use super::input::{self, Input};
use super::{branches, view};

const MAX_TITLE_CHARS: usize = 60;

/// The maximum time that a request to stop a response waits for its end.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts a conversation with a message.
pub(super) async fn begin(context: &Context<'_>, request: &PageRequest) -> Result<Reply, PageFailure> {
    request.require_post()?;
    let input = Input::read(request)?;
    let model = model(context, &input, None);
    let message = message(context, input, &model)?;
    let title = title(&message);
    let new = NewConversation { title, model: Some(model.clone()) };
    let store = &context.page.parts.conversations;
    let conversation = store.begin(new).await.map_err(store_failure)?;
    let started = context.page.chats.start(context, &conversation, &model, Some(message)).await;
    match started {
        Ok(started) => {
            context.page.chats.spawn(context, started, false);
            Ok(redirect(&conversation.id, None))
        }
        Err(failure) => {
            // Otherwise, the list would contain an empty conversation.
            if store.get(&conversation.id).await.is_ok_and(|stored| stored.messages == 0) {
                let _ = store.remove(&conversation.id).await;
            }
            Err(failure)
        }
    }
}

/// Sends a message in a conversation.
pub(super) async fn send(
    context: &Context<'_>,
    request: &PageRequest,
    id: &ConversationId,
) -> Result<Reply, PageFailure> {
    request.require_post()?;
    let conversation = context.page.parts.conversations.get(id).await.map_err(store_failure)?;
    let input = Input::read(request)?;
    let model = model(context, &input, Some(&conversation));
    let message = message(context, input, &model)?;
    let started = context.page.chats.start(context, &conversation, &model, Some(message)).await?;
    let position = started.position;
    let mut events = started.events.clone();
    let models = chat::model_select(&context.model_names(), &model);
    events.push(Event::put("composer-model", models));
    context.page.chats.spawn(context, started, false);
    match accepts_html(&request.head.headers) {
        true => Ok(redirect(id, Some(position))),
        false => Ok(Reply::changes(&events)),
    }
}

/// Sends another version of a message, in a fork.
pub(super) async fn edit(
    context: &Context<'_>,
    request: &PageRequest,
    id: &ConversationId,
) -> Result<Reply, PageFailure> {
    let (conversation, input, position) = chosen_message(context, request, id).await?;
    let store = &context.page.parts.conversations;
    let transcript = store.load_range(id, position - 1, 1).await.map_err(store_failure)?;
    let edited = transcript.entries.first().filter(|entry| input::is_user_input(&entry.message));
    let edited =
        edited.ok_or_else(|| PageFailure::invalid(format!("message {position} cannot be edited")))?;
    let files: Vec<Block> = edited.message.content.iter().filter(|block| is_file(block)).cloned().collect();
    let model = model(context, &input, Some(&conversation));
    let mut message = message(context, input, &model)?;
    message.content.splice(0..0, files);
    let fork = branches::fork(&**store, &conversation, position - 1).await.map_err(store_failure)?;
    if position == 1 {
        store.rename(&fork.id, title(&message)).await.map_err(store_failure)?;
    }
    let started = context.page.chats.start(context, &fork, &model, Some(message)).await?;
    context.page.chats.spawn(context, started, false);
    Ok(redirect(&fork.id, Some(position)))
}

/// Requests the response to a message again: in a fork, if the conversation contains a response already.
pub(super) async fn retry(
    context: &Context<'_>,
    request: &PageRequest,
    id: &ConversationId,
) -> Result<Reply, PageFailure> {
    let (conversation, input, position) = chosen_message(context, request, id).await?;
    let store = &context.page.parts.conversations;
    let position = position.min(conversation.messages);
    let model = model(context, &input, Some(&conversation));
    let entries = store.load(id, 0).await.map_err(store_failure)?.entries;
    let is_unanswered = position == conversation.messages
        && entries
            .last()
            .is_some_and(|last| last.message.role == Role::User || last.message.calls().next().is_some());
    let target = match is_unanswered {
        true => conversation,
        false => {
            let before = entries.iter().take(usize::try_from(position).unwrap_or(usize::MAX));
            let sent = before.rev().find(|entry| input::is_user_input(&entry.message));
            let sent = sent.ok_or_else(|| PageFailure::invalid("there is no message to respond to"))?;
            branches::fork(&**store, &conversation, sent.sequence).await.map_err(store_failure)?
        }
    };
    let started = context.page.chats.start(context, &target, &model, None).await?;
    let position = started.position;
    let events = started.events.clone();
    context.page.chats.spawn(context, started, false);
    match target.id == *id {
        true => Ok(done(request, id, &events)),
        false => Ok(redirect(&target.id, Some(position))),
    }
}

/// Stops the response. The part received so far is kept.
pub(super) async fn stop(
    context: &Context<'_>,
    request: &PageRequest,
    id: &ConversationId,
) -> Result<Reply, PageFailure> {
    request.require_post()?;
    let conversation = context.page.parts.conversations.get(id).await.map_err(store_failure)?;
    let mut events = Vec::new();
    if let Some(active) = context.page.chats.restore(context, &conversation).await? {
        let ended = active.stop();
        // If the store is slow, the end is displayed later, as an event.
        let _ = tokio::time::timeout(STOP_TIMEOUT, ended.cancelled()).await;
        events.extend(active.lock().controls());
    }
    Ok(done(request, id, &events))
}

pub(super) async fn rename(
    context: &Context<'_>,
    request: &PageRequest,
    id: &ConversationId,
) -> Result<Reply, PageFailure> {
    request.require_post()?;
    let store = &context.page.parts.conversations;
    let input = Input::read(request)?;
    let title = input.field("title").map(str::trim).filter(|title| !title.is_empty()).map(|title| {
        // Titles are printed in lists, where control characters could corrupt a terminal.
        let printable = |char: char| if char.is_control() { char::REPLACEMENT_CHARACTER } else { char };
        title.chars().take(200).map(printable).collect::<String>()
    });
    store.rename(id, title.clone()).await.map_err(store_failure)?;
    if let Some(active) = context.page.chats.find(id) {
        active.lock().set_title(title);
    }
    if accepts_html(&request.head.headers) {
        return Ok(redirect(id, None));
    }
    let conversation = store.get(id).await.map_err(store_failure)?;
    let heading = Event::put("chat-head", view::heading(context, &conversation));
    let list = Event::put("chat-list", view::list(context, Some(id), "", None).await?);
    let events = [heading, list];
    context.page.events.publish(&format!("chat.{id}"), &events);
    Ok(Reply::changes(&events))
}

pub(super) async fn delete(
    context: &Context<'_>,
    request: &PageRequest,
    id: &ConversationId,
) -> Result<Reply, PageFailure> {
    request.require_post()?;
    context.page.chats.forget(id).await;
    context.page.parts.conversations.remove(id).await.map_err(store_failure)?;
    let gone = Event::Drop { id: format!("chat-{id}") };
    context.page.events.publish("chat", &[gone]);
    Ok(Reply::redirect("/"))
}

/// Returns the model of a message: the chosen one, else that of the conversation.
fn model(context: &Context<'_>, input: &Input, conversation: Option<&Conversation>) -> String {
    let chosen = input.field("model").map(str::trim).filter(|model| !model.is_empty()).map(str::to_owned);
    let stored = || conversation.and_then(|conversation| conversation.model.clone());
    chosen.or_else(stored).unwrap_or_else(|| default_model(context))
}

/// Creates the message of a form: its files, and its text.
fn message(context: &Context<'_>, input: Input, model: &str) -> Result<Message, PageFailure> {
    let model = context.inner.find_model(&context.principal, model)?.model;
    let text = input.field("text").unwrap_or_default().trim().to_owned();
    let mut files = Vec::new();
    for id in input.all("attachment") {
        let file = context.page.chats.uploads.find(&context.principal, id).ok_or_else(|| {
            PageFailure::invalid("an attached file has expired").with_hint("attach it again")
        })?;
        files.push(file);
    }
    for file in input.files {
        files.push(input::recognize(file)?);
    }
    for file in &files {
        model.check_content(file).map_err(|problem| {
            let name = file.resource_name().unwrap_or_default();
            PageFailure::invalid(format!("`{name}` cannot be sent to `{}`: {problem}", model.name()))
                .with_hint(problem.hint())
        })?;
    }
    if text.is_empty() && files.is_empty() {
        return Err(PageFailure::invalid("the message is empty").with_field("text"));
    }
    let mut content: Vec<Block> = files.into_iter().map(Block::Content).collect();
    if !text.is_empty() {
        content.push(Block::Content(Content::text(text)));
    }
    Ok(Message::new(Role::User, content))
}

fn is_file(block: &Block) -> bool {
    matches!(block, Block::Content(content) if !matches!(content, Content::Text { .. }))
}

/// Returns the title of a conversation that starts with a message.
fn title(message: &Message) -> Option<String> {
    let text = input::text_of(message);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let printable = |char: char| if char.is_control() { char::REPLACEMENT_CHARACTER } else { char };
    Some(shortened(line, MAX_TITLE_CHARS).chars().map(printable).collect())
}

/// Reads a form about a message: its conversation, the form, and its position.
async fn chosen_message(
    context: &Context<'_>,
    request: &PageRequest,
    id: &ConversationId,
) -> Result<(Conversation, Input, u64), PageFailure> {
    request.require_post()?;
    let conversation = context.page.parts.conversations.get(id).await.map_err(store_failure)?;
    let input = Input::read(request)?;
    let position = input.field("position").and_then(|position| position.parse().ok());
    match position.filter(|position| *position > 0) {
        Some(position) => Ok((conversation, input, position)),
        None => Err(PageFailure::invalid("the form does not name a message")),
    }
}

fn redirect(id: &ConversationId, position: Option<u64>) -> Reply {
    let address = chat::address(id.as_str());
    let address = match position {
        Some(position) => address.at(&format!("m{position}")),
        None => address,
    };
    Reply::redirect(address.as_str())
}

/// Responds to an action: with the complete page, or with its changes.
pub(super) fn done(request: &PageRequest, id: &ConversationId, events: &[Event]) -> Reply {
    match accepts_html(&request.head.headers) {
        true => redirect(id, None),
        false => Reply::changes(events),
    }
}
