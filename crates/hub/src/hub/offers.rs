//! The prompts and resources of all servers.
//!
//! A prompt keeps its name if no other server has one with the same name; otherwise, the name of the server
//! is its prefix. The names do not depend on who asks. URIs of resources are never changed: of two servers
//! with the same URI, the first one in the configuration is asked.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use futures::stream::{self, BoxStream};
use serde_json::{Map, Value};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use toolwire_contract::offers::{
    Offer, OfferChange, OfferKind, OfferMethod, OfferRequest, OfferRequestError, ServerFilter, ServerOffers,
    TaskTool,
};

use super::Hub;
use super::foreign_tasks::read_id;
use crate::session::{Session, SessionError};
use crate::supervise::Server;

/// MCP's codes for a resource that does not exist, in older and newer revisions.
const NOT_FOUND: [i64; 2] = [-32002, -32602];

/// A listed item of one server.
struct ListedOffer {
    server: Arc<Server>,
    session: Arc<Session>,
    definition: Map<String, Value>,
    /// The name of a prompt on its server.
    original: Option<String>,
}

impl Hub {
    /// Returns the servers that are ready, with their sessions.
    pub(super) fn ready(&self) -> Vec<(Arc<Server>, Arc<Session>)> {
        let server_set = self.state.server_set();
        let ready = server_set.servers.iter().filter_map(|server| {
            let session = server.snapshot().session?;
            Some((server.clone(), session))
        });
        ready.collect()
    }

    /// Lists everything of one kind. All servers are asked at the same time; those that fail are left out.
    async fn list_all(&self, kind: OfferKind) -> Vec<ListedOffer> {
        let ready = self.ready().into_iter().filter(|(_, session)| session.offers(kind));
        let lists = ready.map(|(server, session)| async move {
            let listed = match session.list_offers(kind).await {
                Ok(listed) => listed,
                Err(error) => {
                    let reason = server.config.redact(error.to_string());
                    tracing::warn!(target: "toolwire::hub", server = %server.config.name, ?kind, "cannot list: {reason}");
                    Vec::new()
                }
            };
            let listed = listed.into_iter().map(|definition| ListedOffer {
                server: server.clone(),
                session: session.clone(),
                definition,
                original: None,
            });
            listed.collect::<Vec<_>>()
        });
        let mut all: Vec<ListedOffer> = join_all(lists).await.into_iter().flatten().collect();
        if kind == OfferKind::Prompt {
            name_prompts(&mut all);
        }
        all
    }

    async fn get_prompt(
        &self,
        mut params: Map<String, Value>,
        permits: &ServerFilter<'_>,
    ) -> Result<Map<String, Value>, OfferRequestError> {
        let name = text(&params, "name")?;
        let prompt = self.find_prompt(&name, permits).await?;
        params.insert("name".to_owned(), prompt.original.clone().unwrap_or(name).into());
        request(&prompt.server, &prompt.session, OfferMethod::GetPrompt, params).await
    }

    async fn find_prompt(
        &self,
        name: &str,
        permits: &ServerFilter<'_>,
    ) -> Result<ListedOffer, OfferRequestError> {
        let prompts = self.list_all(OfferKind::Prompt).await.into_iter();
        let mut found = prompts.filter(|prompt| permits(prompt.server.config.name.as_str()));
        found
            .find(|prompt| prompt.definition.get("name").and_then(Value::as_str) == Some(name))
            .ok_or_else(|| OfferRequestError::UnknownPrompt { name: name.to_owned() })
    }

