//! `toolwire chat`: a conversation in the terminal.

mod approval;
mod calls;
mod canvas;
mod command;
mod completion;
mod editor;
mod form;
mod input;
mod interrupts;
mod line;
mod markdown;
mod perform;
mod person;
mod quiet;
mod session;
mod status;
#[cfg(test)]
mod testing;
mod transcript;
mod turn;
mod view;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use clap::Args;
use tokio::sync::mpsc;
use toolwire_contract::{Conversations, Toolbox};
use toolwire_hub::{ElicitReply, Hub, Phase, ResultBudget};
use toolwire_store::InMemory;

use crate::assembly;
use crate::command_error::{CommandError, ERROR, NOTE};
use crate::output::{self, unless_nobody_reads};
use crate::servers::{self, Found};
use crate::settings::{self, Settings};
use crate::source::in_words;
use crate::storage;
use crate::terminal_text::{counted, sanitize};
use command::Typed;
use completion::{Names, SharedNames};
use editor::{Line, Purpose};
use input::Input;
use interrupts::Interrupts;
use markdown::QUIET;
use perform::Next;
use person::Question;
use quiet::Modes;
use session::Session;
use turn::After;
use view::View;

/// How often it is looked whether a server has come or gone.
const LOOKING: Duration = Duration::from_millis(250);
/// How many conversations can be completed.
const COMPLETED: usize = 50;
/// How long the list of them is waited for.
const LISTING: Duration = Duration::from_millis(500);

/// Why conversations are not kept, and what to try.
type Unkept = (String, Option<String>);

/// Chat with a model in the terminal, with the tools of the configured servers
///
/// Answers are shown as they come, and so is every call of a tool. Calls that may change something are asked
/// about first. Conversations are kept, and `/resume` continues one.
#[derive(Args)]
#[command(after_long_help = include_str!("../help/chat.txt"))]
pub(crate) struct ChatArgs {
    /// The configuration, as with `--config`; may be left out
    #[arg(value_name = "CONFIG")]
    first: Option<String>,
    /// The model that answers, such as openai/…, anthropic/… or ollama/…; otherwise `toolwire.model` of the
    /// configuration, or `demo`
    #[arg(value_name = "MODEL")]
    second: Option<String>,
}

/// A conversation under way, and everything that takes part in it.
pub(crate) struct Chat {
    session: Session,
    view: View,
    input: Input,
    interrupts: Interrupts,
    questions: mpsc::Receiver<Question>,
    names: SharedNames,
    /// The conversations as they were last listed, for their numbers.
    listed: Vec<toolwire_contract::ConversationId>,
    /// What was last said about each server.
    told: BTreeMap<String, Phase>,
    /// Whether the last answer did not come to its end.
    has_failed: bool,
}

pub(crate) fn run(args: &ChatArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    let (config, model) = places(args, config)?;
    let found = servers::find(config.as_deref())?;
    let settings = settings::read(found.config.toolwire.as_ref(), &found.place)?;
    let models = assembly::models(&settings)?;
    let model = assembly::model(&models, assembly::choose(model.as_deref(), &settings))?;
    servers::run(async {
        let deaf =
            |error: io::Error| CommandError::work(format!("cannot listen for signals: {}", in_words(&error)));
        let interrupts = Interrupts::begin().map_err(deaf)?;
        let told_to_end = interrupts::told_to_end().map_err(deaf)?;
        let terminal = Modes::now();
        let (store, unkept) = open_store(&settings).await;
        let (host, questions) = person::asked();
        let hub = Arc::new(start(&found, host));
        let session = Session::new(settings, models, model, hub.clone(), store)?;
        let mut chat = Chat::new(session, interrupts, questions)?;
        chat.begin(unkept)?;
        let is_terminal = chat.input.is_terminal();
        let outcome = tokio::select! {
            outcome = chat.converse() => outcome,
            code = told_to_end => {
                if is_terminal {
                    terminal.take_back();
                }
                Ok(ExitCode::from(code))
            }
        };
        let Chat { mut interrupts, .. } = chat;
        tokio::select! {
            () = hub.close() => {}
            // Who is in a hurry need not wait until every server has ended in good order.
            () = interrupts.next() => {}
        }
        outcome
    })
}

/// Which of the words is the configuration and which the model. A lone word that is no file names the model.
fn places(args: &ChatArgs, config: Option<&Path>) -> Result<(Option<PathBuf>, Option<String>), CommandError> {
    let is_file = |word: &str| word.ends_with(".json") || Path::new(word).is_file();
    match (config, &args.first, &args.second) {
        (Some(_), Some(_), Some(_)) => Err(CommandError::usage("the configuration is given twice")
            .with_hint("use either `--config FILE` or the file before the model")),
        (Some(config), model, None) => Ok((Some(config.to_owned()), model.clone())),
        (None, Some(file), Some(model)) => Ok((Some(PathBuf::from(file)), Some(model.clone()))),
        (None, Some(word), None) if is_file(word) => Ok((Some(PathBuf::from(word)), None)),
        (config, word, _) => Ok((config.map(Path::to_owned), word.clone())),
    }
}

