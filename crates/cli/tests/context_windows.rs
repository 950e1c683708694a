//! Long conversations with a fake of every provider, which has a small context window and refuses longer
//! requests.
//!
//! A fake provider counts three bytes of a request as one token, and reports far fewer tokens than it
//! received.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use serde_json::{Value, json};
use toolwire_agent::run::Run;
use toolwire_agent::{Agent, AgentEvent, ContextReduction, Functions};
use toolwire_contract::{Tool, ToolResult};
use toolwire_llm::{Endpoint, EndpointConfig};
use toolwire_store::InMemory;
use toolwire_testkit::provider::{
    API_KEY, Api, FakeProvider, ModelOutput, Script, ScriptedResponse, TokenCounts,
};

const WINDOW: u64 = 16_000;
const TURNS: usize = 50;
const SUMMARY: &str = "The files zero to forty-nine were read.";

/// A provider that calls the tool in response to each user message, and then responds to the result. It
/// writes the same summary each time.
fn script() -> Script {
    let count = AtomicUsize::new(0);
    Script::from_fn(move |request| {
        if String::from_utf8_lossy(&request.bytes).contains("You write summaries of conversations") {
            return ScriptedResponse::Output(ModelOutput::text(SUMMARY));
        }
        let number = count.fetch_add(1, Ordering::Relaxed);
        let output = match number % 2 {
            0 => ModelOutput::text("Let me look.").call(
                &format!("call{number:05}"),
                "read",
                r#"{"path":"a.txt"}"#,
            ),
            _ => ModelOutput::text("I have read it."),
        };
        let usage = TokenCounts { input: 50, cached: 0, written: 0, output: 5, thinking: 0 };
        ScriptedResponse::Output(output.usage(usage))
    })
}

fn tools() -> Functions {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    let annotations = json!({"readOnlyHint": true}).as_object().cloned();
    let tool =
        Tool { description: Some("Reads a file".to_owned()), annotations, ..Tool::new("read", schema) };
    // 8 kB of records, as tools return them.
    let record =
        r#"{"id": 4711, "name": "A name of a thing", "state": "open", "changed": "2026-11-17T10:00:00Z"},"#;
    let text: String = record.repeat(8_192 / record.len());
    Functions::new().with(tool, move |_| {
        let text = text.clone();
        async move { ToolResult::text(text) }
    })
}

struct Conversation {
    agent: Agent,
    provider: FakeProvider,
    run: Run,
    reductions: Vec<ContextReduction>,
}

impl Conversation {
    /// Summarizes the conversation, loads it from the store and says one more message.
    async fn continue_with_a_summary(mut self, api: Api) {
        let rejections = self.provider.rejections().len();
        let summarized = self.agent.compact(&mut self.run, Some("the file numbers")).await.unwrap();
        assert_eq!(summarized, Some(4 * TURNS), "{api:?}");
        let (id, position) = self.run.stored_in().unwrap();
        assert_eq!(position as usize, 4 * TURNS + 1, "{api:?}: the summary is stored after the messages");
        let mut resumed = self.agent.load(id).await.unwrap();
        resumed.say("Which files were read?");
        let finished = self.agent.drive(resumed).finish().await;
        assert!(finished.outcome.is_finished(), "{api:?}: {:?}", finished.outcome);
        assert_eq!(self.provider.rejections().len(), rejections, "{api:?}");
        let requests = self.provider.requests();
        let first = requests.iter().rposition(|request| {
            let text = String::from_utf8_lossy(&request.bytes);
            text.contains("Which files were read?") && !text.contains("Read file number")
        });
        let sent = String::from_utf8_lossy(&requests[first.unwrap()].bytes).into_owned();
        assert!(sent.contains(SUMMARY), "{api:?}: {sent}");
    }
}

/// Holds a conversation of two hundred messages.
async fn converse(api: Api, script: Script, config: Value) -> Conversation {
    let provider = FakeProvider::start(api, script).await;
    let mut merged = json!({"baseUrl": provider.base_url(), "apiKey": API_KEY, "region": "us-east-1"});
    for (key, value) in config.as_object().unwrap() {
        merged[key] = value.clone();
    }
    let config: EndpointConfig = serde_json::from_value(merged).unwrap();
    let name = format!("{}/m", api.provider_name());
    let endpoint = Endpoint::new(&name, &config, |_| None).unwrap();
    let agent = Agent::builder()
        .model(Arc::new(endpoint))
        .tools(Arc::new(tools()))
        .conversations(Arc::new(InMemory::new()))
        .instructions("Be brief.")
        .build()
        .unwrap();
    let mut run = agent.new_run();
    let mut reductions = Vec::new();
    for number in 0..TURNS {
        run.say(format!("Read file number {number}, please."));
        let mut running = agent.drive(run);
        run = loop {
            match running.next().await.unwrap() {
                AgentEvent::ContextReduced(reduction) => reductions.push(reduction),
                AgentEvent::Done(finished) => {
                    let outcome = &finished.outcome;
                    assert!(outcome.is_finished(), "{api:?}, turn {number}: {outcome:?}");
                    break finished.run;
                }
                _ => {}
            }
        };
    }
    assert_eq!(run.messages().len(), 4 * TURNS, "{api:?}: the history stays complete");
    assert!(!reductions.is_empty(), "{api:?}: no reduction is reported");
    assert!(reductions.iter().any(|reduction| reduction.results_shortened > 0), "{api:?}: {reductions:?}");
    assert!(reductions.iter().any(|reduction| reduction.messages_omitted > 0), "{api:?}: {reductions:?}");
    let last = String::from_utf8_lossy(&provider.requests().last().unwrap().bytes).into_owned();
    assert!(last.contains(&format!("Read file number {}, please.", TURNS - 1)), "{api:?}: {last}");
    Conversation { agent, provider, run, reductions }
}

#[tokio::test]
async fn no_request_exceeds_a_known_window() {
    for api in Api::ALL {
        // The fake providers of these APIs state the window; the others have it in the configuration.
        let is_stated = matches!(
            api,
            Api::OpenAiChat
                | Api::Mistral
                | Api::Groq
                | Api::Vllm
                | Api::LlamaCpp
                | Api::Anthropic
                | Api::Gemini
                | Api::Cohere
                | Api::Ollama
        );
        let config = if is_stated { json!({}) } else { json!({"contextTokens": WINDOW}) };
        let held = converse(api, script().with_window(WINDOW, is_stated), config).await;
        assert_eq!(held.provider.rejections(), [], "{api:?}");
        assert_eq!(held.run.context().size, Some(WINDOW), "{api:?}");
        let requests = held.provider.requests();
        let largest = requests.iter().map(|request| request.bytes.len() as u64 / 3).max().unwrap();
        assert!((WINDOW / 3..WINDOW).contains(&largest), "{api:?}: {largest} tokens");
        assert!(held.reductions.len() < TURNS, "{api:?}: {} reductions", held.reductions.len());
        held.continue_with_a_summary(api).await;
    }
}

#[tokio::test]
async fn a_conversation_goes_on_after_it_exceeded_an_unknown_window() {
    for api in Api::ALL {
        let held = converse(api, script().with_window(WINDOW, false), json!({"stream": false})).await;
        let refused = held.provider.rejections().len();
        assert!((1..=6).contains(&refused), "{api:?}: {refused} requests were refused");
        assert!(held.run.context().size.is_some(), "{api:?}");
        held.continue_with_a_summary(api).await;
    }
}
