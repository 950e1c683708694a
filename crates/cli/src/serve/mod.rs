//! `toolwire serve`: the gateway, with the configured models and servers.

mod audit_file;
mod client_keys;
pub(crate) mod configuration;
mod listener;
mod mcp;
mod memory_protection;
mod metrics_observer;
mod models;
#[cfg(feature = "oidc")]
mod oidc;
mod open_files;
#[cfg(feature = "otlp")]
mod otlp;
mod page_servers;
mod process_metrics;
mod reload;
mod request_servers;
mod server_metrics;
mod systemd;
pub(crate) mod user_servers;
mod waiting_runs;
mod welcome;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use clap::Args;
use futures::future::Either;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolwire_contract::conversations::Conversations;
use toolwire_gateway::audit::{AuditArguments, AuditLog};
use toolwire_gateway::{
    Gateway, Keys, OriginError, ReadinessChecks, ResponseStorage, StartError, metrics::Metrics,
    page::PageParts,
};
use toolwire_hub::{Host, ServerConfig, Transport};
use toolwire_store::Observed;

use crate::assembly;
use crate::command_error::{CommandError, HINT, NOTE, print_stderr};
use crate::interrupt;
use crate::servers::{self, LoadedConfig};
use crate::settings::{LoggedArguments, Settings};
use crate::source::describe_io_error;
use crate::storage;
use crate::tools::print_problems;
use audit_file::AuditFile;
use client_keys::key_store;
pub(crate) use client_keys::{KEY_VARIABLE, keys};
use configuration::Configuration;
use listener::listen;
pub(crate) use listener::{DEFAULT_ADDRESS, address};
use metrics_observer::{MetricsObserver, StoreCheck};
use page_servers::{HubServers, PageLogins};
use process_metrics::ProcessMetrics;
use reload::{PoolRules, Reloader};
use request_servers::ServerPool;
use server_metrics::ServerMetrics;
use user_servers::{LoginPlace, UserPool};
use waiting_runs::WaitingRuns;
use welcome::print_welcome;

/// The time to export the last spans and metrics.
#[cfg(feature = "otlp")]
const TELEMETRY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

/// Serve OpenAI's and Anthropic's APIs for any model, with the tools of the servers
///
/// Clients use its address as their base URL: Chat Completions, Responses and Messages, streamed or not. The
/// gateway adds the tools of the servers to each request and calls them; calls of the client's own tools are
/// returned to the client. For MCP clients, all servers are one MCP server at `/mcp`.
#[derive(Args)]
#[command(after_long_help = include_str!("../help/serve.txt"))]
pub(crate) struct ServeArgs {
    /// The address to listen on [default: `toolwire.gateway.listen` in the configuration, else
    /// 127.0.0.1:8787]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Serve all servers as one MCP server on standard input and output instead, without models and the page
    #[arg(long, conflicts_with = "listen")]
    stdio: bool,
    /// Offer a search for tools and a call instead of all tools, at `/mcp` and with `--stdio`
    #[arg(long)]
    search: bool,
    /// Allow a tool that needs approval: a name or a pattern; can be repeated
    #[arg(long, value_name = "TOOL")]
    allow: Vec<String>,
    /// Use only this server
    #[arg(long, value_name = "S")]
    server: Option<String>,
    /// Append each call of a tool to this file, as JSON lines [default: `toolwire.gateway.audit` in the
    /// configuration, else none]
    #[arg(long, value_name = "FILE")]
    audit: Option<String>,
}

/// The host of the gateway's hub. Servers may ask questions: during a call of a chat on the page, its user
/// replies, and during a call of an MCP client, that client. In other calls, they are declined.
struct GatewayHost;

impl Host for GatewayHost {
    fn can_elicit(&self) -> bool {
        true
    }

    fn can_sample(&self) -> bool {
        true
    }
}

pub(crate) fn run(args: &ServeArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    for problem in memory_protection::apply() {
        print_stderr(&format!("{NOTE}note:{NOTE:#} {problem}\n"));
    }
    if args.stdio {
        return servers::run(mcp::serve_stdio(args, config));
    }
    let metrics = Metrics::default();
    let configuration = Configuration::read(args, config, &metrics)?;
    servers::run(serve(args, config, configuration, metrics))
}

