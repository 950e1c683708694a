//! Runs that wait until the client approves calls.
//!
//! An approval is valid once, and only for the client that was asked. The call runs with the stored
//! arguments, and only if the tool's definition has not changed (`FixedTools`). If the response to an
//! approval fails, the client can send the same request again. Calls that already ran do not run again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use toolwire_agent::approval::Decision;
use toolwire_agent::run::Run;
use toolwire_agent::{Agent, AgentSettings};
use toolwire_contract::{Content, Message, ToolResult};
use toolwire_dialect::client::{ApprovalResponse, ClientEvent, ClientRequest, ErrorKind};

use crate::hidden_rounds::ShownId;
use crate::principal::Principal;
use crate::recent::{NotStored, Recent, StateLimits};
use crate::response::{Failure, bounded_list};
use crate::settings::GatewayLimits;
use crate::tools::estimated_bytes;

/// The maximum number of runs that are stored.
const MAX_RUNS: usize = 1_000;

/// Runs that wait until the client approves calls.
pub(crate) struct PausedRuns(Recent<PausedRun>);

pub(crate) struct PausedRun {
    pub(crate) agent: Agent,
    pub(crate) requests: ApprovalRequests,
    pub(crate) progress: ResponseProgress,
}

/// The progress of the response to the client's decisions.
#[derive(Clone)]
pub(crate) enum ResponseProgress {
    /// The client has not decided, or nothing has happened since.
    Waiting(Box<Run>),
    /// The response failed, or the client disconnected.
    Interrupted {
        run: Box<Run>,
        /// The calls that have run, which the client did not get.
        events: Vec<ClientEvent>,
        /// The ids of the open calls that were started.
        started: HashSet<String>,
    },
    /// The response is complete, but the client did not get all of it.
    Complete(Vec<ClientEvent>),
}

/// A run that continues with the decisions of the client.
pub(crate) struct ResumedRun {
    pub(crate) agent: Agent,
    pub(crate) requests: ApprovalRequests,
    pub(crate) progress: ResponseProgress,
    /// The progress without the decisions, if it has to be stored again.
    pub(crate) before: Option<ResponseProgress>,
}

/// The requests for approval of a response, and what preceded them.
#[derive(Clone, Default)]
pub(crate) struct ApprovalRequests {
    pub(crate) approvals: Vec<PausedCall>,
    /// Calls of the client's tools in the same step and before it.
    pub(crate) client_calls: Vec<ShownId>,
    /// The messages before the response, and those of the response.
    pub(crate) history: Vec<Arc<Message>>,
    pub(crate) messages: Vec<Arc<Message>>,
    /// Whether the messages contain what the user wrote together with the decisions.
    pub(crate) has_user_content: bool,
    /// Whether the model has responded since the decisions. Providers may use the ids of calls again, so the
    /// decisions and the client's results must not apply to the calls of a later response.
    pub(crate) is_applied: bool,
    /// The client's labels for servers.
    pub(crate) labels: BTreeMap<String, String>,
    /// The settings of a run that continues.
    pub(crate) settings: AgentSettings,
    /// Whether the tools of the agent are only for this run, because the request names servers by URL.
    pub(crate) owns_tools: bool,
    /// The holder of the right to continue, if the response is stored and has advanced.
    pub(crate) claim_holder: Option<Arc<str>>,
}

impl ApprovalRequests {
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
}

impl ResponseProgress {
    fn bytes(&self) -> usize {
        match self {
            ResponseProgress::Waiting(_) => 0,
            ResponseProgress::Interrupted { events, .. } | ResponseProgress::Complete(events) => {
                events.iter().map(event_bytes).sum()
            }
        }
    }
}

fn event_bytes(event: &ClientEvent) -> usize {
    match event {
        ClientEvent::Text(text) | ClientEvent::Thinking(text) | ClientEvent::Refusal(text) => text.len(),
        ClientEvent::ServerCall(call) => {
            let json = |json: Result<Vec<u8>, serde_json::Error>| json.map_or(0, |json| json.len());
            json(serde_json::to_vec(&call.arguments)) + json(serde_json::to_vec(&call.result))
        }
        ClientEvent::Call { arguments, .. } | ClientEvent::ApprovalRequest { arguments, .. } => {
            serde_json::to_vec(arguments).map_or(0, |json| json.len())
        }
        ClientEvent::CustomCall { input, .. } => input.len(),
        ClientEvent::Media(Content::Image { data, .. } | Content::Audio { data, .. }) => data.len(),
        ClientEvent::ProviderPart(part) => serde_json::to_vec(&part.value).map_or(0, |json| json.len()),
        ClientEvent::Citation(citation) => serde_json::to_vec(&citation.value).map_or(0, |json| json.len()),
        _ => 0,
    }
}

impl PausedRuns {
    pub(crate) fn new(limits: &GatewayLimits, has_several_keys: bool) -> PausedRuns {
        PausedRuns(Recent::new(StateLimits::new(limits, has_several_keys, MAX_RUNS)))
    }

    pub(crate) fn store(&self, principal: &Principal, paused: PausedRun) -> Result<(), NotStored> {
        let tools = match paused.requests.owns_tools {
            true => estimated_bytes(&paused.agent.tools().tools()),
            false => 0,
        };
        let bytes = paused.requests.bytes() + paused.progress.bytes() + tools;
        let ids = paused.requests.approvals.iter().map(|call| call.request_id.clone()).collect();
        // The agent has the connections of the caller.
        self.0.store(&principal.owner_of_connections(), ids, paused, bytes)
    }

