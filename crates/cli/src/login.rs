//! `toolwire login` and `toolwire logout`: the stored tokens of remote servers.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use futures::future::BoxFuture;
use toolwire_hub::auth::{AuthError, OAuth};
use toolwire_hub::{Browser, Transport};

use crate::call::wait_until_ready;
use crate::command_error::{CommandError, HINT, NOTE, print_stderr};
use crate::output;
use crate::servers::{self, LoadedConfig, TerminalBrowser};
use crate::stored_secrets::server_tokens::TokenPlace;
use crate::terminal_text::sanitize;

/// Log in to a server
///
/// Connects to the server and prints the URL of its login page. The tokens are stored for all other commands
/// and refreshed when they expire. With a Redis store and `toolwire.gateway.credentialKey`, they are stored
/// in Redis for all gateways.
#[derive(Args)]
#[command(after_long_help = include_str!("help/login.txt"))]
pub(crate) struct LoginArgs {
    /// The server's name in the configuration
    #[arg(value_name = "SERVER")]
    server: String,
}

/// Log out of a server
///
/// Deletes the stored tokens of the server.
#[derive(Args)]
#[command(after_long_help = include_str!("help/logout.txt"))]
pub(crate) struct LogoutArgs {
    /// The server's name in the configuration
    #[arg(value_name = "SERVER")]
    server: String,
}

/// Prints login pages, also if standard error is not a terminal, because the user asked for a login.
#[derive(Default)]
struct LoginBrowser {
    was_opened: AtomicBool,
}

impl Browser for LoginBrowser {
    fn open<'a>(&'a self, server: &'a str, url: &'a str) -> BoxFuture<'a, io::Result<()>> {
        self.was_opened.store(true, Ordering::Relaxed);
        TerminalBrowser.open(server, url)
    }
}

pub(crate) fn log_in(args: &LoginArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    let loaded = servers::load_config(config)?.only(Some(&args.server))?;
    let browser = Arc::new(LoginBrowser::default());
    let oauth = oauth(&loaded, &args.server, Some(browser.clone()))?;
    let options = loaded.options().with_browser(browser.clone());
    loaded.with_hub_options(options, async |hub| {
        wait_until_ready(hub, &args.server, None).await?;
        // Some servers respond without a token, and offer more to a user who is logged in.
        let is_logged_in = oauth.is_logged_in().await || oauth.log_in().await.map_err(command_error)?;
        let name = sanitize(&args.server);
        output::print_styled(&match (is_logged_in, browser.was_opened.load(Ordering::Relaxed)) {
            (true, true) => format!("logged in to `{name}`\n"),
            (true, false) => format!("already logged in to `{name}`\n"),
            (false, _) => format!("`{name}` requires no login\n"),
        })?;
        let is_shared = loaded.server(&args.server)?.user_credentials.is_none();
        if is_logged_in && is_shared && matches!(loaded.tokens, TokenPlace::FilesWithoutSecret) {
            print_stderr(&format!(
                "{NOTE}note:{NOTE:#} the login is stored on this machine only, although other gateways may have the same store\n\
                 {HINT}hint:{HINT:#} set `toolwire.gateway.credentialKey`, and log in again\n"
            ));
        }
        Ok(ExitCode::SUCCESS)
    })
}

pub(crate) fn log_out(args: &LogoutArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    let loaded = servers::load_config(config)?;
    let oauth = oauth(&loaded, &args.server, None)?;
    let name = sanitize(&args.server);
    servers::run(async {
        let text = match oauth.forget().await.map_err(command_error)? {
            true => format!("logged out of `{name}`\n"),
            false => format!("not logged in to `{name}`\n"),
        };
        output::print_styled(&text)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns the OAuth client of a configured server.
fn oauth(
    loaded: &LoadedConfig,
    server: &str,
    browser: Option<Arc<dyn Browser>>,
) -> Result<OAuth, CommandError> {
    let server = loaded.server(server)?;
    // The users of a server with `per-user` log in on the page of the gateway. This command stores a login in
    // a file, for the user of this machine.
    let shared = loaded.tokens.storage().filter(|_| server.user_credentials.is_none());
    let oauth = match shared {
        Some(storage) => OAuth::with_storage(server, storage, browser),
        None => {
            let folder = servers::data_folder().ok_or_else(|| {
                CommandError::work("no folder for tokens: neither XDG_DATA_HOME nor HOME is set")
                    .with_hint("set one of them")
            })?;
            OAuth::of_server(server, &folder, browser)
        }
    };
    match oauth {
        Some(oauth) => oauth.map_err(command_error),
        None => {
            let reason = match server.transport {
                Transport::Http { .. } => "it has an `Authorization` header, or `oauth` is `false`",
                _ => "it is a local process",
            };
            Err(CommandError::usage(format!(
                "`{}` does not use a login: {reason}",
                sanitize(server.name.as_str())
            ))
            .with_hint("only remote servers without a configured token use a login"))
        }
    }
}

fn command_error(error: AuthError) -> CommandError {
    let mut message = error.to_string();
    if let Some(cause) = std::error::Error::source(&error) {
        message = format!("{message}: {cause}");
    }
    CommandError::work(sanitize(&message)).with_untrusted_hint(error.hint())
}
