//! `toolwire call`: calls one tool.

use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use toolwire_contract::text::parse_duration;
use toolwire_contract::toolbox::{CallError, CallOptions, Progress, Toolbox};
use toolwire_contract::{Content, ResourceBody, ToolResult};
use toolwire_hub::Hub;

use crate::command_error::{CommandError, NOTE, print_stderr};
use crate::display::images::{Protocol, image_notes, images_of, more_images};
use crate::display::view::{is_styled, terminal_size};
use crate::output::{self, to_json};
use crate::pins;
use crate::servers;
use crate::source::describe_io_error;
use crate::terminal_text::sanitize;

/// Call one tool
///
/// Prints the text of the result to standard output. The exit code is 1 if the tool failed or could not be
/// called.
#[derive(Args)]
#[command(after_long_help = include_str!("help/call.txt"))]
pub(crate) struct CallArgs {
    /// The tool's name as listed by `toolwire tools`; with `--server`, also its name on that server
    #[arg(value_name = "TOOL")]
    tool: String,
    /// The arguments as a JSON object; `-` reads them from standard input; default: no arguments
    #[arg(value_name = "ARGUMENTS")]
    arguments: Option<String>,
    /// The server that has the tool
    #[arg(long, value_name = "S")]
    server: Option<String>,
    /// The timeout of the call, such as 30s, 500ms or 2m
    #[arg(long, value_name = "TIME", value_parser = timeout)]
    timeout: Option<Duration>,
    /// Print the complete result as JSON
    #[arg(long)]
    json: bool,
}

fn timeout(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .ok_or_else(|| "expected a duration of at most a day, such as 30s, 500ms or 2m".to_owned())
}

pub(crate) fn run(args: &CallArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    let arguments = arguments(args)?;
    let loaded = servers::load_config(config)?.only(args.server.as_deref())?;
    let folder = loaded.options().data_folder;
    let owner = folder.and_then(|folder| Hub::remembered_server(&loaded.config, &folder, &args.tool));
    if let (Some(owner), None) = (&owner, &args.server) {
        if loaded.server(owner)?.disabled {
            let (tool, owner) = (sanitize(&args.tool), sanitize(owner));
            let message =
                format!("tool `{tool}` belongs to server `{owner}`, which is disabled in {}", loaded.origin);
            let hint = "remove `disabled` or `enabled` of the server there";
            return Err(CommandError::work(message).with_hint(hint));
        }
        let narrowed = loaded.clone().only(Some(owner))?;
        let outcome = narrowed.with_hub(async |hub| {
            wait_until_ready(hub, owner, args.timeout).await?;
            call(args, hub, &arguments).await
        })?;
        if let CallOutcome::Done(exit) = outcome {
            return Ok(exit);
        }
    }
    let outcome = loaded.with_hub(async |hub| {
        if owner.is_some() && args.server.is_none() {
            // The tool is gone from its server, so any other server may have it now.
            hub.settled().await;
        }
        call(args, hub, &arguments).await
    })?;
    match outcome {
        CallOutcome::Done(exit) => Ok(exit),
        CallOutcome::UnknownTool(error) => Err(match (owner, &args.server) {
            (Some(owner), Some(server)) if owner != *server => {
                error.with_hint(format!("it is a tool of server `{owner}`"))
            }
            _ => error,
        }),
    }
}

/// Waits for the only server of the call, and fails as soon as the server has failed.
pub(crate) async fn wait_until_ready(
    hub: &Hub,
    server: &str,
    timeout: Option<Duration>,
) -> Result<(), CommandError> {
    // Without a timeout of the call, the server's own timeout for connecting applies.
    let _ = tokio::time::timeout(timeout.unwrap_or(Duration::MAX), hub.settled()).await;
    let Some(status) = hub.status().into_iter().find(|status| status.name == server) else { return Ok(()) };
    let Some(reason) = servers::unavailable_reason(&status) else { return Ok(()) };
    let reason = sanitize(&status.with_stderr(reason));
    let message = format!("server `{}` is unavailable: {reason}", sanitize(server));
    Err(CommandError::work(message).with_untrusted_hint(status.hint))
}

enum CallOutcome {
    Done(ExitCode),
    UnknownTool(CommandError),
}

