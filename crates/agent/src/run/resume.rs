//! Runs that continue stored messages or a saved run.

use std::collections::HashSet;
use std::sync::Arc;

use toolwire_contract::model::ModelLimits;
use toolwire_contract::{Message, Role, Tool};

use super::calls::CallState;
use super::{InvalidRun, Run, RunState, history};
use crate::settings::AgentSettings;

impl Run {
    /// Continues messages that are already stored. If they end in the middle of a step, so does the run:
    /// existing results are used. A call without a result is made again if its tool is repeatable
    /// ([`Tool::is_repeatable`]); otherwise its result says that the outcome is unknown.
    pub fn resume(
        settings: AgentSettings,
        messages: impl IntoIterator<Item = impl Into<Arc<Message>>>,
        tools: Arc<[Tool]>,
        limits: ModelLimits,
    ) -> Run {
        Run::resume_step(settings, messages, tools, limits, |_| true)
    }

    /// Like [`Run::resume`], if it is known which calls of the last step were started
    /// ([`AgentEvent::CallStarted`](crate::AgentEvent::CallStarted)). The others took no effect: they are
    /// made, or need approval, as if the model had just requested them.
    pub fn resume_with_started(
        settings: AgentSettings,
        messages: impl IntoIterator<Item = impl Into<Arc<Message>>>,
        tools: Arc<[Tool]>,
        limits: ModelLimits,
        started: &HashSet<String>,
    ) -> Run {
        Run::resume_step(settings, messages, tools, limits, |id| started.contains(id))
    }

    fn resume_step(
        settings: AgentSettings,
        messages: impl IntoIterator<Item = impl Into<Arc<Message>>>,
        tools: Arc<[Tool]>,
        limits: ModelLimits,
        is_started: impl Fn(&str) -> bool,
    ) -> Run {
        let (messages, summary) = history::without_summaries(messages);
        let mut run = Run { history: history::assemble(messages), ..Run::new(settings) };
        run.restore_summary(summary);
        run.set_tools(tools, limits);
        run.offered_tools.mark_history(&run.history);
        run.reopen_calls(is_started);
        if !run.calls.is_empty() || run.history.last().is_some_and(|message| message.role == Role::User) {
            run.state = RunState::Working;
        }
        run.record_results();
        run
    }

    /// Returns the run as JSON, to be continued by any process that has its tools.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("text, numbers and messages are always valid JSON")
    }

    /// Reads the output of [`Run::to_json`]. A call that was running is handled as in [`Run::resume`]; a call
    /// that needed approval still needs it.
    pub fn from_json(text: &str) -> Result<Run, InvalidRun> {
        let mut run: Run = serde_json::from_str(text)?;
        run.turn.partial.clear();
        for call in run.calls.iter_mut().filter(|call| call.state == CallState::Started) {
            call.state =
                if call.repeatable { CallState::Ready } else { CallState::outcome_unknown(&call.call.name) };
        }
        run.record_results();
        Ok(run)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};
    use toolwire_contract::{Block, ToolCall};

    use super::*;
    use crate::approval::ApprovalPolicy;
    use crate::run::Step;

    #[test]
    fn a_call_that_was_not_started_is_not_unknown() {
        let tools: Arc<[Tool]> = Arc::new([Tool::new("delete", json!({"type": "object"}))]);
        let call = |id: &str| Block::Call { id: id.to_owned(), call: ToolCall::new("delete", Map::new()) };
        let messages = [Message::user("go"), Message::new(Role::Assistant, vec![call("1"), call("2")])];
        let started = HashSet::from(["1".to_owned()]);
        let resume = |approvals: ApprovalPolicy| {
            let settings = AgentSettings { approvals, ..AgentSettings::default() };
            Run::resume_with_started(
                settings,
                messages.clone(),
                tools.clone(),
                ModelLimits::default(),
                &started,
            )
        };
        let mut run = resume(ApprovalPolicy::allow_all());
        assert_eq!(run.interrupted_calls().count(), 1);
        assert!(matches!(run.step(), Step::CallTools(calls) if calls.len() == 1 && calls[0].0 == "2"));
        let mut run = resume(ApprovalPolicy::default());
        assert!(matches!(run.step(), Step::Review(calls) if calls.len() == 1 && calls[0].id == "2"));
    }
}
