//! The way of a request to its handler: its key, its limits, its body, and its record.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Request, StatusCode};
use http_body::Body;
use tokio::time::Instant;
use toolwire_dialect::client::ErrorKind;

use super::Inner;
use super::caller::{Caller, client_timeout};
use super::hold::Hold;
use crate::access::unauthenticated;
use crate::admission::BodyRoom;
use crate::body;
use crate::form::{self, Boundary};
use crate::idempotency::KeyedRequest;
use crate::keys::AuthenticationError;
use crate::large_bodies::is_large;
use crate::mcp::authorization::ProtectedResource;
use crate::meter::Estimate;
use crate::metrics::OTHER;
use crate::principal::Principal;
use crate::request_body::RequestBody;
use crate::response::{Failure, HttpResponse, json};
use crate::routes::{self, Route};
use crate::spans::OpenSpan;
use crate::traffic::RequestRecorder;

/// A request whose body was read.
struct Received {
    route: Route,
    /// The boundary of a form.
    boundary: Option<Boundary>,
    parts: Parts,
    body: Bytes,
    /// The memory for the body.
    room: BodyRoom,
    /// The time when the body began to arrive.
    start: Instant,
    principal: Principal,
    request_id: String,
}

impl Inner {
    /// Responds to a request whose origin has been checked.
    pub(super) async fn respond<B>(
        self: &Arc<Inner>,
        request: Request<B>,
        request_id: &str,
        (local, client): (SocketAddr, IpAddr),
        has_unread_body: &mut bool,
    ) -> Result<HttpResponse, Failure>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let (parts, body) = request.into_parts();
        body::check_headers(&parts.uri, &parts.headers)?;
        let (route, is_public) = match routes::find(&parts.method, parts.uri.path()) {
            Ok(found) => found,
            // Clients without a key get the same error for unknown paths, so they cannot find out which paths
            // exist.
            Err(failure) => {
                self.authenticate(&parts.headers, client).await?;
                return Err(failure);
            }
        };
        if is_public {
            return self.status(&route, &parts.headers, local, client).await;
        }
        if route == Route::ProtectedResource
            && let Some(resource) = ProtectedResource::of(&self.settings.keys)
        {
            return Ok(json(StatusCode::OK, &resource.to_json()));
        }
        let principal = self.authenticate(&parts.headers, client).await?;
        if route == Route::ProtectedResource {
            return Err(Failure::new(ErrorKind::NotFound, "this gateway has no issuer of tokens for a URL"));
        }
        if route == Route::Mcp {
            return self.mcp(parts, body, principal, (request_id, client), has_unread_body).await;
        }
        if let Some(response) = self.model_list(&principal, &route, &parts)? {
            return Ok(response);
        }
        if let Some(response) = self.stored_responses(&principal, &route, &parts).await? {
            // A stream of events ends when the key is revoked.
            return Ok(match self.settings.keys.invalidation(&principal) {
                Some(end) => response.map(|body| body.until(end)),
                None => response,
            });
        }
        if let Some(response) = self.stored_conversations(&principal, &route, &parts).await? {
            return Ok(response);
        }
        let boundary = match route {
            Route::PassFormThrough(_) => {
                body::check_type(&parts.headers, form::MEDIA_TYPE)?;
                Some(Boundary::of(&parts.headers)?)
            }
            _ => {
                body::check_type(&parts.headers, "application/json")?;
                None
            }
        };
        let limits = &self.settings.limits;
        let mut room = self.admission.body_room(&principal, client);
        let start = Instant::now();
        let body = body::read(&parts.headers, body, limits, &mut room).await?;
        *has_unread_body = false;
        let keyed = KeyedRequest::of(&principal, &route, &parts, &body)?;
        let request_id = request_id.to_owned();
        let received = Received { route, boundary, parts, body, room, start, principal, request_id };
        let Some(keyed) = keyed else { return self.respond_to_body(received).await };
        let family = routes::family_of(received.parts.uri.path(), &received.parts.headers);
        let context = (family, received.request_id.clone());
        let inner = self.clone();
        let respond = Box::pin(async move { inner.respond_to_body(received).await });
        self.idempotency.respond(keyed, context, limits.heartbeat, respond).await
    }

    /// Responds to a request whose body was read.
    async fn respond_to_body(self: &Arc<Inner>, received: Received) -> Result<HttpResponse, Failure> {
        let Received { route, boundary, parts, body, mut room, start, principal, request_id } = received;
        let limits = &self.settings.limits;
        let admitted = self.admission.enter(&principal, 1)?;
        let is_recorded =
            matches!(route, Route::Complete(_) | Route::PassThrough(_) | Route::PassFormThrough(_));
        let recorder = is_recorded.then(|| self.traffic.begin(&request_id, parts.uri.path(), &principal));
        let family = routes::family_of(parts.uri.path(), &parts.headers);
        let guard = recorder.as_ref().map(RequestRecorder::guard);
        let keys = &self.settings.keys;
        let estimate = || estimate(&route, &body);
        let meter = self.meters.begin(keys, &principal, &request_id, limits.run_timeout, estimate).await;
        let meter = match meter {
            Ok(meter) => meter,
            Err(failure) => {
                if let Some(recorder) = &recorder {
                    let status = failure.status(family);
                    recorder.respond(&Err(failure.clone()), status);
                }
                return Err(failure);
            }
        };
        let mut invalidation = self.settings.keys.invalidation(&principal);
        let hold = Hold::default();
        let caller = Caller {
            hold: hold.clone(),
            principal,
            request_id,
            meter: meter.clone(),
            recorder: recorder.clone(),
            span: parts.extensions.get::<OpenSpan>().cloned(),
            deadline: Instant::now() + limits.run_timeout,
            client_deadline: client_timeout(&parts.headers).and_then(|timeout| start.checked_add(timeout)),
        };
        let respond = Box::pin(async {
            if let (Route::PassFormThrough(path), Some(boundary)) = (&route, boundary) {
                return self.pass_form_through(path, &caller, body, boundary).await;
            }
            let body = match is_large(body.len()) {
                true => self.large_bodies.run(|| RequestBody::read(body)).await??,
                false => RequestBody::read(body)?,
            };
            room.grow_to(body.estimated_bytes().min(limits.body_bytes))?;
            self.respond_to_json(route, caller, parts.headers, body).await
        });
        let response = match &mut invalidation {
            None => respond.await,
            // If the key is revoked, its running requests end.
            Some(invalidation) => tokio::select! {
                biased;
                response = respond => response,
                () = invalidation => Err(unauthenticated(&AuthenticationError::Unauthenticated)),
            },
        };
        if let Some(recorder) = &recorder {
            let status =
                response.as_ref().map_or_else(|failure| failure.status(family), HttpResponse::status);
            match hold.is_background() {
                true => recorder.respond_later(status),
                false => recorder.respond(&response, status),
            }
        }
        let response = match guard {
            Some(guard) if hold.is_background() => {
                hold.keep(guard);
                response
            }
            Some(guard) => response.map(|response| response.map(|body| body.recorded(guard))),
            None => response,
        };
        let response = match meter {
            Some(meter) => meter.measure(response),
            None => response,
        };
        let response = match invalidation {
            Some(end) => response.map(|response| response.map(|body| body.until(end))),
            None => response,
        };
        // A response in the background does not count as a request, but uses the memory of the body until its
        // end.
        let room = Arc::new(room);
        if hold.is_background() {
            hold.keep(room.clone());
        }
        // A stream counts against the limits until its end.
        response.map(|response| response.map(|body| body.holding((admitted, room))))
    }

    async fn respond_to_json(
        self: &Arc<Inner>,
        route: Route,
        caller: Caller,
        headers: HeaderMap,
        body: RequestBody,
    ) -> Result<HttpResponse, Failure> {
        if let Some(recorder) = &caller.recorder {
            let model = body.model();
            let label = model.as_deref().map_or_else(|| OTHER.to_owned(), |name| self.model_label(name));
            recorder.set_model(model, label);
        }
        match route {
            Route::Complete(family) => self.complete(family, caller, &headers, body).await,
            Route::CountTokens(family) => self.count_tokens(family, caller.principal, headers, body).await,
            Route::PassThrough(path) => self.pass_through(path, &caller, body).await,
            Route::CreateConversation | Route::UpdateConversation(_) | Route::CreateItems(_) => {
                self.change_conversation(&caller.principal, &route, &body).await
            }
            Route::Conversation(_)
            | Route::DeleteConversation(_)
            | Route::Items(_)
            | Route::Item(_)
            | Route::DeleteItem(_)
            | Route::Models
            | Route::Model(_)
            | Route::Response(_)
            | Route::DeleteResponse(_)
            | Route::CancelResponse(_)
            | Route::InputItems(_)
            | Route::PassFormThrough(_)
            | Route::Mcp
            | Route::ProtectedResource
            | Route::Health
            | Route::Ready
            | Route::Metrics => Err(Failure::new(ErrorKind::NotFound, "unknown path")),
        }
    }
}

/// Estimates the tokens of a request.
fn estimate(route: &Route, body: &Bytes) -> Estimate {
    match route {
        Route::Complete(_) => {
            // An invalid body is refused later, and then counts nothing.
            let body = RequestBody::read(body.clone());
            body.map_or_else(
                |_| Estimate::default(),
                |body| Estimate::of(body.text().as_bytes(), body.output_limit()),
            )
        }
        Route::PassThrough(_) => Estimate::without_output(body),
        _ => Estimate::default(),
    }
}
