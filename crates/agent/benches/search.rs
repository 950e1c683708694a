//! Searching real tools: how many questions find their tool, the time, and the size of the first request.
//!
//! Divan's `items` are questions: the time per item is the time of one search.

#![allow(clippy::unwrap_used)]

#[path = "../tests/support/corpus.rs"]
mod corpus;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corpus::{Captured, Question};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use serde_json::json;
use toolwire_agent::AgentSettings;
use toolwire_agent::run::{Run, Step};
use toolwire_agent::search::{ToolIndex, VectorIndex};
use toolwire_contract::model::{Embedder, ModelLimits, TextPurpose};
use toolwire_contract::text::estimate_tokens;
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

/// Returns the embedding model at the base URL in `TOOLWIRE_EMBEDDINGS_URL`, which
/// `scripts/search-embeddings` sets.
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
    let tools = embedder.map(|embedder| {
        let words = words(embedder, index.words().to_vec(), TextPurpose::Document);
        VectorIndex::new(vectors(embedder, index.texts(), TextPurpose::Document), words)
    });
    let mut sets =
        vec![("tuning", corpus::tuning_questions()), ("third author's", corpus::third_author_questions())];
    // Only for a ranking that is finished: if a ranking were chosen with these questions, they could not
    // measure it.
    if std::env::var_os("TOOLWIRE_JUDGING").is_some() {
        sets.push(("judging", corpus::judging_questions()));
        sets.push(("second judging", corpus::second_judging_questions()));
    }
    for (name, questions) in sets {
        let questions = captured.answerable(questions);
        let forms: [(&str, QueryOf); 2] =
            [("sentences", |question| question.sentence), ("short queries", |question| question.short)];
        for (form, query) in forms {
            let count = questions.len();
            let (five, first) = corpus::found(&questions, |question| index.search(query(question), 5));
            print!("  {name} {form}: {five} of {count}, first {first}");
            if let (Some(embedder), Some(tools)) = (embedder, &tools) {
                let texts = |query: &str| {
                    let unknown = tools.unknown_words(query);
                    std::iter::once(query.to_owned()).chain(unknown).collect::<Vec<_>>()
                };
                let all = questions.iter().flat_map(|question| texts(query(question))).collect();
                let mut embedded = words(embedder, all, TextPurpose::Query).into_iter();
                let queries: HashMap<&str, Words> = questions
                    .iter()
                    .map(query)
                    .map(|query| (query, embedded.by_ref().take(texts(query).len()).collect()))
                    .collect();
                let similar = |question: &Question| {
                    let query = query(question);
                    let [(_, vector), unknown @ ..] = &queries[query][..] else { unreachable!("no vector") };
                    index.search_similar(query, &tools.similarities(query, vector, unknown), 5)
                };
                let (five, first) = corpus::found(&questions, similar);
                // The fastest of several searches, because other processes take time as well.
                let time = |question: &Question| {
                    let elapsed = |_| {
                        let started = Instant::now();
                        black_box(similar(question));
                        started.elapsed()
                    };
                    (0..5).map(elapsed).min()
                };
                let time = questions.iter().filter_map(time).sum::<Duration>() / count.max(1) as u32;
                print!("; with embeddings: {five}, first {first}, {time:.1?} per search");
            }
            println!();
        }
    }
}

/// Words and their vectors.
type Words = Vec<(String, Arc<[f32]>)>;

fn words(embedder: &dyn Embedder, words: Vec<String>, purpose: TextPurpose) -> Words {
    let vectors = vectors(embedder, words.clone(), purpose);
    words.into_iter().zip(vectors).collect()
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

/// A search with embeddings, after the query was embedded. The vectors are made up.
#[divan::bench(args = [1_500, 4_000], sample_count = 50, sample_size = 1)]
fn search_similar(bencher: Bencher, count: usize) {
    let index = index(count);
    let words = index.words().iter().cloned().zip((count..).map(vector)).collect();
    let vectors = VectorIndex::new((0..count).map(vector).collect(), words);
    let questions = corpus::judging_questions();
    let unknown: Vec<Words> = questions
        .iter()
        .map(|question| vectors.unknown_words(question.sentence).into_iter().zip((1..).map(vector)).collect())
        .collect();
    let query = vector(1);
    bencher.counter(ItemsCount::new(questions.len())).bench(|| {
        for (question, unknown) in questions.iter().zip(&unknown) {
            let similarities = vectors.similarities(question.sentence, &query, unknown);
            black_box(index.search_similar(question.sentence, &similarities, 5));
        }
    });
}

/// Comparing the vectors of the tools and of their words, which happens once for each list of tools, in the
/// background.
#[divan::bench(args = [1_500, 4_000], sample_count = 3, sample_size = 1)]
fn build_vector_index(bencher: Bencher, count: usize) {
    let words = index(count).words().to_vec();
    let inputs = || -> (Vec<Arc<[f32]>>, Words) {
        ((0..count).map(vector).collect(), words.iter().cloned().zip((count..).map(vector)).collect())
    };
    bencher.with_inputs(inputs).bench_values(|(texts, words)| VectorIndex::new(texts, words));
}

fn vector(seed: usize) -> Arc<[f32]> {
    let number = |position: usize| seed.wrapping_mul(2_654_435_761) ^ position.wrapping_mul(40_503);
    (0..384).map(|position| (number(position) % 1_009) as f32 / 1_009.0 - 0.5).collect()
}

/// Building the index, which happens once for each list of tools.
#[divan::bench(args = [1_500, 4_000], sample_count = 10, sample_size = 1)]
fn build_index(bencher: Bencher, count: usize) {
    let tools = corpus::tools(count).unwrap_or_else(corpus::plain_tools);
    bencher.bench(|| ToolIndex::new(tools.clone()));
}
