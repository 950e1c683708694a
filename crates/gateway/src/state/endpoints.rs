//! The paths below `/v1/responses/{response}`.

use std::sync::Arc;

use http::StatusCode;
use http::request::Parts;
use serde_json::{Value, json};
use toolwire_dialect::client::{ClientError, ErrorKind};

use super::background::whole;
use super::record::{StoredItem, StoredResponse};
use super::{ResponseStorage, response_key, unavailable};
use crate::body::check_optional_type;
use crate::gateway::Inner;
use crate::principal::Principal;
use crate::response::{Failure, HttpResponse, json as json_response};
use crate::routes::Route;

/// The number of items in a page of a list.
const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;

impl Inner {
    /// Responds to requests for stored responses.
    pub(crate) async fn stored_responses(
        self: &Arc<Inner>,
        principal: &Principal,
        route: &Route,
        parts: &Parts,
    ) -> Result<Option<HttpResponse>, Failure> {
        let (Route::Response(id)
        | Route::DeleteResponse(id)
        | Route::CancelResponse(id)
        | Route::InputItems(id)) = route
        else {
            return Ok(None);
        };
        if matches!(route, Route::CancelResponse(_)) {
            check_optional_type(&parts.headers)?;
        }
        let admitted = self.admission.enter(principal, 1)?;
        let query = Query::of(parts);
        let response = match route {
            Route::DeleteResponse(_) => self.delete_response(principal, id).await?,
            Route::CancelResponse(_) => self.cancel_response(principal, id).await?,
            Route::InputItems(_) => {
                let page = Page::read(&query)?;
                list(&self.find_response(principal, id).await?.input, &page)?
            }
            _ => {
                let key = response_key(principal, id).ok_or_else(|| not_found(id))?;
                let stored = self.recovered(principal, &key).await?.ok_or_else(|| not_found(id))?;
                match query.first("stream").is_some_and(|value| value == "true") {
                    false => whole(&stored.response),
                    true if stored.is_background() => {
                        self.event_stream(principal, key, starting_after(&query)?).await?
                    }
                    true => {
                        let message =
                            "`stream` is not supported: only responses in the background have events";
                        let mut error = ClientError::new(ErrorKind::UnsupportedParameter, message);
                        error.parameter = Some("stream".to_owned());
                        return Err(error.into());
                    }
                }
            }
        };
        // A stream counts against the limits until its end.
        Ok(Some(response.map(|body| body.holding(admitted))))
    }

    fn response_storage(&self, id: &str) -> Result<&ResponseStorage, Failure> {
        self.settings.responses.as_ref().ok_or_else(|| not_found(id))
    }

    async fn find_response(&self, principal: &Principal, id: &str) -> Result<StoredResponse, Failure> {
        let storage = self.response_storage(id)?;
        let key = response_key(principal, id).ok_or_else(|| not_found(id))?;
        storage.find(&self.large_bodies, &key).await?.ok_or_else(|| not_found(id))
    }

    async fn delete_response(&self, principal: &Principal, id: &str) -> Result<HttpResponse, Failure> {
        let storage = self.response_storage(id)?;
        let key = response_key(principal, id).ok_or_else(|| not_found(id))?;
        // Only responses can be removed by this path.
        let stored = storage.find(&self.large_bodies, &key).await?.ok_or_else(|| not_found(id))?;
        let has_stopped = self.stop_background(storage, &key, stored).await?;
        // An attempt that was repeated may have removed it already.
        storage.store.remove(&key).await.map_err(|error| unavailable(&error))?;
        // After the document: a gateway that finds the entry of a missing one removes it too.
        if has_stopped && let Err(error) = storage.store.unschedule(&key).await {
            tracing::warn!(%error, "a removed response stays in the list of unfinished work");
        }
        Ok(json_response(StatusCode::OK, &json!({"id": id, "object": "response", "deleted": true})))
    }
}

/// The error for an id that the caller's responses do not have.
pub(super) fn not_found(id: &str) -> Failure {
    let shown: String = id.chars().take(100).collect();
    let mut failure = Failure::new(ErrorKind::NotFound, format!("response with id `{shown}` not found"));
    failure.error.parameter = Some("response_id".to_owned());
    failure
}

