//! The status lines that commands show on a terminal while servers connect.

use serde_json::json;
use toolwire_testkit::misbehaving_server;

use crate::terminal::{CTRL_C, Home, Terminal};

/// Returns the status that is shown after the name of the server.
fn status(screen: &str, server: &str) -> String {
    let line = screen.lines().find_map(|line| line.split_once(&format!("{server} ")));
    line.map(|(_, status)| status.trim().to_owned()).unwrap_or_default()
}

fn configure(home: &Home, behaviours: &[(&str, &str)]) {
    let servers: serde_json::Map<_, _> = behaviours
        .iter()
        .map(|(name, behaviour)| {
            let server = json!({"command": misbehaving_server(), "args": ["--behaviour", behaviour]});
            ((*name).to_owned(), server)
        })
        .collect();
    home.configure(json!({"mcpServers": servers}));
}

#[test]
fn each_server_has_a_status_line_while_servers_connect() {
    let home = Home::new();
    configure(&home, &[("quick", "ordinary"), ("mute", "never-initializes"), ("broken", "exits-at-once")]);
    let mut terminal = Terminal::run(&home, &["tools"], &[]);
    terminal.wait_until("the status of each server", |screen| {
        status(screen, "quick") == "4 tools"
            && status(screen, "mute") == "connecting"
            && status(screen, "broken").contains("exited with code 3")
    });
    terminal.send(CTRL_C);
    terminal.wait_for_end();
}

#[test]
fn the_status_lines_are_removed_before_the_table() {
    let home = Home::new();
    configure(&home, &[("quick", "ordinary")]);
    let mut terminal = Terminal::run(&home, &["tools"], &[]);
    assert_eq!(terminal.wait_for_end(), Some(0));
    let screen = terminal.screen();
    assert!(screen.contains("echo") && !screen.contains("connecting"), "{screen}");
}
