//! Runs that wait until the client approves calls.
//!
//! An approval is valid once, and only for the client that was asked. The call runs with the stored arguments, and only
//! if the tool's definition has not changed. If the response to an approval fails, the client can send the same request
//! again. Calls that already ran do not run again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use toolwire_agent::{Agent, AgentSettings, Decision, Run};
use toolwire_contract::{Message, Tool};
use toolwire_dialect::{ApprovalResponse, ClientEvent, ClientRequest, ErrorKind};

use crate::keys::Principal;
use crate::response::Failure;

const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_RUNS: usize = 1_000;
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// Runs that wait until the client approves calls, the oldest first.
#[derive(Default)]
pub(crate) struct PausedRuns(Mutex<VecDeque<StoredRun>>);

/// A run and the size of its messages.
struct StoredRun {
    run: PausedRun,
    bytes: usize,
}

pub(crate) struct PausedRun {
    pub(crate) principal: Principal,
    pub(crate) agent: Agent,
    pub(crate) run: Run,
    pub(crate) asked: Asked,
    /// Events that the client did not get, because the response to its decisions failed; `None` before it has decided.
    pub(crate) undelivered: Option<Vec<ClientEvent>>,
    pub(crate) paused_at: Instant,
}

/// The requests for approval of a response, and what preceded them.
#[derive(Clone, Default)]
pub(crate) struct Asked {
    pub(crate) approvals: Vec<PausedCall>,
    /// Calls of the client's tools in the same step: the id that the client got, and the original one.
    pub(crate) client_calls: Vec<(String, String)>,
    /// The messages before the response, and those of the response.
    pub(crate) history: Vec<Arc<Message>>,
    pub(crate) messages: Vec<Arc<Message>>,
    /// The client's labels of servers.
    pub(crate) labels: BTreeMap<String, String>,
    /// The settings of a run that continues.
    pub(crate) settings: AgentSettings,
}

impl Asked {
    /// Returns the size of the messages and of the settings that the client sent, as JSON.
    fn bytes(&self) -> usize {
        let bytes = |message: &Arc<Message>| serde_json::to_vec(message).map_or(0, |json| json.len());
        let messages: usize = self.history.iter().chain(&self.messages).map(bytes).sum();
        let settings = &self.settings;
        let tools = serde_json::to_vec(&settings.client_tools).map_or(0, |json| json.len());
        let verbatim = settings.verbatim.as_ref().map_or(0, |verbatim| verbatim.bytes());
        messages + tools + verbatim + settings.instructions.as_ref().map_or(0, String::len)
    }
}

/// A call that waits for approval.
#[derive(Clone)]
pub(crate) struct PausedCall {
    /// The id of the request for approval.
    pub(crate) request_id: String,
    pub(crate) call_id: String,
    /// The tool as it was when the client was asked.
    pub(crate) tool: Option<Tool>,
}

impl PausedRuns {
    pub(crate) fn store(&self, run: PausedRun) {
        let bytes = run.asked.bytes();
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.push_back(StoredRun { run, bytes });
        let mut total: usize = runs.iter().map(|stored| stored.bytes).sum();
        let is_old = |stored: &StoredRun| stored.run.paused_at.elapsed() >= LIFETIME;
        while runs.len() > MAX_RUNS || total > MAX_BYTES || runs.front().is_some_and(is_old) {
            let Some(removed) = runs.pop_front() else { break };
            total -= removed.bytes;
        }
    }

    /// Removes and returns the run that waits for the decisions in a request, and applies them. If the response fails, the
    /// run is stored again; a repeated request then finds the decisions already applied.
    pub(crate) fn resume(&self, principal: &Principal, client: &ClientRequest) -> Result<PausedRun, Failure> {
        let mut paused = self.take(principal, &client.approvals)?;
        if paused.undelivered.is_some() {
            let said = paused.asked.messages.iter().flat_map(|message| &message.content);
            if !said.clone().any(|block| client.with_approvals.contains(block)) {
                paused.run.say_with_results(client.with_approvals.clone());
            }
            return Ok(paused);
        }
        paused.run.say_with_results(client.with_approvals.clone());
        let results = client.request.messages.iter().flat_map(|message| message.results());
        let results: Vec<_> = results
            .filter_map(|(id, result)| {
                let (_, original) = paused.asked.client_calls.iter().find(|(shown, _)| shown == id)?;
                Some((original.clone(), result.clone()))
            })
            .collect();
        let current = paused.agent.tools().tools();
        for call in &paused.asked.approvals {
            let mut responses = client.approvals.iter();
            let Some(response) = responses.find(|response| response.request_id == call.request_id) else {
                continue;
            };
            let is_same =
                call.tool.as_ref().is_some_and(|tool| current.iter().any(|current| current == tool));
            let decision = match response.approve {
                true if is_same => Decision::Once,
                true => Decision::No { because: Some("the tool changed before the approval".to_owned()) },
                false => Decision::No { because: response.reason.clone() },
            };
            paused.run.decide(&call.call_id, decision);
        }
        paused.run.tools_returned(results);
        Ok(paused)
    }

    /// Removes and returns the run that waits for these responses. Every request for approval of the run needs a
    /// response, so that no call stays undecided.
    fn take(&self, principal: &Principal, responses: &[ApprovalResponse]) -> Result<PausedRun, Failure> {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_decided =
            |call: &PausedCall| responses.iter().any(|response| response.request_id == call.request_id);
        let position = runs.iter().position(|StoredRun { run, .. }| {
            run.principal == *principal
                && run.paused_at.elapsed() < LIFETIME
                && run.asked.approvals.iter().any(&is_decided)
        });
        let ids: Vec<String> =
            responses.iter().map(|response| format!("`{}`", response.request_id)).collect();
        let position = position.ok_or_else(|| {
            let message =
                format!("no open request for approval has the id {}; each is valid once", ids.join(", "));
            Failure::invalid("input", message)
        })?;
        if let Some(open) = runs[position].run.asked.approvals.iter().find(|call| !is_decided(call)) {
            return Err(Failure::invalid(
                "input",
                format!("there is no approval response for `{}`", open.request_id),
            ));
        }
        let removed = runs.remove(position).map(|stored| stored.run);
        removed.ok_or_else(|| Failure::new(ErrorKind::Internal, "the run is gone"))
    }
}
