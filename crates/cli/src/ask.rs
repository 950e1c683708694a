//! `toolwire ask`: one question to a model with tools, for scripts.

mod best_effort;
mod report;
mod schema;
mod stdin;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use futures::StreamExt;
use tokio::time::interval;
use toolwire_agent::run::Run;
use toolwire_agent::{Agent, AgentEvent, Ending, FinishedRun, RunLimit};
use toolwire_contract::conversations::ConversationId;
use toolwire_contract::model::StopReason;
use toolwire_contract::{Block, Content, Message, Role};
use toolwire_hub::Hub;

use crate::assembly;
use crate::attachment;
use crate::chat::results_of;
use crate::command_error::{CommandError, HINT, NOTE, REFUSED, print_stderr};
use crate::conversation_args::ConversationArgs;
use crate::display::view::SPINNER_INTERVAL;
use crate::interrupt;
use crate::output;
use crate::servers;
use crate::settings::Settings;
use crate::storage;
use crate::terminal_text::sanitize;
use crate::tools::print_problems;
use best_effort::BestEffort;
use report::RunReport;

/// Ask a model one question, with the tools of the configured servers
///
/// Prints the response to standard output, and the tool calls to standard error if that is a terminal.
/// Standard input is attached to the question.
#[derive(Args)]
#[command(after_long_help = include_str!("help/ask.txt"))]
pub(crate) struct AskArgs {
    /// The question; `-` reads it from standard input
    #[arg(value_name = "PROMPT")]
    prompt: String,
    /// Attach a file: an image, a PDF if the model accepts it, or text; can be repeated
    #[arg(short, long, value_name = "FILE")]
    file: Vec<String>,
    /// Require a response that is JSON and matches the JSON Schema in this file
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Print the complete run as JSON: the response, how it ended, all messages and calls, and the usage
    #[arg(long)]
    json: bool,
    /// Store the conversation for `chat` or `--resume`, and print its id to standard error
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    conversation: ConversationArgs,
}

pub(crate) fn run(args: &AskArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    let output = args.schema.as_deref().map(schema::read).transpose()?;
    let message = question(args)?;
    let (loaded, settings) = args.conversation.load(config)?;
    let models = assembly::models(&settings)?;
    let (model, reason) = assembly::choose_model(args.conversation.model.as_deref(), &settings, &models)?;
    let attached: Vec<Content> = message.content.iter().filter_map(content_of).cloned().collect();
    attachment::check(&*model, &attached)?;
    assembly::print_notes(&loaded, &model, reason);
    servers::run(async {
        let mut agent = assembly::agent(model, &settings)?.output(output.unwrap_or_default());
        let store = open_store(args, &settings).await?;
        let mut resumed = None;
        if let Some(store) = &store {
            resumed = args.conversation.resumed(&**store).await?;
            agent = agent.conversations(store.clone());
        }
        let hub = Arc::new(assembly::hub(&loaded));
        let agent = agent.tools(hub.clone()).build().map_err(|error| {
            CommandError::usage(format!("`toolwire.agent`: {error}")).with_hint(error.hint())
        })?;
        let interrupted = pin!(interrupt::wait());
        let outcome = ask(args, &agent, &hub, store.as_deref(), resumed.as_ref(), message, interrupted).await;
        servers::close(&hub).await;
        outcome
    })
}

/// Opens the store if the command line needs it. Without it, no conversation can be resumed, but a question
/// can be answered.
async fn open_store(args: &AskArgs, settings: &Settings) -> Result<Option<Arc<BestEffort>>, CommandError> {
    let resumes = args.conversation.resume.is_some() || args.conversation.continue_last;
    if !args.keep && !resumes {
        return Ok(None);
    }
    match storage::open(&settings.store).await {
        Ok(store) => Ok(Some(Arc::new(BestEffort::new(store)))),
        Err(error) if resumes => Err(error),
        Err(error) => {
            let (problem, hint) = error.into_parts();
            warn_not_stored(&problem, hint.as_deref());
            Ok(None)
        }
    }
}

fn warn_not_stored(problem: &str, hint: Option<&str>) {
    let hint = hint.map(|hint| format!("{HINT}hint:{HINT:#} {}\n", sanitize(hint))).unwrap_or_default();
    let problem = sanitize(problem);
    print_stderr(&format!("{NOTE}warning:{NOTE:#} the conversation is not stored: {problem}\n{hint}"));
}

