//! The settings of a gateway.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::sync::Semaphore;
use toolwire_agent::AgentSettings;
use toolwire_contract::text::parse_duration;

use crate::principal::Principal;
use crate::{
    Keys, ReadinessChecks, audit::AuditLog, metrics::Metrics, spans::Spans, state::ResponseStorage, tls::Tls,
};

/// The settings of a gateway. The defaults are for clients on the same machine.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GatewaySettings {
    pub keys: Keys,
    /// Host names that clients may use for the gateway, in addition to its address: `gateway.example`, or
    /// with a port.
    pub hosts: Vec<String>,
    /// Origins of web pages that may use the gateway: `https://chat.example`.
    pub origins: Vec<String>,
    pub limits: GatewayLimits,
    /// The URLs of servers, by name. A request may name a server by its URL.
    pub server_urls: BTreeMap<String, String>,
    /// The settings of each run. A request can only restrict them.
    pub agent: AgentSettings,
    /// Whether Chat Completions contain the model's reasoning, as `reasoning_content`. OpenAI's clients
    /// ignore it.
    pub show_reasoning: bool,
    /// Whether requests may refer to data that the provider has stored, such as files. All clients use the
    /// same account at the provider, so by default they may not if there are several keys.
    pub provider_state: Option<bool>,
    /// The place where the responses of the Responses API are stored. Without it, they are not stored.
    pub responses: Option<ResponseStorage>,
    /// Whether deceptive characters in results of tools are replaced, such as control characters.
    pub screen_results: bool,
    /// Whether `/mcp` offers a search and a call instead of all tools.
    pub mcp_search: bool,
    /// Logs the calls of tools.
    pub audit: Option<Arc<AuditLog>>,
    /// The certificate for TLS. Without it, the connections are not encrypted.
    pub tls: Option<Tls>,
    /// The destination of the spans of distributed traces.
    pub spans: Spans,
    /// The metrics that `/metrics` returns.
    pub metrics: Metrics,
    /// The checks that must succeed before the gateway is ready, in addition to the start of its servers.
    pub readiness: ReadinessChecks,
}

impl GatewaySettings {
    pub(crate) fn allows_provider_state(&self, principal: &Principal) -> bool {
        let of_key = principal.rights().and_then(|rights| rights.provider_state);
        of_key.or(self.provider_state).unwrap_or(!self.keys.may_be_several())
    }
}

/// Limits that protect the gateway from its clients.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct GatewayLimits {
    /// The maximum size of a body.
    #[serde(deserialize_with = "count")]
    pub body_bytes: usize,
    /// The maximum size of the bodies of all requests at the same time.
    #[serde(deserialize_with = "count")]
    pub all_bodies_bytes: usize,
    /// The maximum size of the bodies of one client at the same time; by default a quarter of all. If there
    /// are several keys, a client is a key. Otherwise, a client is an address, and loopback addresses have no
    /// limit.
    #[serde(deserialize_with = "optional_count")]
    pub all_bodies_bytes_per_client: Option<usize>,
    /// The maximum size of the data for later requests. It applies to hidden rounds, to items, to paused
    /// runs and to responses with an idempotency key separately.
    #[serde(deserialize_with = "count")]
    pub state_bytes: usize,
    /// The maximum size of what is stored for one key; by default a quarter of all if there are several keys.
    #[serde(deserialize_with = "optional_count")]
    pub state_bytes_per_key: Option<usize>,
    /// The time to read the headers of a request, from its first byte.
    #[serde(deserialize_with = "duration")]
    pub header_timeout: Duration,
    /// The time that a connection may be idle between two requests.
    #[serde(deserialize_with = "duration")]
    pub keep_alive_timeout: Duration,
    /// The time to read the first 30 KB of a body. Each further KB adds one second, up to 300 seconds.
    #[serde(deserialize_with = "duration")]
    pub body_timeout: Duration,
    /// The time until a client that does not read is disconnected.
    #[serde(deserialize_with = "duration")]
    pub write_timeout: Duration,
    /// The maximum number of connections.
    #[serde(deserialize_with = "count")]
    pub connections: usize,
    /// The maximum number of connections of one client address; by default 256, and no limit for loopback
    /// addresses.
    #[serde(deserialize_with = "optional_count")]
    pub connections_per_address: Option<usize>,
    /// The maximum number of concurrent requests.
    #[serde(deserialize_with = "count")]
    pub requests: usize,
    /// The maximum number of concurrent requests of one key; by default 64 if there are several keys.
    #[serde(deserialize_with = "optional_count")]
    pub requests_per_key: Option<usize>,
    /// The maximum number of tools in one request.
    pub tools: usize,
    /// The maximum number of servers that one request names by URL.
    pub request_servers: usize,
    /// The time to connect to a server that a request names by URL, and to list its tools.
    #[serde(deserialize_with = "duration")]
    pub request_server_timeout: Duration,
    /// The time that a request waits for servers that are starting.
    #[serde(deserialize_with = "duration")]
    pub server_start_timeout: Duration,
    /// The maximum duration of a run.
    #[serde(deserialize_with = "duration")]
    pub run_timeout: Duration,
    /// The maximum duration of a response in the background.
    #[serde(deserialize_with = "duration")]
    pub background_timeout: Duration,
    /// The time after which another gateway may continue a response in the background, if its gateway does not
    /// respond. It is renewed three times in this time.
    #[serde(deserialize_with = "duration")]
    pub background_lease: Duration,
    /// The maximum number of calls of servers' tools in one response of the model.
    pub calls_per_step: u32,
    /// The maximum number of calls of servers' tools for one request.
    pub calls: u32,
    /// The interval of heartbeats while a response waits for the model or for a tool.
    #[serde(deserialize_with = "duration")]
    pub heartbeat: Duration,
    /// The time that running requests have to finish when the gateway stops.
    #[serde(deserialize_with = "duration")]
    pub drain: Duration,
    /// The time for load balancers to notice that the gateway stops. During it, requests are still accepted.
    #[serde(deserialize_with = "duration_or_zero")]
    pub drain_delay: Duration,
}

