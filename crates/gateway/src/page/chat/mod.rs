//! The chat view: conversations of the store, and responses that go on without a browser.
//!
//! | module | content |
//! |---|---|
//! | `active` | the conversations that this process works on |
//! | `engine` | drives one run: events, decisions, stop |
//! | `live`, `writing`, `calls` | the content of a response so far, and its events |
//! | `saved` | runs that wait for decisions |
//! | `view` | the pages |
//! | `send`, `decide`, `answer` | messages and decisions of a person, and replies to questions of servers |
//! | `parts` | texts, results and media of messages |
//! | `branches` | versions of a message |
//! | `input`, `arguments`, `uploads` | forms and files |

mod active;
mod answer;
mod arguments;
mod branches;
mod calls;
mod decide;
mod engine;
mod input;
mod live;
mod parts;
mod saved;
mod send;
#[cfg(test)]
mod tests;
mod uploads;
mod view;
mod writing;

use toolwire_contract::conversations::ConversationId;

use super::Context;
use super::failure::PageFailure;
use super::reply::Reply;
use super::request::PageRequest;
pub(super) use active::Chats;
pub use saved::RunStorage;

/// Responds to a request of the chat view.
pub(super) async fn respond(context: &Context<'_>, request: &PageRequest) -> Result<Reply, PageFailure> {
    match (request.path().as_slice(), context.require_conversations()) {
        (_, Ok(())) => {}
        // `/` is where every visitor starts. Those who may not see conversations are sent to the tools.
        ([], Err(_)) => return Ok(Reply::redirect("/tools")),
        (_, Err(failure)) => return Err(failure),
    }
    match request.path().as_slice() {
        [] => view::start(context, request).await,
        ["chat", id] => parts::conversation(context, request, &conversation_id(id)?).await,
        ["-", "pulse"] => Ok(pulse(context, request)),
        ["-", "attachments"] => uploads::upload(context, request),
        ["-", "media", id, position, block] => {
            parts::media(context, &conversation_id(id)?, position, block).await
        }
        ["-", "chat", "send"] => send::begin(context, request).await,
        ["-", "chat", id, rest @ ..] => {
            let id = conversation_id(id)?;
            match rest {
                ["window"] => view::window(context, request, &id).await,
                ["messages", position, "text"] => parts::text(context, &id, position).await,
                ["calls", call, part] => parts::call(context, &id, call, part).await,
                ["send"] => send::send(context, request, &id).await,
                ["edit"] => send::edit(context, request, &id).await,
                ["retry"] => send::retry(context, request, &id).await,
                ["stop"] => send::stop(context, request, &id).await,
                ["rename"] => send::rename(context, request, &id).await,
                ["delete"] => send::delete(context, request, &id).await,
                ["decide"] => decide::decide(context, request, &id).await,
                ["answer"] => answer::answer(context, request, &id).await,
                _ => Err(unknown(request)),
            }
        }
        _ => Err(unknown(request)),
    }
}

/// Returns the titles of conversations, for pages in the background: they have no stream of events.
fn pulse(context: &Context<'_>, request: &PageRequest) -> Reply {
    let topics = request.query("topics").unwrap_or_default();
    let ids = topics.split([' ', ',']).filter_map(|topic| topic.strip_prefix("chat.")?.parse().ok());
    let titles = ids.filter_map(|id| Some(context.page.chats.find(&id)?.lock().title_event()));
    Reply::changes(&titles.collect::<Vec<_>>())
}

fn unknown(request: &PageRequest) -> PageFailure {
    PageFailure::not_found(format!("there is no page `{}`", request.head.uri.path()))
}

fn conversation_id(text: &str) -> Result<ConversationId, PageFailure> {
    text.parse().map_err(|_| {
        PageFailure::not_found(format!("`{text}` is not the id of a chat"))
            .with_hint("choose one from the list")
    })
}
