//! Searches with embeddings.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use futures::future::BoxFuture;
use serde_json::json;
use toolwire_agent::search::EmbeddingFailure;
use toolwire_agent::{Agent, AgentEvent, Functions};
use toolwire_contract::model::{Embedder, ModelError, TextPurpose, WaitPhase};
use toolwire_contract::{Message, Tool};
use toolwire_testkit::{ScriptedModel, ScriptedTurn};

use crate::support::{model, results, tool};

/// The behaviour of a [`FakeEmbedder`] for texts of one purpose.
#[derive(Clone, Copy, PartialEq)]
enum Behaviour {
    Works,
    Fails,
    Hangs,
    ReturnsTooFew,
}

/// Distinguishes one meaning: the vectors of texts about pictures have one direction, and all others have
/// another one.
struct FakeEmbedder {
    documents: Behaviour,
    queries: Behaviour,
    embedded: Mutex<Vec<(TextPurpose, Vec<String>)>>,
}

impl FakeEmbedder {
    fn new(documents: Behaviour, queries: Behaviour) -> Arc<FakeEmbedder> {
        Arc::new(FakeEmbedder { documents, queries, embedded: Mutex::default() })
    }

    fn embedded(&self, purpose: TextPurpose) -> Vec<Vec<String>> {
        let embedded = self.embedded.lock().unwrap();
        embedded.iter().filter(|(of, _)| *of == purpose).map(|(_, texts)| texts.clone()).collect()
    }
}

impl Embedder for FakeEmbedder {
    fn name(&self) -> &str {
        "test/embedder"
    }

    fn embed(
        &self,
        texts: Vec<String>,
        purpose: TextPurpose,
    ) -> BoxFuture<'_, Result<Vec<Vec<f32>>, ModelError>> {
        let is_about_pictures = |text: &String| text.contains("picture") || text.contains("illustration");
        let vector = |text: &String| if is_about_pictures(text) { vec![0.0, 2.0] } else { vec![3.0, 0.1] };
        let mut vectors: Vec<Vec<f32>> = texts.iter().map(vector).collect();
        self.embedded.lock().unwrap().push((purpose, texts));
        let behaviour = if purpose == TextPurpose::Query { self.queries } else { self.documents };
        Box::pin(async move {
            match behaviour {
                Behaviour::Works => {}
                Behaviour::Fails => return Err(refused()),
                Behaviour::Hangs => std::future::pending().await,
                Behaviour::ReturnsTooFew => vectors.truncate(0),
            }
            Ok(vectors)
        })
    }
}

fn refused() -> ModelError {
    ModelError::Unreachable { model: "test/embedder".to_owned(), problem: "no route".to_owned(), hint: None }
}

fn named(name: &str) -> Tool {
    tool(name, json!({"readOnlyHint": true}))
}

fn tools(names: &[&str]) -> Functions {
    let numbered = (0..50).map(|number| format!("number_{number}_of_the_row"));
    numbered
        .chain(names.iter().map(|name| (*name).to_owned()))
        .fold(Functions::new(), |tools, name| tools.with(named(&name), |_| async { "done" }))
}

fn search(query: &str) -> ScriptedTurn {
    ScriptedTurn::calls([("1", "search_tools", json!({"query": query}))])
}

fn agent(model: &Arc<ScriptedModel>, embedder: &Arc<FakeEmbedder>) -> Agent {
    let tools = Arc::new(tools(&["send_mail", "paint_picture"]));
    Agent::builder().model(model.clone()).tools(tools).embedder(embedder.clone()).build().unwrap()
}

/// Runs the agent once. Returns the reported failures, and the result of the search.
async fn run(agent: &Agent) -> (Vec<EmbeddingFailure>, String) {
    let mut failures = Vec::new();
    let mut found = String::new();
    let mut events = agent.stream("Hello");
    while let Some(event) = events.next().await {
        match event {
            AgentEvent::EmbeddingsUnavailable(failure) => failures.push(failure),
            AgentEvent::MessageAdded(message) => {
                found.extend(results(&message).into_iter().map(|(_, text)| text));
            }
            _ => {}
        }
    }
    (failures, found)
}

#[tokio::test]
async fn a_search_finds_tools_by_meaning() {
    let script = [search("an illustration"), ScriptedTurn::text("Done.")];
    let model = model(script.iter().chain(&script).cloned());
    let embedder = FakeEmbedder::new(Behaviour::Works, Behaviour::Works);
    let agent = agent(&model, &embedder);
    for _ in 0..2 {
        let (failures, found) = run(&agent).await;
        assert_eq!(failures, []);
        assert!(found.starts_with("You can call these tools now:\n- paint_picture: "), "{found}");
    }
    // The tools and the two words that several of them have are embedded once, and each query with its
    // unknown word.
    let documents = embedder.embedded(TextPurpose::Document);
    assert_eq!(documents.iter().map(Vec::len).collect::<Vec<_>>(), [54]);
    assert!(documents[0].contains(&"send mail: the tool send_mail".to_owned()), "{documents:?}");
    assert!(documents[0].contains(&"number".to_owned()), "{documents:?}");
    assert_eq!(embedder.embedded(TextPurpose::Query), [["an illustration", "illustration"]; 2]);
}

