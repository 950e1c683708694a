//! One connection: state shared by its requests.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{PaginatedRequestParams, ProtocolVersion};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::caller::RunningCall;
use super::raw_responses::RawResponses;
use super::request_tools::RequestTools;
use super::rounds::Rounds;
use super::shared::Shared;
use super::subscribed::{ClientChanges, Subscribed};
use crate::client::Level;
use crate::server::Server;
use crate::wire;

/// One connection; over stateless HTTP, one request.
pub(crate) struct Connection {
    pub(super) shared: Arc<Shared>,
    /// The tools of the HTTP request that opened the connection, if it has its own.
    opened_with: Option<RequestTools>,
    /// The minimum log level, if the client sets it once for the connection.
    pub(super) level: Mutex<Level>,
    pub(super) subscribed: Subscribed,
    /// Created before a subscription is acknowledged, so that no later change is missed.
    pub(super) opened: Mutex<VecDeque<ClientChanges>>,
    pub(super) ended: CancellationToken,
    _ends: DropGuard,
}

impl Connection {
    pub(super) fn new(shared: Arc<Shared>) -> Connection {
        let ended = CancellationToken::new();
        Connection {
            shared,
            opened_with: RequestTools::current(),
            level: Mutex::new(Level::Info),
            subscribed: Subscribed::default(),
            opened: Mutex::default(),
            _ends: ended.clone().drop_guard(),
            ended,
        }
    }

    /// Returns the server with the tools of a request.
    pub(super) fn server_for(&self, context: &RequestContext<RoleServer>) -> Cow<'_, Server> {
        RequestTools::server_of(context, &self.shared.server)
    }

    /// Returns the changes from now on that concern the client: those of the server, and those of its own
    /// tools.
    pub(super) fn client_changes(&self) -> ClientChanges {
        let own = self.opened_with.as_ref().and_then(|tools| tools.changes.as_ref());
        ClientChanges::new(self.shared.changes.subscribe(), own.map(|changes| changes()))
    }

    /// Returns the server with the tools of the request that opened the connection.
    pub(super) fn server(&self) -> Cow<'_, Server> {
        RequestTools::server(self.opened_with.as_ref(), &self.shared.server)
    }

    /// Starts a request that may lead to questions. `state` must have been issued for `request`.
    pub(super) fn start_call(
        &self,
        context: &Arc<RequestContext<RoleServer>>,
        responses: Option<BTreeMap<String, Value>>,
        state: Option<&str>,
        request: &RequestBinding<'_>,
    ) -> Result<RunningCall, ErrorData> {
        let modern = is_modern(context);
        let rounds = if modern {
            let bound = state.map(|_| request.to_bytes()).unwrap_or_default();
            let rounds = Rounds::new(responses, state, &bound, &self.shared.signature);
            let refused = |_| {
                ErrorData::invalid_params(
                    "`requestState` was not issued by this server for this request",
                    None,
                )
            };
            Some(rounds.map_err(refused)?)
        } else {
            None
        };
        let level = match modern {
            true => context.meta.log_level().map(wire::level_in),
            false => Some(*self.level.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        Ok(RunningCall::new(context, level, rounds, &self.shared))
    }

    /// Responds with raw JSON. The typed response that the SDK receives is a placeholder and is replaced
    /// before sending.
    pub(super) fn respond(&self, context: &RequestContext<RoleServer>, mut result: Map<String, Value>) {
        if is_modern(context) {
            result.entry("resultType").or_insert_with(|| json!("complete"));
        }
        let responses = RawResponses::of(context).expect("every transport has raw responses");
        responses.put(context.id.clone(), result);
    }

    /// Responds with a list or with contents, which clients may cache.
    pub(super) fn respond_cacheable(&self, context: &RequestContext<RoleServer>, key: &str, value: Value) {
        let mut result = Map::from_iter([(key.to_owned(), value)]);
        if is_modern(context) {
            self.add_caching(&mut result);
        }
        self.respond(context, result);
    }

    /// Adds the rules for caching to a result, for revisions that have them.
    pub(super) fn add_caching(&self, result: &mut Map<String, Value>) {
        let caching = self.shared.server.offers.caching;
        let max_age = u64::try_from(caching.max_age.as_millis()).unwrap_or(u64::MAX);
        result.insert("ttlMs".to_owned(), json!(max_age));
        result.insert("cacheScope".to_owned(), json!(if caching.shared { "public" } else { "private" }));
    }

    pub(super) fn input_required(
        &self,
        running: &RunningCall,
        request: &RequestBinding<'_>,
    ) -> Map<String, Value> {
        let within = self.shared.server.offers.reply_timeout;
        let rounds = running.rounds().expect("only a call with rounds ends with questions");
        rounds.questions(&request.to_bytes(), &self.shared.signature, within)
    }
}

/// The request that a `requestState` is bound to.
pub(super) struct RequestBinding<'a> {
    pub(super) method: &'static str,
    pub(super) name: &'a str,
    pub(super) arguments: Option<&'a Map<String, Value>>,
    /// The client, if the application identifies it.
    pub(super) client: &'a str,
}

impl RequestBinding<'_> {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // Clients may change the order of keys.
        let arguments: Option<BTreeMap<&String, &Value>> =
            self.arguments.map(|arguments| arguments.iter().collect());
        json!([self.method, self.name, arguments, self.client]).to_string().into_bytes()
    }
}

/// Whether the revision has neither sessions nor requests to the client (2026-07-28 or later).
pub(super) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

pub(super) fn request_cancelled() -> ErrorData {
    ErrorData::internal_error("the request was cancelled", None)
}

pub(super) fn panicked() -> ErrorData {
    ErrorData::internal_error("internal server error", None)
}

/// Rejects a cursor: lists have one page.
pub(super) fn reject_cursor(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(()),
        Some(_) => Err(ErrorData::invalid_params("unknown `cursor`", None)),
    }
}
