//! The options of a hub.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use crate::allowed_hosts::AllowedHosts;
use crate::auth::{Browser, TokenStorage};
use crate::config::ServerName;
use crate::host::{Host, NoHost};
use crate::pins::PinPolicy;
use crate::result_store::ResultBudget;

/// The options of a hub, in addition to its configuration.
#[derive(Clone)]
#[non_exhaustive]
pub struct HubOptions {
    /// Responds to requests of servers.
    pub host: Arc<dyn Host>,
    /// The environment of this process. A server process receives only the necessary variables of it.
    pub environment: Vec<(OsString, OsString)>,
    /// A program that calls [`run_as_guard`](crate::run_as_guard) first, such as the current program. Each
    /// server process then gets a guard, which also ends processes that have left the server's session (Linux
    /// only).
    pub guard: Option<PathBuf>,
    /// The maximum number of server processes that start at the same time. By default, the number is limited
    /// only while the processor is busy, and depends on the number of cores.
    pub concurrent_starts: Option<NonZeroUsize>,
    /// Where tokens, known tool definitions and full results are stored. Without it, servers that require a
    /// login fail, and the truncated part of a result cannot be read.
    pub data_folder: Option<PathBuf>,
    /// Where tokens are stored instead of the data folder, if the hub is that of one user of a gateway.
    pub token_storage: Option<Arc<dyn TokenStorage>>,
    /// Where the tokens of servers that all users share are stored instead of the data folder, for several
    /// machines.
    pub shared_token_storage: Option<Arc<dyn TokenStorage>>,
    /// Shows login pages to the user.
    pub browser: Option<Arc<dyn Browser>>,
    /// Limits how much of a result is returned; `None` returns everything.
    pub result_budget: Option<ResultBudget>,
    /// Connects to this server only. The tools of the others still affect the names of its tools.
    pub only_server: Option<ServerName>,
    /// The handling of tools whose definition changed.
    pub pin_policy: PinPolicy,
    /// The only hosts and addresses of servers, if their URLs come from untrusted sources. Then proxies are
    /// not used, redirects are not followed, and messages are limited to 8 MB.
    pub allowed_hosts: Option<Arc<AllowedHosts>>,
}

impl Default for HubOptions {
    fn default() -> HubOptions {
        HubOptions {
            host: Arc::new(NoHost),
            environment: Vec::new(),
            guard: None,
            concurrent_starts: None,
            data_folder: None,
            token_storage: None,
            shared_token_storage: None,
            browser: None,
            result_budget: Some(ResultBudget::default()),
            only_server: None,
            pin_policy: PinPolicy::default(),
            allowed_hosts: None,
        }
    }
}

impl HubOptions {
    pub fn with_host(self, host: Arc<dyn Host>) -> HubOptions {
        HubOptions { host, ..self }
    }

    pub fn with_environment(self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> HubOptions {
        HubOptions { environment: variables.into_iter().collect(), ..self }
    }

    pub fn with_concurrent_starts(self, limit: NonZeroUsize) -> HubOptions {
        HubOptions { concurrent_starts: Some(limit), ..self }
    }

    pub fn with_data_folder(self, folder: impl Into<PathBuf>) -> HubOptions {
        HubOptions { data_folder: Some(folder.into()), ..self }
    }

    pub fn with_token_storage(self, storage: Arc<dyn TokenStorage>) -> HubOptions {
        HubOptions { token_storage: Some(storage), ..self }
    }

    pub fn with_shared_token_storage(self, storage: Arc<dyn TokenStorage>) -> HubOptions {
        HubOptions { shared_token_storage: Some(storage), ..self }
    }

    pub fn with_browser(self, browser: Arc<dyn Browser>) -> HubOptions {
        HubOptions { browser: Some(browser), ..self }
    }

    pub fn with_result_budget(self, budget: Option<ResultBudget>) -> HubOptions {
        HubOptions { result_budget: budget, ..self }
    }

    pub fn with_pin_policy(self, policy: PinPolicy) -> HubOptions {
        HubOptions { pin_policy: policy, ..self }
    }

    pub fn with_allowed_hosts(self, hosts: Arc<AllowedHosts>) -> HubOptions {
        HubOptions { allowed_hosts: Some(hosts), ..self }
    }
}
