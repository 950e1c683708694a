//! Runs every server scenario of MCP's conformance suite for both revisions that the suite supports.
//!
//! Arguments select scenarios: `cargo test -p toolwire-toolkit --test conformance -- prompts`. `--serve` only
//! serves the fixture, for debugging.

#[path = "../fixture/mod.rs"]
mod fixture;
mod scenarios;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use scenarios::Verdict;
use toolwire_testkit::conformance::{ConformanceSuite, Scenario, ScenarioTally, TestedSide};
use toolwire_toolkit::transport::{HttpOptions, HttpServer, serve_http};

/// Each revision with the expected number of passed checks; fewer would mean that some did not run.
const REVISIONS: [(&str, usize); 2] = [("2025-11-25", 83), ("2026-07-28", 197)];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(serve());
    if arguments.iter().any(|argument| argument == "--serve") {
        println!("{}", server.url());
        runtime.block_on(std::future::pending::<()>());
    }
    let filters: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|argument| !argument.starts_with('-')).collect();
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("server-conformance");
    let suite = ConformanceSuite::installed(TestedSide::Server, output);
    let url = server.url();
    let mut tally = ScenarioTally::default();
    for (revision, checks) in REVISIONS {
        println!("\nconformance with MCP {revision}, as a server");
        let mut passed = 0;
        for scenario in suite.scenarios(revision) {
            if filters.is_empty() || filters.iter().any(|filter| scenario.name.contains(filter)) {
                passed += add(&mut tally, revision, &scenario, |verdict| {
                    run(&suite, &scenario, revision, &url, verdict)
                });
            }
        }
        println!("  {passed} checks passed");
        if filters.is_empty() && passed < checks {
            tally.failures.push(format!("{revision}: {passed} checks passed, expected at least {checks}"));
        }
    }
    runtime.block_on(server.shutdown(Duration::from_secs(5)));
    tally.report()
}

async fn serve() -> HttpServer {
    let address = ([127, 0, 0, 1], 0).into();
    serve_http(fixture::server(), address, HttpOptions::default()).await.expect("a free port")
}

/// Runs a scenario, adds its result to the tally, and returns the number of passed checks.
fn add(
    tally: &mut ScenarioTally,
    revision: &str,
    scenario: &Scenario,
    run: impl FnOnce(&Verdict) -> Result<usize, String>,
) -> usize {
    let Scenario { name, scored } = scenario;
    let note = if *scored { "" } else { " (not scored)" };
    match scenarios::verdict(name, *scored) {
        Verdict::Skip(reason) => {
            tally.skipped += 1;
            println!("  {name}{note}: skipped, {reason}");
            0
        }
        verdict => match run(&verdict) {
            Ok(checks) => {
                tally.passed += 1;
                let warning = match verdict {
                    Verdict::Warns(_, reason) => format!(", with a warning: {reason}"),
                    _ => String::new(),
                };
                println!("  {name}{note}: passed, {checks} checks{warning}");
                checks
            }
            Err(output) => {
                println!("  {name}{note}: FAILED");
                tally.failures.push(format!("{name} of {revision}\n{output}"));
                0
            }
        },
    }
}

/// Returns the number of passed checks, or the suite's output if the scenario failed.
fn run(
    suite: &ConformanceSuite,
    scenario: &Scenario,
    revision: &str,
    url: &str,
    verdict: &Verdict,
) -> Result<usize, String> {
    let allowed = match verdict {
        Verdict::Warns(warnings, _) => *warnings,
        _ => 0,
    };
    let mut tries = scenarios::tries(&scenario.name);
    loop {
        tries -= 1;
        let (is_success, output) = suite.run(scenario, revision, url).map_err(|error| error.to_string())?;
        // The suite reports success for scenarios that it does not run, so passed checks are required.
        match (is_success, read_tally(&output)) {
            (true, Some((passed, 0, warnings))) if passed > 0 && warnings == allowed => return Ok(passed),
            _ if tries == 0 => return Err(output),
            _ => (),
        }
    }
}

/// Parses the numbers of passed, failed and warned checks: `Passed: 3/3, 0 failed, 0 warnings`.
fn read_tally(output: &str) -> Option<(usize, usize, usize)> {
    let line = output.lines().find_map(|line| line.trim().strip_prefix("Passed: "))?;
    let mut parts = line.split(", ");
    let passed = parts.next()?.split('/').next()?.parse().ok()?;
    let mut number = || parts.next()?.split(' ').next()?.parse().ok();
    Some((passed, number()?, number()?))
}
