//! `toolwire ask`: one question through the whole loop, made for scripts.

mod attachment;
mod report;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use futures::StreamExt;
use toolwire_agent::{Agent, AgentEvent, Ending, FinishedRun, Run, RunLimit};
use toolwire_contract::{Block, Content, ConversationId, Message, Role, StopReason};
use toolwire_hub::Hub;

use crate::assembly;
use crate::command_error::{CommandError, REFUSED, print_stderr};
use crate::interrupt;
use crate::output;
use crate::servers;
use crate::settings;
use crate::storage;
use crate::terminal_text::sanitize;
use crate::tools::tell_of_failed;
use report::Progress;

/// Ask a model one question, with the tools of the configured servers
///
/// The answer goes to standard output; which tools are called goes to standard error when that is a terminal.
/// What comes on standard input is attached to the question.
#[derive(Args)]
#[command(after_long_help = include_str!("help/ask.txt"))]
pub(crate) struct AskArgs {
    /// The question; `-` reads it from standard input
    #[arg(value_name = "PROMPT")]
    prompt: String,
    /// The model to ask, such as openai/…, anthropic/… or ollama/…; otherwise `toolwire.model` of the
    /// configuration, or `demo`
    #[arg(short, long, value_name = "M")]
    model: Option<String>,
    /// Print the whole run as JSON: the answer, how it ended, the messages with every call, what it cost
    #[arg(long)]
    json: bool,
    /// Tools that may run though they may change things; a pattern, and may be given several times
    #[arg(long, value_name = "TOOL")]
    allow: Vec<String>,
    /// Keep the conversation, so that `chat` or `--resume` can go on with it; its id goes to standard error
    #[arg(long)]
    keep: bool,
    /// Go on with a conversation that was kept
    #[arg(long, value_name = "ID")]
    resume: Option<ConversationId>,
}

pub(crate) fn run(args: &AskArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    let message = question(args)?;
    let found = servers::find(config)?;
    let mut settings = settings::read(found.config.toolwire.as_ref(), &found.place)?;
    settings.agent.approvals.allow.extend(args.allow.iter().cloned());
    let models = assembly::models(&settings)?;
    let model = assembly::model(&models, assembly::choose(args.model.as_deref(), &settings))?;
    servers::run(async {
        let mut agent = assembly::agent(model, &settings);
        if args.keep || args.resume.is_some() {
            agent = agent.conversations(storage::open(&settings.store).await?);
        }
        let hub = Arc::new(assembly::hub(&found));
        let agent = agent.tools(hub.clone()).build().map_err(|error| {
            CommandError::usage(format!("`toolwire.agent`: {error}")).with_hint(error.hint())
        })?;
        let interrupted = pin!(interrupt::awaited());
        let outcome = ask(args, &agent, &hub, message, interrupted).await;
        servers::close(&hub).await;
        outcome
    })
}

async fn ask(
    args: &AskArgs,
    agent: &Agent,
    hub: &Hub,
    message: Message,
    mut interrupted: Pin<&mut impl Future<Output = ()>>,
) -> Result<ExitCode, CommandError> {
    let ready = async {
        servers::settled(hub).await;
        tell_of_failed(&hub.status());
        match &args.resume {
            Some(id) => agent.load(id).await.map_err(storage::failure),
            None => Ok(agent.new_run()),
        }
    };
    let mut run = tokio::select! {
        run = ready => run?,
        () = &mut interrupted => return Err(CommandError::interrupted()),
    };
    run.say_message(message);
    let finished = drive(args, agent, run, interrupted).await?;
    conclude(args, agent, &finished.0, &finished.1)
}

fn question(args: &AskArgs) -> Result<Message, CommandError> {
    let mut blocks = Vec::new();
    if args.prompt != "-" {
        blocks.push(Block::Content(Content::text(args.prompt.clone())));
    }
    if !io::stdin().is_terminal() {
        blocks.extend(attachment::read(io::stdin())?.map(Block::Content));
    }
    let says_something = blocks.iter().any(|block| match block {
        Block::Content(Content::Text { text, .. }) => !text.trim().is_empty(),
        _ => true,
    });
    if !says_something {
        return Err(CommandError::usage("the question is empty").with_hint(
            "write it in quotes: toolwire ask \"What is the weather in Paris?\", or use - and pipe it in",
        ));
    }
    Ok(Message::new(Role::User, blocks))
}

/// Runs it to its end, and stops it in good order when a person interrupts.
async fn drive(
    args: &AskArgs,
    agent: &Agent,
    run: Run,
    mut interrupted: Pin<&mut impl Future<Output = ()>>,
) -> Result<(FinishedRun, Progress), CommandError> {
    let mut running = agent.drive(run);
    let stop = running.cancellation_token();
    let mut progress = Progress::new(args.json);
    loop {
        tokio::select! {
            event = running.next() => match event {
                Some(AgentEvent::Done(finished)) => {
                    progress.end()?;
                    return Ok((*finished, progress));
                }
                Some(event) => progress.tell(&event)?,
                None => return Err(CommandError::work("the run ended without an outcome")),
            },
            () = &mut interrupted, if !stop.is_cancelled() => stop.cancel(),
        }
    }
}

/// Prints the answer, or says why there is none.
fn conclude(
    args: &AskArgs,
    agent: &Agent,
    finished: &FinishedRun,
    progress: &Progress,
) -> Result<ExitCode, CommandError> {
    let outcome = &finished.outcome;
    if let Some((id, _)) = finished.run.stored_in() {
        print_stderr(&format!("conversation {id}\n"));
    }
    if args.json {
        output::print_of_strangers(&report::as_json(agent.model().name(), finished))?;
    } else if !outcome.text.is_empty() && !progress.has_shown_text() {
        let text = &outcome.text;
        output::print(&if text.ends_with('\n') { text.clone() } else { format!("{text}\n") })?;
    }
    match &outcome.ending {
        Ending::Finished if outcome.stop == Some(StopReason::Refusal) => Err(CommandError::work(REFUSED)),
        Ending::Finished => Ok(ExitCode::SUCCESS),
        Ending::Cancelled => Err(CommandError::interrupted()),
        Ending::Stopped(limit @ RunLimit::EmptyResponses) => {
            Err(CommandError::work(limit.to_string()).with_hint("retry, or use another model"))
        }
        Ending::Stopped(limit) => Err(CommandError::work(format!("the response is incomplete: {limit}"))
            .with_hint("`toolwire.agent` in the configuration sets the limits")),
        Ending::NeedsApproval(calls) => {
            let names: Vec<String> = calls.iter().map(|call| format!("`{}`", sanitize(&call.name))).collect();
            Err(CommandError::work(format!("{} must be allowed first", names.join(", ")))
                .with_hint("`--allow TOOL` lets it run"))
        }
        Ending::Failed(failure) => {
            let told = CommandError::work(sanitize(&failure.message));
            Err(match &failure.hint {
                Some(hint) => told.with_hint(sanitize(hint)),
                None => told,
            })
        }
        _ => Err(CommandError::work("the run ended for an unknown reason")),
    }
}
