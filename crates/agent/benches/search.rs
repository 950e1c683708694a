//! Searching real tools: how many questions find their tool, the time, and the size of the first request.
//!
//! Divan's `items` are questions: the time per item is the time of one search.

#![allow(clippy::unwrap_used)]

#[path = "../tests/support/corpus.rs"]
mod corpus;

use corpus::Captured;
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use serde_json::json;
use toolwire_agent::{AgentSettings, Run, Step, ToolIndex, estimate_tokens};
use toolwire_contract::{ModelLimits, ToolServer};

fn main() {
    for count in [1_500, 4_000] {
        let Some(captured) = corpus::captured(count) else {
            println!("no captured tools: using 1,500 tools without descriptions");
            break;
        };
        for servers in [&[] as &[Option<ToolServer>], &captured.servers] {
            print_found(&captured, servers);
        }
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

/// Prints how many questions find their tool among the first five hits, and as the first.
fn print_found(captured: &Captured, servers: &[Option<ToolServer>]) {
    let index = ToolIndex::with_servers(captured.tools.clone(), servers);
    let known = if servers.is_empty() { "unknown" } else { "known" };
    println!("{} tools, servers {known}:", captured.tools.len());
    if captured.tools.len() == 1_500 {
        for (name, questions) in [("earlier", corpus::questions()), ("later", corpus::later_questions())] {
            let found = |limit: usize| {
                let is_found = |(question, expected): &&(&str, Vec<&str>)| {
                    let hits = index.search(question, limit);
                    hits.iter().any(|hit| expected.contains(&hit.tool.name.as_str()))
                };
                questions.iter().filter(is_found).count()
            };
            println!("  {name} questions: {} of {}, first {}", found(5), questions.len(), found(1));
        }
    }
    if servers.is_empty() {
        return;
    }
    for (name, questions) in
        [("tuning", corpus::tuning_questions()), ("judging", corpus::judging_questions())]
    {
        let questions = captured.answerable(questions);
        let count = questions.len();
        let (five, first) = corpus::found(&index, &questions, |question| question.sentence);
        println!("  {name} sentences: {five} of {count}, first {first}");
        let (five, first) = corpus::found(&index, &questions, |question| question.short);
        println!("  {name} short queries: {five} of {count}, first {first}");
    }
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

/// Building the index, which happens once for each list of tools.
#[divan::bench(args = [1_500, 4_000], sample_count = 10, sample_size = 1)]
fn build_index(bencher: Bencher, count: usize) {
    let tools = corpus::tools(count).unwrap_or_else(corpus::plain_tools);
    bencher.bench(|| ToolIndex::new(tools.clone()));
}
