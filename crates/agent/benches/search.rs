//! Searching real tools: how many questions find their tool, the time, and the size of the first request.
//!
//! Divan's `items` are questions: the time per item is the time of one search.

#![allow(clippy::unwrap_used)]

#[path = "../tests/support/corpus.rs"]
mod corpus;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use corpus::{Captured, Question};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use serde_json::json;
use toolwire_agent::{AgentSettings, Run, Step, ToolIndex, VectorIndex, estimate_tokens};
use toolwire_contract::{Embedder, ModelLimits, TextPurpose};
use toolwire_llm::Endpoint;
use toolwire_store::CachedEmbedder;

fn main() {
    let embedder = embedder();
    for count in [1_500, 4_000, usize::MAX] {
        let Some(captured) = corpus::captured(count) else {
            println!("no captured tools: using 1,500 tools without descriptions");
            break;
        };
        println!("{} tools:", captured.tools.len());
        if count == 1_500 {
            print_earlier(&captured);
        }
        print_found(&captured, embedder.as_deref());
    }
    if embedder.is_some() {
        return;
    }
    let tools = corpus::tools(1_500).unwrap_or_else(corpus::plain_tools);
    let tokens = |tools: &[toolwire_contract::Tool]| -> u64 {
        tools.iter().map(|tool| estimate_tokens(&json!(tool).to_string())).sum()
    };
    let mut run = Run::new(AgentSettings::default());
    run.set_tools(tools.clone(), ModelLimits::default());
    run.say("Which tabs are open in my browser?");
    let Step::AskModel(request) = run.step() else { unreachable!("not a request") };
    println!("{} tokens of definitions, {} in the first request", tokens(&tools), tokens(&request.tools));
    divan::main();
}

/// Returns the embedding model at the base URL in `TOOLWIRE_EMBEDDINGS_URL`, which `scripts/search-embeddings` sets.
fn embedder() -> Option<Box<dyn Embedder>> {
    let base_url = std::env::var("TOOLWIRE_EMBEDDINGS_URL").ok()?;
    let config = serde_json::from_value(json!({"baseUrl": base_url})).unwrap();
    let endpoint = Endpoint::new("embeddings", &config, |_| None).unwrap();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("embeddings.db");
    Some(Box::new(CachedEmbedder::new(Arc::new(endpoint), cache)))
}

/// Prints how many of the earlier questions, which do not name a server, find their tool.
fn print_earlier(captured: &Captured) {
    let index = ToolIndex::new(captured.tools.clone());
    for (name, questions) in [("earlier", corpus::questions()), ("later", corpus::later_questions())] {
        let found = |limit: usize| {
            let is_found = |(question, expected): &&(&str, Vec<&str>)| {
                let hits = index.search(question, limit);
                hits.iter().any(|hit| expected.contains(&hit.tool.name.as_str()))
            };
            questions.iter().filter(is_found).count()
        };
        println!(
            "  {name} questions, servers unknown: {} of {}, first {}",
            found(5),
            questions.len(),
            found(1)
        );
    }
}

/// Selects one of the forms of a question.
type QueryOf = fn(&Question) -> &'static str;

/// Prints how many questions find their tool among the first five hits, and as the first.
fn print_found(captured: &Captured, embedder: Option<&dyn Embedder>) {
    let index = captured.index();
    let tools =
        embedder.map(|embedder| VectorIndex::new(vectors(embedder, index.texts(), TextPurpose::Document)));
    for (name, questions) in [
        ("tuning", corpus::tuning_questions()),
        ("judging", corpus::judging_questions()),
        ("second judging", corpus::second_judging_questions()),
        ("third judging", corpus::third_judging_questions()),
    ] {
        let questions = captured.answerable(questions);
        let forms: [(&str, QueryOf); 2] =
            [("sentences", |question| question.sentence), ("short queries", |question| question.short)];
        for (form, query) in forms {
            let count = questions.len();
            let (five, first) = corpus::found(&questions, |question| index.search(query(question), 5));
            print!("  {name} {form}: {five} of {count}, first {first}");
            if let (Some(embedder), Some(tools)) = (embedder, &tools) {
                let texts = questions.iter().map(|question| query(question).to_owned()).collect();
                let queries = vectors(embedder, texts, TextPurpose::Query);
                let similarities: HashMap<&str, Vec<f32>> = questions
                    .iter()
                    .map(query)
                    .zip(queries.iter().map(|query| tools.similarities(query)))
                    .collect();
                let similar = |question: &Question| {
                    index.search_similar(query(question), &similarities[query(question)], 5)
                };
                let (five, first) = corpus::found(&questions, similar);
                print!("; with embeddings: {five}, first {first}");
            }
            println!();
        }
    }
}

/// Returns vectors of the length 1.
fn vectors(embedder: &dyn Embedder, texts: Vec<String>, purpose: TextPurpose) -> Vec<Arc<[f32]>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let vectors = runtime.block_on(embedder.embed(texts, purpose)).unwrap();
    let normalized = |vector: Vec<f32>| {
        let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
        vector.into_iter().map(|number| number / length).collect()
    };
    vectors.into_iter().map(normalized).collect()
}

fn index(count: usize) -> ToolIndex {
    match corpus::captured(count) {
        Some(captured) => captured.index(),
        None => ToolIndex::new(corpus::plain_tools()),
    }
}

#[divan::bench(args = [1_500, 4_000], sample_count = 50, sample_size = 1)]
fn search(bencher: Bencher, count: usize) {
    let index = index(count);
    let questions = corpus::judging_questions();
    bencher.counter(ItemsCount::new(questions.len())).bench(|| {
        for question in &questions {
            black_box(index.search(question.sentence, 5));
        }
    });
}

/// A search with embeddings, after the query was embedded.
#[divan::bench(args = [1_500, 4_000], sample_count = 50, sample_size = 1)]
fn search_similar(bencher: Bencher, count: usize) {
    let index = index(count);
    let questions = corpus::judging_questions();
    let similarities: Vec<f32> = (0..count).map(|number| (number % 100) as f32 / 100.0).collect();
    bencher.counter(ItemsCount::new(questions.len())).bench(|| {
        for question in &questions {
            black_box(index.search_similar(question.sentence, &similarities, 5));
        }
    });
}

/// Comparing the vectors of the tools, which happens once for each list of tools, in the background.
#[divan::bench(args = [1_500, 4_000], sample_count = 3, sample_size = 1)]
fn build_vector_index(bencher: Bencher, count: usize) {
    let vector = |tool: usize| (0..384).map(|number| ((tool * number) % 97) as f32 / 1_000.0).collect();
    bencher.with_inputs(|| (0..count).map(vector).collect()).bench_values(VectorIndex::new);
}

/// Building the index, which happens once for each list of tools.
#[divan::bench(args = [1_500, 4_000], sample_count = 10, sample_size = 1)]
fn build_index(bencher: Bencher, count: usize) {
    let tools = corpus::tools(count).unwrap_or_else(corpus::plain_tools);
    bencher.bench(|| ToolIndex::new(tools.clone()));
}
