//! The list of models, and the estimate of a request's tokens.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};
use toolwire_agent::run::Run;
use toolwire_contract::text::estimate_tokens;
use toolwire_dialect::Family;
use toolwire_dialect::client::runs_at_provider;

use crate::gateway::Inner;
use crate::hosted::{self, NamedServers};
use crate::large_bodies::is_large;
use crate::prepare::taken_names;
use crate::principal::Principal;
use crate::request_body::RequestBody;
use crate::request_options::RequestOptions;
use crate::response::{Failure, HttpResponse, json as json_response};
use crate::routes::Route;
use crate::state::Purpose;

/// The creation time of all models. SDKs require one, and the real one is unknown.
const CREATED: (u64, &str) = (1_700_000_000, "2023-11-14T22:13:20Z");

impl Inner {
    /// Responds to requests for the list of models or for one model.
    pub(crate) fn model_list(
        &self,
        principal: &Principal,
        route: &Route,
        parts: &Parts,
    ) -> Result<Option<HttpResponse>, Failure> {
        let body = match route {
            Route::Models => list(&self.model_names(principal), parts.uri.query().unwrap_or_default()),
            Route::Model(name) => {
                let served = self.find_model(principal, name)?;
                entry(name, served.model.limits().context_tokens)
            }
            _ => return Ok(None),
        };
        Ok(Some(json_response(StatusCode::OK, &body)))
    }

    /// Estimates the tokens of a request, with the tools that the gateway adds. Clients ask often, so nothing
    /// is sent to the provider, and servers that the request names by URL are not connected: their tools do
    /// not count.
    pub(crate) async fn count_tokens(
        self: &Arc<Inner>,
        family: Family,
        principal: Principal,
        headers: HeaderMap,
        body: RequestBody,
    ) -> Result<HttpResponse, Failure> {
        let (body, _) = match family {
            Family::OpenAiResponses => self.continue_conversation(&principal, body, Purpose::Read).await?,
            _ => (body, None),
        };
        if !is_large(body.len()) {
            return self.count(family, &principal, &headers, &body);
        }
        let inner = self.clone();
        self.large_bodies.run(move || inner.count(family, &principal, &headers, &body)).await?
    }

    fn count(
        &self,
        family: Family,
        principal: &Principal,
        headers: &HeaderMap,
        body: &RequestBody,
    ) -> Result<HttpResponse, Failure> {
        let mut body = body.to_object()?;
        let mut options = RequestOptions::take(headers, &mut body)?;
        let provider_tools = take_provider_tools(family, &mut body);
        match family {
            // `read_request` requires `max_tokens`, but requests to count tokens do not have it.
            Family::Anthropic => {
                body.entry("max_tokens").or_insert(json!(1));
            }
            _ => self.items.resolve(principal, &mut body)?,
        }
        let client = self.read_within_limits(family, body)?;
        let served = self.find_model(principal, &client.model)?;
        options.selection.taken = taken_names(&client);
        let filters = self.server_filters(principal, &client.hosted_servers)?;
        let is_incomplete = filters.iter().any(|filter| filter.is_url);
        let named = NamedServers { is_incomplete, ..NamedServers::default() };
        self.check_selection(principal, &options, &client.hosted_servers, &named)?;
        options.selection.hosted.clone_from(&filters);
        let agent = self.agent(principal, &served, options.selection)?;
        let tools = agent.tools();
        let request = &client.request;
        let mut settings = self.settings.agent.clone();
        settings.client_tools = request.tools.clone();
        settings.search.deferred = hosted::deferred_tools(&client.hosted_servers, &filters, &**tools);
        // With a search, only a part of the tools is sent.
        let mut run =
            Run::resume(settings, request.messages.iter().cloned(), tools.tools(), agent.model().limits());
        let servers = hosted::descriptions(&client.hosted_servers);
        let instructions =
            [&self.settings.agent.instructions, &request.instructions, &servers].into_iter().flatten();
        let mut tokens: u64 = instructions.map(|text| estimate_tokens(text)).sum();
        tokens += provider_tools.iter().map(|tool| estimate_tokens(&tool.to_string())).sum::<u64>();
        tokens += run.tools().iter().map(|tool| tool.estimated_tokens()).sum::<u64>();
        tokens += request.messages.iter().map(|message| message.estimated_tokens()).sum::<u64>();
        let count = match family {
            Family::Anthropic => json!({"input_tokens": tokens}),
            _ => json!({"object": "response.input_tokens", "input_tokens": tokens}),
        };
        Ok(json_response(StatusCode::OK, &count))
    }
}

/// Removes the tools that the provider runs itself.
fn take_provider_tools(family: Family, body: &mut Map<String, Value>) -> Vec<Value> {
    let Some(Value::Array(tools)) = body.get_mut("tools") else { return Vec::new() };
    let is_of_provider = |tool: &Value| {
        tool.get("type").and_then(Value::as_str).is_some_and(|name| runs_at_provider(family, name))
    };
    let (removed, kept): (Vec<Value>, Vec<Value>) =
        std::mem::take(tools).into_iter().partition(is_of_provider);
    *tools = kept;
    if !removed.is_empty() {
        // It may name one of them.
        body.shift_remove("tool_choice");
    }
    removed
}

/// Returns a list with the fields of both OpenAI's and Anthropic's format.
fn list(names: &[String], query: &str) -> Value {
    let parameter =
        |name: &str| {
            query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name).map(
                |(_, value)| percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned(),
            )
        };
    let limit = parameter("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
    let position = |id: Option<String>| id.and_then(|id| names.iter().position(|name| *name == id));
    let (start, end) = match (position(parameter("after_id")), position(parameter("before_id"))) {
        (Some(after), _) => (after + 1, names.len()),
        (None, Some(before)) => (before.saturating_sub(limit), before),
        (None, None) => (0, names.len()),
    };
    let page = &names[start..end.min(start.saturating_add(limit))];
    let has_more = start + page.len() < end;
    let data: Vec<Value> = page.iter().map(|name| entry(name, None)).collect();
    json!({
        "object": "list", "data": data, "has_more": has_more, "first_id": page.first(), "last_id": page.last(),
    })
}

fn entry(name: &str, context_tokens: Option<u64>) -> Value {
    let (owner, display_name) = name.split_once('/').unwrap_or(("toolwire", name));
    let mut entry = json!({
        "id": name, "object": "model", "created": CREATED.0, "owned_by": owner, "type": "model",
        "display_name": display_name, "created_at": CREATED.1,
    });
    if let Some(tokens) = context_tokens {
        entry["max_input_tokens"] = json!(tokens);
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_pages() {
        let names: Vec<String> = ["a", "b/c", "d"].map(str::to_owned).to_vec();
        let ids = |query: &str| {
            let list = list(&names, query);
            let ids: Vec<String> = list["data"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|entry| entry["id"].to_string())
                .collect();
            (ids.join(","), list["has_more"] == true)
        };
        assert_eq!(ids(""), ("\"a\",\"b/c\",\"d\"".to_owned(), false));
        assert_eq!(ids("limit=2"), ("\"a\",\"b/c\"".to_owned(), true));
        assert_eq!(ids("limit=2&after_id=b%2Fc"), ("\"d\"".to_owned(), false));
        assert_eq!(ids("limit=1&before_id=d"), ("\"b/c\"".to_owned(), false));
        assert_eq!(ids("limit=0"), (String::new(), true));
        assert_eq!(list(&[], "")["first_id"], Value::Null);
    }
}
