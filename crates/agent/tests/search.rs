//! Searches 1,500 and 4,000 real tools.
//!
//! The tools were captured from public servers and are not part of this repository: `TOOLWIRE_CORPUS` or
//! `../shared/corpus` is the folder that contains them. Without it, the test is skipped.

#![allow(clippy::unwrap_used)]

#[path = "support/corpus.rs"]
mod corpus;

use std::sync::Arc;

use serde_json::json;
use toolwire_agent::AgentSettings;
use toolwire_agent::run::{Run, Step};
use toolwire_agent::search::ToolIndex;
use toolwire_contract::Tool;
use toolwire_contract::model::ModelLimits;
use toolwire_contract::text::estimate_tokens;

/// The figures are in `docs/benchmarks.md`; these limits are lower, so that a small change passes.
#[test]
fn searches_find_the_tool_for_a_question() {
    for (count, min_percent_of_sentences, min_percent_of_short) in [(1_500, 85, 96), (4_000, 80, 95)] {
        let Some(captured) = corpus::captured(count) else {
            println!("skipped: no captured tools found");
            return;
        };
        assert_eq!(captured.tools.len(), count);
        let index = captured.index();
        let questions = captured.answerable(corpus::tuning_questions());
        assert!(questions.len() > 40, "{}", questions.len());
        let (sentences, _) = corpus::found(&questions, |question| index.search(question.sentence, 5));
        let (short, _) = corpus::found(&questions, |question| index.search(question.short, 5));
        println!("{count} tools: {sentences} sentences and {short} short queries of {}", questions.len());
        assert!(sentences * 100 >= min_percent_of_sentences * questions.len());
        assert!(short * 100 >= min_percent_of_short * questions.len());
        // The same index again: the order does not depend on a hash.
        let again = captured.index();
        for question in &questions {
            let names = |index: &ToolIndex| -> Vec<String> {
                index.search(question.sentence, 20).iter().map(|hit| hit.tool.name.clone()).collect()
            };
            assert_eq!(names(&index), names(&again), "{}", question.sentence);
        }
    }
}

#[test]
fn earlier_questions_find_their_tools_without_known_servers() {
    let Some(tools) = corpus::tools(1_500) else {
        println!("skipped: no captured tools found");
        return;
    };
    let index = ToolIndex::new(tools);
    let mut questions = corpus::questions();
    questions.extend(corpus::later_questions());
    let is_found = |(question, expected): &&(&str, Vec<&str>)| {
        index.search(question, 5).iter().any(|hit| expected.contains(&hit.tool.name.as_str()))
    };
    let found = questions.iter().filter(is_found).count();
    println!("{found} of {} questions find their tool in the first five", questions.len());
    assert!(found >= 130, "{found} of {}", questions.len());
}

#[test]
fn the_first_request_has_less_than_a_twentieth_of_the_definitions() {
    let tools: Arc<[Tool]> = corpus::tools(1_500).unwrap_or_else(corpus::plain_tools);
    let all: u64 = tools.iter().map(|tool| estimate_tokens(&json!(tool).to_string())).sum();
    let mut run = Run::new(AgentSettings::default());
    run.set_tools(tools, ModelLimits { context_tokens: None, tools: Some(128), ..ModelLimits::default() });
    run.say("Which tabs are open in my browser?");
    let Step::AskModel(request) = run.step() else { panic!("not a request") };
    let sent: u64 = request.tools.iter().map(|tool| estimate_tokens(&json!(tool).to_string())).sum();
    println!("{all} tokens of definitions, {sent} in the first request");
    assert!(sent * 20 <= all, "{sent} of {all}");
}
