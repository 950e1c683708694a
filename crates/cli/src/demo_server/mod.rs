//! `toolwire demo-server`: a small MCP server, and the one that is used when none is configured.

mod tools;

use std::error::Error as _;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use toolwire_hub::{Config, Secret, ServerConfig, ServerName, Transport};
use toolwire_toolkit::{HttpOptions, Server, serve_http, serve_stdio};

use crate::command_error::{CommandError, print_stderr};
use crate::servers;
use crate::source::in_words;

/// Serve two small tools over MCP, to try things out with
///
/// `get_weather` answers with made-up data, always the same for a place, and says so; `calculate` works out a
/// sum. Without options it speaks on standard input and output, as programs start it.
#[derive(Args)]
#[command(after_long_help = include_str!("../help/demo-server.txt"))]
pub(crate) struct DemoServerArgs {
    /// Serve over HTTP there, at the path /mcp: 127.0.0.1:8788
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
}

/// Calls in flight have this long when the server is told to stop.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &DemoServerArgs) -> Result<ExitCode, CommandError> {
    let address = args.http.as_deref().map(address).transpose()?;
    let server = server()?;
    servers::run(async {
        match address {
            None => {
                let running = serve_stdio(server).map_err(not_served)?;
                running.finished().await;
            }
            Some(address) => {
                let running =
                    serve_http(server, address, HttpOptions::default()).await.map_err(not_served)?;
                print_stderr(&format!("serving on {}; press Ctrl-C to stop\n", running.url()));
                stopped().await;
                running.shutdown(PATIENCE).await;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The demo server as a program to start: this one.
pub(crate) fn as_configuration() -> io::Result<Config> {
    let program = std::env::current_exe()?;
    // Nothing else of our environment reaches a server, but this variable is meant for it.
    let prefix = std::env::var("MCP_TOOL_PREFIX").ok();
    let env = prefix.map(|prefix| ("MCP_TOOL_PREFIX".to_owned(), Secret::new(prefix)));
    let transport = Transport::Stdio {
        command: program.to_string_lossy().into_owned(),
        args: vec!["demo-server".to_owned()],
        env: env.into_iter().collect(),
        cwd: None,
    };
    let name = ServerName::new("demo").expect("it is a legal name");
    Ok(Config { servers: vec![ServerConfig::new(name, transport)], toolwire: None })
}

fn server() -> Result<Server, CommandError> {
    // The names of the tools are plain: they are the first ones that anybody sees.
    let server = Server::builder("toolwire-demo")
        .version(env!("CARGO_PKG_VERSION"))
        .instructions("Two demo tools. The weather data is generated.")
        .prefix("")
        .tool(tools::get_weather)
        .tool(tools::calculate)
        .build();
    server.map_err(|error| {
        let hint = error.hint();
        CommandError::usage(error.to_string()).with_hint(hint)
    })
}

fn address(text: &str) -> Result<SocketAddr, CommandError> {
    let unusable = |why: String| {
        CommandError::usage(format!("`{text}` is not a valid address to listen on: {why}"))
            .with_hint("use a host and a port, such as 127.0.0.1:8788")
    };
    let mut found = text.to_socket_addrs().map_err(|error| unusable(in_words(&error)))?;
    found.next().ok_or_else(|| unusable("it resolves to no address".to_owned()))
}

fn not_served(error: toolwire_toolkit::ServeError) -> CommandError {
    let why = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    let failure = CommandError::work(format!("{error}{why}"));
    failure.with_hint("`--http 127.0.0.1:0` uses any free port")
}

/// SIGTERM: whoever started it wants it to end in good order. (SIGINT ends the process at once, as
/// everywhere.)
async fn stopped() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            terminated.recv().await;
            return;
        }
    }
    std::future::pending::<()>().await;
}
