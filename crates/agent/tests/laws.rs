//! Properties of every run, checked with random events.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolwire_agent::AgentSettings;
use toolwire_agent::approval::{ApprovalPolicy, Decision};
use toolwire_agent::run::{Run, Step, normalize};
use toolwire_contract::model::{
    ModelError, ModelLimits, ModelResponse, OutputFormat, StopReason, UnusableCall, Usage,
};
use toolwire_contract::{Block, Content, Message, Role, Tool, ToolCall, ToolResult};
use toolwire_testkit::check_messages;

/// A random event, which may be one that the run does not expect.
#[derive(Clone, Debug)]
enum Event {
    /// A user message. If the value is false, it is sent only if the run is done.
    Say(bool),
    /// A response with these calls. Pairs of calls may share an id, and the last call may be unusable.
    Response {
        text: u8,
        calls: Vec<u8>,
        same_ids: bool,
        unusable: bool,
        stop: u8,
    },
    /// A part of a response, which is blank if the value is true.
    Wrote(bool),
    /// The index of a pending call, and that of the decision.
    Decide(u8, u8),
    /// Returns the results of this many calls in progress, possibly in reverse order.
    Return(u8, bool),
    /// Returns results of calls that are not in progress.
    ReturnAgain,
    Cancel,
    Fail,
    JsonRoundTrip,
    /// The process ends, and another one continues from the stored messages.
    Restart,
    Step,
}

fn event() -> impl Strategy<Value = Event> {
    let response = (0..5u8, prop::collection::vec(0..6u8, 0..4), any::<bool>(), any::<bool>(), 0..5u8)
        .prop_map(|(text, calls, same_ids, unusable, stop)| Event::Response {
            text,
            calls,
            same_ids,
            unusable,
            stop,
        });
    prop_oneof![
        2 => any::<bool>().prop_map(Event::Say),
        6 => response,
        1 => any::<bool>().prop_map(Event::Wrote),
        4 => (0..3u8, 0..4u8).prop_map(|(call, decision)| Event::Decide(call, decision)),
        5 => (1..4u8, any::<bool>()).prop_map(|(count, reverse)| Event::Return(count, reverse)),
        1 => Just(Event::ReturnAgain),
        1 => Just(Event::Cancel),
        1 => Just(Event::Fail),
        1 => Just(Event::JsonRoundTrip),
        1 => Just(Event::Restart),
        4 => Just(Event::Step),
    ]
}

/// A run, and the messages that a store would have.
struct Simulation {
    run: Run,
    stored: Vec<Arc<Message>>,
    tools: Arc<[Tool]>,
    limits: ModelLimits,
    responses: u32,
    questions: u32,
}