/// Adds a tool after the first run.
struct GrowingToolbox(Mutex<Arc<Functions>>);

impl toolwire_contract::toolbox::Toolbox for GrowingToolbox {
    fn tools(&self) -> Arc<[Tool]> {
        self.0.lock().unwrap().tools()
    }

    fn call<'a>(
        &'a self,
        _: &'a str,
        _: &'a serde_json::Value,
        _: toolwire_contract::toolbox::CallOptions,
    ) -> BoxFuture<'a, Result<toolwire_contract::ToolResult, toolwire_contract::toolbox::CallError>> {
        Box::pin(async { Ok(toolwire_contract::ToolResult::text("done")) })
    }
}

#[tokio::test]
async fn only_new_tools_are_embedded_again() {
    let script = [search("an illustration"), ScriptedTurn::text("Done.")];
    let model = model(script.iter().chain(&script).cloned());
    let embedder = FakeEmbedder::new(Behaviour::Works, Behaviour::Works);
    let toolbox = Arc::new(GrowingToolbox(Mutex::new(Arc::new(tools(&["send_mail"])))));
    let agent =
        Agent::builder().model(model).tools(toolbox.clone()).embedder(embedder.clone()).build().unwrap();
    run(&agent).await;
    *toolbox.0.lock().unwrap() = Arc::new(tools(&["send_mail", "hang_picture"]));
    let (failures, found) = run(&agent).await;
    assert_eq!(failures, []);
    assert!(found.starts_with("You can call these tools now:\n- hang_picture: "), "{found}");
    let documents = embedder.embedded(TextPurpose::Document);
    assert_eq!(documents[1..], [["hang picture: the tool hang_picture"]]);
}

/// Searches twice with an embedder that does not work. One note reports it, and the words are compared.
async fn check_failure(documents: Behaviour, queries: Behaviour, expected: EmbeddingFailure) {
    let script = [search("picture"), search("mail"), ScriptedTurn::text("Done.")];
    let model = model(script.iter().chain(&script).cloned());
    let agent = agent(&model, &FakeEmbedder::new(documents, queries));
    let (failures, found) = run(&agent).await;
    assert_eq!(failures, [expected]);
    assert!(found.contains("- paint_picture: ") && found.contains("- send_mail: "), "{found}");
    let (failures, again) = run(&agent).await;
    assert_eq!(failures, []);
    assert_eq!(again, found);
}

#[tokio::test(start_paused = true)]
async fn a_search_without_embeddings_compares_words_and_says_so_once() {
    use Behaviour::{Fails, Hangs, ReturnsTooFew, Works};
    let model = || "test/embedder".to_owned();
    let problem = || "a vector is missing or has another length".to_owned();
    let malformed = || EmbeddingFailure::Failed(ModelError::Malformed { model: model(), problem: problem() });
    let timed_out = ModelError::TimedOut {
        model: model(),
        waiting_for: WaitPhase::FirstToken,
        after: std::time::Duration::from_secs(3),
    };
    check_failure(Fails, Works, EmbeddingFailure::Failed(refused())).await;
    check_failure(Works, Fails, EmbeddingFailure::Failed(refused())).await;
    check_failure(ReturnsTooFew, Works, malformed()).await;
    check_failure(Works, ReturnsTooFew, malformed()).await;
    check_failure(Hangs, Works, EmbeddingFailure::Pending { model: model() }).await;
    check_failure(Works, Hangs, EmbeddingFailure::Failed(timed_out)).await;
}

#[tokio::test]
async fn few_tools_are_not_embedded() {
    let embedder = FakeEmbedder::new(Behaviour::Works, Behaviour::Works);
    let tools = Functions::new().with(named("send_mail"), |_| async { "done" });
    let model = model([ScriptedTurn::text("Done.")]);
    let agent = Agent::builder().model(model).tools(Arc::new(tools)).embedder(embedder.clone()).build();
    let finished = agent.unwrap().run("Hello").await;
    assert_eq!(
        finished.run.messages().last().map(|message| (**message).clone()),
        Some(Message::assistant("Done."))
    );
    assert!(embedder.embedded.lock().unwrap().is_empty());
}
