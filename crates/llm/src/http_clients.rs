//! HTTP clients, shared by endpoints with the same connect timeout.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{NoProxy, Proxy};

use crate::EndpointError;
use crate::settings::Lookup;

/// HTTP clients, one per connect timeout. Endpoints that share a client share its connections.
#[derive(Default)]
pub(crate) struct HttpClients {
    proxies: Vec<Proxy>,
    by_connect_timeout: Mutex<HashMap<Duration, reqwest::Client>>,
}

impl HttpClients {
    /// Reads the proxy variables. Requests to localhost never use a proxy.
    pub(crate) fn new(lookup: Lookup<'_>) -> Result<HttpClients, EndpointError> {
        let first_set = |names: &[&str]| {
            let value = |name: &&str| lookup(name).map(|value| value.trim().to_owned());
            names.iter().filter_map(value).find(|value| !value.is_empty())
        };
        let no_proxy = first_set(&["NO_PROXY", "no_proxy"]).unwrap_or_default();
        let no_proxy = format!("{no_proxy},localhost,127.0.0.1,::1");
        let mut proxies = Vec::new();
        type NewProxy = fn(String) -> reqwest::Result<Proxy>;
        let schemes: [(&[&str], NewProxy); 2] = [
            (&["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"], Proxy::https),
            // Not `HTTP_PROXY`: under CGI, a client can set that variable with a `Proxy` header.
            (&["http_proxy", "ALL_PROXY", "all_proxy"], Proxy::http),
        ];
        for (variables, new_proxy) in schemes {
            if let Some(url) = first_set(variables) {
                let proxy = new_proxy(url).map_err(|error| EndpointError::HttpClient {
                    problem: root_cause(&error.without_url()),
                })?;
                proxies.push(proxy.no_proxy(NoProxy::from_string(&no_proxy)));
            }
        }
        Ok(HttpClients { proxies, by_connect_timeout: Mutex::default() })
    }

    pub(crate) fn client(&self, connect_timeout: Duration) -> Result<reqwest::Client, EndpointError> {
        let mut clients = self.by_connect_timeout.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&connect_timeout) {
            return Ok(client.clone());
        }
        // The HTTP client uses the cryptography of the process; the application may have chosen another one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("toolwire/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(connect_timeout)
            // A redirect could send the key to another host.
            .redirect(Policy::none())
            .no_proxy();
        for proxy in &self.proxies {
            builder = builder.proxy(proxy.clone());
        }
        let client =
            builder.build().map_err(|error| EndpointError::HttpClient { problem: root_cause(&error) })?;
        clients.insert(connect_timeout, client.clone());
        Ok(client)
    }
}

/// Returns the TLS error that caused an error.
pub(crate) fn tls_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(error) = cause.downcast_ref::<rustls::Error>() {
            return Some(error);
        }
        // `io::Error::source` skips the error that it contains.
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = inner.map(|inner| inner as &(dyn Error + 'static)).or_else(|| cause.source());
    }
    None
}

/// Returns the innermost error message: `connection refused` rather than `error sending request`.
pub(crate) fn root_cause(error: &reqwest::Error) -> String {
    let mut source: &dyn std::error::Error = error;
    while let Some(next) = source.source() {
        source = next;
    }
    source.to_string()
}
