//! One step of a run: what becomes of the calls in an answer, until each has its result in the history.

use std::mem;
use std::sync::Arc;

use toolwire_contract::{Block, CallPermission, Message, Role, ToolCall, ToolResult};

use super::calls::{self, CallState, OpenCall};
use super::{Run, Unsaved, history};
use crate::approval::Verdict;
use crate::outcome::Limit;

impl Run {
    /// For a call that runs without a person's word: whether what its server lists by then may run so too. The tool may be one
    /// that was not listed when the call was judged.
    pub(crate) fn permits(&self, name: &str) -> Option<Arc<CallPermission>> {
        let policy = &self.settings.approvals;
        let is_free = policy.verdict(name, self.catalog.tool(name)) == Verdict::Allow;
        if !is_free || self.always.iter().any(|allowed| allowed == name) {
            return None;
        }
        let (policy, name) = (policy.clone(), name.to_owned());
        Some(Arc::new(move |tool| match policy.verdict(&name, Some(tool)) {
            Verdict::Allow => Ok(()),
            Verdict::Ask(why) | Verdict::Deny(why) => {
                Err(format!("{why}, and it was not listed so when it was called, so nobody was asked"))
            }
        }))
    }

    /// What becomes of a call that the model wants made.
    pub(super) fn judge(
        &mut self,
        id: String,
        call: ToolCall,
        problem: Option<&str>,
        limit: Option<Limit>,
    ) -> OpenCall {
        let tool = self.catalog.tool(&call.name);
        let repeatable = tool.is_some_and(crate::approval::is_repeatable);
        let state = if let Some(problem) = problem {
            calls::answered(ToolResult::error(problem))
        } else if let Some(limit) = limit {
            calls::answered(ToolResult::error(format!("`{}` was not run: {limit}", call.name)))
        } else if self.offer.is_search(&call.name) {
            calls::answered(self.offer.search(&self.catalog, &call, &self.settings))
        } else {
            self.offer.use_tool(&self.catalog, &call.name);
            calls::by_policy(&self.settings.approvals, &self.always, &call.name, tool)
        };
        OpenCall { id, call, repeatable, state, is_kept: false }
    }

    /// Puts what is known about open calls where it is kept, and ends the step when nothing is open any more.
    pub(super) fn close_step(&mut self) {
        let mut known = Vec::new();
        for call in &mut self.calls {
            let CallState::Answered { result, is_told } = &mut call.state else { continue };
            if !mem::replace(is_told, true) {
                self.told.push((call.id.clone(), call.call.name.clone(), result.clone()));
            }
            if !mem::replace(&mut call.is_kept, true) {
                known.push(Block::Result { id: call.id.clone(), result: result.clone() });
            }
        }
        if !known.is_empty() {
            let message = Arc::new(Message::new(Role::User, known));
            self.unsaved.push(Unsaved { message, usage: None });
        }
        if self.calls.iter().all(|call| matches!(call.state, CallState::Answered { .. })) {
            let results: Vec<Block> =
                mem::take(&mut self.calls).into_iter().filter_map(OpenCall::result).collect();
            if !results.is_empty() {
                history::push(&mut self.history, Message::new(Role::User, results).into());
            }
        }
    }

    /// Opens the calls at the end of a history again that have no result there.
    pub(super) fn open_last_calls(&mut self) {
        let Some((asked, results)) = history::take_open_step(&mut self.history) else { return };
        for (id, call) in asked {
            let tool = self.catalog.tool(&call.name);
            let repeatable = tool.is_some_and(crate::approval::is_repeatable);
            let found = results.iter().find(|(of, _)| *of == id).map(|(_, result)| result.clone());
            let is_kept = found.is_some();
            let state = match found {
                Some(result) => CallState::Answered { result, is_told: true },
                None if self.offer.is_search(&call.name) => {
                    calls::answered(self.offer.search(&self.catalog, &call, &self.settings))
                }
                None if repeatable => {
                    calls::by_policy(&self.settings.approvals, &self.always, &call.name, tool)
                }
                None => calls::outcome_unknown(&call.name),
            };
            self.calls.push(OpenCall { id, call, repeatable, state, is_kept });
        }
    }
}
