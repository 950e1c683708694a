//! What holds for a run whatever happens to it, tried with random events.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;
use toolwire_agent::{Decision, Policy, Run, Settings, Step, mend};
use toolwire_contract::{
    Block, Content, Message, ModelError, ModelLimits, ModelResponse, Role, StopReason, Tool, ToolCall,
    ToolResult, UnusableCall, Usage,
};
use toolwire_testkit::check_messages;

/// One thing that happens. Some fit what the run waits for, some come out of turn.
#[derive(Clone, Debug)]
enum Event {
    Say(bool),
    /// Which tools are called, whether the second call takes the id of the first, whether the last one is unusable.
    Response {
        text: u8,
        calls: Vec<u8>,
        same_ids: bool,
        unusable: bool,
        stop: u8,
    },
    Wrote(bool),
    Decide(u8, u8),
    /// The results of so many of the calls that are due, from the last to the first or the other way round.
    Return(u8, bool),
    ReturnAgain,
    Cancel,
    Fail,
    ThroughJson,
    /// The process ends, and another goes on with what is kept.
    Restart,
    Step,
}

fn event() -> impl Strategy<Value = Event> {
    let answer = (0..4u8, prop::collection::vec(0..6u8, 0..4), any::<bool>(), any::<bool>(), 0..5u8)
        .prop_map(|(text, calls, same_ids, unusable, stop)| Event::Response {
            text,
            calls,
            same_ids,
            unusable,
            stop,
        });
    prop_oneof![
        2 => any::<bool>().prop_map(Event::Say),
        6 => answer,
        1 => any::<bool>().prop_map(Event::Wrote),
        4 => (0..3u8, 0..3u8).prop_map(|(call, decision)| Event::Decide(call, decision)),
        5 => (1..4u8, any::<bool>()).prop_map(|(count, reverse)| Event::Return(count, reverse)),
        1 => Just(Event::ReturnAgain),
        1 => Just(Event::Cancel),
        1 => Just(Event::Fail),
        1 => Just(Event::ThroughJson),
        1 => Just(Event::Restart),
        4 => Just(Event::Step),
    ]
}

/// A run, and what a store would have of it.
struct World {
    run: Run,
    stored: Vec<Arc<Message>>,
    tools: Arc<[Tool]>,
    limits: ModelLimits,
    answers: u32,
    said: u32,
}

impl World {
    fn new(many_tools: bool, context: Option<u64>) -> World {
        let tool = |name: &str, annotations| Tool {
            annotations: serde_json::from_value(annotations).unwrap(),
            description: Some(format!("does {name}")),
            ..Tool::new(name, json!({"type": "object"}))
        };
        let named = [
            tool("read", json!({"readOnlyHint": true})),
            tool("delete", json!({"destructiveHint": true})),
            tool("denied", json!({"readOnlyHint": true})),
            tool("set", json!({"idempotentHint": true, "destructiveHint": false})),
        ];
        let others = (0..60).map(|number| tool(&format!("other_{number}"), json!({"readOnlyHint": true})));
        let tools: Arc<[Tool]> = named.into_iter().chain(others.filter(|_| many_tools)).collect();
        let limits = ModelLimits { context_tokens: context, tools: Some(12) };
        let settings = Settings {
            max_steps: 6,
            token_budget: Some(500),
            approvals: Policy { deny: vec!["denied".into()], ..Policy::default() },
            ..Settings::default()
        };
        let mut run = Run::new(settings);
        run.set_tools(tools.clone(), limits);
        World { run, stored: Vec::new(), tools, limits, answers: 0, said: 0 }
    }

