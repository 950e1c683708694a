//! The line editor. It waits for keys on its own thread, so that it does not block other tasks.

use std::fs::OpenOptions;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{
    Cmd, ColorMode, CompletionType, ConditionalEventHandler, Config, Editor, Event, EventContext,
    EventHandler, ExternalPrinter, KeyCode, KeyEvent, Modifiers, RepeatCount,
};
use tokio::sync::oneshot;

use super::completion::{EditorHelper, SharedNames, unescape_newlines};
use super::history_keys::{HistoryKeys, OnDown, OnUp};
use super::terminal_modes::read_type_ahead;
use crate::stderr;
use crate::terminal_text::wrapped_for;

const MAX_HISTORY_ENTRIES: usize = 1_000;

/// A line of input, or the reason why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InputLine {
    Text(String),
    /// Ctrl-C, and whether the line was empty.
    Interrupted {
        was_empty: bool,
    },
    /// Ctrl-D, or the end of the input.
    Eof,
    /// The input cannot be read.
    Failed(String),
}

/// The kind of line that a prompt asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptKind {
    /// A message. It is saved in the history, has completion, and can have several lines.
    Message,
    /// An answer to a question.
    Answer,
}

struct ReadRequest {
    prompt: (String, String),
    kind: PromptKind,
    /// The text that is already on the line.
    initial_text: String,
    reply: oneshot::Sender<InputLine>,
}

/// Reads lines from the terminal.
pub(crate) struct LineEditor {
    requests: Option<mpsc::Sender<ReadRequest>>,
    thread: Option<JoinHandle<()>>,
    printer: Box<dyn ExternalPrinter + Send>,
    is_coloured: bool,
    /// Text that was typed before a question was displayed, or after it became obsolete.
    type_ahead: String,
    /// The answer that is being typed. It outlives the future that waits for it.
    answer: Option<oneshot::Receiver<InputLine>>,
}

impl LineEditor {
    /// Starts the editor. Also returns the reason if the history cannot be used.
    pub(crate) fn start(
        names: SharedNames,
        history: Option<PathBuf>,
        is_coloured: bool,
    ) -> Result<(LineEditor, Option<String>), ReadlineError> {
        let config = Config::builder()
            .max_history_size(MAX_HISTORY_ENTRIES)?
            .history_ignore_dups(true)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .completion_show_all_if_ambiguous(true)
            .color_mode(if is_coloured { ColorMode::Enabled } else { ColorMode::Disabled })
            .build();
        let mut editor = Editor::<EditorHelper, FileHistory>::with_config(config)?;
        let keys = HistoryKeys::default();
        editor.set_helper(Some(EditorHelper { names, keys: keys.clone(), is_question: false }));
        editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
        let was_empty = Arc::new(AtomicBool::new(true));
        let on_interrupt = EventHandler::Conditional(Box::new(OnInterrupt(was_empty.clone())));
        editor.bind_sequence(KeyEvent::ctrl('C'), on_interrupt);
        let on_up = EventHandler::Conditional(Box::new(OnUp(keys.clone())));
        editor.bind_sequence(KeyEvent(KeyCode::Up, Modifiers::NONE), on_up);
        let on_down = EventHandler::Conditional(Box::new(OnDown(keys.clone())));
        editor.bind_sequence(KeyEvent(KeyCode::Down, Modifiers::NONE), on_down);
        editor.set_auto_add_history(false);
        let problem = history.as_deref().and_then(|path| load_history(&mut editor, path).err());
        let problem = problem.map(|error| error.to_string());
        let history = history.filter(|_| problem.is_none());
        let printer = Box::new(editor.create_external_printer()?);
        // Log lines are printed at any time.
        stderr::share_prompt(Box::new(editor.create_external_printer()?));
        let (requests, inbox) = mpsc::channel::<ReadRequest>();
        let thread = thread::Builder::new().name("line-editor".to_owned()).spawn(move || {
            // Ends when the `LineEditor` is dropped.
            while let Ok(request) = inbox.recv() {
                keys.reset();
                let line = match read_line(&mut editor, &request, history.as_deref()) {
                    InputLine::Interrupted { .. } => {
                        InputLine::Interrupted { was_empty: was_empty.load(Ordering::Relaxed) }
                    }
                    line => line,
                };
                let _ = request.reply.send(line);
            }
        })?;
        let (requests, thread, type_ahead) = (Some(requests), Some(thread), String::new());
        Ok((LineEditor { requests, thread, printer, is_coloured, type_ahead, answer: None }, problem))
    }