impl GatewayLimits {
    pub(crate) const CONNECTIONS_PER_ADDRESS: usize = 256;
    pub(crate) const REQUESTS_PER_KEY: usize = 64;
    /// The streams of `/mcp` that only wait for changes.
    pub(crate) const LISTENERS_PER_KEY: usize = 1_024;

    /// By default, one client gets one of this many equal shares.
    const SHARES: usize = 4;

    pub(crate) fn bodies_bytes_of_client(&self) -> usize {
        let share = (self.all_bodies_bytes / GatewayLimits::SHARES).max(self.body_bytes);
        self.all_bodies_bytes_per_client.unwrap_or(share)
    }

    pub(crate) fn state_bytes_of_key(&self, has_several_keys: bool) -> usize {
        let shares = if has_several_keys { GatewayLimits::SHARES } else { 1 };
        self.state_bytes_per_key.unwrap_or(self.state_bytes / shares)
    }

    /// Checks that the limits do not contradict each other.
    pub(crate) fn check(&self) -> Result<(), LimitError> {
        let shares = [
            ("allBodiesBytes", self.all_bodies_bytes),
            ("allBodiesBytesPerClient", self.bodies_bytes_of_client()),
        ];
        if let Some((key, value)) = shares.into_iter().find(|(_, value)| *value < self.body_bytes) {
            return Err(LimitError::TooSmall { key, value, other: "bodyBytes", minimum: self.body_bytes });
        }
        let counts = [("connections", self.connections), ("requests", self.requests)];
        let maximum = Semaphore::MAX_PERMITS;
        match counts.into_iter().find(|(_, value)| *value > maximum) {
            Some((key, value)) => Err(LimitError::TooLarge { key, value, maximum }),
            None => Ok(()),
        }
    }
}

/// A limit that would make the gateway unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    #[error("`{key}` is {value}, and must not be less than `{other}`, which is {minimum}")]
    TooSmall { key: &'static str, value: usize, other: &'static str, minimum: usize },
    #[error("`{key}` is {value}, and the maximum is {maximum}")]
    TooLarge { key: &'static str, value: usize, maximum: usize },
}

impl LimitError {
    /// Returns what to change.
    pub fn hint(&self) -> String {
        match self {
            LimitError::TooSmall { key, other, .. } => format!("increase `{key}`, or decrease `{other}`"),
            LimitError::TooLarge { key, .. } => format!("decrease `{key}`"),
        }
    }
}

impl Default for GatewayLimits {
    fn default() -> GatewayLimits {
        GatewayLimits {
            body_bytes: 32 * 1024 * 1024,
            all_bodies_bytes: 512 * 1024 * 1024,
            all_bodies_bytes_per_client: None,
            state_bytes: 256 * 1024 * 1024,
            state_bytes_per_key: None,
            header_timeout: Duration::from_secs(10),
            keep_alive_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            connections: 16_384,
            connections_per_address: None,
            requests: 1_024,
            requests_per_key: None,
            tools: 1_024,
            request_servers: 8,
            request_server_timeout: Duration::from_secs(10),
            server_start_timeout: Duration::from_secs(5),
            run_timeout: Duration::from_secs(600),
            background_timeout: Duration::from_secs(3_600),
            background_lease: Duration::from_secs(30),
            calls_per_step: 32,
            calls: 128,
            heartbeat: Duration::from_secs(10),
            drain: Duration::from_secs(30),
            drain_delay: Duration::ZERO,
        }
    }
}

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    NonZeroUsize::deserialize(deserializer).map(NonZeroUsize::get)
}