/// Returns the URLs of the configured servers that have one.
fn server_urls(loaded: &LoadedConfig) -> BTreeMap<String, String> {
    let servers = loaded.config.servers.iter().filter(|server| !server.disabled);
    let url = |server: &ServerConfig| match &server.transport {
        Transport::Http { url, .. } => Some((server.name.to_string(), url.to_string())),
        _ => None,
    };
    servers.filter_map(url).collect()
}

async fn serve(
    args: &ServeArgs,
    config: Option<&Path>,
    configuration: Configuration,
    metrics: Metrics,
) -> Result<ExitCode, CommandError> {
    let hangups = interrupt::hangups();
    let Configuration { loaded, settings, address, models, gateway: mut gateway_settings, hosts } =
        configuration;
    let (everything, loaded) = (&loaded.config, &loaded.with_shared_servers());
    if let Some(shortage) = open_files::reserve(&mut gateway_settings.limits) {
        print_stderr(&format!("{NOTE}note:{NOTE:#} {shortage}\n"));
        print_stderr(&format!("{HINT}hint:{HINT:#} {}\n", shortage.hint()));
    }
    let listener = listen(address)?;
    let local = listener.local_addr().unwrap_or(address);
    gateway_settings.audit = audit_log(&settings)?;
    let key_store = key_store(&settings).await?;
    gateway_settings.keys = gateway_settings.keys.with_table(key_store.table, key_store.usage);
    gateway_settings.responses = response_storage(&settings).await?;
    // Also reads the key table, so that the limits fit the number of keys.
    let needs_key = gateway_settings.keys.is_needed().await;
    let scheme = if gateway_settings.tls.is_some() { "https" } else { "http" };

    #[cfg(feature = "otlp")]
    let exporter = {
        let variables = otlp::Variables::read(|name| std::env::var(name).ok())?;
        let exporter = otlp::Exporter::start(&variables, &metrics)?;
        if let Some(exporter) = &exporter {
            gateway_settings.spans = exporter.spans(&variables);
        }
        exporter
    };

    let logins = PageLogins::new(io::stderr().is_terminal());
    let options = loaded.options().with_browser(logins.clone()).with_host(Arc::new(GatewayHost));
    let users = login_place(&settings, scheme, local).await?;
    let users = Arc::new(UserPool::new(everything, &options, users)?);
    let hub = Arc::new(assembly::hub_with(loaded, options.clone()));
    let page_servers = Arc::new(HubServers::new(hub.clone(), options, logins, users.clone(), loaded, config));
    metrics.add_source(Arc::new(ServerMetrics(hub.clone())));
    metrics.add_source(Arc::new(ProcessMetrics::new()));
    let model = models.default_name().to_owned();
    let limits = &gateway_settings.limits;
    let pool = Arc::new(ServerPool::new(hosts, limits.request_server_timeout, limits.run_timeout));
    let (store, store_error) = storage::open_or_in_memory(&settings.store).await;
    let observer = MetricsObserver { metrics: metrics.clone(), models: Default::default() };
    let store: Arc<dyn Conversations> = Arc::new(Observed::new(store, Arc::new(observer)));
    let readiness = ReadinessChecks::new(vec![Arc::new(StoreCheck(store.clone()))]);
    gateway_settings.readiness = readiness.clone();
    let gateway =
        Gateway::with_request_servers(Arc::new(models), hub.clone(), pool.clone(), gateway_settings)
            .with_page(page_parts(store).with_servers(page_servers.clone()))
            .with_user_servers(users.clone())
            .with_mcp(mcp::endpoint(hub.clone(), users.clone(), &settings)?, hub.clone());
    let admin_token = gateway.new_admin_token();
    let stop = CancellationToken::new();
    let (gateways, latest) = watch::channel(gateway);
    let reloader = Reloader {
        args,
        config,
        metrics,
        readiness,
        local: local.ip(),
        servers: page_servers,
        users: users.clone(),
        gateways,
        settings: settings.clone(),
        pools: Mutex::new(vec![(PoolRules::of(&settings.gateway), pool)]),
    };
    let served = Gateway::serve_latest(latest, listener, stop.clone());
    let announce = async {
        print_welcome(loaded, scheme, local, &model, needs_key, admin_token.as_deref());
        if let Some((problem, hint)) = store_error.map(CommandError::into_parts) {
            print_stderr(&format!("{NOTE}warning:{NOTE:#} conversations are not stored: {problem}\n"));
            if let Some(hint) = hint {
                print_stderr(&format!("{HINT}hint:{HINT:#} {hint}\n"));
            }
        }
        servers::wait_until_settled(&hub).await;
        print_problems(&hub);
        print_stderr("ready; press Ctrl-C to stop\n");
        systemd::notify("READY=1");
        std::future::pending::<()>().await;
    };
    let stopped = async {
        tokio::select! {
            () = interrupt::wait() => {}
            () = interrupt::wait_for_termination() => {}
            () = reloader.run(hangups) => {}
            () = announce => {}
        }
        systemd::notify("STOPPING=1");
        stop.cancel();
    };
    let served = std::pin::pin!(served);
    // The gateway ends before it is stopped only if it cannot start.
    let served = match futures::future::select(served, std::pin::pin!(stopped)).await {
        Either::Left((served, _)) => served,
        Either::Right(((), served)) => served.await,
    };
    reloader.close().await;
    users.close().await;
    servers::close(&hub).await;
    #[cfg(feature = "otlp")]
    if let Some(exporter) = exporter {
        // A collector that does not respond must not delay the end.
        let _ = tokio::time::timeout(TELEMETRY_TIMEOUT, exporter.close()).await;
    }
    served.map_err(|error| start_error(&error, local.ip()))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns what users need to log in to servers.
async fn login_place(
    settings: &Settings,
    scheme: &str,
    local: SocketAddr,
) -> Result<LoginPlace, CommandError> {
    let secret = match &settings.gateway.credential_key {
        Some(secret) => Some((secret, storage::open_state(&settings.store).await?)),
        None => None,
    };
    let local = local.ip().is_loopback().then(|| format!("{scheme}://{local}"));
    LoginPlace::new(settings.gateway.public_url.as_deref(), local, secret)
}

fn page_parts(store: Arc<dyn Conversations>) -> PageParts {
    let parts = PageParts::new(store);
    match servers::data_folder() {
        Some(folder) => parts.with_waiting_runs(Arc::new(WaitingRuns::new(folder.join("waiting-runs")))),
        None => parts,
    }
}

/// Opens the audit log.
fn audit_log(settings: &Settings) -> Result<Option<Arc<AuditLog>>, CommandError> {
    let Some(config) = &settings.gateway.audit else { return Ok(None) };
    let file = storage::expand_home(config.file());
    let arguments = match config.arguments() {
        LoggedArguments::Hash => AuditArguments::Hash,
        LoggedArguments::Full => AuditArguments::Full,
        LoggedArguments::None => AuditArguments::Nothing,
    };
    let sink = AuditFile::open(&file).map_err(|error| {
        let message = format!("cannot open the audit log {}: {}", file.display(), describe_io_error(&error));
        CommandError::work(message).with_hint("use a file in a folder that exists and can be written")
    })?;
    Ok(Some(Arc::new(AuditLog::new(Arc::new(sink), arguments))))
}

/// Opens the place where responses are stored, unless they are not stored.
async fn response_storage(settings: &Settings) -> Result<Option<ResponseStorage>, CommandError> {
    let retention = match &settings.gateway.response_retention {
        None => ResponseStorage::DEFAULT_RETENTION,
        Some(retention) => retention.parse("gateway.responseRetention")?,
    };
    if retention.is_zero() {
        return Ok(None);
    }
    Ok(Some(ResponseStorage::new(storage::open_state(&settings.store).await?, retention)))
}

fn start_error(error: &StartError, address: IpAddr) -> CommandError {
    let message = format!("cannot serve on {address}: {error}");
    match error {
        StartError::NoKey => CommandError::usage(message).with_hint(format!(
            "create a key with `toolwire keys create NAME`, or set {KEY_VARIABLE} to a random text of at least {} characters",
            Keys::MIN_LENGTH
        )),
        StartError::WeakKey { .. } => CommandError::usage(message)
            .with_hint("use a longer random text, such as the output of `openssl rand -hex 32`"),
        StartError::Origin(error) => {
            let key = if matches!(error, OriginError::Host(_)) { "hosts" } else { "origins" };
            CommandError::usage(format!("`toolwire.gateway.{key}`: {error}")).with_hint(error.hint())
        }
        StartError::Limits(error) => {
            CommandError::usage(format!("`toolwire.gateway.limits`: {error}")).with_hint(error.hint())
        }
        _ => CommandError::work(message),
    }
}
