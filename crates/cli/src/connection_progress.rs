//! The lines that show on a terminal how the servers connect.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use toolwire_contract::text::counted;
use toolwire_hub::status::StartProgress;
use toolwire_hub::{Hub, Phase, ServerStatus};

use crate::stderr;
use crate::terminal_text::{sanitize, width};

/// One line per server, or one line for all of them if the terminal has too few rows.
pub(crate) enum ConnectionProgress {
    Hidden,
    Servers(Vec<ProgressBar>),
    Summary(ProgressBar),
}

impl ConnectionProgress {
    pub(crate) fn new(servers: &[ServerStatus]) -> ConnectionProgress {
        if !io::stderr().is_terminal() || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        {
            return ConnectionProgress::Hidden;
        }
        let rows = terminal_size::terminal_size_of(io::stderr()).map_or(24, |(_, rows)| usize::from(rows.0));
        ConnectionProgress::with_target(ProgressDrawTarget::stderr(), rows, servers)
    }

    fn with_target(target: ProgressDrawTarget, rows: usize, servers: &[ServerStatus]) -> ConnectionProgress {
        let lines = MultiProgress::with_draw_target(target);
        stderr::share(&lines);
        let line = |template: &str| {
            let style = ProgressStyle::with_template(template);
            let bar = ProgressBar::new_spinner();
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            let bar = lines.add(bar);
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        };
        // The cursor is on the row below the lines.
        let progress = if servers.len() >= rows {
            ConnectionProgress::Summary(line("{spinner} {wide_msg}"))
        } else {
            let width =
                servers.iter().map(|server| width(&sanitize(&server.name))).max().unwrap_or(0).min(32);
            let template = format!("{{spinner}} {{prefix:{width}}} {{wide_msg}}");
            let bars = servers.iter().map(|server| line(&template).with_prefix(sanitize(&server.name)));
            ConnectionProgress::Servers(bars.collect())
        };
        progress.draw(servers);
        progress
    }

