//! The same scenarios through HAProxy, with one of three gateways killed between every two requests.

use std::path::Path;

use serde_json::json;
use tokio::runtime::Runtime;
use toolwire_testkit::conformance::{ConformanceSuite, ScenarioTally};

use crate::replaced_gateways::ReplacedGateways;
use crate::{REVISIONS, run_for, scenarios};

/// Which scenarios run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Those of [`scenarios::WITH_REPLACED_GATEWAYS`], which take about half a minute.
    Some,
    All,
}

/// Runs the scenarios that the filters select, and adds the results to the tally.
pub(crate) fn run_scenarios(
    runtime: &Runtime,
    suite: &ConformanceSuite,
    folder: &Path,
    server: &str,
    (extent, filters): (Extent, &[&str]),
    tally: &mut ScenarioTally,
) {
    let config = json!({
        "mcpServers": {"fixture": {"url": server}},
        "toolwire": {"gateway": {"sessionKey": "a-shared-secret-0123456789-abcdefgh"}},
    });
    let gateways = runtime.block_on(ReplacedGateways::start(folder.join("replaced"), &config));
    for revision in REVISIONS {
        println!(
            "\nconformance with MCP {revision}, through HAProxy, with gateways killed between the requests"
        );
        let before = gateways.counts();
        for scenario in suite.scenarios(revision) {
            let name = scenario.name.as_str();
            let is_selected = match filters {
                [] => extent == Extent::All || scenarios::WITH_REPLACED_GATEWAYS.contains(&name),
                filters => filters.iter().any(|filter| name.contains(filter)),
            };
            if is_selected {
                let verdict = scenarios::verdict_with_replaced_gateways(name);
                run_for(suite, &scenario, revision, &gateways.url, verdict, tally);
            }
        }
        let (requests, killed) = gateways.counts();
        let (requests, killed) = (requests - before.0, killed - before.1);
        println!("  {requests} requests, {killed} gateways killed between them");
        // No gateway is killed before the first request, and while requests overlap.
        if filters.is_empty() && killed * 2 < requests {
            tally.failures.push(format!("{revision}: {killed} gateways killed between {requests} requests"));
        }
    }
}
