//! The settings of a gateway.

use std::collections::BTreeMap;
use std::time::Duration;

use toolwire_agent::AgentSettings;

use crate::Keys;

/// The settings of a gateway. The defaults are for clients on the same machine.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GatewaySettings {
    pub keys: Keys,
    /// Names under which clients reach the gateway, in addition to its address: `gateway.example`, or with a port.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use the gateway: `https://chat.example`.
    pub origins: Vec<String>,
    pub limits: GatewayLimits,
    /// The URLs of servers, by name. A request may name a server by its URL.
    pub server_urls: BTreeMap<String, String>,
    /// The settings of each run. A request can only restrict them.
    pub agent: AgentSettings,
    /// Whether Chat Completions contain the model's reasoning, as `reasoning_content`. OpenAI's clients ignore it.
    pub show_reasoning: bool,
}

/// Limits that protect the gateway from its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayLimits {
    /// The maximum size of a body.
    pub body_bytes: usize,
    /// The time to read the headers of a request.
    pub header_timeout: Duration,
    /// The time to read a body, for its first 30 KB; then, 1 KB per second is enough.
    pub body_timeout: Duration,
    /// The time until a client that does not read is disconnected.
    pub write_timeout: Duration,
    /// The maximum number of connections.
    pub connections: usize,
    /// The maximum number of concurrent requests.
    pub requests: usize,
    /// The maximum duration of a run.
    pub run_timeout: Duration,
    /// The interval of heartbeats in responses that wait for the model or for a tool.
    pub heartbeat: Duration,
    /// The time that running requests have to finish when the gateway stops.
    pub drain: Duration,
}

impl Default for GatewayLimits {
    fn default() -> GatewayLimits {
        GatewayLimits {
            body_bytes: 32 * 1024 * 1024,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            connections: 16_384,
            requests: 1_024,
            run_timeout: Duration::from_secs(600),
            heartbeat: Duration::from_secs(10),
            drain: Duration::from_secs(30),
        }
    }
}
