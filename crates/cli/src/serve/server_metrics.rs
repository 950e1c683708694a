//! Metrics of the MCP servers.

use std::sync::Arc;

use toolwire_gateway::metrics::{Measurement, MetricKind, MetricSource};
use toolwire_hub::{Hub, Phase};

/// The states of a server in metrics.
const STATES: [&str; 5] = ["connecting", "ready", "recovering", "down", "stopped"];

/// The maximum number of servers in metrics.
const MAX_SERVERS: usize = 256;

/// The states of the servers of a hub.
pub(super) struct ServerMetrics(pub(super) Arc<Hub>);

impl MetricSource for ServerMetrics {
    fn measure(&self) -> Vec<Measurement> {
        let mut status = self.0.status();
        status.truncate(MAX_SERVERS);
        let label = |name: &str| ("toolwire.server", name.to_owned());
        let states = status.iter().flat_map(|server| {
            let current = match &server.phase {
                Phase::Connecting => "connecting",
                Phase::Ready => "ready",
                Phase::Recovering { .. } => "recovering",
                Phase::Stopped => "stopped",
                _ => "down",
            };
            STATES.map(|state| {
                (
                    vec![label(&server.name), ("state", state.to_owned())],
                    f64::from(u8::from(state == current)),
                )
            })
        });
        let each = |value: fn(&toolwire_hub::ServerStatus) -> f64| {
            status.iter().map(|server| (vec![label(&server.name)], value(server))).collect()
        };
        vec![
            Measurement::new(
                "toolwire.server.state",
                "1",
                "1 for the state that an MCP server has, 0 for the others.",
                MetricKind::Gauge,
                states.collect(),
            ),
            Measurement::new(
                "toolwire.server.tools",
                "1",
                "The tools that an MCP server offers.",
                MetricKind::Gauge,
                each(|server| server.tool_count as f64),
            ),
            Measurement::new(
                "toolwire.server.restarts",
                "1",
                "How often an MCP server was connected again.",
                MetricKind::Counter,
                each(|server| f64::from(server.restarts)),
            ),
        ]
    }
}
