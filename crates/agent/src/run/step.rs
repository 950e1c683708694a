//! One step of a run: the calls of a response, until all results are in the history.

use std::mem;
use std::sync::Arc;

use toolwire_contract::text::counted;
use toolwire_contract::toolbox::CallPermission;
use toolwire_contract::{Block, Message, Role, Tool, ToolCall};

use super::calls::{CallState, OpenCall};
use super::{Run, UnsavedMessage, history};
use crate::approval::Verdict;
use crate::outcome::RunLimit;

/// The number of calls in one response so far.
#[derive(Debug, Default)]
pub(super) struct StepCalls {
    all: u32,
    /// Those that are not calls of client tools.
    own: u32,
}

impl Run {
    /// Returns the check for a call that runs without approval: whether the tool that its server lists at the
    /// time of the call is also allowed. The tool may not have been listed when the call was checked first.
    pub(crate) fn call_permission(&self, name: &str) -> Option<Arc<CallPermission>> {
        let policy = &self.settings.approvals;
        let is_allowed = policy.verdict(name, self.catalog.tool(name)) == Verdict::Allow;
        if !is_allowed || self.always.iter().any(|allowed| allowed == name) {
            return None;
        }
        let (policy, name) = (policy.clone(), name.to_owned());
        Some(Arc::new(move |tool| match policy.verdict(&name, Some(tool)) {
            Verdict::Allow => Ok(()),
            Verdict::Ask(why) | Verdict::Deny(why) => Err(format!(
                "{why}, and approval was not requested because the tool appeared or changed after the \
                 call was checked"
            )),
        }))
    }

    /// Decides what happens to a call in a response of the model.
    pub(super) fn open_call(
        &mut self,
        id: String,
        call: ToolCall,
        problem: Option<&str>,
        limit: Option<RunLimit>,
        step: &mut StepCalls,
    ) -> OpenCall {
        let tool = self.catalog.tool(&call.name);
        let repeatable = tool.is_some_and(Tool::is_repeatable);
        let is_external = self.settings.is_client_tool(&call.name);
        step.all += 1;
        step.own += u32::from(!is_external);
        let state = if let Some(problem) = self.exceeded_in_step(&call.name, is_external, step) {
            CallState::error(problem)
        } else if is_external && limit != Some(RunLimit::Output) && call.arguments.is_some() {
            // The caller checks the arguments of its own tools, and the limits of the run do not apply to
            // them.
            CallState::External
        } else if let Some(problem) = problem {
            CallState::error(problem)
        } else if let Some(limit) = limit {
            CallState::error(format!("`{}` was not run: {limit}", call.name))
        } else if is_external {
            CallState::External
        } else if self.offered_tools.is_search_tool(&call.name) {
            CallState::completed(self.offered_tools.search(&self.catalog, &call, &self.settings))
        } else {
            self.offered_tools.mark_used(&self.catalog, &call.name);
            match CallState::by_policy(&self.settings.approvals, &self.always, &call.name, tool) {
                CallState::Ready | CallState::Waiting { .. }
                    if self.turn.calls >= self.settings.max_calls =>
                {
                    CallState::error(format!(
                        "`{}` was not run: the limit of {} was reached; respond without further calls",
                        call.name,
                        counted(self.settings.max_calls, "call")
                    ))
                }
                state => {
                    self.turn.calls +=
                        u32::from(matches!(state, CallState::Ready | CallState::Waiting { .. }));
                    state
                }
            }
        };
        OpenCall { id, call, repeatable, is_edited: false, state, is_recorded: false }
    }

    /// Returns the error for the model if a response has more calls than allowed.
    fn exceeded_in_step(&self, name: &str, is_external: bool, step: &StepCalls) -> Option<String> {
        let max = self.settings.max_calls_per_step;
        let allowed = if self.settings.generation.parallel_calls == Some(false) && step.all > 1 {
            // Not every API has this parameter.
            "only one call".to_owned()
        } else if !is_external && step.own > max {
            format!("at most {max} calls")
        } else {
            return None;
        };
        Some(format!(
            "`{name}` was not run: a response may contain {allowed}; call it again in the next response if it is still needed"
        ))
    }

    /// Adds new results to the unsaved messages. When all calls have results, moves them to the history.
    pub(super) fn record_results(&mut self) {
        let mut new = Vec::new();
        for call in &mut self.calls {
            let CallState::Completed { result, is_reported } = &mut call.state else { continue };
            if !mem::replace(is_reported, true) {
                self.unreported_results.push((call.id.clone(), call.call.name.clone(), result.clone()));
            }
            if !mem::replace(&mut call.is_recorded, true) {
                new.push(Block::Result { id: call.id.clone(), result: result.clone() });
            }
        }
        if !new.is_empty() {
            let message = Arc::new(Message::new(Role::User, new));
            self.unsaved.push(UnsavedMessage { message, usage: None });
        }
        if self.calls.iter().all(|call| matches!(call.state, CallState::Completed { .. })) {
            let results: Vec<Block> =
                mem::take(&mut self.calls).into_iter().filter_map(OpenCall::into_result).collect();
            if !results.is_empty() {
                history::push(&mut self.history, Message::new(Role::User, results).into());
            }
            let said = mem::take(&mut self.turn.said);
            if !said.is_empty() {
                self.add(Message::new(Role::User, said), None);
            }
        }
    }

    /// Opens the calls of the last step again if some of them have no result.
    pub(super) fn reopen_calls(&mut self, is_started: impl Fn(&str) -> bool) {
        for (id, call, result) in history::take_open_calls(&mut self.history) {
            let tool = self.catalog.tool(&call.name);
            let repeatable = tool.is_some_and(Tool::is_repeatable);
            let is_recorded = result.is_some();
            let state = match result {
                Some(result) => CallState::Completed { result, is_reported: true },
                None if self.settings.is_client_tool(&call.name) => CallState::External,
                None if self.offered_tools.is_search_tool(&call.name) => {
                    CallState::completed(self.offered_tools.search(&self.catalog, &call, &self.settings))
                }
                None if repeatable || !is_started(&id) => {
                    CallState::by_policy(&self.settings.approvals, &self.always, &call.name, tool)
                }
                None => CallState::outcome_unknown(&call.name),
            };
            self.calls.push(OpenCall { id, call, repeatable, is_edited: false, state, is_recorded });
        }
    }
}
