//! MCP's conformance suite for clients: every scenario of both revisions, one at a time.
//!
//! The suite runs this program as the client (with `MCP_CONFORMANCE_SCENARIO` set), so the client is never
//! older than the tests. Arguments select scenarios: `cargo test -p toolwire-hub --test conformance --
//! auth/iss`.

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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let selected: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|argument| !argument.starts_with('-')).collect();
    let suite = ConformanceSuite::installed(
        TestedSide::Client,
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance"),
    );
    let client = std::env::current_exe().expect("this program has a path");
    let client = client.to_str().expect("the path of this program is UTF-8");
    let mut tally = ScenarioTally::default();
    for revision in REVISIONS {
        println!("\nconformance with MCP {revision}, as a client");
        for listed in suite.scenarios(revision) {
            if selected.is_empty() || selected.iter().any(|part| listed.name.contains(part)) {
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
                    let checks = scenario.checks;
                    tally.failures.push(format!("{name} of {revision}, which checks: {checks}\n{output}"));
                }
            },
        },
        None => {
            println!("  {name}{note}: FAILED");
            tally.failures.push(format!("{name} of {revision} is not in the table of scenarios"));
        }
    }
}

/// Runs a scenario. The error is the suite's output.
fn run(suite: &ConformanceSuite, listed: &Scenario, revision: &str, client: &str) -> Result<(), String> {
    let mut attempts = scenarios::max_attempts(&listed.name);
    loop {
        attempts -= 1;
        let (passed, output) = suite.run(listed, revision, client).map_err(|error| error.to_string())?;
        // The suite reports a scenario that it skips as a success.
        if passed && !output.contains("SKIPPED: scenario") {
            return Ok(());
        }
        if attempts == 0 {
            return Err(output);
        }
    }
}
