//! One connection: what its requests have in common.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{PaginatedRequestParams, ProtocolVersion};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::caller::Desk;
use super::raw::Answers;
use super::rounds::Rounds;
use super::shared::Shared;
use super::subscribed::Subscribed;
use crate::changes::Change;
use crate::client::Level;
use crate::wire;

/// One connection; over stateless HTTP, one request.
pub(crate) struct Connection {
    pub(super) shared: Arc<Shared>,
    /// The least level of log messages that the client wants, where it says so once for all.
    pub(super) level: Mutex<Level>,
    pub(super) subscribed: Subscribed,
    /// Opened before a subscription is acknowledged, so that nothing is missed from then on.
    pub(super) opened: Mutex<VecDeque<broadcast::Receiver<Change>>>,
    pub(super) ended: CancellationToken,
    _ends: DropGuard,
}

impl Connection {
    pub(super) fn new(shared: Arc<Shared>) -> Connection {
        let ended = CancellationToken::new();
        Connection {
            shared,
            level: Mutex::new(Level::Info),
            subscribed: Subscribed::default(),
            opened: Mutex::default(),
            _ends: ended.clone().drop_guard(),
            ended,
        }
    }

    /// A desk for a request that may lead to questions. `state` is bound to what `request` makes of it.
    pub(super) fn desk(
        &self,
        context: &Arc<RequestContext<RoleServer>>,
        responses: Option<BTreeMap<String, Value>>,
        state: Option<&str>,
        request: &Bound<'_>,
    ) -> Result<Desk, ErrorData> {
        let modern = is_modern(context);
        let rounds = if modern {
            let bound = state.map(|_| request.to_bytes()).unwrap_or_default();
            let rounds = Rounds::new(responses, state, &bound, &self.shared.signature);
            let refused = |_| {
                ErrorData::invalid_params(
                    "`requestState` is not what this server gave for this request",
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
        Ok(Desk::new(context, level, rounds, &self.shared))
    }

    /// Answers with JSON as it is. What the SDK is given then never leaves.
    pub(super) fn answer(&self, context: &RequestContext<RoleServer>, mut answer: Map<String, Value>) {
        if is_modern(context) {
            answer.entry("resultType").or_insert_with(|| json!("complete"));
        }
        let answers = Answers::of(context).expect("every transport here has a place for answers");
        answers.lay(context.id.clone(), answer);
    }

    /// A list, or contents, that clients may keep for a while.
    pub(super) fn keepable(&self, context: &RequestContext<RoleServer>, key: &str, value: Value) {
        let mut answer = Map::from_iter([(key.to_owned(), value)]);
        if is_modern(context) {
            let caching = self.shared.server.offers.caching;
            let keep_for = u64::try_from(caching.keep_for.as_millis()).unwrap_or(u64::MAX);
            answer.insert("ttlMs".to_owned(), json!(keep_for));
            answer.insert("cacheScope".to_owned(), json!(if caching.shared { "public" } else { "private" }));
        }
        self.answer(context, answer);
    }

    pub(super) fn questions(&self, desk: &Desk, request: &Bound<'_>) -> Map<String, Value> {
        let within = self.shared.server.offers.answer_within;
        let rounds = desk.rounds().expect("only rounds end a call with questions");
        rounds.questions(&request.to_bytes(), &self.shared.signature, within)
    }
}

/// What a `requestState` belongs to.
pub(super) struct Bound<'a> {
    pub(super) method: &'static str,
    pub(super) name: &'a str,
    pub(super) arguments: Option<&'a Map<String, Value>>,
}

impl Bound<'_> {
    fn to_bytes(&self) -> Vec<u8> {
        // The order of keys is not the client's promise.
        let arguments: Option<BTreeMap<&String, &Value>> =
            self.arguments.map(|arguments| arguments.iter().collect());
        json!([self.method, self.name, arguments]).to_string().into_bytes()
    }
}

/// Whether the request is of the era without sessions and without requests to the client.
pub(super) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

pub(super) fn given_up() -> ErrorData {
    ErrorData::internal_error("the request was given up", None)
}

pub(super) fn panicked() -> ErrorData {
    ErrorData::internal_error("the server failed", None)
}

/// There is one page, and no cursor leads to another.
pub(super) fn only_page(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(()),
        Some(_) => Err(ErrorData::invalid_params("`cursor` is not one that this server gave", None)),
    }
}
