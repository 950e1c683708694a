//! The lines that commands show on a terminal while servers connect.

use serde_json::json;
use toolwire_testkit::misbehaving_server;

use crate::terminal::{CTRL_C, Home, Terminal};

/// What stands behind the name of the server.
fn told(screen: &str, server: &str) -> String {
    let told = screen.lines().find_map(|line| line.split_once(&format!("{server} ")));
    told.map(|(_, told)| told.trim().to_owned()).unwrap_or_default()
}

fn configured(home: &Home, behaviours: &[(&str, &str)]) {
    let servers: serde_json::Map<_, _> = behaviours
        .iter()
        .map(|(name, behaviour)| {
            let server = json!({"command": misbehaving_server(), "args": ["--behaviour", behaviour]});
            ((*name).to_owned(), server)
        })
        .collect();
    home.write("mcp.json", &json!({"mcpServers": servers}).to_string());
}

#[test]
fn each_server_has_its_line_until_all_have_settled() {
    let home = Home::new();
    configured(&home, &[("quick", "ordinary"), ("mute", "never-initializes"), ("broken", "exits-at-once")]);
    let mut terminal = Terminal::run(&home, &["tools"], &[]);
    terminal.wait("a line for each server as it is", |screen| {
        told(screen, "quick") == "4 tools"
            && told(screen, "mute") == "connecting"
            && told(screen, "broken").contains("exited with code 3")
    });
    terminal.send(CTRL_C);
    terminal.wait_for_end();
}

#[test]
fn the_lines_make_room_for_the_table() {
    let home = Home::new();
    configured(&home, &[("quick", "ordinary")]);
    let mut terminal = Terminal::run(&home, &["tools"], &[]);
    assert_eq!(terminal.wait_for_end(), Some(0));
    let screen = terminal.screen();
    assert!(screen.contains("echo") && !screen.contains("connecting"), "{screen}");
}