    /// Redraws until the future is dropped.
    pub(crate) async fn redraw(&self, hub: &Hub) {
        if matches!(self, ConnectionProgress::Hidden) {
            return std::future::pending().await;
        }
        loop {
            self.draw(&hub.status());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn draw(&self, servers: &[ServerStatus]) {
        match self {
            ConnectionProgress::Hidden => {}
            ConnectionProgress::Summary(bar) => bar.set_message(summary(servers)),
            ConnectionProgress::Servers(bars) => {
                for (bar, server) in bars.iter().zip(servers) {
                    match &server.phase {
                        Phase::Connecting => bar.set_message(start_message(server.start)),
                        Phase::Ready => bar.finish_with_message(counted(server.tool_count, "tool")),
                        Phase::Recovering { reason } | Phase::Down { reason } => {
                            bar.abandon_with_message(sanitize(reason))
                        }
                        Phase::Stopped => bar.abandon_with_message("stopped"),
                        _ => {}
                    }
                }
            }
        }
    }

    /// Draws the final state and clears the lines, because the results follow.
    pub(crate) fn finish(&self, servers: &[ServerStatus]) {
        self.draw(servers);
        match self {
            ConnectionProgress::Hidden => {}
            ConnectionProgress::Summary(bar) => bar.finish_and_clear(),
            ConnectionProgress::Servers(bars) => bars.iter().for_each(ProgressBar::finish_and_clear),
        }
    }
}

impl Drop for ConnectionProgress {
    fn drop(&mut self) {
        stderr::release();
    }
}

pub(crate) fn start_message(start: StartProgress) -> &'static str {
    match start {
        StartProgress::Waiting => "waiting for other servers to start",
        StartProgress::Installing => "installing its package; timeout extended",
        StartProgress::BusyProcessor => "connecting; timeout extended because the processor is busy",
        _ => "connecting",
    }
}

/// `12 of 40 servers ready, 1 failed; connecting: a, b (installing its package; timeout extended)`.
fn summary(servers: &[ServerStatus]) -> String {
    let count =
        |is_counted: fn(&ServerStatus) -> bool| servers.iter().filter(|server| is_counted(server)).count();
    let ready = count(|server| server.phase == Phase::Ready);
    let waiting = count(|server| server.phase == Phase::Connecting && server.start == StartProgress::Waiting);
    let connecting: Vec<String> = servers
        .iter()
        .filter(|server| server.phase == Phase::Connecting)
        .filter_map(|server| match server.start {
            StartProgress::Waiting => None,
            StartProgress::Started => Some(sanitize(&server.name)),
            start => Some(format!("{} ({})", sanitize(&server.name), start_message(start))),
        })
        .collect();
    let failed = servers.len() - ready - waiting - connecting.len();
    let mut text = format!("{ready} of {} ready", counted(servers.len(), "server"));
    if failed > 0 {
        text += &format!(", {failed} failed");
    }
    if waiting > 0 {
        text += &format!(", {waiting} waiting");
    }
    if !connecting.is_empty() {
        text += &format!("; connecting: {}", connecting.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use toolwire_hub::{Config, HubOptions};

    use super::*;

    /// Returns the status of servers that have just been started.
    async fn statuses(names: &[&str]) -> Vec<ServerStatus> {
        let servers: Vec<String> =
            names.iter().map(|name| format!(r#""{name}": {{"command": "none"}}"#)).collect();
        let text = format!(r#"{{"mcpServers": {{{}}}}}"#, servers.join(", "));
        let (config, _) =
            Config::parse(&text, Path::new("mcp.json"), &|_| None).expect("valid configuration");
        let hub = Hub::start(&config, HubOptions::default());
        let servers = hub.status();
        hub.close().await;
        servers
    }

    #[tokio::test]
    async fn server_names_and_errors_are_sanitized() {
        let mut servers = statuses(&["a"]).await;
        servers[0].name = "a\u{1b}[2Jb".to_owned();
        let progress = ConnectionProgress::with_target(ProgressDrawTarget::hidden(), 24, &servers);
        let ConnectionProgress::Servers(bars) = &progress else { panic!("one line per server") };
        let reason = "error: \u{1b}]0;title\u{7}".to_owned();
        for phase in [Phase::Recovering { reason: reason.clone() }, Phase::Down { reason }] {
            servers[0].phase = phase;
            progress.draw(&servers);
            assert_eq!(bars[0].prefix(), "a\u{fffd}[2Jb");
            assert_eq!(bars[0].message(), "error: \u{fffd}]0;title\u{fffd}");
        }
    }

    #[tokio::test]
    async fn the_line_of_a_server_says_why_it_takes_longer() {
        let mut servers = statuses(&["a"]).await;
        let progress = ConnectionProgress::with_target(ProgressDrawTarget::hidden(), 24, &servers);
        let ConnectionProgress::Servers(bars) = &progress else { panic!("one line per server") };
        for (start, expected) in [
            (StartProgress::Waiting, "waiting for other servers to start"),
            (StartProgress::Started, "connecting"),
            (StartProgress::Installing, "installing its package; timeout extended"),
            (StartProgress::BusyProcessor, "connecting; timeout extended because the processor is busy"),
        ] {
            servers[0].start = start;
            progress.draw(&servers);
            assert_eq!(bars[0].message(), expected);
        }
    }

    #[tokio::test]
    async fn more_servers_than_rows_have_one_line() {
        let mut servers = statuses(&["a", "b", "c", "d"]).await;
        let progress = ConnectionProgress::with_target(ProgressDrawTarget::hidden(), 4, &servers);
        let ConnectionProgress::Summary(bar) = &progress else { panic!("one line for all servers") };
        servers[0].phase = Phase::Ready;
        servers[1].phase = Phase::Down { reason: "error".to_owned() };
        servers[2].start = StartProgress::Installing;
        servers[3].start = StartProgress::Waiting;
        progress.draw(&servers);
        let expected = "1 of 4 servers ready, 1 failed, 1 waiting; \
                        connecting: c (installing its package; timeout extended)";
        assert_eq!(bar.message(), expected);
    }
}
