//! MCP's own conformance suite, client side: every scenario of both revisions that the suite requires, one by one.
//!
//! The suite runs this same program as the client (it sets `MCP_CONFORMANCE_SCENARIO`), so what is tested is never older than
//! the tests. Words on the command line choose scenarios: `cargo test -p toolwire-hub --test conformance -- auth/iss`.

mod client;
mod scenarios;

use std::path::Path;
use std::process::ExitCode;

use scenarios::Flow;
use toolwire_testkit::conformance::{ConformanceSuite, Scenario, ScenarioTally, TestedSide};

const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

fn main() -> ExitCode {
    if let Ok(scenario) = std::env::var("MCP_CONFORMANCE_SCENARIO") {
        return client::main(&scenario);
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let suite = ConformanceSuite::installed(
        TestedSide::Client,
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance"),
    );
    let client = std::env::current_exe().expect("a running program has a path");
    let client = client.to_str().expect("the path of this program is text");
    let mut tally = ScenarioTally::default();
    for revision in REVISIONS {
        println!("\nconformance with MCP {revision}, as a client");
        for listed in suite.scenarios(revision) {
            if chosen.is_empty() || chosen.iter().any(|word| listed.name.contains(word)) {
                add(&mut tally, revision, &listed, || run(&suite, &listed, revision, client));
            }
        }
    }
    tally.report()
}

fn add(
    tally: &mut ScenarioTally,
    revision: &str,
    listed: &Scenario,
    run: impl FnOnce() -> Result<(), String>,
) {
    let Scenario { name, scored } = listed;
    let note = if *scored { "" } else { " (not scored)" };
    match scenarios::named(name) {
        Some(scenario) => match scenario.flow {
            Flow::Skip(reason) => {
                tally.skipped += 1;
                println!("  {name}{note}: skipped, {reason}");
            }
            _ => match run() {
                Ok(()) => {
                    tally.passed += 1;
                    println!("  {name}{note}: passed");
                }
                Err(output) => {
                    println!("  {name}{note}: FAILED");
                    let wants = scenario.wants;
                    tally.failures.push(format!("{name} of {revision}, which wants: {wants}\n{output}"));
                }
            },
        },
        None => {
            println!("  {name}{note}: FAILED");
            tally.failures.push(format!("{name} of {revision} is not in the table of scenarios"));
        }
    }
}

/// The suite's output when it is not content.
fn run(suite: &ConformanceSuite, listed: &Scenario, revision: &str, client: &str) -> Result<(), String> {
    let mut tries = scenarios::tries(&listed.name);
    loop {
        tries -= 1;
        let (passed, output) = suite.run(listed, revision, client).map_err(|error| error.to_string())?;
        // The suite takes a scenario that it does not run for a success.
        if passed && !output.contains("SKIPPED: scenario") {
            return Ok(());
        }
        if tries == 0 {
            return Err(output);
        }
    }
}
