//! The configured servers: which file names them, and a hub that is connected to them.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use toolwire_hub::{Browser, Config, Hub, HubOptions, Phase, ServerName, ServerStatus};

use crate::command_error::{CommandError, HINT, NOTE, print_stderr};
use crate::demo_server;
use crate::interrupt;
use crate::log;
use crate::source::in_words;
use crate::stderr;
use crate::terminal_text::{counted, sanitize, width};

/// A configuration that was found.
pub(crate) struct Found {
    /// Where it stands: the file, or what stands for one.
    pub(crate) place: String,
    pub(crate) config: Config,
    /// The one server that is asked for. The others stay configured, so that its tools are called what they
    /// always are.
    only: Option<ServerName>,
}

/// Finds and reads the configuration; what it warns of is told.
pub(crate) fn find(flag: Option<&Path>) -> Result<Found, CommandError> {
    let variable = std::env::var_os("TOOLWIRE_CONFIG").map(PathBuf::from);
    let folder = user_folder();
    let candidates = Config::candidates(flag, variable.as_deref(), folder.as_deref());
    for candidate in &candidates {
        match fs::read_to_string(&candidate.path) {
            Ok(text) => return read(&candidate.path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !candidate.must_exist => {}
            Err(error) => {
                let file = sanitize(&candidate.path.to_string_lossy());
                return Err(CommandError::usage(format!("cannot read `{file}`: {}", in_words(&error)))
                    .with_hint("use `--config FILE` for another configuration"));
            }
        }
    }
    let places: Vec<String> =
        candidates.iter().map(|candidate| format!("`{}`", candidate.path.display())).collect();
    demo(&places.join(", no "))
}

/// What is used when nothing is configured.
fn demo(no_places: &str) -> Result<Found, CommandError> {
    let config = demo_server::as_configuration().map_err(|error| {
        CommandError::work(format!("cannot find the path of this program: {}", in_words(&error)))
    })?;
    print_stderr(&format!(
        "{NOTE}note:{NOTE:#} no servers are configured (found no {no_places}); using the demo server\n\
         {HINT}hint:{HINT:#} write an mcp.json such as {{\"mcpServers\": {{\"time\": {{\"command\": \"uvx\", \"args\": [\"mcp-server-time\"]}}}}}}\n",
    ));
    Ok(Found { place: "none: the demo server".to_owned(), config, only: None })
}

fn read(file: &Path, text: &str) -> Result<Found, CommandError> {
    let variables = |name: &str| std::env::var(name).ok();
    let (config, warnings) = Config::parse(text, file, &variables).map_err(|error| {
        let hint = error.hint();
        let failure = CommandError::usage(sanitize(&error.to_string()));
        match hint {
            Some(hint) => failure.with_hint(sanitize(&hint)),
            None => failure,
        }
    })?;
    for warning in warnings {
        let words = warning.to_string();
        print_stderr(&format!("{NOTE}warning:{NOTE:#} {}\n", sanitize(&words)));
        if let Some(hint) = warning.hint() {
            print_stderr(&format!("{HINT}hint:{HINT:#} {}\n", sanitize(&hint)));
        }
    }
    Ok(Found { place: sanitize(&file.to_string_lossy()), config, only: None })
}

/// Where this user's configuration of Toolwire lives.
fn user_folder() -> Option<PathBuf> {
    folder_of("XDG_CONFIG_HOME", "APPDATA", ".config")
}

/// Where Toolwire keeps what must outlive it: tokens, known definitions.
pub(crate) fn data_folder() -> Option<PathBuf> {
    folder_of("XDG_DATA_HOME", "LOCALAPPDATA", ".local/share")
}

/// Toolwire's own folder in the one that a variable names, else in the home folder.
fn folder_of(variable: &str, on_windows: &str, at_home: &str) -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = named(variable)
        .or_else(|| named(on_windows).filter(|_| cfg!(windows)))
        .or_else(|| Some(named("HOME")?.join(at_home)))?;
    Some(base.join("toolwire"))
}

impl Found {
    /// Connects to no server but the one that is asked for.
    pub(crate) fn only(mut self, server: Option<&str>) -> Result<Found, CommandError> {
        let Some(name) = server else { return Ok(self) };
        let Some(one) = self.config.server(name) else {
            let known: Vec<String> =
                self.config.servers.iter().map(|server| format!("`{}`", server.name)).collect();
            return Err(CommandError::usage(format!(
                "unknown server `{}` in {}",
                sanitize(name),
                self.place
            ))
            .with_hint(format!("configured servers: {}", known.join(", "))));
        };
        if one.disabled {
            return Err(CommandError::usage(format!("server `{name}` is disabled in {}", self.place))
                .with_hint("remove `disabled` there"));
        }
        self.only = Some(one.name.clone());
        Ok(self)
    }

    pub(crate) fn options(&self) -> HubOptions {
        // A person or a program reads the answer here, not a model: it gets everything.
        let mut options =
            HubOptions::default().with_environment(std::env::vars_os()).with_result_budget(None);
        options.data_folder = data_folder();
        options.browser = io::stderr().is_terminal().then(|| -> Arc<dyn Browser> { Arc::new(AtTerminal) });
        options.only_server = self.only.clone();
        options
    }

