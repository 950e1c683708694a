//! The configuration of the gateway. It is read at the start, and again at each reload.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use toolwire_gateway::{GatewaySettings, metrics::Metrics, tls::Tls};
use toolwire_hub::{AllowedHosts, PatternError};

use super::client_keys::{add_issuers, keys};
use super::listener::{DEFAULT_ADDRESS, address};
use super::metrics_observer::MetricsObserver;
use super::models::ConfiguredModels;
use super::{ServeArgs, server_urls};
use crate::assembly;
use crate::command_error::CommandError;
use crate::log;
use crate::servers::{self, LoadedConfig};
use crate::settings::{self, AuditConfig, AuditSettings, Settings, TlsFiles};
use crate::source::describe_io_error;
use crate::terminal_text::sanitize;

/// A valid configuration of the gateway.
pub(super) struct Configuration {
    pub(super) loaded: LoadedConfig,
    pub(super) settings: Settings,
    pub(super) address: SocketAddr,
    pub(super) models: ConfiguredModels,
    pub(super) gateway: GatewaySettings,
    pub(super) hosts: AllowedHosts,
}

impl Configuration {
    /// Reads the configuration, and everything that it refers to.
    pub(super) fn read(
        args: &ServeArgs,
        config: Option<&Path>,
        metrics: &Metrics,
    ) -> Result<Configuration, CommandError> {
        let (loaded, settings) = read_settings(args, config)?;
        let listen = args.listen.as_deref().or(settings.gateway.listen.as_deref());
        let address = address(listen.unwrap_or(DEFAULT_ADDRESS))?;
        let hosts = AllowedHosts::new(&settings.gateway.allowed_hosts, &settings.gateway.allowed_addresses);
        let hosts = hosts.map_err(|error| {
            let key =
                if matches!(error, PatternError::Host(_)) { "allowedHosts" } else { "allowedAddresses" };
            CommandError::usage(format!("`toolwire.gateway.{key}`: {error}"))
                .with_hint("`docs/guide/gateway.md` describes the keys")
        })?;
        let observer = Arc::new(MetricsObserver { metrics: metrics.clone(), models: OnceLock::new() });
        let models = assembly::models(&settings)?.with_observer(observer.clone());
        let models = ConfiguredModels::new(&settings, models)?;
        let _ = observer.models.set(models.listed().to_vec());
        let mut gateway = gateway_settings(&loaded, &settings, metrics)?;
        gateway.mcp_search = args.search;
        Ok(Configuration { loaded, settings, address, models, gateway, hosts })
    }
}

/// Reads the configuration and the options of the command line.
pub(super) fn read_settings(
    args: &ServeArgs,
    config: Option<&Path>,
) -> Result<(LoadedConfig, Settings), CommandError> {
    let loaded = servers::find_config(config)?.only(args.server.as_deref())?;
    let mut settings = settings::read(loaded.config.toolwire.as_ref(), &loaded.origin)?;
    settings.agent.approvals.allow.extend(args.allow.iter().cloned());
    if let Some(file) = &args.audit {
        let arguments = settings.gateway.audit.as_ref().map(AuditConfig::arguments).unwrap_or_default();
        settings.gateway.audit =
            Some(AuditConfig::WithArguments(AuditSettings { file: file.clone(), arguments }));
    }
    hide_secrets(&settings);
    Ok((loaded, settings))
}

/// Removes the keys of the configuration from the log.
fn hide_secrets(settings: &Settings) {
    let clients = settings.gateway.keys.values().map(|key| key.secret().expose().to_owned());
    let endpoints = settings.models.endpoints.values();
    let endpoints = endpoints.flat_map(|endpoint| std::iter::once(endpoint).chain(&endpoint.upstreams));
    let providers = endpoints.flat_map(|endpoint| endpoint.api_key.iter().chain(endpoint.headers.values()));
    let own = settings.gateway.session_key.iter().chain(&settings.gateway.credential_key);
    let own = own.map(|key| key.expose().to_owned());
    log::hide(own.chain(clients).chain(providers.map(|secret| secret.expose().to_owned())));
}

fn gateway_settings(
    loaded: &LoadedConfig,
    settings: &Settings,
    metrics: &Metrics,
) -> Result<GatewaySettings, CommandError> {
    let mut gateway = GatewaySettings::default();
    gateway.keys = add_issuers(keys(settings)?, settings)?;
    gateway.hosts.clone_from(&settings.gateway.hosts);
    gateway.origins.clone_from(&settings.gateway.origins);
    gateway.server_urls = server_urls(loaded);
    gateway.agent = settings.agent.clone();
    gateway.show_reasoning = settings.gateway.show_reasoning;
    gateway.provider_state = settings.gateway.provider_state;
    gateway.screen_results = settings.gateway.screen_results;
    gateway.limits = settings.gateway.limits.clone();
    gateway.tls = settings.gateway.tls.as_ref().map(read_tls).transpose()?;
    gateway.metrics = metrics.clone();
    Ok(gateway)
}

/// Reads the certificate and the key.
pub(crate) fn read_tls(files: &TlsFiles) -> Result<Tls, CommandError> {
    let read = |key: &str, path: &Path| {
        std::fs::read(path).map_err(|error| {
            let file = sanitize(&path.to_string_lossy());
            CommandError::usage(format!(
                "`toolwire.gateway.tls.{key}`: cannot read `{file}`: {}",
                describe_io_error(&error)
            ))
            .with_hint("check the path and its permissions")
        })
    };
    let certificate = read("certificate", &files.certificate)?;
    let key = read("key", &files.key)?;
    Tls::from_pem(&certificate, &key).map_err(|error| {
        CommandError::usage(format!("`toolwire.gateway.tls`: {error}")).with_hint(error.hint())
    })
}
