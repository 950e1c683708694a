//! Searches 1,500 real tools.
//!
//! The tools were captured from public servers and are not part of this repository: `TOOLWIRE_CORPUS` or
//! `../shared/corpus` is the folder that contains them. Without it, the test is skipped.

#![allow(clippy::unwrap_used)]

#[path = "support/corpus.rs"]
mod corpus;

use std::sync::Arc;

use serde_json::json;
use toolwire_agent::{AgentSettings, Run, Step, ToolIndex, estimate_tokens};
use toolwire_contract::{ModelLimits, Tool};

#[test]
fn searches_find_the_tool_for_a_question() {
    let Some(tools) = corpus::tools(1_500) else {
        println!("skipped: there are no captured tools");
        return;
    };
    assert_eq!(tools.len(), 1_500);
    let index = ToolIndex::new(tools);
    let questions = corpus::questions();
    let missed: Vec<String> = questions
        .iter()
        .filter_map(|(question, expected)| {
            let found: Vec<&str> =
                index.search(question, 5).iter().map(|hit| hit.tool.name.as_str()).collect();
            let is_found = found.iter().any(|name| expected.contains(name));
            (!is_found).then(|| format!("{question}: {expected:?}, found {found:?}"))
        })
        .collect();
    println!(
        "{} of {} questions find their tool in the first five",
        questions.len() - missed.len(),
        questions.len()
    );
    assert_eq!(questions.len(), 100);
    assert!(missed.len() <= 5, "{missed:#?}");
}

#[test]
fn the_first_request_has_less_than_a_twentieth_of_the_definitions() {
    let tools: Arc<[Tool]> = corpus::tools(1_500).unwrap_or_else(corpus::plain_tools);
    let all: u64 = tools.iter().map(|tool| estimate_tokens(&json!(tool).to_string())).sum();
    let mut run = Run::new(AgentSettings::default());
    run.set_tools(tools, ModelLimits { context_tokens: None, tools: Some(128) });
    run.say("Which tabs are open in my browser?");
    let Step::AskModel(request) = run.step() else { panic!("not a request") };
    let sent: u64 = request.tools.iter().map(|tool| estimate_tokens(&json!(tool).to_string())).sum();
    println!("{all} tokens of definitions, {sent} in the first request");
    assert!(sent * 20 <= all, "{sent} of {all}");
}