fn optional_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    Ok(Option::<NonZeroUsize>::deserialize(deserializer)?.map(NonZeroUsize::get))
}

/// Reads seconds, or text such as `"500ms"`.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = duration_text(deserializer)?;
    parse_duration(&text).filter(|duration| !duration.is_zero()).ok_or_else(|| not_a_duration(&text))
}

/// Does the same as [`duration`] with a duration that may be zero.
fn duration_or_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = duration_text(deserializer)?;
    match text.as_str() {
        "0" | "0s" | "0ms" => Ok(Duration::ZERO),
        text => parse_duration(text).ok_or_else(|| not_a_duration(text)),
    }
}

fn duration_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        other => other.to_string(),
    })
}

fn not_a_duration<E: serde::de::Error>(text: &str) -> E {
    E::custom(format!("`{text}` is not a duration such as `30` (seconds), `\"500ms\"` or `\"2m\"`"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn limits_are_read() {
        let value = json!({
            "bodyBytes": 1, "allBodiesBytes": 2, "headerTimeout": "500ms", "keepAliveTimeout": 12, "bodyTimeout": 2, "writeTimeout": "3s",
            "allBodiesBytesPerClient": 10, "stateBytes": 11, "stateBytesPerKey": 12,
            "connections": 4, "connectionsPerAddress": 5, "requests": 6, "requestsPerKey": 7, "tools": 0,
            "requestServers": 10, "requestServerTimeout": 11, "serverStartTimeout": 13,
            "callsPerStep": 12, "calls": 13,
            "runTimeout": "1h", "backgroundTimeout": "2h", "backgroundLease": 14, "heartbeat": 8, "drain": 9, "drainDelay": 0,
        });
        let expected = GatewayLimits {
            body_bytes: 1,
            all_bodies_bytes: 2,
            all_bodies_bytes_per_client: Some(10),
            state_bytes: 11,
            state_bytes_per_key: Some(12),
            header_timeout: Duration::from_millis(500),
            keep_alive_timeout: Duration::from_secs(12),
            body_timeout: Duration::from_secs(2),
            write_timeout: Duration::from_secs(3),
            connections: 4,
            connections_per_address: Some(5),
            requests: 6,
            requests_per_key: Some(7),
            tools: 0,
            request_servers: 10,
            request_server_timeout: Duration::from_secs(11),
            server_start_timeout: Duration::from_secs(13),
            run_timeout: Duration::from_secs(3_600),
            background_timeout: Duration::from_secs(7_200),
            background_lease: Duration::from_secs(14),
            calls_per_step: 12,
            calls: 13,
            heartbeat: Duration::from_secs(8),
            drain: Duration::from_secs(9),
            drain_delay: Duration::ZERO,
        };
        assert_eq!(serde_json::from_value::<GatewayLimits>(value).expect("limits"), expected);
        assert_eq!(
            serde_json::from_value::<GatewayLimits>(json!({})).expect("limits"),
            GatewayLimits::default()
        );
        for invalid in [json!({"heartbeat": 0}), json!({"requests": 0}), json!({"runTimeout": "soon"})] {
            assert!(serde_json::from_value::<GatewayLimits>(invalid.clone()).is_err(), "{invalid}");
        }
    }
    #[test]
    fn limits_that_contradict_each_other_are_refused() {
        let limits = GatewayLimits::default();
        assert_eq!(limits.check(), Ok(()));
        let refused = |limits: GatewayLimits| limits.check().expect_err("a wrong limit").to_string();
        assert_eq!(
            refused(GatewayLimits { body_bytes: 5, all_bodies_bytes: 4, ..limits.clone() }),
            "`allBodiesBytes` is 4, and must not be less than `bodyBytes`, which is 5"
        );
        let share = refused(GatewayLimits { all_bodies_bytes_per_client: Some(4), ..limits.clone() });
        assert!(share.starts_with("`allBodiesBytesPerClient` is 4, "), "{share}");
        let connections = refused(GatewayLimits { connections: usize::MAX, ..limits.clone() });
        assert!(connections.starts_with("`connections` is "), "{connections}");
        assert_eq!(GatewayLimits { body_bytes: 9, all_bodies_bytes: 9, ..limits }.check(), Ok(()));
    }
}