impl Simulation {
    fn new(many_tools: bool, context: Option<u64>, output: Option<bool>) -> Simulation {
        let tool = |name: &str, annotations| Tool {
            annotations: serde_json::from_value(annotations).unwrap(),
            description: Some(format!("does {name}")),
            ..Tool::new(name, json!({"type": "object"}))
        };
        let named_tools = [
            tool("read", json!({"readOnlyHint": true})),
            tool("delete", json!({"destructiveHint": true})),
            tool("denied", json!({"readOnlyHint": true})),
            tool("set", json!({"idempotentHint": true, "destructiveHint": false})),
        ];
        let others = (0..60).map(|number| tool(&format!("other_{number}"), json!({"readOnlyHint": true})));
        let tools: Arc<[Tool]> = named_tools.into_iter().chain(others.filter(|_| many_tools)).collect();
        let limits =
            ModelLimits { context_tokens: context, tools: Some(12), separate_output: output == Some(true) };
        let mut settings = AgentSettings::default();
        if output.is_some() {
            settings.output = OutputFormat::schema(json!({"type": "object"}));
        }
        settings.max_steps = 6;
        (settings.max_calls, settings.max_calls_per_step, settings.max_empty_responses) = (5, 2, 2);
        settings.generation.parallel_calls = many_tools.then_some(false);
        settings.token_budget = Some(500);
        settings.approvals = ApprovalPolicy::default().deny("denied");
        let mut run = Run::new(settings);
        run.set_tools(tools.clone(), limits);
        Simulation { run, stored: Vec::new(), tools, limits, responses: 0, questions: 0 }
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Say(may_interrupt) if *may_interrupt || self.run.is_done() => {
                self.questions += 1;
                self.run.say(format!("Question {}?", self.questions));
            }
            Event::Say(_) => {}
            Event::Response { .. } => {
                let response = self.response(event);
                self.run.model_responded(response);
            }
            Event::Wrote(blank) => self.run.model_wrote(if *blank { " " } else { "Well, " }),
            Event::Decide(call, decision) => {
                let pending = self.run.pending_calls();
                let edited = Map::from_iter([("edited".to_owned(), Value::Bool(true))]);
                let decision = [
                    Decision::Once,
                    Decision::Always,
                    Decision::No { because: Some("so".into()) },
                    Decision::OnceWith { arguments: edited },
                ][usize::from(*decision)]
                .clone();
                if let Some(call) = pending.get(usize::from(*call)) {
                    self.run.decide(&call.id, decision);
                }
                self.run.decide("unknown", Decision::Once);
            }
            Event::Return(count, reverse) => {
                if let Step::CallTools(mut calls) = self.run.step() {
                    if *reverse {
                        calls.reverse();
                    }
                    let long = "x".repeat(3_000);
                    let results = calls.iter().take(usize::from(*count)).map(|(id, call)| {
                        let result = match call.name.as_str() {
                            "read" => ToolResult::text(&*long),
                            "set" => ToolResult::error("it failed"),
                            other => ToolResult::text(other),
                        };
                        (id.clone(), result)
                    });
                    self.run.tools_returned(results.collect::<Vec<_>>());
                }
            }
            Event::ReturnAgain => {
                let calls: Vec<String> = self
                    .run
                    .messages()
                    .iter()
                    .flat_map(|message| message.calls())
                    .map(|(id, _)| id.to_owned())
                    .collect();
                let pending: Vec<String> = self.run.pending_calls().into_iter().map(|call| call.id).collect();
                let others = calls.into_iter().filter(|id| !self.is_in_progress(id) || pending.contains(id));
                let results = others.map(|id| (id, ToolResult::text("again"))).collect::<Vec<_>>();
                self.run.tools_returned(results);
            }
            Event::Cancel => self.run.cancel(),
            Event::Fail => self.run.fail(ModelError::Broken { model: "m".into(), problem: "cut".into() }),
            Event::JsonRoundTrip => {
                self.save();
                self.run = Run::from_json(&self.run.to_json()).unwrap();
                self.run.set_tools(self.tools.clone(), self.limits);
            }
            Event::Restart => {
                self.save();
                let settings = self.run.settings().clone();
                self.run = Run::resume(settings, self.stored.clone(), self.tools.clone(), self.limits);
            }
            Event::Step => {
                let step = self.run.step();
                if !matches!(step, Step::AskModel(_)) {
                    assert_eq!(self.run.step(), step, "a step stays the same until an event");
                }
            }
        }
        self.save();
    }

    fn is_in_progress(&mut self, id: &str) -> bool {
        matches!(self.run.step(), Step::CallTools(calls) if calls.iter().any(|(call, _)| call == id))
    }

    fn response(&mut self, event: &Event) -> ModelResponse {
        let Event::Response { text, calls, same_ids, unusable, stop } = event else { unreachable!() };
        self.responses += 1;
        let names = ["read", "delete", "denied", "set", "search_tools", "unknown"];
        let text = match text {
            0 => vec![],
            1 => vec![Block::Content(Content::text("  "))],
            4 => vec![Block::Content(Content::text("{\"a\": 1}"))],
            2 => vec![Block::Content(Content::Other(json!({"type": "thinking", "text": "hm"})))],
            _ => vec![Block::Content(Content::text("Let me see."))],
        };
        let ids: Vec<String> = (0..calls.len())
            .map(|index| {
                if *same_ids { format!("call-{}", index / 2) } else { format!("{}-{index}", self.responses) }
            })
            .collect();
        let calls = calls.iter().zip(&ids).map(|(call, id)| Block::Call {
            id: id.clone(),
            call: ToolCall::new(
                names[usize::from(*call)],
                json!({"query": "other"}).as_object().unwrap().clone(),
            ),
        });
        let content: Vec<Block> = text.into_iter().chain(calls).collect();
        let unusable_id = ids.last().filter(|_| *unusable);
        ModelResponse {
            message: Message::new(Role::Assistant, content),
            stop: [
                StopReason::End,
                StopReason::Calls,
                StopReason::Length,
                StopReason::Refusal,
                StopReason::Other("x".into()),
            ][usize::from(*stop)]
            .clone(),
            usage: (*stop > 0).then_some(Usage { input_tokens: 20, output_tokens: 5, ..Usage::default() }),
            unusable: unusable_id
                .map(|id| UnusableCall { id: id.clone(), problem: "cut off".into() })
                .into_iter()
                .collect(),
        }
    }

    fn save(&mut self) {
        let unsaved = self.run.unsaved_messages().to_vec();
        self.stored.extend(unsaved.iter().map(|unsaved| unsaved.message.clone()));
        self.run.mark_saved(unsaved.len());
    }

    fn check(&mut self) {
        let history = normalize(self.run.messages().to_vec());
        check_messages(&history).unwrap_or_else(|problem| panic!("{problem}: {history:#?}"));
        let stored = normalize(self.stored.clone());
        check_messages(&stored).unwrap_or_else(|problem| panic!("{problem}: {stored:#?}"));
        if let Step::AskModel(request) = self.run.step() {
            let messages = &request.messages;
            check_messages(messages).unwrap_or_else(|problem| panic!("{problem}: {messages:#?}"));
            assert_eq!(messages.last().unwrap().role, Role::User);
            assert!(request.tools.len() <= 12, "{} tools", request.tools.len());
            let text = json!(messages).to_string();
            let question = format!("Question {}?", self.questions);
            assert!(self.questions == 0 || text.contains(&question), "`{question}` is not in {text}");
        }
        if self.run.is_done() {
            assert_eq!(stored, self.run.messages(), "the stored messages differ from the history");
            check_messages(self.run.messages()).unwrap();
        }
        if let Step::Done(outcome) = self.run.step()
            && outcome.is_finished()
            && matches!(outcome.stop, Some(StopReason::End))
        {
            let requires_output = !self.run.settings().output.is_text();
            assert_eq!(outcome.output.is_some(), requires_output, "{outcome:?}");
        }
        // Each call has exactly one result in the stored messages too.
        let mut open: Vec<&str> = Vec::new();
        for block in self.stored.iter().flat_map(|message| &message.content) {
            match block {
                Block::Call { id, .. } => open.push(id),
                Block::Result { id, .. } => {
                    let index = open.iter().position(|open| open == id).expect("a result has an open call");
                    open.remove(index);
                }
                Block::Content(_) => {}
            }
        }
        assert!(!self.run.is_done() || open.is_empty(), "calls without a result: {open:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_is_valid_and_every_call_has_one_result(
        events in prop::collection::vec(event(), 1..40),
        many_tools in any::<bool>(),
        context in prop::option::of(300..3_000u64),
        output in prop::option::of(any::<bool>()),
    ) {
        let mut simulation = Simulation::new(many_tools, context, output);
        simulation.run.say("Hello!");
        simulation.save();
        for event in &events {
            simulation.apply(event);
            simulation.check();
        }
        simulation.run.cancel();
        simulation.save();
        prop_assert!(simulation.run.is_done());
        simulation.check();
    }

    #[test]
    fn runs_round_trip_through_json(
        events in prop::collection::vec(event(), 1..20),
        output in prop::option::of(any::<bool>()),
    ) {
        let mut simulation = Simulation::new(false, None, output);
        simulation.run.say("Hello!");
        for event in &events {
            simulation.apply(event);
        }
        let text = simulation.run.to_json();
        let parsed = Run::from_json(&text).unwrap();
        prop_assert_eq!(&Run::from_json(&parsed.to_json()).unwrap(), &parsed);
    }
}
