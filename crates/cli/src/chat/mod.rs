//! `toolwire chat`: a conversation in the terminal.

mod approval;
mod command;
mod completion;
mod editor;
mod execute;
mod form;
mod history_keys;
mod input;
mod interrupts;
mod mentions;
mod prompt;
mod questions;
mod server_changes;
mod session;
mod status;
pub(crate) mod terminal_modes;
mod turn;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use tokio::sync::mpsc;
use toolwire_contract::Content;
use toolwire_contract::conversations::ConversationId;
use toolwire_hub::{Hub, Phase, ResultBudget};

use crate::assembly;
use crate::command_error::{CommandError, NOTE, print_stderr};
use crate::conversation_args::ConversationArgs;
use crate::conversations::find;
use crate::display::markdown::DIMMED;
use crate::display::view::{View, is_dumb, is_styled};
use crate::output::{self, ignore_broken_pipe};
use crate::pins;
use crate::servers::{self, LoadedConfig};
use crate::source::describe_io_error;
use crate::storage;
use crate::terminal_text::sanitize;
use command::{Command, ParsedInput};
use completion::SharedNames;
use editor::InputLine;
use execute::NextAction;
use input::Input;
use interrupts::Interrupts;
use questions::{Question, QuestionSender};
use server_changes::ReportedWarnings;
use session::Session;
pub(crate) use session::results_of;
use terminal_modes::TerminalModes;
use turn::TurnEnd;

/// Chat with a model in the terminal, with the tools of the configured servers
///
/// Responses and tool calls are displayed as they arrive. Calls that may change something need your approval.
/// Conversations are stored; `/resume` continues one.
#[derive(Args)]
#[command(after_long_help = include_str!("../help/chat.txt"))]
pub(crate) struct ChatArgs {
    /// The configuration file, as with `--config` (optional)
    #[arg(value_name = "CONFIG")]
    first: Option<String>,
    /// The model, as with `--model` (optional)
    #[arg(value_name = "MODEL")]
    second: Option<String>,
    #[command(flatten)]
    conversation: ConversationArgs,
}

/// A running chat.
pub(crate) struct Chat {
    session: Session,
    view: View,
    input: Input,
    interrupts: Interrupts,
    questions: mpsc::Receiver<Question>,
    names: SharedNames,
    /// The files that are sent with the next message.
    attachments: Vec<Content>,
    /// The conversations in the order of the last list, which `/resume NUMBER` refers to.
    listed: Vec<ConversationId>,
    /// The last reported phase of each server.
    reported_phases: BTreeMap<String, Phase>,
    /// The reported problems of tools.
    reported_warnings: BTreeMap<String, ReportedWarnings>,
    /// Whether the last response failed.
    has_failed: bool,
}

pub(crate) fn run(args: &ChatArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    let (config, model) = config_and_model(args, config)?;
    let (loaded, settings) = args.conversation.load(config.as_deref())?;
    let models = assembly::models(&settings)?;
    let (model, reason) = assembly::choose_model(model.as_deref(), &settings, &models)?;
    assembly::print_notes(&loaded, &model, reason.filter(|_| !io::stdout().is_terminal()));
    servers::run(async {
        let signal_error = |error: io::Error| {
            CommandError::work(format!("cannot listen for signals: {}", describe_io_error(&error)))
        };
        let interrupts = Interrupts::listen().map_err(signal_error)?;
        let termination_signal = interrupts::termination_signal().map_err(signal_error)?;
        let terminal_modes = TerminalModes::current();
        let (store, store_error) = storage::open_or_in_memory(&settings.store).await;
        let (asker, questions) = questions::channel();
        let hub = Arc::new(start_hub(&loaded, asker.clone()));
        let session = Session::new(settings, models, model, hub.clone(), store, asker)?;
        let mut chat = Chat::new(session, interrupts, questions)?;
        chat.print_greeting(store_error)?;
        chat.resume_at_start(&args.conversation).await?;
        let is_terminal = chat.input.is_terminal();
        let outcome = tokio::select! {
            outcome = chat.run_loop() => outcome,
            code = termination_signal => {
                if is_terminal {
                    terminal_modes.restore_from_editor();
                }
                Ok(ExitCode::from(code))
            }
        };
        let Chat { mut interrupts, .. } = chat;
        tokio::select! {
            () = hub.close() => {}
            // Ctrl-C exits without waiting for the servers to shut down.
            () = interrupts.next() => {}
        }
        outcome
    })
}

