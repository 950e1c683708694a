//! An MCP server that does one thing wrong, for tests of MCP clients.
//!
//! It implements the 2025-06-18 revision over stdio, or over HTTP with `--http`. It is correct except for the
//! behaviour chosen with `--behaviour`; `--help` lists them.

mod arguments;
mod behaviour;
mod http;
mod protocol;
mod stdio;

use std::process::ExitCode;

use arguments::{Arguments, CommandLine};

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(CommandLine::Serve(arguments)) => arguments,
        Ok(CommandLine::Help) => {
            print!("{}", arguments::help());
            return ExitCode::SUCCESS;
        }
        Err(reason) => {
            eprintln!("error: {reason}\nhint: `misbehaving-server --help` lists the options");
            return ExitCode::from(2);
        }
    };
    let served = match &arguments.http {
        Some(address) => http::serve(address, &arguments),
        None => stdio::serve(&arguments),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
