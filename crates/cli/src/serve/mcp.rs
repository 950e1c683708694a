//! All servers as one MCP server: at `/mcp` of the gateway, or on standard input and output.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use toolwire_contract::offers::ServerOffers;
use toolwire_contract::toolbox::Toolbox;
use toolwire_gateway::GatewaySettings;
use toolwire_gateway::mcp::{McpClient, McpEndpoint, McpRequest, McpResponse, local_offers, local_tools};
use toolwire_hub::Hub;
use toolwire_mcp_server::{Client, McpServer, McpServerOptions, ServeError, ToolChanges, serve_on_stdio};

use super::configuration::read_settings;
use super::user_servers::UserPool;
use super::{GatewayHost, ServeArgs, audit_log};
use crate::assembly;
use crate::command_error::CommandError;
use crate::interrupt;
use crate::servers;
use crate::settings::Settings;
use crate::tools::print_problems;

/// Shorter secrets could be guessed.
const MIN_SESSION_KEY_BYTES: usize = 32;

/// `/mcp` of the gateway.
struct Endpoint {
    server: McpServer,
    users: Arc<UserPool>,
}

impl McpEndpoint for Endpoint {
    fn handle(
        &self,
        request: McpRequest,
        client: McpClient,
        tools: Arc<dyn Toolbox>,
        offers: Arc<dyn ServerOffers>,
    ) -> BoxFuture<'_, McpResponse> {
        Box::pin(async move {
            let McpClient { owner, is_one_of_several } = &client;
            let (users, user) = (self.users.clone(), owner.clone());
            let changes: ToolChanges = Arc::new(move || users.changes_of(&user));
            let client = Client { id: owner, is_one_of_several: *is_one_of_several, changes: Some(changes) };
            self.server.handle(request, client, tools, Some(offers)).await
        })
    }

    fn close(&self, grace_period: Duration) -> BoxFuture<'_, ()> {
        Box::pin(self.server.close(grace_period))
    }
}

/// Creates `/mcp` for the tools of a hub. Clients are notified of its changes, and of those of their own
/// tools.
pub(super) fn endpoint(
    hub: Arc<Hub>,
    users: Arc<UserPool>,
    settings: &Settings,
) -> Result<Arc<dyn McpEndpoint>, CommandError> {
    check_session_key(settings)?;
    let server = McpServer::new(hub.clone(), Some(hub), &options(settings));
    let server = server.map_err(|error| cannot_serve(&error))?;
    Ok(Arc::new(Endpoint { server, users }))
}

fn check_session_key(settings: &Settings) -> Result<(), CommandError> {
    let length = settings.gateway.session_key.as_ref().map(|key| key.expose().len());
    match length.filter(|length| *length < MIN_SESSION_KEY_BYTES) {
        Some(length) => {
            let message = format!(
                "`toolwire.gateway.sessionKey` has {length} bytes; at least {MIN_SESSION_KEY_BYTES} are required"
            );
            let hint = "use a random text, such as the output of `openssl rand -hex 32`";
            Err(CommandError::usage(message).with_hint(hint))
        }
        None => Ok(()),
    }
}

fn options(settings: &Settings) -> McpServerOptions {
    let mut options = McpServerOptions::new("toolwire", env!("CARGO_PKG_VERSION"));
    options.session_key = settings.gateway.session_key.clone();
    options.start_timeout = settings.gateway.limits.server_start_timeout;
    options
}

/// Serves on standard input and output until the input ends.
pub(super) async fn serve_stdio(args: &ServeArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    let (loaded, settings) = read_settings(args, config)?;
    let mut gateway = GatewaySettings::default();
    gateway.agent = settings.agent.clone();
    gateway.screen_results = settings.gateway.screen_results;
    gateway.mcp_search = args.search;
    gateway.audit = audit_log(&settings)?;
    let options = loaded.options().with_host(Arc::new(GatewayHost));
    let hub = Arc::new(assembly::hub_with(&loaded, options));
    let tools = local_tools(hub.clone(), &gateway);
    let offers = local_offers(hub.clone(), &gateway);
    let served =
        serve_on_stdio(tools, Some(offers), &self::options(&settings)).map_err(|error| cannot_serve(&error));
    let announce = async {
        servers::wait_until_settled(&hub).await;
        print_problems(&hub);
        std::future::pending::<()>().await;
    };
    let outcome = match served {
        Err(error) => Err(error),
        Ok(served) => {
            tokio::select! {
                () = served.finished() => {}
                () = interrupt::wait() => {}
                () = interrupt::wait_for_termination() => {}
                () = announce => {}
            }
            Ok(ExitCode::SUCCESS)
        }
    };
    servers::close(&hub).await;
    outcome
}

fn cannot_serve(error: &ServeError) -> CommandError {
    CommandError::work(format!("cannot serve MCP: {error}"))
}
