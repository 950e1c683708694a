//! Runs that wait for approvals, stored with their responses: any gateway can continue them, but only one.
//!
//! The right to continue is a claim in the store, with a holder of its own for each request. It is released
//! if nothing has happened. Otherwise the gateway keeps the progress in memory, together with the holder, so
//! that the client can repeat its request. If the gateway ends, it is unknown which calls have run, so the
//! approval is not accepted again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;
use toolwire_agent::Agent;
use toolwire_agent::run::Run;
use toolwire_contract::conversations::Timestamp;
use toolwire_contract::state::{Claim, HeldWrite};
use toolwire_contract::{Message, Tool};
use toolwire_dialect::client::{ApprovalResponse, ClientRequest, ErrorKind};

use super::record::StoredResponse;
use super::{Continuation, ResponseStorage, response_key, unavailable};
use crate::gateway::Inner;
use crate::hidden_rounds::ShownId;
use crate::ids::{random_text, response_of};
use crate::paused_runs::{
    ApprovalRequests, PausedCall, PausedRun, ResponseProgress, check_decisions, unknown_approvals,
};
use crate::principal::{Principal, now};
use crate::response::Failure;

/// The time for which an approval is accepted.
const APPROVAL_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// How often a run in memory is claimed, and the time in between.
const CLAIM_ATTEMPTS: usize = 20;
const CLAIM_PAUSE: Duration = Duration::from_millis(50);

/// A run that waits for approvals, in the format of the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredPause {
    run: String,
    approvals: Vec<StoredApproval>,
    client_calls: Vec<ShownId>,
    labels: BTreeMap<String, String>,
    /// The number of messages before the response.
    messages_before: usize,
    /// The time when the approvals were requested.
    since: Timestamp,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredApproval {
    request_id: String,
    call_id: String,
    /// The hash of the tool's definition. The approval is for this definition only.
    tool: String,
}

/// The right of this process to continue a paused run. It is released when it is dropped, unless it is used.
pub(crate) struct HeldClaim {
    storage: ResponseStorage,
    claim: Option<Claim>,
}

impl HeldClaim {
    pub(super) fn new(storage: ResponseStorage, claim: Claim) -> HeldClaim {
        HeldClaim { storage, claim: Some(claim) }
    }

    /// Releases the right, and waits until others can have it.
    pub(super) async fn release(mut self) {
        if let Some(claim) = self.claim.take()
            && let Err(error) = self.storage.store.release(&claim).await
        {
            tracing::warn!(%error, "a claim is not released");
        }
    }

    /// Returns the holder, unless the right was released.
    pub(super) fn holder(&self) -> Option<&str> {
        self.claim.as_ref().map(|claim| &*claim.holder)
    }

