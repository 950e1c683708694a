//! Calls that a person makes.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, HeaderValue};
use serde_json::Value;
use tokio::time::Instant;
use toolwire_agent::approval::Verdict;
use toolwire_contract::toolbox::CallOptions;
use toolwire_contract::{Content, Tool};
use toolwire_page::form::{Fields, Filling, Problem, Shape};
use toolwire_page::result::safe_media_type;
use toolwire_page::tools::{self, RecordedCall};
use toolwire_validation::Validator;

use super::super::super::Context;
use super::super::super::events::Event;
use super::super::super::failure::PageFailure;
use super::super::super::reply::Reply;
use super::super::super::request::{PageRequest, accepts_html};
use super::{Arguments, DEFAULT_TIMEOUT, MAX_TIMEOUT, denied, page, shape, with_open};
use crate::ids::random_id;

/// Prevents scripts in a media file from running when a browser opens it as a page.
const SANDBOX: &str = "sandbox; default-src 'none'";

/// Responds to the form of a tool: checks the arguments, changes a list, or calls the tool.
pub(super) async fn call(
    context: &Context<'_>,
    request: &PageRequest,
    tool: &Tool,
) -> Result<Reply, PageFailure> {
    request.require_post()?;
    let fields = request.fields()?;
    let field = |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str());
    let timeout = field("timeout").and_then(|text| text.trim().parse().ok());
    let timeout = timeout.unwrap_or(DEFAULT_TIMEOUT).clamp(1, MAX_TIMEOUT);
    let is_call = field("act") == Some("call");
    let form = Fields::new(fields.iter().cloned());
    let shape = shape(tool);
    let mut filling = Filling::read(&shape, &form);
    let action = form.action();
    if let Some(action) = &action {
        filling.apply(&shape, action);
    }
    let checked = check(tool, &shape, &filling);
    let problems = match &checked {
        Ok(_) => Vec::new(),
        Err(problems) => problems.clone(),
    };
    // Adding or removing an item does not check the arguments, because new items are still empty.
    let problems = action.is_none().then_some(problems);
    let arguments = Arguments { shape, filling, problems, timeout };
    if let (true, Ok(value)) = (is_call, checked) {
        if let Some(reason) = denied(context, tool) {
            return Err(PageFailure::forbidden(
                &reason,
                "the policy is `toolwire.agent.approvals` in the configuration",
            ));
        }
        let call = make(context, tool, value, Duration::from_secs(timeout)).await;
        context.page.calls.add(&context.principal, &tool.name, call);
    }
    if accepts_html(&request.head.headers) {
        return Ok(page(context, request, tool, &arguments, false));
    }
    Ok(with_open(context, tool, &arguments, false, |open| {
        let form = Event::put("tool-form", tools::form(open));
        let calls = Event::put("tool-calls", tools::calls(&tool.name, open.calls));
        Reply::changes(&[form, calls])
    }))
}

/// Returns the arguments, or what is wrong with them.
fn check(tool: &Tool, shape: &Shape, filling: &Filling) -> Result<Value, Vec<Problem>> {
    let value = filling.value(shape)?;
    let root = |message: String| vec![Problem { pointer: String::new(), message }];
    let schema = tool.input_schema.clone().unwrap_or(Value::Bool(true));
    let Ok(validator) = Validator::new(schema) else { return Ok(value) };
    let violations = validator.violations(&value).map_err(|error| root(error.to_string()))?;
    if violations.is_empty() {
        return Ok(value);
    }
    let problem = |violation: &toolwire_validation::Violation| Problem {
        pointer: violation.pointer.clone(),
        message: violation.message(),
    };
    Err(violations.iter().map(problem).collect())
}

async fn make(context: &Context<'_>, tool: &Tool, arguments: Value, timeout: Duration) -> RecordedCall {
    let policy = context.inner.settings.agent.approvals.clone();
    let name = tool.name.clone();
    // The tool may have changed since the form was drawn.
    let permission = move |tool: &Tool| match policy.verdict(&name, Some(tool)) {
        Verdict::Deny(reason) => Err(reason),
        Verdict::Allow | Verdict::Ask(_) => Ok(()),
    };
    let mut options = CallOptions::default();
    options.timeout = Some(timeout);
    options.permission = Some(Arc::new(permission));
    let (at, start) = (SystemTime::now(), Instant::now());
    let id = random_id("").unwrap_or_default();
    let tools = context.attributed_tools(&format!("page_{id}"));
    let outcome = tools.call(&tool.name, &arguments, options).await;
    RecordedCall {
        id,
        at,
        elapsed: start.elapsed(),
        arguments,
        outcome: outcome.map_err(|error| (error.to_string(), error.hint())),
    }
}

fn find(context: &Context<'_>, tool: &str, id: &str) -> Result<RecordedCall, PageFailure> {
    context.page.calls.find(&context.principal, tool, id).ok_or_else(|| {
        PageFailure::not_found("this call is no longer recorded").with_hint("call the tool again")
    })
}

/// Returns the result of a call as JSON.
pub(super) fn result(context: &Context<'_>, tool: &str, id: &str) -> Result<Reply, PageFailure> {
    let call = find(context, tool, id)?;
    let result = call.outcome.map_err(|(message, _)| PageFailure::not_found(message))?;
    let attachment = HeaderValue::from_static("attachment; filename=\"result.json\"");
    Ok(Reply::json(Value::from(result)).with_header(CONTENT_DISPOSITION, attachment))
}

/// Returns an image or audio of a result.
pub(super) fn media(
    context: &Context<'_>,
    tool: &str,
    id: &str,
    position: &str,
) -> Result<Reply, PageFailure> {
    let call = find(context, tool, id)?;
    let unknown = || PageFailure::not_found("the result has no such image or audio");
    let result = call.outcome.map_err(|_| unknown())?;
    let block = position.parse().ok().and_then(|position: usize| result.blocks().get(position));
    let (Some(Content::Image { data, mime_type, .. }) | Some(Content::Audio { data, mime_type, .. })) = block
    else {
        return Err(unknown());
    };
    let media_type = safe_media_type(mime_type).ok_or_else(unknown)?;
    let bytes = BASE64_STANDARD.decode(data).map_err(|_| {
        PageFailure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid data", "the server's data is not base64")
    })?;
    Ok(Reply::data(media_type, bytes)
        .with_header(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX))
        .with_header(CACHE_CONTROL, HeaderValue::from_static("private, max-age=3600, immutable")))
}