/// Returns the number of the last event that the client has.
fn starting_after(query: &Query) -> Result<Option<u64>, Failure> {
    let invalid = || Failure::invalid("starting_after", "`starting_after` must be the number of an event");
    query.first("starting_after").map(|text| text.parse().map_err(|_| invalid())).transpose()
}

/// The parameters of a query.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(parts: &Parts) -> Query {
        let query = parts.uri.query().unwrap_or_default().as_bytes();
        Query(form_urlencoded::parse(query).into_owned().collect())
    }

    fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// A page of a list.
#[derive(Debug, PartialEq)]
pub(super) struct Page {
    limit: usize,
    is_ascending: bool,
    /// The id of the item before the page.
    after: Option<String>,
}

impl Page {
    /// A page with all items in their order.
    pub(super) fn whole() -> Page {
        Page { limit: usize::MAX, is_ascending: true, after: None }
    }

    pub(super) fn read(query: &Query) -> Result<Page, Failure> {
        let limit = match query.first("limit") {
            None => DEFAULT_LIMIT,
            Some(text) => {
                let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
                let message = || format!("`limit` must be a number from 1 to {MAX_LIMIT}");
                limit.ok_or_else(|| Failure::invalid("limit", message()))?
            }
        };
        let is_ascending = match query.first("order") {
            None | Some("desc") => false,
            Some("asc") => true,
            Some(_) => return Err(Failure::invalid("order", "`order` must be `asc` or `desc`")),
        };
        Ok(Page { limit, is_ascending, after: query.first("after").map(str::to_owned) })
    }
}

/// Lists the items of a page.
pub(super) fn list(items: &[StoredItem], page: &Page) -> Result<HttpResponse, Failure> {
    let mut items: Vec<&StoredItem> = items.iter().collect();
    if !page.is_ascending {
        items.reverse();
    }
    let start = match &page.after {
        None => 0,
        Some(after) => {
            let position = items.iter().position(|item| item.id == *after);
            let unknown = || Failure::invalid("after", "`after` is not the id of an item of this response");
            position.ok_or_else(unknown)? + 1
        }
    };
    let end = items.len().min(start.saturating_add(page.limit));
    let data: Vec<Value> = items[start..end].iter().map(|item| shown(item)).collect();
    let id = |item: Option<&Value>| item.map_or(Value::Null, |item| item["id"].clone());
    let body = json!({
        "object": "list", "first_id": id(data.first()), "last_id": id(data.last()), "has_more": end < items.len(),
        "data": data,
    });
    Ok(json_response(StatusCode::OK, &body))
}

/// Returns an item in the complete form that SDKs expect: clients may leave out the type of a message, and
/// write its content as a text.
pub(super) fn shown(stored: &StoredItem) -> Value {
    let mut item: Value = serde_json::from_str(stored.item.get()).unwrap_or_default();
    let Some(fields) = item.as_object_mut() else { return json!({"id": stored.id, "type": "message"}) };
    fields.insert("id".to_owned(), stored.id.clone().into());
    if fields.contains_key("role") {
        fields.entry("type").or_insert_with(|| "message".into());
        if let Some(Value::String(text)) = fields.get("content") {
            let part = match fields.get("role").and_then(Value::as_str) {
                Some("assistant") => json!({"type": "output_text", "text": text, "annotations": []}),
                _ => json!({"type": "input_text", "text": text}),
            };
            fields.insert("content".to_owned(), json!([part]));
        }
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read() {
        let read = |query: &str| {
            Page::read(&Query(form_urlencoded::parse(query.as_bytes()).into_owned().collect()))
                .map_err(|failure| failure.error.parameter.unwrap_or_default())
        };
        let page = |limit, is_ascending, after: Option<&str>| {
            Ok(Page { limit, is_ascending, after: after.map(str::to_owned) })
        };
        assert_eq!(read(""), page(20, false, None));
        assert_eq!(read("limit=100&order=asc&after=msg_1&include[]=x"), page(100, true, Some("msg_1")));
        for (query, parameter) in
            [("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("order=up", "order")]
        {
            assert_eq!(read(query), Err(parameter.to_owned()), "{query}");
        }
    }
}