    /// Writes the document with the key of the claim, or returns the problem.
    pub(super) async fn write(&self, content: String) -> Result<(), String> {
        let expired = || "its lock has expired".to_owned();
        let claim = self.claim.as_ref().ok_or_else(expired)?;
        let write = HeldWrite {
            document: Some(content),
            lifetime: self.storage.retention,
            position: 0,
            entries: Vec::new(),
            log_lifetime: self.storage.retention,
        };
        match self.storage.store.write_held(claim, write).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(expired()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Keeps the right, because something has happened. Returns the holder.
    pub(crate) fn keep(mut self) -> Option<Arc<str>> {
        self.claim.take().map(|claim| claim.holder.into())
    }
}

impl Drop for HeldClaim {
    fn drop(&mut self) {
        if let (Some(claim), Ok(runtime)) = (self.claim.take(), Handle::try_current()) {
            let storage = self.storage.clone();
            runtime.spawn(async move {
                if let Err(error) = storage.store.release(&claim).await {
                    tracing::warn!(%error, "other gateways cannot continue a run that waits for approval");
                }
            });
        }
    }
}

/// The right to continue a paused run.
pub(crate) struct ClaimedPause {
    claim: HeldClaim,
    /// The run and its messages; `None` if this process has them in memory.
    stored: Option<PauseWithMessages>,
}

impl Inner {
    /// Claims the stored run that waits for the decisions in a request; `None` if it is not stored.
    pub(crate) async fn claim_pause(
        &self,
        principal: &Principal,
        decisions: &[ApprovalResponse],
        continuation: Option<&Continuation>,
    ) -> Result<Option<ClaimedPause>, Failure> {
        if let Some(Continuation { paused: Some(paused), .. }) = continuation {
            check_decisions(paused.approvals.iter().map(|approval| approval.request_id.as_str()), decisions)?;
        }
        let Some(storage) = &self.settings.responses else { return Ok(None) };
        let Some(id) = decisions.first().and_then(|decision| response_of(&decision.request_id)) else {
            return Ok(None);
        };
        if continuation.and_then(Continuation::response_id).is_some_and(|previous| previous != id) {
            return Err(unknown_approvals(decisions));
        }
        let Some(key) = response_key(principal, &id) else { return Ok(None) };
        let stored: Option<StoredResponse> = storage.find(&self.large_bodies, &key).await?;
        let Some(stored) = stored else { return Ok(None) };
        let is_background = stored.is_background();
        let StoredResponse { model, .. } = stored;
        let (Some(pause), Some(messages)) = (model.paused, model.messages) else { return Ok(None) };
        if now().0.saturating_sub(pause.since.0) > milliseconds(APPROVAL_LIFETIME) {
            return Err(unknown_approvals(decisions));
        }
        // A run that this process has in memory may have advanced, and one that it has used is not there. So
        // it is decided now where the run comes from.
        let in_memory = self.paused.holder(principal, decisions);
        let (is_in_memory, known) = (in_memory.is_some(), in_memory.flatten());
        let is_known = known.is_some();
        let new = || random_text(20).map_err(|error| Failure::new(ErrorKind::Internal, error.to_string()));
        let holder = known.map_or_else(new, |holder| Ok(holder.to_string()))?;
        let claim = Claim { key, holder, lifetime: 2 * APPROVAL_LIFETIME };
        for _ in 0..CLAIM_ATTEMPTS {
            if storage.store.claim(&claim).await.map_err(|error| unavailable(&error))? {
                let claim = HeldClaim { storage: storage.clone(), claim: (!is_known).then_some(claim) };
                let stored = (!is_in_memory).then_some((pause, messages));
                return Ok(Some(ClaimedPause { claim, stored }));
            }
            if !is_in_memory && !is_background {
                break;
            }
            // The claim of the client's previous request, or the lease of the response, is being released.
            tokio::time::sleep(CLAIM_PAUSE).await;
        }
        Err(unknown_approvals(decisions))
    }
}

impl StoredPause {
    pub(crate) fn new(run: &Run, agent: &Agent, requests: &ApprovalRequests) -> StoredPause {
        let tools = agent.tools().tools();
        let pending = run.pending_calls();
        let approval = |call: &PausedCall| {
            let name = pending.iter().find(|pending| pending.id == call.call_id).map(|pending| &pending.name);
            let tool = tools.iter().find(|tool| Some(&tool.name) == name);
            StoredApproval {
                request_id: call.request_id.clone(),
                call_id: call.call_id.clone(),
                tool: tool.map(digest).unwrap_or_default(),
            }
        };
        StoredPause {
            run: run.to_json(),
            approvals: requests.approvals.iter().map(approval).collect(),
            client_calls: requests.client_calls.clone(),
            labels: requests.labels.clone(),
            messages_before: requests.history.len(),
            since: now(),
        }
    }
}

/// A stored pause, and the messages of its conversation.
type PauseWithMessages = (StoredPause, Vec<Arc<Message>>);

impl ClaimedPause {
    /// Returns the right, and the run if it has to be read from the store.
    pub(crate) fn into_parts(self) -> (HeldClaim, Option<PauseWithMessages>) {
        (self.claim, self.stored)
    }
}

impl StoredPause {
    /// Returns the run, with the tools of an agent. The tools that the client approves must not have changed.
    pub(crate) fn resume(
        self,
        mut messages: Vec<Arc<Message>>,
        agent: Agent,
        owns_tools: bool,
        client: &ClientRequest,
    ) -> Result<PausedRun, Failure> {
        let pause = self;
        check_decisions(
            pause.approvals.iter().map(|approval| approval.request_id.as_str()),
            &client.approvals,
        )?;
        let mut run = Run::from_json(&pause.run).map_err(|error| {
            tracing::error!(%error, "a stored run cannot be read");
            Failure::new(ErrorKind::Internal, "the stored run cannot be read")
        })?;
        let tools = agent.tools().tools();
        let pending = run.pending_calls();
        for approval in &pause.approvals {
            let call = pending.iter().find(|call| call.id == approval.call_id);
            let tool = call.and_then(|call| tools.iter().find(|tool| tool.name == call.name));
            if tool.map(digest).as_ref() != Some(&approval.tool) {
                let name = call.map(|call| call.name.clone()).unwrap_or_default();
                let message = format!(
                    "the tool `{name}` is not offered, or has changed since its approval was requested; hint: send the same `tools` as \
                     in the request before"
                );
                return Err(Failure::invalid("tools", message));
            }
        }
        run.set_tools(tools, agent.model().limits());
        let later = messages.split_off(pause.messages_before.min(messages.len()));
        let approvals = pause.approvals.into_iter();
        let requests = ApprovalRequests {
            approvals: approvals
                .map(|approval| PausedCall { request_id: approval.request_id, call_id: approval.call_id })
                .collect(),
            client_calls: pause.client_calls,
            history: messages,
            messages: later,
            labels: pause.labels,
            settings: run.settings().clone(),
            owns_tools,
            ..ApprovalRequests::default()
        };
        Ok(PausedRun { agent, requests, progress: ResponseProgress::Waiting(Box::new(run)) })
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the hash of a tool's definition.
fn digest(tool: &Tool) -> String {
    let text = serde_json::to_vec(tool).unwrap_or_default();
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