    /// Asks the server that lists the resource, else those whose templates match, else all others.
    async fn request_resource(
        &self,
        method: OfferMethod,
        params: Map<String, Value>,
        permits: &ServerFilter<'_>,
    ) -> Result<Map<String, Value>, OfferRequestError> {
        let uri = text(&params, "uri")?;
        let is_permitted = |server: &Arc<Server>| permits(server.config.name.as_str());
        let lists = futures::future::join(
            self.list_all(OfferKind::Resource),
            self.list_all(OfferKind::ResourceTemplate),
        );
        let (resources, templates) = lists.await;
        let has = |listed: &ListedOffer, key: &str| {
            listed.definition.get(key).and_then(Value::as_str) == Some(&*uri)
        };
        let owners = resources.iter().filter(|resource| has(resource, "uri"));
        let matching = templates.iter().filter(|template| {
            let pattern = template.definition.get("uriTemplate").and_then(Value::as_str);
            pattern.is_some_and(|pattern| matches_template(pattern, &uri))
        });
        let listed = owners.chain(matching).map(|listed| (listed.server.clone(), listed.session.clone()));
        let others = self.ready().into_iter().filter(|(_, session)| session.offers(OfferKind::Resource));
        let mut servers: Vec<(Arc<Server>, Arc<Session>)> = Vec::new();
        for (server, session) in listed.chain(others) {
            if is_permitted(&server) && !servers.iter().any(|(known, _)| Arc::ptr_eq(known, &server)) {
                servers.push((server, session));
            }
        }
        for (server, session) in servers {
            match request(&server, &session, method, params.clone()).await {
                Err(OfferRequestError::Refused { code, .. }) if NOT_FOUND.contains(&code) => {}
                outcome => return outcome,
            }
        }
        Err(OfferRequestError::UnknownResource { uri })
    }

    async fn complete(
        &self,
        mut params: Map<String, Value>,
        permits: &ServerFilter<'_>,
    ) -> Result<Map<String, Value>, OfferRequestError> {
        let reference = params.get("ref").and_then(Value::as_object).cloned().unwrap_or_default();
        let (server, session) = match reference.get("type").and_then(Value::as_str) {
            Some("ref/prompt") => {
                let name = text(&reference, "name")?;
                let prompt = self.find_prompt(&name, permits).await?;
                let mut reference = reference;
                reference.insert("name".to_owned(), prompt.original.clone().unwrap_or(name).into());
                params.insert("ref".to_owned(), Value::Object(reference));
                (prompt.server, prompt.session)
            }
            Some("ref/resource") => {
                let uri = text(&reference, "uri")?;
                let templates = self.list_all(OfferKind::ResourceTemplate).await;
                let is_same = |template: &ListedOffer| {
                    template.definition.get("uriTemplate").and_then(Value::as_str) == Some(&*uri)
                };
                let mut found = templates
                    .into_iter()
                    .filter(|template| permits(template.server.config.name.as_str()))
                    .filter(is_same);
                let unknown = || OfferRequestError::InvalidParameters {
                    problem: format!("unknown resource template: `{uri}`"),
                };
                let found = found.next().ok_or_else(unknown)?;
                (found.server, found.session)
            }
            _ => {
                let problem = "`ref` is neither a prompt nor a resource".to_owned();
                return Err(OfferRequestError::InvalidParameters { problem });
            }
        };
        request(&server, &session, OfferMethod::Complete, params).await
    }
}

impl ServerOffers for Hub {
    fn list<'a>(&'a self, kind: OfferKind, permits: &'a ServerFilter<'a>) -> BoxFuture<'a, Vec<Offer>> {
        Box::pin(async move {
            let all = self.list_all(kind).await.into_iter();
            let permitted = all.filter(|listed| permits(listed.server.config.name.as_str()));
            let offers = permitted.map(|listed| Offer {
                server: listed.server.config.name.to_string(),
                definition: listed.definition,
            });
            offers.collect()
        })
    }

    fn request<'a>(
        &'a self,
        request: OfferRequest,
        permits: &'a ServerFilter<'a>,
    ) -> BoxFuture<'a, Result<Map<String, Value>, OfferRequestError>> {
        Box::pin(async move {
            match request.method {
                OfferMethod::GetPrompt => self.get_prompt(request.params, permits).await,
                OfferMethod::ReadResource | OfferMethod::Subscribe => {
                    self.request_resource(request.method, request.params, permits).await
                }
                OfferMethod::Complete => self.complete(request.params, permits).await,
                OfferMethod::GetTask | OfferMethod::UpdateTask | OfferMethod::CancelTask => {
                    self.request_task(request.method, request.params, permits).await
                }
            }
        })
    }

    fn tool_of_task(&self, id: &str) -> Option<TaskTool> {
        read_id(id).map(|(tool, _)| tool)
    }

    fn changes(&self) -> BoxStream<'static, OfferChange> {
        let receiver = self.offer_changes.subscribe();
        // One missed change may have been of either kind.
        let state: (broadcast::Receiver<OfferChange>, Option<OfferChange>) = (receiver, None);
        Box::pin(stream::unfold(state, |(mut receiver, pending)| async move {
            if let Some(change) = pending {
                return Some((change, (receiver, None)));
            }
            match receiver.recv().await {
                Ok(change) => Some((change, (receiver, None))),
                Err(RecvError::Lagged(_)) => {
                    Some((OfferChange::Prompts, (receiver, Some(OfferChange::Resources))))
                }
                Err(RecvError::Closed) => None,
            }
        }))
    }
}