/// Determines the configuration and the model. A single argument that is not a file is the model.
fn config_and_model(
    args: &ChatArgs,
    config: Option<&Path>,
) -> Result<(Option<PathBuf>, Option<String>), CommandError> {
    let is_file = |word: &str| word.ends_with(".json") || Path::new(word).is_file();
    let (config, model) = match (config, &args.first, &args.second) {
        (Some(_), Some(_), Some(_)) => {
            return Err(CommandError::usage("the configuration is given twice")
                .with_hint("use either `--config FILE` or the file before the model"));
        }
        (Some(config), model, None) => (Some(config.to_owned()), model.clone()),
        (None, Some(file), Some(model)) => (Some(PathBuf::from(file)), Some(model.clone())),
        (None, Some(word), None) if is_file(word) => (Some(PathBuf::from(word)), None),
        (config, word, _) => (config.map(Path::to_owned), word.clone()),
    };
    match (model, &args.conversation.model) {
        (Some(_), Some(_)) => Err(CommandError::usage("the model is given twice")
            .with_hint("use either `--model` or the model as an argument")),
        (model, option) => Ok((config, model.or_else(|| option.clone()))),
    }
}

fn start_hub(loaded: &LoadedConfig, host: QuestionSender) -> Hub {
    let budget = Some(ResultBudget::default());
    let options = loaded.options().with_host(Arc::new(host)).with_result_budget(budget);
    Hub::start(&loaded.config, options)
}

impl Chat {
    fn new(
        session: Session,
        interrupts: Interrupts,
        questions: mpsc::Receiver<Question>,
    ) -> Result<Chat, CommandError> {
        let is_styled = is_styled();
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb();
        let names = SharedNames::default();
        let history = servers::data_folder().map(|folder| folder.join("history"));
        let (input, note) = Input::new(is_terminal, names.clone(), history, is_styled);
        let mut chat = Chat {
            session,
            view: View::new(is_styled),
            input,
            interrupts,
            questions,
            names,
            attachments: Vec::new(),
            listed: Vec::new(),
            reported_phases: BTreeMap::new(),
            reported_warnings: BTreeMap::new(),
            has_failed: false,
        };
        if is_terminal {
            chat.view.allow_image_query();
        }
        if let Some(note) = note {
            chat.view.note("note:", NOTE, &note).or_else(ignore_broken_pipe)?;
        }
        Ok(chat)
    }

    /// Prints the model, the servers, and a warning if conversations are not stored or the pins are
    /// unreadable.
    fn print_greeting(&mut self, store_error: Option<CommandError>) -> Result<(), CommandError> {
        if let Some((problem, hint)) = store_error.map(CommandError::into_parts) {
            let warning = format!("the conversation is not stored: {problem}");
            self.view.note("warning:", NOTE, &warning).or_else(ignore_broken_pipe)?;
            if let Some(hint) = hint {
                self.view.hint(&hint).or_else(ignore_broken_pipe)?;
            }
        }
        if let Some((problem, hint)) = pins::pins_problem(&self.session.hub) {
            self.view.note("warning:", NOTE, &problem).or_else(ignore_broken_pipe)?;
            self.view.hint(hint).or_else(ignore_broken_pipe)?;
        }
        if self.input.is_terminal() {
            let servers: Vec<String> =
                self.session.hub.status().iter().map(|server| sanitize(&server.name)).collect();
            let model = sanitize(self.session.model_name());
            let servers = match servers.len() {
                0 => "no servers".to_owned(),
                1 => format!("server {}", servers[0]),
                _ => format!("servers {}", servers.join(", ")),
            };
            let bold = anstyle::Style::new().bold();
            output::print_styled(&format!(
                "{bold}toolwire{bold:#} {DIMMED}·{DIMMED:#} {model} \
                 {DIMMED}· {servers} · /help lists the commands{DIMMED:#}\n"
            ))?;
        }
        Ok(())
    }

    /// Continues the conversation that the command line names. If several match, they are listed.
    async fn resume_at_start(&mut self, args: &ConversationArgs) -> Result<(), CommandError> {
        if !self.input.is_terminal() {
            return self.resume_in_script(args).await;
        }
        let reference = match &args.resume {
            Some(reference) if !reference.trim().is_empty() => reference.clone(),
            Some(_) => return self.execute(Command::Resume(None)).await.map(drop),
            None if args.continue_last => match find::last(&*self.session.store).await? {
                Some(conversation) => conversation.id.to_string(),
                None => return self.print_error("no conversation is stored yet", None),
            },
            None => return Ok(()),
        };
        self.execute(Command::Resume(Some(reference))).await.map(drop)
    }

