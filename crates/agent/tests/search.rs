//! Whether questions find their tools among 1,500 real ones.
//!
//! The questions are ours; the tools are captured from public servers and not part of this repository. Without them
//! (`TOOLWIRE_CORPUS`, or `../shared/corpus`) there is nothing to look through, and the test says so.

#![allow(clippy::unwrap_used)]

#[path = "support/corpus.rs"]
mod corpus;

use std::sync::Arc;

use serde_json::json;
use toolwire_agent::{Run, Settings, Step, ToolIndex, estimate_tokens};
use toolwire_contract::{ModelLimits, Tool};

#[test]
fn questions_find_their_tools() {
    let Some(tools) = corpus::tools(1_500) else {
        println!("no captured tools at hand: nothing was looked through");
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
fn a_model_with_many_tools_is_shown_a_twentieth_of_their_tokens() {
    let tools: Arc<[Tool]> = corpus::tools(1_500).unwrap_or_else(corpus::plain_tools);
    let whole: u64 = tools.iter().map(|tool| estimate_tokens(&json!(tool).to_string())).sum();
    let mut run = Run::new(Settings::default());
    run.set_tools(tools, ModelLimits { context_tokens: None, tools: Some(128) });
    run.say("Which tabs are open in my browser?");
    let Step::AskModel(request) = run.step() else { panic!("the model is asked first") };
    let shown: u64 = request.tools.iter().map(|tool| estimate_tokens(&json!(tool).to_string())).sum();
    println!("{whole} tokens of definitions, {shown} shown");
    assert!(shown * 20 <= whole, "{shown} of {whole}");
}
