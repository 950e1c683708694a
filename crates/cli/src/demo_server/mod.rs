//! `toolwire demo-server`: a small MCP server, which is used if no server is configured.

mod tools;

use std::error::Error as _;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use toolwire_contract::Secret;
use toolwire_hub::{Config, ServerConfig, ServerName, Transport};
use toolwire_toolkit::Server;
use toolwire_toolkit::transport::{HttpOptions, serve_http, serve_stdio};

use crate::command_error::{CommandError, print_stderr};
use crate::interrupt;
use crate::servers;
use crate::source::describe_io_error;

/// Serve two small demo tools over MCP
///
/// `get_weather` returns generated data, always the same for a place; `calculate` does arithmetic with two
/// numbers. Serves over standard input and output unless `--http` is given.
#[derive(Args)]
#[command(after_long_help = include_str!("../help/demo-server.txt"))]
pub(crate) struct DemoServerArgs {
    /// Serve over HTTP at this address, such as 127.0.0.1:8788, with the path /mcp
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
}

/// The time that pending calls get to finish.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &DemoServerArgs) -> Result<ExitCode, CommandError> {
    let address = args.http.as_deref().map(address).transpose()?;
    let server = server()?;
    servers::run(async {
        match address {
            None => {
                let running = serve_stdio(server).map_err(serve_error)?;
                running.finished().await;
            }
            Some(address) => {
                let running =
                    serve_http(server, address, HttpOptions::default()).await.map_err(serve_error)?;
                print_stderr(&format!("serving on {}; press Ctrl-C to stop\n", running.url()));
                interrupt::wait_for_termination().await;
                running.shutdown(SHUTDOWN_TIMEOUT).await;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns a configuration with this program as the demo server.
pub(crate) fn config() -> io::Result<Config> {
    let program = std::env::current_exe()?;
    // Servers do not inherit the environment, but this variable is meant for the demo server.
    let prefix = std::env::var("MCP_TOOL_PREFIX").ok();
    let env = prefix.map(|prefix| ("MCP_TOOL_PREFIX".to_owned(), Secret::new(prefix)));
    let transport = Transport::Stdio {
        command: program.to_string_lossy().into_owned(),
        args: vec!["demo-server".to_owned()],
        env: env.into_iter().collect(),
        cwd: None,
    };
    let name = ServerName::new("demo").expect("valid server name");
    Ok(Config { servers: vec![ServerConfig::new(name, transport)], toolwire: None })
}

fn server() -> Result<Server, CommandError> {
    // No prefix: short names, because these are the first tools that a new user sees.
    let server = Server::builder("toolwire-demo")
        .version(env!("CARGO_PKG_VERSION"))
        .instructions("Two demo tools. The weather data is generated.")
        .prefix("")
        .tool(tools::get_weather)
        .tool(tools::calculate)
        .build();
    server.map_err(|error| CommandError::usage(error.to_string()).with_hint(error.hint()))
}

fn address(text: &str) -> Result<SocketAddr, CommandError> {
    let invalid = |reason: String| {
        CommandError::usage(format!("`{text}` is not a valid address to listen on: {reason}"))
            .with_hint("use a host and a port, such as 127.0.0.1:8788")
    };
    let mut addresses = text.to_socket_addrs().map_err(|error| invalid(describe_io_error(&error)))?;
    addresses.next().ok_or_else(|| invalid("it resolves to no address".to_owned()))
}

fn serve_error(error: toolwire_toolkit::transport::ServeError) -> CommandError {
    let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    CommandError::work(format!("{error}{cause}")).with_hint("`--http 127.0.0.1:0` uses any free port")
}