    /// Continues the conversation that the command line names, without displaying it: standard output of a
    /// script has only the responses to its messages. These must not go into another conversation.
    async fn resume_in_script(&mut self, args: &ConversationArgs) -> Result<(), CommandError> {
        let Some(id) = args.resumed(&*self.session.store).await? else { return Ok(()) };
        self.session.resume(&id).await.map_err(storage::command_error)?;
        print_stderr(&self.unfinished_note());
        Ok(())
    }

    /// Reads and executes messages and commands until the user exits.
    async fn run_loop(&mut self) -> Result<ExitCode, CommandError> {
        loop {
            let text = match self.read_message().await? {
                InputLine::Text(text) => text,
                InputLine::Eof => break,
                InputLine::Interrupted { .. } if !self.input.is_terminal() => return Ok(ExitCode::from(130)),
                InputLine::Interrupted { was_empty } => {
                    if self.interrupts.repeats() && was_empty {
                        return Ok(ExitCode::from(130));
                    }
                    self.print(&format!("{DIMMED}press Ctrl-C again to exit{DIMMED:#}\n"))?;
                    continue;
                }
                InputLine::Failed(problem) => {
                    return Err(CommandError::work(format!("cannot read a line: {problem}")));
                }
            };
            self.interrupts.forget();
            self.view.omit_gap();
            let next = match command::parse(&text) {
                ParsedInput::Empty => NextAction::Prompt,
                ParsedInput::Invalid { problem, hint } => {
                    self.print_error(&problem, Some(&hint))?;
                    NextAction::Prompt
                }
                ParsedInput::Command(command) => self.execute(command).await?,
                ParsedInput::Message(text) => self.send(text).await?,
            };
            let end = match next {
                NextAction::Prompt => continue,
                NextAction::Exit => break,
                NextAction::Interrupted => return Ok(ExitCode::from(130)),
                NextAction::Respond => match self.respond().await {
                    Ok(end) => end,
                    // The reader of standard output may have closed it.
                    Err(error) => return ignore_broken_pipe(error).map(|()| ExitCode::SUCCESS),
                },
            };
            match end {
                TurnEnd::Completed => {}
                // The second Ctrl-C may have been pressed while the response was being stopped.
                TurnEnd::Stopped if self.interrupts.take_pending() && self.interrupts.repeats() => {
                    return Ok(ExitCode::from(130));
                }
                TurnEnd::Stopped => {}
                TurnEnd::Exit => return Ok(ExitCode::from(130)),
            }
        }
        // On a terminal, the user has seen the error; a script needs the exit code.
        let reports_failure = self.has_failed && !self.input.is_terminal();
        Ok(if reports_failure { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Adds a message to the run when the servers are ready.
    async fn send(&mut self, text: String) -> Result<NextAction, CommandError> {
        if let Some(next) = self.wait_for_tools().await? {
            return Ok(next);
        }
        match self.message(text) {
            Ok(message) => {
                self.session.run.say_message(message);
                Ok(NextAction::Respond)
            }
            Err(error) => {
                self.has_failed = true;
                let (problem, hint) = error.into_parts();
                self.print_error(&problem, hint.as_deref())?;
                Ok(NextAction::Prompt)
            }
        }
    }

    /// Waits for the tools of all servers. Returns what to do instead if the user does not want to wait.
    pub(super) async fn wait_for_tools(&mut self) -> Result<Option<NextAction>, CommandError> {
        match self.wait_for_servers().await {
            Ok(true) => Ok(None),
            Ok(false) if self.input.is_terminal() => Ok(Some(NextAction::Prompt)),
            Ok(false) => Ok(Some(NextAction::Interrupted)),
            Err(error) => ignore_broken_pipe(error).map(|()| Some(NextAction::Exit)),
        }
    }

    /// Prints the output of a command to standard output.
    fn print(&mut self, text: &str) -> Result<(), CommandError> {
        self.view.finish_section().or_else(ignore_broken_pipe)?;
        output::print_styled(text)?;
        self.view.require_gap();
        Ok(())
    }
}
