//! The `toolwire` program: parses the command line, runs one command, and returns its exit code.

mod arguments;
mod ask;
mod assembly;
mod attachment;
mod call;
mod chat;
mod check;
mod command_error;
mod completions;
mod connection_progress;
mod conversation_args;
mod conversations;
mod convert;
mod demo_server;
mod dialect_name;
mod display;
mod doctor;
mod import;
mod interrupt;
mod keys;
mod log;
mod login;
mod output;
mod pins;
mod refusals;
mod serve;
mod servers;
mod settings;
mod source;
mod stderr;
mod storage;
mod stored_secrets;
mod terminal_text;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use arguments::Direction;
use command_error::CommandError;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Every MCP tool, callable from every LLM API.
///
/// Toolwire converts MCP tool definitions to the formats of OpenAI, Anthropic, Gemini, Bedrock and others,
/// reports each change, and converts the model's arguments back.
#[derive(Parser)]
#[command(
    name = "toolwire",
    version,
    arg_required_else_help = true,
    after_help = "`toolwire COMMAND --help` shows examples for each command.",
    after_long_help = include_str!("help/toolwire.txt")
)]
struct CommandLine {
    /// The server configuration; default: $TOOLWIRE_CONFIG, ./mcp.json, ./.mcp.json, mcp.json in the user's
    /// config folder, or the demo server
    #[arg(short, long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Convert(convert::ConvertArgs),
    /// Convert arguments from a model to MCP
    ///
    /// Reads lines of `{"name","arguments"}` from standard input, with the names that the model sees, and
    /// prints one line for each: `{"name","arguments"}` for MCP, with `"repairs"` if arguments were repaired,
    /// or `{"error":{"code","message"}}`.
    #[command(after_long_help = include_str!("help/decode.txt"))]
    Decode(arguments::CodecArgs),
    /// Convert MCP arguments to the form that a model sends
    ///
    /// Reads lines of `{"name","arguments"}` from standard input, with MCP names and arguments, and prints
    /// one line for each: `{"name","arguments"}` as a model of the dialect would send them, or
    /// `{"error":{"code","message"}}`.
    #[command(after_long_help = include_str!("help/encode.txt"))]
    Encode(arguments::CodecArgs),
    Check(check::CheckArgs),
    Tools(tools::ToolsArgs),
    Call(call::CallArgs),
    Ask(ask::AskArgs),
    Chat(chat::ChatArgs),
    Conversations(conversations::ConversationsArgs),
    Serve(serve::ServeArgs),
    Keys(keys::KeysArgs),
    Login(login::LoginArgs),
    Logout(login::LogoutArgs),
    Pins(pins::PinsArgs),
    Doctor(doctor::DoctorArgs),
    Import(import::ImportArgs),
    Completions(completions::CompletionsArgs),
    DemoServer(demo_server::DemoServerArgs),
}

fn main() -> ExitCode {
    if let Some(exit) = toolwire_hub::run_as_guard() {
        return exit;
    }
    let CommandLine { config, command } = CommandLine::try_parse().unwrap_or_else(|error| {
        if !error.use_stderr() {
            error.exit();
        }
        command_error::print_stderr(&error.render().ansi().to_string());
        std::process::exit(error.exit_code());
    });
    // The chat handles Ctrl-C itself.
    if !matches!(command, Command::Chat(_)) {
        interrupt::exit_on_interrupt();
    }
    let config = config.as_deref();
    let outcome = match command {
        Command::Convert(args) => convert::run(&args),
        Command::Decode(args) => arguments::run(Direction::Decode, &args),
        Command::Encode(args) => arguments::run(Direction::Encode, &args),
        Command::Check(args) => check::run(&args, config),
        Command::Tools(args) => tools::run(&args, config),
        Command::Call(args) => call::run(&args, config),
        Command::Ask(args) => ask::run(&args, config),
        Command::Chat(args) => chat::run(&args, config),
        Command::Conversations(args) => conversations::run(&args, config),
        Command::Serve(args) => serve::run(&args, config),
        Command::Keys(args) => keys::run(&args, config),
        Command::Login(args) => login::log_in(&args, config),
        Command::Logout(args) => login::log_out(&args, config),
        Command::Pins(args) => pins::run(&args, config),
        Command::Doctor(args) => doctor::run(&args, config),
        Command::Import(args) => import::run(&args, config),
        Command::Completions(args) => completions::run(&args),
        Command::DemoServer(args) => demo_server::run(&args),
    };
    outcome.unwrap_or_else(|error: CommandError| error.print())
}