/// Adds the name of the server to prompts that have the same name as one of another server.
fn name_prompts(prompts: &mut [ListedOffer]) {
    let name_of =
        |prompt: &ListedOffer| prompt.definition.get("name").and_then(Value::as_str).map(str::to_owned);
    let mut counts: HashMap<String, usize> = HashMap::new();
    for name in prompts.iter().filter_map(name_of) {
        *counts.entry(name).or_default() += 1;
    }
    for prompt in prompts {
        let Some(name) = name_of(prompt) else { continue };
        if counts.get(&name).is_some_and(|count| *count > 1) {
            let prefixed = format!("{}_{name}", prompt.server.config.name);
            prompt.definition.insert("name".to_owned(), prefixed.into());
        }
        prompt.original = Some(name);
    }
}

/// Whether a URI could be made from a template (RFC 6570): the texts between its variables occur in this
/// order.
fn matches_template(template: &str, uri: &str) -> bool {
    let mut rest = uri;
    let mut parts = template.split('{');
    match rest.strip_prefix(parts.next().unwrap_or_default()) {
        Some(after) => rest = after,
        None => return false,
    }
    let mut is_last_variable = false;
    for part in parts {
        let Some((_, text)) = part.split_once('}') else { return false };
        is_last_variable = text.is_empty();
        match rest.find(text) {
            Some(at) => rest = &rest[at + text.len()..],
            None => return false,
        }
    }
    rest.is_empty() || is_last_variable
}

pub(super) fn text(fields: &Map<String, Value>, key: &str) -> Result<String, OfferRequestError> {
    let text = fields.get(key).and_then(Value::as_str).map(str::to_owned);
    text.ok_or_else(|| OfferRequestError::InvalidParameters { problem: format!("`{key}` is missing") })
}

pub(super) async fn request(
    server: &Server,
    session: &Session,
    method: OfferMethod,
    params: Map<String, Value>,
) -> Result<Map<String, Value>, OfferRequestError> {
    session.request_offer(method, params).await.map_err(|error| {
        let name = server.config.name.to_string();
        match error {
            SessionError::Rejected { code, message } => {
                OfferRequestError::Refused { server: name, code, message: server.config.redact(message) }
            }
            error => {
                OfferRequestError::Failed { server: name, reason: server.config.redact(error.to_string()) }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::matches_template;

    #[test]
    fn a_uri_is_recognized_by_its_template() {
        for (template, uri, matches) in [
            ("log://{day}", "log://monday", true),
            ("log://{day}", "file://monday", false),
            ("test://template/{id}/data", "test://template/7/data", true),
            ("test://template/{id}/data", "test://template/7/other", false),
            ("a://{x}/b/{y}", "a://1/b/2", true),
            ("a://{x}/b/{y}", "a://1/c/2", false),
            ("a://fixed", "a://fixed", true),
            ("a://fixed", "a://fixed/more", false),
            ("a://{unclosed", "a://x", false),
        ] {
            assert_eq!(matches_template(template, uri), matches, "{template} {uri}");
        }
    }
}
