//! Runs every server scenario of MCP's conformance suite against `/mcp`, with the fixture server behind the
//! gateway, for both revisions that the suite supports. Then it runs some of them through HAProxy, with one
//! of three gateways killed between every two requests.
//!
//! Arguments select scenarios by parts of their names. `--replaced-gateways` runs only scenarios through
//! HAProxy: all of them that do not depend on a single gateway.

#![allow(clippy::unwrap_used)]

#[path = "../../../toolkit/tests/fixture/mod.rs"]
mod fixture;
#[path = "../gateway_process/mod.rs"]
mod gateway_process;
mod replaced;
#[path = "../replaced_gateways/mod.rs"]
mod replaced_gateways;
mod scenarios;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gateway_process::GatewayProcess;
use replaced::Extent;
use scenarios::Verdict;
use serde_json::json;
use toolwire_testkit::conformance::{ConformanceSuite, Scenario, ScenarioTally, TestedSide};
use toolwire_toolkit::transport::{HttpOptions, serve_http};

const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Starts a gateway with one server.
fn start(folder: &Path, server: &str) -> GatewayProcess {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).unwrap();
    let config = json!({"mcpServers": {"fixture": {"url": server}}});
    fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
    GatewayProcess::start(folder, "127.0.0.1:0").unwrap()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    // One of the tools panics on purpose; print only the message.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    let filters: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|argument| !argument.starts_with('-')).collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let serving = serve_http(fixture::server(), ([127, 0, 0, 1], 0).into(), HttpOptions::default());
    let server = runtime.block_on(serving).unwrap();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mcp-server-conformance");
    let gateway = start(&folder, &server.url());
    let url = format!("http://{}/mcp", gateway.address);
    let suite = ConformanceSuite::installed(TestedSide::Server, folder.join("suite.log"));
    let mut tally = ScenarioTally::default();
    let extent = match arguments.iter().any(|argument| argument == "--replaced-gateways") {
        true => Extent::All,
        false => Extent::Some,
    };
    for revision in REVISIONS.into_iter().filter(|_| extent == Extent::Some) {
        println!("\nconformance with MCP {revision}, through the gateway");
        let mut passed = 0;
        for scenario in suite.scenarios(revision) {
            if !filters.is_empty() && !filters.iter().any(|filter| scenario.name.contains(filter)) {
                continue;
            }
            passed += run(&suite, &scenario, revision, &url, &mut tally);
        }
        println!("  {passed} checks passed");
        let expected = scenarios::passed_checks(revision);
        if filters.is_empty() && passed < expected {
            tally.failures.push(format!("{revision}: {passed} checks passed, expected at least {expected}"));
        }
    }
    drop(gateway);
    replaced::run_scenarios(&runtime, &suite, &folder, &server.url(), (extent, &filters), &mut tally);
    tally.report()
}

/// Runs a scenario, adds its result to the tally, and returns the number of passed checks.
fn run(
    suite: &ConformanceSuite,
    scenario: &Scenario,
    revision: &str,
    url: &str,
    tally: &mut ScenarioTally,
) -> usize {
    run_for(suite, scenario, revision, url, scenarios::verdict(&scenario.name), tally)
}

fn run_for(
    suite: &ConformanceSuite,
    scenario: &Scenario,
    revision: &str,
    url: &str,
    verdict: Verdict,
    tally: &mut ScenarioTally,
) -> usize {
    let name = &scenario.name;
    let (failed, note) = match verdict {
        Verdict::Fails(failed, reason) => (failed, format!(", {failed} failed: {reason}")),
        Verdict::Run => (0, String::new()),
        Verdict::Skip(reason) => {
            tally.skipped += 1;
            println!("  {name}: skipped, {reason}");
            return 0;
        }
    };
    let mut tries = scenarios::tries(name);
    loop {
        tries -= 1;
        let (is_success, output) = suite.run(scenario, revision, url).unwrap();
        match read_tally(&output) {
            Some((passed, found)) if found == failed && is_success == (failed == 0) && passed > 0 => {
                tally.passed += 1;
                println!("  {name}: passed, {passed} checks{note}");
                return passed;
            }
            _ if tries == 0 => {
                println!("  {name}: FAILED");
                tally.failures.push(format!("{name} of {revision}\n{output}"));
                return 0;
            }
            _ => {}
        }
    }
}

/// Parses the numbers of passed and failed checks: `Passed: 3/3, 0 failed, 0 warnings`.
fn read_tally(output: &str) -> Option<(usize, usize)> {
    let line = output.lines().find_map(|line| line.trim().strip_prefix("Passed: "))?;
    let mut parts = line.split(", ");
    let passed = parts.next()?.split('/').next()?.parse().ok()?;
    Some((passed, parts.next()?.split(' ').next()?.parse().ok()?))
}