async fn ask(
    args: &AskArgs,
    agent: &Agent,
    hub: &Hub,
    store: Option<&BestEffort>,
    resumed: Option<&ConversationId>,
    message: Message,
    mut interrupted: Pin<&mut impl Future<Output = ()>>,
) -> Result<ExitCode, CommandError> {
    let ready = async {
        servers::wait_until_settled(hub).await;
        print_problems(hub);
        match resumed {
            Some(id) => agent.load(id).await.map_err(storage::command_error),
            None => Ok(agent.new_run()),
        }
    };
    let mut run = tokio::select! {
        run = ready => run?,
        () = &mut interrupted => return Err(CommandError::interrupted()),
    };
    hub.offer_read_result(results_of(&run));
    run.say_message(message);
    let (finished, progress) = drive(args, agent, run, interrupted).await?;
    let problem = store.and_then(BestEffort::problem);
    if let Some(problem) = problem {
        warn_not_stored(&problem.to_string(), problem.hint());
    }
    conclude(args, agent, &finished, problem.is_none(), &progress)
}

fn content_of(block: &Block) -> Option<&Content> {
    match block {
        Block::Content(content) => Some(content),
        _ => None,
    }
}

/// Returns the message: the files, then the question, then standard input.
fn question(args: &AskArgs) -> Result<Message, CommandError> {
    let files = args.file.iter().map(|path| attachment::read(path).map(Block::Content));
    let mut blocks = files.collect::<Result<Vec<Block>, CommandError>>()?;
    if args.prompt != "-" {
        blocks.push(Block::Content(Content::text(args.prompt.clone())));
    }
    if !io::stdin().is_terminal() {
        blocks.extend(stdin::read(io::stdin())?.map(Block::Content));
    }
    let is_empty = blocks.iter().all(|block| match block {
        Block::Content(Content::Text { text, .. }) => text.trim().is_empty(),
        _ => false,
    });
    if is_empty {
        return Err(CommandError::usage("the question is empty").with_hint(
            "write it in quotes: toolwire ask \"What is the weather in Paris?\", or use - and pipe it in",
        ));
    }
    Ok(Message::new(Role::User, blocks))
}

/// Drives the run until it is finished. An interrupt cancels it.
async fn drive(
    args: &AskArgs,
    agent: &Agent,
    run: Run,
    mut interrupted: Pin<&mut impl Future<Output = ()>>,
) -> Result<(FinishedRun, RunReport), CommandError> {
    let mut running = agent.drive(run);
    let cancellation = running.cancellation_token();
    let mut progress = RunReport::new(args.json || args.schema.is_some());
    let mut ticks = interval(SPINNER_INTERVAL);
    loop {
        tokio::select! {
            event = running.next() => match event {
                Some(AgentEvent::Done(finished)) => {
                    progress.finish()?;
                    return Ok((*finished, progress));
                }
                Some(event) => progress.show(event)?,
                None => return Err(CommandError::work("the run ended without an outcome")),
            },
            () = &mut interrupted, if !cancellation.is_cancelled() => cancellation.cancel(),
            _ = ticks.tick() => progress.tick()?,
        }
    }
}

/// Prints the response if it was not streamed, and returns the exit code or why the run failed.
fn conclude(
    args: &AskArgs,
    agent: &Agent,
    finished: &FinishedRun,
    is_stored: bool,
    progress: &RunReport,
) -> Result<ExitCode, CommandError> {
    let outcome = &finished.outcome;
    let conversation = finished.run.stored_in().filter(|_| is_stored).map(|(id, _)| id);
    if let Some(id) = conversation {
        print_stderr(&format!("conversation {id}\n"));
    }
    if args.json {
        output::print_untrusted(&report::as_json(agent.model().name(), finished, conversation, progress))?;
    } else if args.schema.is_some() && outcome.output.is_none() {
        // Standard output has nothing that does not match the schema.
    } else if !outcome.text.is_empty() && !progress.has_streamed() {
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
            Err(CommandError::work(sanitize(&failure.message)).with_untrusted_hint(failure.hint.as_ref()))
        }
        _ => Err(CommandError::work("the run ended for an unknown reason")),
    }
}
