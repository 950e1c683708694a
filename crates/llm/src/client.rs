//! Connections, shared by all endpoints that want them alike.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{NoProxy, Proxy};

use crate::settings::{EndpointError, Lookup};

/// Connections, shared by all endpoints that want them alike.
#[derive(Default)]
pub(crate) struct Clients {
    proxies: Vec<Proxy>,
    /// By the time that connecting may take.
    made: Mutex<HashMap<Duration, reqwest::Client>>,
}

impl Clients {
    /// A proxy is used if the usual variables name one, and never for this machine.
    pub(crate) fn new(lookup: Lookup<'_>) -> Result<Clients, EndpointError> {
        let set = |names: [&str; 4]| {
            let value = |name: &str| lookup(name).map(|value| value.trim().to_owned());
            names.into_iter().filter_map(value).find(|value| !value.is_empty())
        };
        let except = set(["NO_PROXY", "no_proxy", "", ""]).unwrap_or_default();
        let except = format!("{except},localhost,127.0.0.1,::1");
        let mut proxies = Vec::new();
        type Way = fn(String) -> reqwest::Result<Proxy>;
        let ways: [([&str; 4], Way); 2] = [
            (["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"], Proxy::https),
            // Not `HTTP_PROXY`: where a web server sets variables, a request can set that one.
            (["http_proxy", "ALL_PROXY", "all_proxy", ""], Proxy::http),
        ];
        for (names, way) in ways {
            if let Some(address) = set(names) {
                let proxy = way(address)
                    .map_err(|error| EndpointError::NoClient { problem: reason(&error.without_url()) })?;
                proxies.push(proxy.no_proxy(NoProxy::from_string(&except)));
            }
        }
        Ok(Clients { proxies, made: Mutex::default() })
    }

    pub(crate) fn client(&self, connect: Duration) -> Result<reqwest::Client, EndpointError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = made.get(&connect) {
            return Ok(client.clone());
        }
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("toolwire/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(connect)
            // A key is sent to the address it was given for and to no other.
            .redirect(Policy::none())
            .no_proxy();
        for proxy in &self.proxies {
            builder = builder.proxy(proxy.clone());
        }
        let client = builder.build().map_err(|error| EndpointError::NoClient { problem: reason(&error) })?;
        made.insert(connect, client.clone());
        Ok(client)
    }
}

/// What went wrong at the bottom of it: `connection refused` rather than `error sending request`.
pub(crate) fn reason(error: &reqwest::Error) -> String {
    let mut source: &dyn std::error::Error = error;
    while let Some(next) = source.source() {
        source = next;
    }
    source.to_string()
}
