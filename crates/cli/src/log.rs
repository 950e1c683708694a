//! Prints log events to standard error, as `TOOLWIRE_LOG` or `RUST_LOG` selects them, and without secrets.

mod json;
mod redaction;

use std::io::{self, IsTerminal};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::command_error::{HINT, NOTE, print_stderr};
pub(crate) use redaction::hide;

/// The filter if neither variable is set. The SDK logs every connection it opens, and each command prints
/// the status of the servers itself.
const DEFAULT_FILTER: &str = "warn,rmcp=off,toolwire::hub::status=off";

/// The target of the SDK.
const SDK: &str = "rmcp";

/// Starts logging. `TOOLWIRE_LOG`, else `RUST_LOG`, is a filter such as `debug` or
/// `toolwire_toolkit=trace,warn`.
pub(crate) fn init() {
    let read =
        |name| std::env::var(name).ok().filter(|filter| !filter.is_empty()).map(|filter| (name, filter));
    let (name, filter) =
        read("TOOLWIRE_LOG").or_else(|| read("RUST_LOG")).unwrap_or_else(|| ("", DEFAULT_FILTER.to_owned()));
    let targets: Targets = filter.parse().unwrap_or_else(|_| {
        print_stderr(&format!(
            "{NOTE}warning:{NOTE:#} invalid filter in {name}: `{filter}`\n\
             {HINT}hint:{HINT:#} use a level, `debug`, or levels by target, `toolwire_toolkit=trace,warn`\n"
        ));
        DEFAULT_FILTER.parse().expect("valid filter")
    });
    let targets = without_messages(&filter, targets);
    let colours =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    redaction::hide_environment();
    let lines = tracing_subscriber::fmt::layer().with_writer(|| redaction::Redacted);
    let registry = tracing_subscriber::registry().with(targets);
    // In tests a subscriber may be set already; it stays.
    let _ = match is_json() {
        true => registry.with(lines.fmt_fields(json::JsonFields).event_format(json::JsonEvents)).try_init(),
        false => registry.with(lines.with_ansi(colours)).try_init(),
    };
}

/// Whether `TOOLWIRE_LOG_FORMAT` selects JSON.
fn is_json() -> bool {
    match std::env::var("TOOLWIRE_LOG_FORMAT").as_deref() {
        Ok("json") => true,
        Err(_) | Ok("" | "text") => false,
        Ok(other) => {
            print_stderr(&format!(
                "{NOTE}warning:{NOTE:#} invalid format in TOOLWIRE_LOG_FORMAT: `{other}`\n\
                 {HINT}hint:{HINT:#} use `json` or `text`\n"
            ));
            false
        }
    }
}

/// Limits the SDK to `debug`, unless the filter names it: its traces contain every message, and servers may
/// repeat secrets.
fn without_messages(filter: &str, targets: Targets) -> Targets {
    if filter.contains(SDK) {
        return targets;
    }
    let level = targets.default_level().unwrap_or(LevelFilter::OFF);
    targets.with_target(SDK, level.min(LevelFilter::DEBUG))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_logged_only_if_the_filter_names_the_sdk() {
        for (filter, level, expected) in [
            ("trace", LevelFilter::TRACE, false),
            ("trace", LevelFilter::DEBUG, true),
            ("warn", LevelFilter::DEBUG, false),
            ("trace,rmcp=trace", LevelFilter::TRACE, true),
            (DEFAULT_FILTER, LevelFilter::ERROR, false),
        ] {
            let level = level.into_level().expect("a level");
            let targets = without_messages(filter, filter.parse().expect("a valid filter"));
            assert_eq!(targets.would_enable("rmcp::service", &level), expected, "{filter} {level}");
        }
    }
}
