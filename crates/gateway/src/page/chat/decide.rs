//! Decisions about calls.

use http::StatusCode;
use serde_json::{Map, Value};
use toolwire_agent::approval::Decision;
use toolwire_contract::Tool;
use toolwire_contract::conversations::ConversationId;
use toolwire_page::form::{Filling, Shape};

use super::super::Context;
use super::super::events::Event;
use super::super::failure::PageFailure;
use super::super::reply::Reply;
use super::super::request::PageRequest;
use super::active::store_failure;
use super::arguments::{at_place, fields, violation};
use super::engine::CallDecision;
use super::input::Input;
use super::send::done;

/// Applies a decision. Only the first decision about a call is used.
pub(super) async fn decide(
    context: &Context<'_>,
    request: &PageRequest,
    id: &ConversationId,
) -> Result<Reply, PageFailure> {
    request.require_post()?;
    let input = Input::read(request)?;
    let call = input.field("call").and_then(|call| {
        let (message, position) = call.split_once('-')?;
        Some((message.parse::<u64>().ok()?, position.parse::<usize>().ok()?))
    });
    let key = call.ok_or_else(|| PageFailure::invalid("the form does not name a call"))?;
    let conversation = context.page.parts.conversations.get(id).await.map_err(store_failure)?;
    let active = context.page.chats.restore(context, &conversation).await?.ok_or_else(already)?;
    active.check_user(context)?;
    // The lock is held until the decision is noted, so that a second one finds it.
    let mut live = active.lock();
    let (call_id, name, arguments) = live.waiting_call(key).ok_or_else(already)?;
    let (call_id, name) = (call_id.to_owned(), name.to_owned());
    let tools = context.tools.tools();
    let tool = tools.iter().find(|tool| tool.name == name);
    if let Some(action) = fields(&input).action() {
        let schema = tool.and_then(|tool| tool.input_schema.as_ref()).ok_or_else(already)?;
        let shape = Shape::of(schema);
        let mut filling = Filling::read(&shape, &fields(&input));
        filling.apply(&shape, &action);
        let form = live.decision_form(key, &filling).ok_or_else(already)?;
        let changed = Event::put(format!("call-{}-{}-question", key.0, key.1), form);
        return Ok(done(request, id, &[changed]));
    }
    let because =
        input.field("because").map(str::trim).filter(|reason| !reason.is_empty()).map(str::to_owned);
    let decision = match input.field("decision") {
        Some("no") => Decision::No { because },
        Some("always" | "once") => {
            let chosen = chosen_arguments(&input, tool, arguments)?;
            let is_always = input.field("decision") == Some("always");
            match chosen {
                Some(arguments) if !is_always => Decision::OnceWith { arguments },
                Some(_) => {
                    return Err(PageFailure::invalid("changed arguments can be used for one call only")
                        .with_hint("use `Run with your changes`, or undo the changes"));
                }
                None if is_always => Decision::Always,
                None => Decision::Once,
            }
        }
        _ => return Err(PageFailure::invalid("the decision is not `once`, `always` or `no`")),
    };
    let always = (decision == Decision::Always).then_some(name.as_str());
    if !active.decide(CallDecision { call: call_id, decision: decision.clone() }) {
        return Err(already());
    }
    let events = live.decided(key, always);
    drop(live);
    Ok(done(request, id, &events))
}

fn already() -> PageFailure {
    PageFailure::new(StatusCode::CONFLICT, "Already decided", "a decision about this call was made already")
        .with_hint("reload the page to see the decision")
}

/// Returns the arguments of the form, if they are not those of the model.
fn chosen_arguments(
    input: &Input,
    tool: Option<&Tool>,
    arguments: &Map<String, Value>,
) -> Result<Option<Map<String, Value>>, PageFailure> {
    let schema = tool.and_then(|tool| tool.input_schema.as_ref());
    let value = match (schema, input.field("arguments")) {
        (_, Some(text)) => serde_json::from_str(text).map_err(|error| {
            PageFailure::invalid(format!("the arguments are not valid JSON: {error}")).with_field("arguments")
        })?,
        // A form without fields of arguments is a decision about the arguments of the model.
        (Some(schema), None) if has_fields(input) => {
            let shape = Shape::of(schema);
            Filling::read(&shape, &fields(input)).value(&shape).map_err(|problems| {
                let problem = problems.into_iter().next();
                at_place(problem.map(|problem| (problem.pointer, problem.message)).unwrap_or_default())
            })?
        }
        _ => return Ok(None),
    };
    if value.as_object() == Some(arguments) {
        return Ok(None);
    }
    let violation = schema.and_then(|schema| violation(schema, &value));
    let Value::Object(chosen) = value else {
        return Err(PageFailure::invalid("the arguments must be a JSON object").with_field("arguments"));
    };
    violation.map_or(Ok(Some(chosen)), |violation| Err(at_place(violation)))
}

/// Whether a form has fields of arguments. Their names are a letter and a JSON pointer.
fn has_fields(input: &Input) -> bool {
    input.fields().iter().any(|(name, _)| {
        let mut letters = name.chars();
        let is_letter = letters.next().is_some_and(|letter| "svjno".contains(letter));
        is_letter && letters.next().is_none_or(|second| second == '/')
    })
}
