//! SIGHUP: the configuration is read again while the gateway serves.

use std::io::{self, IsTerminal as _};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use toolwire_gateway::{Gateway, ReadinessChecks, RequestServers, metrics::Metrics};
use toolwire_hub::AllowedHosts;

use super::configuration::Configuration;
use super::page_servers::HubServers;
use super::request_servers::ServerPool;
use super::user_servers::UserPool;
use super::{ServeArgs, start_error, systemd};
use crate::command_error::{CommandError, HINT, NOTE, print_stderr};
use crate::settings::{GatewayConfig, Settings};

/// Reads the configuration again at each SIGHUP.
pub(super) struct Reloader<'a> {
    pub(super) args: &'a ServeArgs,
    pub(super) config: Option<&'a Path>,
    pub(super) metrics: Metrics,
    pub(super) readiness: ReadinessChecks,
    pub(super) local: IpAddr,
    pub(super) servers: Arc<HubServers>,
    pub(super) users: Arc<UserPool>,
    pub(super) gateways: watch::Sender<Gateway>,
    pub(super) settings: Settings,
    /// The servers that requests name by URL: those of the current configuration, and of earlier ones.
    pub(super) pools: Mutex<Vec<(PoolRules, Arc<ServerPool>)>>,
}

/// The settings that determine a pool of servers that requests name by URL.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PoolRules {
    hosts: Vec<String>,
    addresses: Vec<String>,
    timeouts: [Duration; 2],
}

impl PoolRules {
    pub(super) fn of(config: &GatewayConfig) -> PoolRules {
        PoolRules {
            hosts: config.allowed_hosts.clone(),
            addresses: config.allowed_addresses.clone(),
            timeouts: [config.limits.request_server_timeout, config.limits.run_timeout],
        }
    }
}

impl Reloader<'_> {
    /// Reloads at each SIGHUP. Ends when the terminal of the gateway is closed, which sends the same signal.
    pub(super) async fn run(&self, mut next: impl FnMut() -> futures::future::BoxFuture<'static, ()>) {
        let had_terminal = io::stderr().is_terminal();
        loop {
            next().await;
            if had_terminal && !io::stderr().is_terminal() {
                return;
            }
            systemd::notify_reloading();
            match self.reload().await {
                Ok(()) => print_stderr("reloaded the configuration\n"),
                Err(error) => self.report_failure(error),
            }
            systemd::notify("READY=1");
        }
    }

    /// Uses the new configuration. Everything is read and checked before anything changes.
    async fn reload(&self) -> Result<(), CommandError> {
        let configuration = Configuration::read(self.args, self.config, &self.metrics)?;
        let Configuration { loaded, settings, models, gateway: mut gateway_settings, hosts, .. } =
            configuration;
        gateway_settings.readiness = self.readiness.clone();
        let current = self.gateways.borrow().clone();
        let pool = self.pool(hosts, &settings.gateway);
        let gateway = current.reconfigured(Arc::new(models), pool, gateway_settings);
        self.users.check(&loaded.config)?;
        gateway.check(self.local).map_err(|error| start_error(&error, self.local))?;
        for key in self.keys_for_restart(&settings) {
            print_stderr(&format!(
                "{NOTE}note:{NOTE:#} `toolwire.{key}` has changed; restart the gateway to use it\n"
            ));
        }
        gateway.set_invalid_configuration(None);
        self.metrics.record_reload(true);
        self.users.reconfigure(&loaded.config);
        self.gateways.send_replace(gateway);
        self.servers.reconfigure(&loaded.with_shared_servers()).await;
        Ok(())
    }

    /// Returns the servers that requests may name by URL, with the new rules. Running requests still use
    /// the earlier ones.
    fn pool(&self, hosts: AllowedHosts, config: &GatewayConfig) -> Arc<dyn RequestServers> {
        let rules = PoolRules::of(config);
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pool)) = pools.iter().find(|(known, _)| *known == rules) {
            return pool.clone();
        }
        let [connect_timeout, run_timeout] = rules.timeouts;
        let pool = Arc::new(ServerPool::new(hosts, connect_timeout, run_timeout));
        pools.push((rules, pool.clone()));
        pool
    }

    /// Returns the keys whose changes need a restart.
    fn keys_for_restart(&self, new: &Settings) -> Vec<&'static str> {
        let old = &self.settings;
        let (old_limits, new_limits) = (&old.gateway.limits, &new.gateway.limits);
        let changes = [
            ("gateway.listen", old.gateway.listen != new.gateway.listen && self.args.listen.is_none()),
            ("store", old.store != new.store),
            ("gateway.responseRetention", old.gateway.response_retention != new.gateway.response_retention),
            ("gateway.publicUrl", old.gateway.public_url != new.gateway.public_url),
            ("gateway.credentialKey", old.gateway.credential_key != new.gateway.credential_key),
            ("gateway.audit", old.gateway.audit != new.gateway.audit),
            ("gateway.limits.connections", old_limits.connections != new_limits.connections),
            ("gateway.limits.stateBytes", old_limits.state_bytes != new_limits.state_bytes),
            (
                "gateway.limits.stateBytesPerKey",
                old_limits.state_bytes_per_key != new_limits.state_bytes_per_key,
            ),
            ("gateway.tls", old.gateway.tls.is_some() != new.gateway.tls.is_some()),
        ];
        changes.into_iter().filter(|(_, has_changed)| *has_changed).map(|(key, _)| key).collect()
    }

    /// Reports that the configuration was not reloaded.
    fn report_failure(&self, error: CommandError) {
        self.metrics.record_reload(false);
        let (problem, hint) = error.into_parts();
        self.gateways.borrow().set_invalid_configuration(Some(problem.clone()));
        print_stderr(&format!(
            "{NOTE}error:{NOTE:#} the configuration was not reloaded, and the previous one stays in use: {problem}\n"
        ));
        if let Some(hint) = hint {
            print_stderr(&format!("{HINT}hint:{HINT:#} {hint}\n"));
        }
    }

    /// Closes the connections to servers that requests named by URL.
    pub(super) async fn close(&self) {
        let pools = std::mem::take(&mut *self.pools.lock().unwrap_or_else(PoisonError::into_inner));
        futures::future::join_all(pools.iter().map(|(_, pool)| pool.close())).await;
    }
}
