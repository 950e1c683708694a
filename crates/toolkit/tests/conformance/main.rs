//! MCP's own conformance suite, server side: every scenario of both revisions that the suite requires, one by one.
//!
//! Words on the command line choose scenarios: `cargo test -p toolwire-toolkit --test conformance -- prompts`. With
//! `--serve` the fixture is served until it is stopped, for a closer look.

#[path = "../fixture/mod.rs"]
mod fixture;
mod scenarios;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use scenarios::Verdict;
use toolwire_testkit::conformance::{ConformanceSuite, Scenario, ScenarioTally, TestedSide};
use toolwire_toolkit::{HttpOptions, HttpServer, serve_http};

/// Each revision with the number of checks that the scenarios which are run come to: fewer would mean that some were not
/// made.
const REVISIONS: [(&str, usize); 2] = [("2025-11-25", 83), ("2026-07-28", 197)];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        return ExitCode::SUCCESS;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    let server = runtime.block_on(serve());
    if words.iter().any(|word| word == "--serve") {
        println!("{}", server.url());
        runtime.block_on(std::future::pending::<()>());
    }
    let chosen: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("server-conformance");
    let suite = ConformanceSuite::installed(TestedSide::Server, output);
    let url = server.url();
    let mut tally = ScenarioTally::default();
    for (revision, checks) in REVISIONS {
        println!("\nconformance with MCP {revision}, as a server");
        let mut made = 0;
        for listed in suite.scenarios(revision) {
            if chosen.is_empty() || chosen.iter().any(|word| listed.name.contains(word)) {
                made += add(&mut tally, revision, &listed, |verdict| {
                    run(&suite, &listed, revision, &url, verdict)
                });
            }
        }
        println!("  {made} checks passed");
        if chosen.is_empty() && made < checks {
            tally.failures.push(format!("{revision} wants {checks} checks passed, and {made} were"));
        }
    }
    runtime.block_on(server.shutdown(Duration::from_secs(5)));
    tally.report()
}

async fn serve() -> HttpServer {
    let address = ([127, 0, 0, 1], 0).into();
    serve_http(fixture::server(), address, HttpOptions::default())
        .await
        .expect("a free port can be listened on")
}

/// How many checks passed.
fn add(
    tally: &mut ScenarioTally,
    revision: &str,
    listed: &Scenario,
    run: impl FnOnce(&Verdict) -> Result<usize, String>,
) -> usize {
    let Scenario { name, scored } = listed;
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
                let but = match verdict {
                    Verdict::Warns(_, reason) => format!(", with a warning: {reason}"),
                    _ => String::new(),
                };
                println!("  {name}{note}: passed, {checks} checks{but}");
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

/// How many checks passed, or the suite's output when it is not content.
fn run(
    suite: &ConformanceSuite,
    listed: &Scenario,
    revision: &str,
    url: &str,
    verdict: &Verdict,
) -> Result<usize, String> {
    let allowed = match verdict {
        Verdict::Warns(warnings, _) => *warnings,
        _ => 0,
    };
    let mut tries = scenarios::tries(&listed.name);
    loop {
        tries -= 1;
        let (ended_well, output) = suite.run(listed, revision, url).map_err(|error| error.to_string())?;
        // The suite takes a scenario that it does not run for a success.
        match (ended_well, read_tally(&output)) {
            (true, Some((passed, 0, warnings))) if passed > 0 && warnings == allowed => return Ok(passed),
            _ if tries == 0 => return Err(output),
            _ => (),
        }
    }
}

/// Passed, failed and warned, as the suite sums a scenario up: `Passed: 3/3, 0 failed, 0 warnings`.
fn read_tally(output: &str) -> Option<(usize, usize, usize)> {
    let line = output.lines().find_map(|line| line.trim().strip_prefix("Passed: "))?;
    let mut parts = line.split(", ");
    let passed = parts.next()?.split('/').next()?.parse().ok()?;
    let mut number = || parts.next()?.split(' ').next()?.parse().ok();
    Some((passed, number()?, number()?))
}
