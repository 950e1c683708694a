//! Decisions about calls, and the requests for them.

use toolwire_contract::{Block, Role};

use super::ConversationReader;
use crate::client::{ApprovalResponse, InvalidRequest, OpenApproval, Problem, ReadRequest};

impl ConversationReader {
    /// Adds the decision about a call. Two decisions about one call are refused, because only one could
    /// count.
    pub(crate) fn add_approval(&mut self, mut approval: ApprovalResponse) -> ReadRequest<()> {
        if !self.decided.insert(approval.request_id.clone()) {
            let problem = format!("is a second approval response for `{}`", approval.request_id);
            return Err(InvalidRequest { parameter: approval.parameter, problem: Problem::Invalid(problem) });
        }
        if self.approvals.is_empty() && self.asked_at.is_none() {
            self.mark_approval_request();
        }
        approval.has_request = self.requested.contains(&approval.request_id);
        self.approvals.push(approval);
        Ok(())
    }

    /// Adds a request for approval.
    pub(crate) fn add_approval_request(&mut self, path: &str, id: String) {
        self.requested.insert(id.clone());
        self.requests.push((id, path.to_owned()));
        self.mark_approval_request();
    }

    /// Marks the position of a request for approval. User messages after it are not part of the paused run
    /// yet.
    fn mark_approval_request(&mut self) {
        let last = self.messages.last().filter(|last| last.role == Role::User);
        self.asked_at = Some((self.messages.len(), last.map_or(0, |last| last.content.len())));
    }

    /// Records that the model has continued, so the requests for approval before that are no longer open.
    pub(crate) fn forget_approval_requests(&mut self) {
        self.requests.clear();
        self.requested.clear();
    }

    /// Returns the first open request for approval that has no response.
    pub(crate) fn open_approval(&self) -> Option<OpenApproval> {
        let is_open = |id: &str| self.requested.contains(id) && !self.decided.contains(id);
        let (id, path) = self.requests.iter().find(|(id, _)| is_open(id))?;
        Some(OpenApproval { request_id: id.clone(), parameter: path.clone() })
    }

    /// Removes the approvals read so far. They were already applied, because a response of the model follows
    /// them.
    pub(crate) fn forget_approvals(&mut self) {
        self.approvals.clear();
        for id in self.decided.drain() {
            self.requested.remove(&id);
        }
        self.asked_at = None;
    }

    /// Returns the decisions about calls, and the user's content that came with them.
    pub(crate) fn take_approvals(&mut self) -> (Vec<ApprovalResponse>, Vec<Block>) {
        let approvals = std::mem::take(&mut self.approvals);
        let Some((messages, blocks)) = self.asked_at.filter(|_| !approvals.is_empty()) else {
            return (approvals, Vec::new());
        };
        let within = messages.checked_sub(1).and_then(|last| self.messages.get(last));
        let within = within.filter(|last| last.role == Role::User).into_iter();
        let within = within.flat_map(|last| last.content.iter().skip(blocks));
        let later = self.messages.iter().skip(messages).flat_map(|message| &message.content);
        let contents = within.chain(later).filter(|block| matches!(block, Block::Content(_)));
        (approvals, contents.cloned().collect())
    }
}