/// Parses the arguments. The hub validates them against the tool's schema.
fn arguments(args: &CallArgs) -> Result<Value, CommandError> {
    let text = match args.arguments.as_deref() {
        None => return Ok(Value::Null),
        Some("-") => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(|error| {
                CommandError::usage(format!(
                    "cannot read the arguments from standard input: {}",
                    describe_io_error(&error)
                ))
            })?;
            text
        }
        Some(text) => text.to_owned(),
    };
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    match serde_json::from_str::<Value>(&text) {
        Ok(value @ (Value::Object(_) | Value::Null)) => Ok(value),
        Ok(_) => Err(CommandError::usage("the arguments must be a JSON object")
            .with_hint("write them as '{\"key\": \"value\"}', or use - and pipe them in")),
        Err(error) => Err(CommandError::usage(format!("the arguments are not JSON: {error}"))
            .with_hint("write them as '{\"key\": \"value\"}', in single quotes, or use - and pipe them in")),
    }
}

async fn call(args: &CallArgs, hub: &Hub, arguments: &Value) -> Result<CallOutcome, CommandError> {
    let mut tool = args.tool.clone();
    if let Some(server) = &args.server {
        hub.settled().await;
        tool = hub.offered_as(server, &args.tool).unwrap_or(tool);
    }
    let progress = io::stderr().is_terminal().then(|| -> Arc<dyn Fn(Progress) + Send + Sync> {
        Arc::new(|progress: Progress| {
            let total = progress.total.map_or_else(String::new, |total| format!(" of {total}"));
            let message =
                progress.message.map_or_else(String::new, |message| format!("  {}", sanitize(&message)));
            print_stderr(&format!("{NOTE}{}{total}{NOTE:#}{message}\n", progress.done));
        })
    });
    let mut options = CallOptions::default();
    options.timeout = args.timeout;
    options.progress = progress;
    let outcome = hub.call(&tool, arguments, options).await;
    pins::print_changes(hub, &hub.status());
    match outcome {
        Ok(result) => {
            let text =
                if args.json { to_json(&Value::from(result.clone()), false) } else { result_text(&result) };
            output::print_untrusted(&text)?;
            if !args.json && is_styled() {
                show_images(&result)?;
            }
            let exit = if result.is_error() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
            Ok(CallOutcome::Done(exit))
        }
        Err(error) => {
            let command_error =
                |message: String| CommandError::work(sanitize(&message)).with_untrusted_hint(error.hint());
            match (&error, &args.server) {
                // The server is connected, and the others are not.
                (CallError::UnknownTool { tool, missing, .. }, Some(server)) if missing.is_empty() => {
                    let message = format!("server `{server}` has no tool named `{tool}`");
                    Ok(CallOutcome::UnknownTool(command_error(message)))
                }
                (CallError::UnknownTool { .. }, _) => {
                    Ok(CallOutcome::UnknownTool(command_error(error.to_string())))
                }
                _ => Err(command_error(error.to_string())),
            }
        }
    }
}

/// Displays the images of a result on a terminal.
fn show_images(result: &ToolResult) -> Result<(), CommandError> {
    let Some(protocol) = Protocol::of_terminal() else {
        print_stderr(&image_notes(result));
        return Ok(());
    };
    let (images, more) = images_of(result);
    for image in images {
        match image.draw(protocol, terminal_size()) {
            Some(drawing) => output::print(&drawing)?,
            None => print_stderr(&format!("image: {}\n", sanitize(&image.save()))),
        }
    }
    print_stderr(&more_images(more).map_or_else(String::new, |note| format!("{note}\n")));
    Ok(())
}

/// Returns the result as text, with placeholders for images, audio and other data.
fn result_text(result: &ToolResult) -> String {
    let mut blocks: Vec<String> = result.blocks().iter().map(block_text).collect();
    if blocks.iter().all(|block| block.trim().is_empty())
        && let Some(value) = &result.structured_content
    {
        blocks = vec![to_json(value, false).trim_end().to_owned()];
    }
    let mut text = blocks.join("\n");
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn block_text(content: &Content) -> String {
    let bytes = |base64: &str| base64.len() / 4 * 3;
    match content {
        Content::Text { text, .. } => text.clone(),
        Content::Image { data, mime_type, .. } => {
            format!("[image {mime_type}, {} bytes; use --json for the data]", bytes(data))
        }
        Content::Audio { data, mime_type, .. } => {
            format!("[audio {mime_type}, {} bytes; use --json for the data]", bytes(data))
        }
        Content::ResourceLink(link) => format!("[resource link: {}, {}]", link.name, link.uri),
        Content::Resource { resource, .. } => match &resource.body {
            ResourceBody::Text(text) => text.clone(),
            ResourceBody::Blob(data) => {
                format!("[resource {}, {} bytes; use --json for the data]", resource.uri, bytes(data))
            }
        },
        other => Value::from(other.clone()).to_string(),
    }
}
