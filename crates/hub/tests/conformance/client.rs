//! The client that the suite watches.

use std::process::ExitCode;

pub(crate) fn main(scenario: &str) -> ExitCode {
    eprintln!("no client for {scenario} yet");
    ExitCode::FAILURE
}
