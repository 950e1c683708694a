//! An MCP server that does one thing wrong, for tests of those who must live with it.
//!
//! It speaks the 2025-06-18 revision on stdio, or over HTTP with `--http`, and is honest but for the one behaviour it is
//! asked for. `--help` lists them.

mod arguments;
mod behaviour;
mod http;
mod protocol;
mod stdio;

use std::process::ExitCode;

use arguments::{Arguments, Request};

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(Request::Serve(arguments)) => arguments,
        Ok(Request::Help) => {
            print!("{}", arguments::help());
            return ExitCode::SUCCESS;
        }
        Err(reason) => {
            eprintln!("error: {reason}\nhint: `misbehaving-server --help` lists what can be asked for");
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