    fn happens(&mut self, event: &Event) {
        match event {
            Event::Say(is_in_between) if *is_in_between || self.run.is_done() => {
                self.said += 1;
                self.run.say(format!("Question {}?", self.said));
            }
            Event::Say(_) => {}
            Event::Response { .. } => {
                let answer = self.answer(event);
                self.run.model_said(answer);
            }
            Event::Wrote(blank) => self.run.model_wrote(if *blank { " " } else { "Well, " }),
            Event::Decide(call, decision) => {
                let waiting = self.run.waiting();
                let decision =
                    [Decision::Once, Decision::Always, Decision::No { because: Some("so".into()) }]
                        [usize::from(*decision)]
                    .clone();
                if let Some(call) = waiting.get(usize::from(*call)) {
                    self.run.person_said(&call.id, decision);
                }
                self.run.person_said("nobody", Decision::Once);
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
                let waiting: Vec<String> = self.run.waiting().into_iter().map(|call| call.id).collect();
                let answered = calls.into_iter().filter(|id| !self.is_due(id) || waiting.contains(id));
                let results = answered.map(|id| (id, ToolResult::text("once more"))).collect::<Vec<_>>();
                self.run.tools_returned(results);
            }
            Event::Cancel => self.run.cancel(),
            Event::Fail => self.run.fail(ModelError::Broken { model: "m".into(), problem: "cut".into() }),
            Event::ThroughJson => {
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
                    assert_eq!(self.run.step(), step, "a step is the same until something happens");
                }
            }
        }
        self.save();
    }

    fn is_due(&mut self, id: &str) -> bool {
        matches!(self.run.step(), Step::CallTools(calls) if calls.iter().any(|(due, _)| due == id))
    }

    fn answer(&mut self, event: &Event) -> ModelResponse {
        let Event::Response { text, calls, same_ids, unusable, stop } = event else { unreachable!() };
        self.answers += 1;
        let names = ["read", "delete", "denied", "set", "search_tools", "unheard_of"];
        let text = match text {
            0 => vec![],
            1 => vec![Block::Content(Content::text("  "))],
            2 => vec![Block::Content(Content::Other(json!({"type": "thinking", "text": "hm"})))],
            _ => vec![Block::Content(Content::text("Let me see."))],
        };
        let ids: Vec<String> =
            (0..calls.len())
                .map(|place| {
                    if *same_ids {
                        format!("call-{}", place / 2)
                    } else {
                        format!("{}-{place}", self.answers)
                    }
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
        let last = ids.last().filter(|_| *unusable);
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
            unusable: last
                .map(|id| UnusableCall { id: id.clone(), problem: "cut off".into() })
                .into_iter()
                .collect(),
        }
    }

    fn save(&mut self) {
        let unsaved = self.run.unsaved().to_vec();
        self.stored.extend(unsaved.iter().map(|unsaved| unsaved.message.clone()));
        self.run.saved(unsaved.len());
    }

    fn check(&mut self) {
        let history = mend(self.run.messages().to_vec());
        check_messages(&history).unwrap_or_else(|problem| panic!("{problem}: {history:#?}"));
        let kept = mend(self.stored.clone());
        check_messages(&kept).unwrap_or_else(|problem| panic!("{problem}: {kept:#?}"));
        if let Step::AskModel(request) = self.run.step() {
            let messages = &request.messages;
            check_messages(messages).unwrap_or_else(|problem| panic!("{problem}: {messages:#?}"));
            assert_eq!(messages.last().unwrap().role, Role::User);
            assert!(request.tools.len() <= 12, "{} tools", request.tools.len());
            let text = json!(messages).to_string();
            let question = format!("Question {}?", self.said);
            assert!(self.said == 0 || text.contains(&question), "`{question}` is not in {text}");
        }
        if self.run.is_done() {
            assert_eq!(kept, self.run.messages(), "what is kept is what the model would be shown");
            check_messages(self.run.messages()).unwrap();
        }
        // Exactly once, and in what is kept too.
        let mut open: Vec<&str> = Vec::new();
        for block in self.stored.iter().flat_map(|message| &message.content) {
            match block {
                Block::Call { id, .. } => open.push(id),
                Block::Result { id, .. } => {
                    let place = open.iter().position(|open| open == id).expect("a result is to an open call");
                    open.remove(place);
                }
                Block::Content(_) => {}
            }
        }
        assert!(!self.run.is_done() || open.is_empty(), "without a result: {open:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_is_acceptable_and_every_call_answered_once(
        events in prop::collection::vec(event(), 1..40),
        many_tools in any::<bool>(),
        context in prop::option::of(300..3_000u64),
    ) {
        let mut world = World::new(many_tools, context);
        world.run.say("Hello!");
        world.save();
        for event in &events {
            world.happens(event);
            world.check();
        }
        world.run.cancel();
        world.save();
        prop_assert!(world.run.is_done());
        world.check();
    }

    #[test]
    fn a_run_survives_json_wherever_nothing_is_under_way(events in prop::collection::vec(event(), 1..20)) {
        let mut world = World::new(false, None);
        world.run.say("Hello!");
        for event in &events {
            world.happens(event);
        }
        let text = world.run.to_json();
        let once = Run::from_json(&text).unwrap();
        prop_assert_eq!(&Run::from_json(&once.to_json()).unwrap(), &once);
    }
}