/// Where conversations are kept; or why they are not.
/// The store, and why it is none that outlives the chat.
async fn open_store(settings: &Settings) -> (Arc<dyn Conversations>, Option<Unkept>) {
    match storage::open(&settings.store).await {
        Ok(store) => (store, None),
        Err(failure) => (Arc::new(InMemory::new()), Some(failure.into_parts())),
    }
}

fn start(found: &Found, host: person::Asked) -> Hub {
    let budget = Some(ResultBudget::default());
    let options = found.options().with_host(Arc::new(host)).with_result_budget(budget);
    Hub::start(&found.config, options)
}

impl Chat {
    fn new(
        session: Session,
        interrupts: Interrupts,
        questions: mpsc::Receiver<Question>,
    ) -> Result<Chat, CommandError> {
        let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_styled = io::stdout().is_terminal() && !no_colour && !is_dumb;
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb;
        let names = SharedNames::default();
        let history = servers::data_folder().map(|folder| folder.join("history"));
        let (input, remark) = Input::new(is_terminal, names.clone(), history, is_styled);
        let view = View::new(is_styled);
        let (listed, told) = (Vec::new(), BTreeMap::new());
        let mut chat =
            Chat { session, view, input, interrupts, questions, names, listed, told, has_failed: false };
        if let Some(remark) = remark {
            chat.view.note("note:", NOTE, &remark).or_else(unless_nobody_reads)?;
        }
        Ok(chat)
    }