    /// Displays a prompt (plain, and with colours) and reads a line.
    pub(crate) fn ask(&mut self, prompt: (String, String), kind: PromptKind) -> oneshot::Receiver<InputLine> {
        let initial_text = match kind {
            PromptKind::Message => mem::take(&mut self.type_ahead),
            PromptKind::Answer => String::new(),
        };
        let (reply, line) = oneshot::channel();
        if let Some(requests) = &self.requests {
            // If the thread has ended, the reply is dropped and the receiver gets an error.
            let _ = requests.send(ReadRequest { prompt, kind, initial_text, reply });
        }
        line
    }

    /// Reads the answer to a question.
    pub(crate) async fn answer(&mut self, prompt: (String, String)) -> InputLine {
        let answer = self.ask(prompt, PromptKind::Answer);
        let line = self.answer.insert(answer).await;
        self.answer = None;
        line.unwrap_or_else(|_| InputLine::Failed("the line editor exited".to_owned()))
    }

    /// Ends a question whose future was dropped. The editor cannot be interrupted, so the user has to
    /// complete the line; its text becomes type-ahead.
    pub(crate) async fn abandon_answer(&mut self, reason: &str) {
        let Some(answer) = self.answer.take() else { return };
        self.print_above(format!("{reason}\n"));
        if let Ok(InputLine::Text(text)) = answer.await {
            self.type_ahead.push_str(&text);
        }
    }

    /// Saves type-ahead for the next message: it was typed before the next question was displayed.
    pub(crate) fn save_type_ahead(&mut self) {
        self.add_type_ahead(&read_type_ahead());
    }

    /// Adds text to the next message.
    pub(crate) fn add_type_ahead(&mut self, text: &str) {
        self.type_ahead.push_str(text);
    }

    /// Prints lines above the prompt.
    pub(crate) fn print_above(&mut self, text: String) {
        let text = wrapped_for(terminal_size::terminal_size_of(std::io::stdout()), &text).into_owned();
        let text = if self.is_coloured { text } else { anstream::adapter::strip_str(&text).to_string() };
        // The terminal may be gone; ignore the error.
        let _ = self.printer.print(text);
    }
}

/// Records whether the line is empty when Ctrl-C is pressed; the editor does not report it.
struct OnInterrupt(Arc<AtomicBool>);

impl ConditionalEventHandler for OnInterrupt {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        self.0.store(context.line().trim().is_empty(), Ordering::Relaxed);
        Some(Cmd::Interrupt)
    }
}

impl Drop for LineEditor {
    fn drop(&mut self) {
        self.requests = None;
        // A thread that still waits for keys ends with the process.
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

fn read_line(
    editor: &mut Editor<EditorHelper, FileHistory>,
    request: &ReadRequest,
    history: Option<&Path>,
) -> InputLine {
    if let Some(helper) = editor.helper_mut() {
        helper.is_question = request.kind == PromptKind::Answer;
    }
    match editor.readline_with_initial(&request.prompt, (&request.initial_text, "")) {
        Ok(text) => {
            if request.kind == PromptKind::Message && !text.trim().is_empty() {
                let is_new = editor.add_history_entry(text.as_str()).unwrap_or(false);
                if let Some(path) = history.filter(|_| is_new) {
                    // The message is sent even if the history cannot be written.
                    let _ = editor.append_history(path);
                }
            }
            InputLine::Text(unescape_newlines(&text))
        }
        Err(ReadlineError::Interrupted) => InputLine::Interrupted { was_empty: true },
        Err(ReadlineError::Eof) => InputLine::Eof,
        Err(error) => InputLine::Failed(error.to_string()),
    }
}

/// Loads the history of earlier chats. Only the owner can read the file.
fn load_history(editor: &mut Editor<EditorHelper, FileHistory>, path: &Path) -> Result<(), ReadlineError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true).read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    // An older file may have other permissions.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let is_empty = file.metadata()?.len() == 0;
    // An empty file is not in the editor's format, so the editor must write it first.
    if is_empty { editor.save_history(path) } else { editor.load_history(path) }
}
