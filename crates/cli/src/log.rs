//! What happens inside, on standard error, for whoever asks to see it.

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::command_error::{HINT, NOTE, print_stderr};
use crate::stderr;

/// What is told when nothing is asked for. The SDK tells of every connection it opens, and how the servers
/// are, each command says in its own words.
const USUAL: &str = "warn,rmcp=off,toolwire::hub::status=off";

/// Begins to tell what happens, as `TOOLWIRE_LOG` asks: `debug`, or `toolwire_toolkit=trace,warn`.
pub(crate) fn begin() {
    let asked = std::env::var("TOOLWIRE_LOG").unwrap_or_default();
    let wanted = if asked.is_empty() { USUAL } else { &asked };
    let targets: Targets = wanted.parse().unwrap_or_else(|_| {
        print_stderr(&format!(
            "{NOTE}warning:{NOTE:#} TOOLWIRE_LOG cannot be read: `{wanted}`\n\
             {HINT}hint:{HINT:#} give a level, `debug`, or levels by target, `toolwire_toolkit=trace,warn`\n"
        ));
        USUAL.parse().expect("it is well formed")
    });
    let colours =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = tracing_subscriber::fmt::layer().with_writer(|| stderr::Stderr).with_ansi(colours);
    // A second beginning, as in tests, leaves the first one in place.
    let _ = tracing_subscriber::registry().with(targets).with(lines).try_init();
}
