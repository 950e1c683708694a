//! Searching 1,500 real tools with a hundred questions, and the size of the first request.
//!
//! Divan's `items` are questions: the time per item is the time of one search.

#![allow(clippy::unwrap_used)]

#[path = "../tests/support/corpus.rs"]
mod corpus;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use serde_json::json;
use toolwire_agent::{AgentSettings, Run, Step, ToolIndex, estimate_tokens};
use toolwire_contract::ModelLimits;

fn main() {
    match corpus::tools(1_500) {
        Some(tools) => {
            let index = ToolIndex::new(tools);
            for (name, questions) in [("", corpus::questions()), ("later ", corpus::later_questions())] {
                let found_within = |limit: usize| {
                    let is_found = |(question, expected): &&(&str, Vec<&str>)| {
                        index
                            .search(question, limit)
                            .iter()
                            .any(|hit| expected.contains(&hit.tool.name.as_str()))
                    };
                    questions.iter().filter(is_found).count()
                };
                let (count, first, five) = (questions.len(), found_within(1), found_within(5));
                println!("{count} {name}questions: {first} find their tool first, {five} within five");
            }
        }
        None => println!("no captured tools: using 1,500 tools without descriptions"),
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

#[divan::bench(sample_count = 50, sample_size = 1)]
fn search(bencher: Bencher) {
    let index = ToolIndex::new(corpus::tools(1_500).unwrap_or_else(corpus::plain_tools));
    let questions = corpus::questions();
    bencher.counter(ItemsCount::new(questions.len())).bench(|| {
        for (question, _) in &questions {
            black_box(index.search(question, 5));
        }
    });
}

/// Building the index, which happens once for each list of tools.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn index_1500_tools(bencher: Bencher) {
    let tools = corpus::tools(1_500).unwrap_or_else(corpus::plain_tools);
    bencher.bench(|| ToolIndex::new(tools.clone()));
}