    /// Runs `work` on a hub that is about to connect to the servers, and ends them when it is done.
    ///
    /// An interrupt drops the work, which cancels the calls that it waits for, and ends the servers too; the
    /// next one does not wait for them.
    pub(crate) fn with_hub<T>(
        &self,
        work: impl AsyncFnOnce(&Hub) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        run(async {
            let interrupted = interrupt::awaited();
            let hub = Hub::start(&self.config, self.options());
            let outcome = tokio::select! {
                outcome = work(&hub) => Some(outcome),
                () = interrupted => None,
            };
            match outcome {
                Some(outcome) => {
                    hub.close().await;
                    outcome
                }
                None => {
                    close(&hub).await;
                    Err(CommandError::interrupted())
                }
            }
        })
    }
}

/// Waits until all servers are ready or have failed, with a line for each while that lasts.
pub(crate) async fn settled(hub: &Hub) {
    let lines = Lines::new(&hub.status());
    tokio::select! {
        () = hub.settled() => {}
        () = lines.show(hub) => {}
    }
    lines.finish(&hub.status());
}

/// Ends the servers, within a time that a person waits.
pub(crate) async fn close(hub: &Hub) {
    // What is not gone by then, the watchdog ends.
    let _ = tokio::time::timeout(CLOSING, hub.close()).await;
}

/// How long servers may take to end after an interrupt: the steps that end a process, and a little.
const CLOSING: Duration = Duration::from_secs(6);

/// Shows login pages as addresses: whoever sits at the terminal opens them.
struct AtTerminal;

impl Browser for AtTerminal {
    fn open<'a>(&'a self, server: &'a str, url: &'a str) -> BoxFuture<'a, io::Result<()>> {
        print_stderr(&format!(
            "{NOTE}login:{NOTE:#} server `{}` requires a login. Open this page in a browser:\n  {}\n",
            sanitize(server),
            sanitize(url)
        ));
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Runs `work` to its end.
pub(crate) fn run<T>(work: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    log::begin();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime =
        runtime.map_err(|error| CommandError::work(format!("cannot start: {}", in_words(&error))))?;
    runtime.block_on(work)
}

/// One line per server on a terminal, while they connect.
struct Lines {
    bars: Vec<ProgressBar>,
}

impl Lines {
    fn new(servers: &[ServerStatus]) -> Lines {
        if !io::stderr().is_terminal() || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        {
            return Lines { bars: Vec::new() };
        }
        Lines::on(ProgressDrawTarget::stderr(), servers)
    }

    fn on(target: ProgressDrawTarget, servers: &[ServerStatus]) -> Lines {
        let all = MultiProgress::with_draw_target(target);
        stderr::share(&all);
        let width = servers.iter().map(|server| width(&sanitize(&server.name))).max().unwrap_or(0).min(32);
        let bars = servers
            .iter()
            .map(|server| {
                let style = ProgressStyle::with_template(&format!("{{spinner}} {{prefix:{width}}} {{msg}}"));
                let bar = ProgressBar::new_spinner();
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
                let bar = all.add(bar).with_prefix(sanitize(&server.name)).with_message("connecting");
                bar.enable_steady_tick(Duration::from_millis(100));
                bar
            })
            .collect();
        Lines { bars }
    }

    /// Redraws until it is dropped.
    async fn show(&self, hub: &Hub) {
        if self.bars.is_empty() {
            return std::future::pending().await;
        }
        loop {
            self.draw(&hub.status());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn draw(&self, servers: &[ServerStatus]) {
        for (bar, server) in self.bars.iter().zip(servers) {
            match &server.phase {
                Phase::Connecting => {}
                Phase::Ready => bar.finish_with_message(counted(server.tool_count, "tool")),
                Phase::Recovering { reason } | Phase::Down { reason } => {
                    bar.abandon_with_message(sanitize(reason))
                }
                Phase::Stopped => bar.abandon_with_message("stopped"),
                _ => {}
            }
        }
    }

    /// The lines have served: the results follow.
    fn finish(&self, servers: &[ServerStatus]) {
        self.draw(servers);
        for bar in &self.bars {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        stderr::release();
    }
}

/// Why a server has no tools to offer, if so.
pub(crate) fn trouble(server: &ServerStatus) -> Option<String> {
    match &server.phase {
        Phase::Ready => None,
        Phase::Connecting => Some("still connecting".to_owned()),
        Phase::Recovering { reason } | Phase::Down { reason } => Some(reason.clone()),
        Phase::Stopped => Some("stopped".to_owned()),
        other => other.unavailable_reason(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_server_says_cannot_steer_the_terminal() {
        let text = r#"{"mcpServers": {"a": {"command": "none"}}}"#;
        let (config, _) = Config::parse(text, Path::new("mcp.json"), &|_| None).expect("it is valid");
        let hub = Hub::start(&config, HubOptions::default());
        let mut servers = hub.status();
        hub.close().await;
        servers[0].name = "a\u{1b}[2Jb".to_owned();
        let lines = Lines::on(ProgressDrawTarget::hidden(), &servers);
        let reason = "it said \u{1b}]0;title\u{7}".to_owned();
        for phase in [Phase::Recovering { reason: reason.clone() }, Phase::Down { reason }] {
            servers[0].phase = phase;
            lines.draw(&servers);
            assert_eq!(lines.bars[0].prefix(), "a\u{fffd}[2Jb");
            assert_eq!(lines.bars[0].message(), "it said \u{fffd}]0;title\u{fffd}");
        }
    }
}
