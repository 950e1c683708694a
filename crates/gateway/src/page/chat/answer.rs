//! Questions of servers, and the replies of a person.

use std::sync::{Arc, Weak};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::StatusCode;
use serde_json::Value;
use toolwire_agent::elicitation::{ElicitKind, ElicitReply, ElicitationHandler, ServerQuestion};
use toolwire_contract::conversations::ConversationId;
use toolwire_page::chat;
use toolwire_page::form::{Fields, Filling, Shape};

use super::super::Context;
use super::super::events::Event;
use super::super::failure::PageFailure;
use super::super::reply::Reply;
use super::super::request::PageRequest;
use super::active::{ActiveChat, ActiveChats, store_failure};
use super::arguments::{at_place, fields, violation};
use super::input::Input;
use super::send::done;

/// Displays the questions of servers in the chats whose calls caused them.
pub(super) struct PageQuestions(pub(super) Weak<ActiveChats>);

impl ElicitationHandler for PageQuestions {
    fn elicit(&self, question: ServerQuestion) -> BoxFuture<'static, ElicitReply> {
        let chats = self.0.upgrade();
        let active = question.conversation.as_ref().and_then(|id| chats?.find(id));
        async move {
            let Some(active) = active else { return ElicitReply::Decline };
            let asked = active.lock().ask(question);
            let Some((number, answer)) = asked else { return ElicitReply::Decline };
            let _withdrawn = WithdrawnOnDrop { active, number };
            answer.await.unwrap_or(ElicitReply::Cancel)
        }
        .boxed()
    }
}

/// Removes a question whose reply is not needed any more: the call has ended.
struct WithdrawnOnDrop {
    active: Arc<ActiveChat>,
    number: u64,
}

impl Drop for WithdrawnOnDrop {
    fn drop(&mut self) {
        self.active.lock().remove_question(self.number);
    }
}

/// Applies the reply of a person. Only the first reply to a question is used.
pub(super) async fn answer(
    context: &Context<'_>,
    request: &PageRequest,
    id: &ConversationId,
) -> Result<Reply, PageFailure> {
    request.require_post()?;
    let input = Input::read(request)?;
    let number = input.field("question").and_then(|number| number.parse::<u64>().ok());
    let number = number.ok_or_else(|| PageFailure::invalid("the form does not name a question"))?;
    // The conversation may have been removed.
    context.page.parts.conversations.get(id).await.map_err(store_failure)?;
    let active = context.page.chats.find(id).ok_or_else(no_longer_asked)?;
    active.check_user(context)?;
    let mut live = active.lock();
    let question = live.question(number).ok_or_else(no_longer_asked)?;
    let fields = fields(&input);
    if let (Some(action), ElicitKind::Form { schema }) = (fields.action(), &question.request.kind) {
        let shape = Shape::of(schema);
        let mut filling = Filling::read(&shape, &fields);
        filling.apply(&shape, &action);
        let shown = question.shown(id.as_str()).ok_or_else(no_longer_asked)?;
        let form = chat::server_question(&shown, Some(&filling));
        return Ok(done(request, id, &[Event::put(chat::question_id(number), form)]));
    }
    let reply = match (input.field("reply"), &question.request.kind) {
        (Some("accept"), ElicitKind::Form { schema }) => ElicitReply::Accept(Some(values(&fields, schema)?)),
        (Some("accept"), _) => ElicitReply::Accept(None),
        (Some("decline"), _) => ElicitReply::Decline,
        (Some("cancel"), _) => ElicitReply::Cancel,
        _ => return Err(PageFailure::invalid("the reply is not `accept`, `decline` or `cancel`")),
    };
    let (question, events) = live.remove_question(number).ok_or_else(no_longer_asked)?;
    drop(live);
    question.answer(reply);
    Ok(done(request, id, &events))
}

/// Returns the values of a form.
fn values(fields: &Fields, schema: &Value) -> Result<Value, PageFailure> {
    let shape = Shape::of(schema);
    let values = Filling::read(&shape, fields).value(&shape).map_err(|problems| {
        let problem = problems.into_iter().next();
        at_place(problem.map(|problem| (problem.pointer, problem.message)).unwrap_or_default())
    })?;
    match violation(schema, &values) {
        Some(violation) => Err(at_place(violation)),
        None => Ok(values),
    }
}

fn no_longer_asked() -> PageFailure {
    PageFailure::new(StatusCode::CONFLICT, "No longer asked", "the server no longer waits for this reply")
        .with_hint("the question has a reply, or its call has ended; reload the page to see the result")
}