    /// Says where one is.
    fn begin(&mut self, unkept: Option<Unkept>) -> Result<(), CommandError> {
        if let Some((problem, hint)) = unkept {
            let words = format!("the conversation is not stored: {problem}");
            self.view.note("warning:", NOTE, &words).or_else(unless_nobody_reads)?;
            if let Some(hint) = hint {
                self.view.hint(&hint).or_else(unless_nobody_reads)?;
            }
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
                "{bold}toolwire{bold:#} {QUIET}·{QUIET:#} {model} {QUIET}· {servers} · /help lists the commands{QUIET:#}\n"
            ))?;
        }
        Ok(())
    }

    /// Message by message, until the person leaves.
    async fn converse(&mut self) -> Result<ExitCode, CommandError> {
        let mut was_interrupted = false;
        loop {
            let text = match self.read_message().await? {
                Line::Text(text) => text,
                Line::Ended => break,
                Line::Interrupted { was_empty }
                    if !self.input.is_terminal() || (was_interrupted && was_empty) =>
                {
                    return Ok(ExitCode::from(130));
                }
                Line::Interrupted { .. } => {
                    was_interrupted = true;
                    self.print(&format!("{QUIET}Ctrl-C again exits{QUIET:#}\n"))?;
                    continue;
                }
                Line::Failed(problem) => {
                    return Err(CommandError::work(format!("cannot read a line: {problem}")));
                }
            };
            was_interrupted = false;
            self.view.begin();
            let next = match command::read(&text) {
                Typed::Nothing => Next::Prompt,
                Typed::Wrong { problem, hint } => {
                    self.tell_trouble(&problem, Some(&hint))?;
                    Next::Prompt
                }
                Typed::Command(command) => self.perform(command).await?,
                Typed::Message(text) => self.send(text).await?,
            };
            let after = match next {
                Next::Prompt => After::Prompt,
                Next::Leave => break,
                Next::Answer => match self.answer().await {
                    Ok(after) => after,
                    // Whoever read the answer has left.
                    Err(error) => return unless_nobody_reads(error).map(|()| ExitCode::SUCCESS),
                },
            };
            match after {
                After::Prompt => {}
                // The second may have come while the first was being obeyed.
                After::Stopped if self.interrupts.has_come() => return Ok(ExitCode::from(130)),
                After::Stopped => was_interrupted = true,
                After::Leave => return Ok(ExitCode::from(130)),
            }
        }
        // A script is told by the exit code how it ended; a person has read it.
        let is_bad = self.has_failed && !self.input.is_terminal();
        Ok(if is_bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Tells the run what the person said.
    async fn send(&mut self, text: String) -> Result<Next, CommandError> {
        if !self.wait_for_servers().await.or_else(|error| unless_nobody_reads(error).map(|()| false))? {
            return Ok(Next::Prompt);
        }
        self.session.run.say(text);
        Ok(Next::Answer)
    }

    /// Shows the prompt and waits for a message; what happens with the servers meanwhile is told above it.
    async fn read_message(&mut self) -> Result<Line, CommandError> {
        self.look_around().await;
        if self.input.is_terminal() {
            let session = &self.session;
            let line = status::line(session.model_name(), &session.usage(), session.context());
            // Before anything was said, the line above says who answers.
            if line != session.model_name() {
                self.view.status(&line).or_else(unless_nobody_reads)?;
            }
        }
        let is_script = !self.input.is_terminal();
        let mut typed = match &mut self.input {
            Input::Terminal(editor) => {
                let bold = anstyle::AnsiColor::Cyan.on_default().bold();
                Some(editor.ask(("> ".to_owned(), format!("{bold}>{bold:#} ")), Purpose::Message))
            }
            Input::Lines(_) => None,
        };
        loop {
            let news = tokio::select! {
                line = async {
                    match (&mut typed, &mut self.input) {
                        (Some(typed), _) => typed.await.unwrap_or_else(|_| Line::Failed("the line editor exited".into())),
                        (None, Input::Lines(lines)) => lines.recv().await.unwrap_or(Line::Ended),
                        (None, Input::Terminal(_)) => Line::Ended,
                    }
                } => return Ok(line),
                () = self.interrupts.next(), if is_script => return Ok(Line::Interrupted { was_empty: true }),
                Some(Question { server, reply, .. }) = self.questions.recv() => {
                    // Nobody expects a question at the prompt, and the next line is not its answer.
                    let _ = reply.send(ElicitReply::Decline);
                    let text = format!("server `{}` asked a question outside of a response: declined", sanitize(&server));
                    vec![format!("{NOTE}note:{NOTE:#} {text}")]
                }
                () = tokio::time::sleep(LOOKING) => {
                    self.server_changes().iter().map(ServerChange::to_string).collect()
                }
            };
            self.offer_names();
            if let (Input::Terminal(editor), false) = (&mut self.input, news.is_empty()) {
                editor.print_above(format!("{}\n", news.join("\n")));
            }
        }
    }

    /// Returns the changes of server states since the last call.
    fn server_changes(&mut self) -> Vec<ServerChange> {
        let mut changes = Vec::new();
        for server in self.session.hub.status() {
            let before = self.told.insert(server.name.clone(), server.phase.clone());
            if before.as_ref().unwrap_or(&Phase::Connecting) == &server.phase {
                continue;
            }
            let name = sanitize(&server.name);
            match &server.phase {
                Phase::Ready => {
                    let tools = counted(server.tool_count, "tool");
                    changes.push(ServerChange::Ready(format!("{name} is ready: {tools}")));
                }
                Phase::Recovering { reason } | Phase::Down { reason } => {
                    changes.push(ServerChange::Failed { name, reason: sanitize(reason) });
                }
                _ => {}
            }
        }
        changes
    }

    /// Displays changes of server states as notes, optionally only failures.
    fn tell_of_servers(&mut self, only_failures: bool) -> io::Result<()> {
        for change in self.server_changes() {
            if only_failures && matches!(change, ServerChange::Ready(_)) {
                continue;
            }
            let plain = anstream::adapter::strip_str(&change.to_string()).to_string();
            self.view.note("note:", NOTE, &plain)?;
        }
        Ok(())
    }

    /// What can be completed from here on.
    async fn look_around(&mut self) {
        if !self.input.is_terminal() {
            return;
        }
        let mut conversations = Vec::new();
        // Nobody waits for a prompt because the store is away.
        let listing = self.session.store.list(COMPLETED, None);
        if let Ok(Ok(page)) = tokio::time::timeout(LISTING, listing).await {
            let kept = page.conversations.into_iter().filter(|conversation| conversation.messages > 0);
            conversations = kept
                .map(|conversation| (conversation.id.to_string(), conversation.title.unwrap_or_default()))
                .collect();
        }
        let mut models: Vec<String> = self.session.models.configured().map(str::to_owned).collect();
        models.extend(toolwire_llm::PROVIDERS.iter().map(|provider| format!("{}/", provider.name)));
        models.push(toolwire_llm::Demo::NAME.to_owned());
        models.push(self.session.model_name().to_owned());
        models.sort_unstable();
        models.dedup();
        let tools = Vec::new();
        *self.names.write().unwrap_or_else(PoisonError::into_inner) = Names { tools, models, conversations };
        self.offer_names();
    }

    fn offer_names(&mut self) {
        let tools = self.session.hub.tools();
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        if names.tools.len() != tools.len() {
            names.tools = tools.iter().map(|tool| tool.name.clone()).collect();
        }
    }

    /// The words of a command: a result, so they go to standard output.
    fn print(&mut self, text: &str) -> Result<(), CommandError> {
        self.view.settle().or_else(unless_nobody_reads)?;
        output::print_styled(text)?;
        self.view.printed();
        Ok(())
    }
}

/// A change of a server's state that the user should see.
enum ServerChange {
    Ready(String),
    Failed { name: String, reason: String },
}

impl std::fmt::Display for ServerChange {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ServerChange::Ready(text) => write!(formatter, "{QUIET}{text}{QUIET:#}"),
            ServerChange::Failed { name, reason } => write!(formatter, "{ERROR}{name}:{ERROR:#} {reason}"),
        }
    }
}