    /// Removes and returns the run that waits for the decisions in a request, and applies them. If the client
    /// does not get the response, the run is stored again. A repeated request applies the decisions only to
    /// calls that still need them.
    pub(crate) fn resume(
        &self,
        principal: &Principal,
        client: &ClientRequest,
    ) -> Result<ResumedRun, Failure> {
        Ok(apply_decisions(self.take(principal, &client.approvals)?, client))
    }

    /// Returns the holder of the claim on the run that waits for these decisions; `None` if no run does.
    pub(crate) fn holder(
        &self,
        principal: &Principal,
        responses: &[ApprovalResponse],
    ) -> Option<Option<Arc<str>>> {
        let owner = principal.owner_of_connections();
        let paused = responses.iter().find_map(|response| self.0.find(&owner, &response.request_id))?;
        Some(paused.requests.claim_holder.clone())
    }

    /// Removes and returns the run that waits for these responses. Every request for approval of the run
    /// needs a response, so that no call stays undecided.
    fn take(&self, principal: &Principal, responses: &[ApprovalResponse]) -> Result<PausedRun, Failure> {
        let ids = || responses.iter().map(|response| response.request_id.as_str());
        let check = |paused: &PausedRun| {
            check_decisions(paused.requests.approvals.iter().map(|call| call.request_id.as_str()), responses)
        };
        match self.0.take(&principal.owner_of_connections(), ids(), check)? {
            Some(paused) => Arc::into_inner(paused)
                .ok_or_else(|| Failure::new(ErrorKind::Internal, "the paused run is no longer stored")),
            None => Err(unknown_approvals(responses)),
        }
    }
}

/// Checks that each request for approval has a decision, so that no call stays undecided, and that each
/// decision has a request.
pub(crate) fn check_decisions<'r>(
    requests: impl Iterator<Item = &'r str>,
    responses: &[ApprovalResponse],
) -> Result<(), Failure> {
    let requests: Vec<&str> = requests.collect();
    let decided: HashSet<&str> = responses.iter().map(|response| response.request_id.as_str()).collect();
    if let Some(open) = requests.iter().find(|request| !decided.contains(*request)) {
        return Err(missing_decision(open, "input"));
    }
    // A history can have earlier responses, to requests that it has too.
    let is_unknown = |response: &&ApprovalResponse| {
        !response.has_request && !requests.contains(&response.request_id.as_str())
    };
    responses.iter().find(is_unknown).map_or(Ok(()), |unknown| {
        let message = format!(
            "`{}` responds to `{}`, and no open request for approval of this response has this id",
            unknown.parameter, unknown.request_id
        );
        Err(Failure::invalid(&unknown.parameter, message))
    })
}

/// The error for a request for approval without a decision.
pub(crate) fn missing_decision(request_id: &str, parameter: &str) -> Failure {
    let message = format!(
        "there is no approval response for `{request_id}`; hint: add an `mcp_approval_response`, with `approve: false` if the \
         call must not run"
    );
    Failure::invalid(parameter, message)
}

/// The error for decisions that no run waits for.
pub(crate) fn unknown_approvals(responses: &[ApprovalResponse]) -> Failure {
    let ids: Vec<String> = responses.iter().map(|response| format!("`{}`", response.request_id)).collect();
    let message =
        format!("no open request for approval has the id {}; each is valid only once", bounded_list(&ids));
    let unknown = responses.iter().find(|response| !response.has_request).or(responses.first());
    let parameter = unknown.map_or("input", |response| &response.parameter);
    Failure::invalid(parameter, message)
}

/// Applies the decisions of a request to the run that waits for them.
pub(crate) fn apply_decisions(paused: PausedRun, client: &ClientRequest) -> ResumedRun {
    let PausedRun { agent, requests, mut progress } = paused;
    if matches!(progress, ResponseProgress::Complete(_)) {
        return ResumedRun { agent, requests, progress, before: None };
    }
    let before = Some(progress.clone());
    if let ResponseProgress::Waiting(run) | ResponseProgress::Interrupted { run, .. } = &mut progress {
        if !requests.has_user_content {
            run.say_with_results(client.with_approvals.clone());
        }
        if !requests.is_applied {
            for (call_id, decision) in decisions(&requests, &client.approvals) {
                run.decide(call_id, decision);
            }
            run.tools_returned(client_results(&requests, client));
        }
    }
    ResumedRun { agent, requests, progress, before }
}

/// Returns the decision about each call. There is only one response to each request.
fn decisions<'r>(requests: &'r ApprovalRequests, responses: &[ApprovalResponse]) -> Vec<(&'r str, Decision)> {
    let responses: HashMap<&str, &ApprovalResponse> =
        responses.iter().map(|response| (response.request_id.as_str(), response)).collect();
    let decision = |call: &'r PausedCall| {
        let response = responses.get(call.request_id.as_str())?;
        let decision = match response.approve {
            true => Decision::Once,
            false => Decision::No { because: response.reason.clone() },
        };
        Some((call.call_id.as_str(), decision))
    };
    requests.approvals.iter().filter_map(decision).collect()
}

/// Returns the client's results of the open calls, with the original ids.
fn client_results(requests: &ApprovalRequests, client: &ClientRequest) -> Vec<(String, ToolResult)> {
    let calls: HashMap<&str, &String> = requests
        .client_calls
        .iter()
        .filter_map(|(shown, original)| Some((shown.as_str(), original.as_ref()?)))
        .collect();
    let results = client.request.messages.iter().flat_map(|message| message.results());
    results.filter_map(|(id, result)| Some(((*calls.get(id)?).clone(), result.clone()))).collect()
}
