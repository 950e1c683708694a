//! The line editor, on a thread of its own: it waits for keys, and everything else goes on meanwhile.

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

use super::completion::{Assistant, SharedNames, joined};
use super::quiet::typed_ahead;

/// How many messages are remembered.
const HISTORY: usize = 1_000;

/// What came from the keyboard.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Text(String),
    /// Ctrl-C, and whether there was nothing on the line.
    Interrupted {
        was_empty: bool,
    },
    /// Ctrl-D, or the end of the input.
    Ended,
    /// The terminal is gone.
    Failed(String),
}

/// What a line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A message: remembered, completed, and possibly of several lines.
    Message,
    /// The answer to a question.
    Answer,
}

struct Request {
    prompt: (String, String),
    purpose: Purpose,
    /// What stands on the line already.
    typed: String,
    reply: oneshot::Sender<Line>,
}

/// Reads lines from the terminal.
pub(crate) struct LineEditor {
    requests: Option<mpsc::Sender<Request>>,
    thread: Option<JoinHandle<()>>,
    printer: Box<dyn ExternalPrinter + Send>,
    is_coloured: bool,
    /// What was typed before a question that it cannot have been the answer to.
    ahead: String,
}

impl LineEditor {
    /// The editor, and why messages are not remembered, if so.
    pub(crate) fn start(
        names: SharedNames,
        history: Option<PathBuf>,
        is_coloured: bool,
    ) -> Result<(LineEditor, Option<String>), ReadlineError> {
        let config = Config::builder()
            .max_history_size(HISTORY)?
            .history_ignore_dups(true)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .completion_show_all_if_ambiguous(true)
            .color_mode(if is_coloured { ColorMode::Enabled } else { ColorMode::Disabled })
            .build();
        let mut editor = Editor::<Assistant, FileHistory>::with_config(config)?;
        editor.set_helper(Some(Assistant { names, is_asking: false }));
        editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
        let was_empty = Arc::new(AtomicBool::new(true));
        let on_interrupt = EventHandler::Conditional(Box::new(OnInterrupt(was_empty.clone())));
        editor.bind_sequence(KeyEvent::ctrl('C'), on_interrupt);
        editor.set_auto_add_history(false);
        let problem = history.as_deref().and_then(|path| load(&mut editor, path).err());
        let history = history.filter(|_| problem.is_none());
        let printer = Box::new(editor.create_external_printer()?);
        let (requests, inbox) = mpsc::channel::<Request>();
        let thread = thread::Builder::new().name("line-editor".to_owned()).spawn(move || {
            // Ends when nobody can ask any more.
            while let Ok(Request { prompt, purpose, typed, reply }) = inbox.recv() {
                let line = match read(&mut editor, &prompt, purpose, &typed, history.as_deref()) {
                    Line::Interrupted { .. } => {
                        Line::Interrupted { was_empty: was_empty.load(Ordering::Relaxed) }
                    }
                    line => line,
                };
                let _ = reply.send(line);
            }
        })?;
        let ahead = String::new();
        Ok((
            LineEditor { requests: Some(requests), thread: Some(thread), printer, is_coloured, ahead },
            problem,
        ))
    }

    /// Shows a prompt (plain, and with colours) and waits for a line.
    pub(crate) fn ask(&mut self, prompt: (String, String), purpose: Purpose) -> oneshot::Receiver<Line> {
        let typed = if purpose == Purpose::Message { mem::take(&mut self.ahead) } else { String::new() };
        let (reply, line) = oneshot::channel();
        if let Some(requests) = &self.requests {
            // A thread that is gone drops the reply, and that is seen at the other end.
            let _ = requests.send(Request { prompt, purpose, typed, reply });
        }
        line
    }

    /// What was typed until now waits for the next message: whoever typed it had not seen what is asked next.
    pub(crate) fn put_aside(&mut self) {
        self.ahead.push_str(&typed_ahead());
    }

    /// Prints lines above the prompt.
    pub(crate) fn print_above(&mut self, text: String) {
        let text = if self.is_coloured { text } else { anstream::adapter::strip_str(&text).to_string() };
        // A terminal that is gone has nobody to tell.
        let _ = self.printer.print(text);
    }
}

/// Notes what Ctrl-C clears: the editor itself does not say.
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
        // A prompt that is still open ends with the process.
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

fn read(
    editor: &mut Editor<Assistant, FileHistory>,
    prompt: &(String, String),
    purpose: Purpose,
    typed: &str,
    history: Option<&Path>,
) -> Line {
    if let Some(assistant) = editor.helper_mut() {
        assistant.is_asking = purpose == Purpose::Answer;
    }
    match editor.readline_with_initial(prompt, (typed, "")) {
        Ok(text) => {
            if purpose == Purpose::Message && !text.trim().is_empty() {
                let is_new = editor.add_history_entry(text.as_str()).unwrap_or(false);
                if let Some(path) = history.filter(|_| is_new) {
                    // What cannot be remembered is still said.
                    let _ = editor.append_history(path);
                }
            }
            Line::Text(joined(&text))
        }
        Err(ReadlineError::Interrupted) => Line::Interrupted { was_empty: true },
        Err(ReadlineError::Eof) => Line::Ended,
        Err(error) => Line::Failed(error.to_string()),
    }
}

/// Reads what was typed in earlier chats. The file is for its owner alone from the beginning.
fn load(editor: &mut Editor<Assistant, FileHistory>, path: &Path) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true).read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path).map_err(|error| error.to_string())?;
    let is_empty = file.metadata().map_err(|error| error.to_string())?.len() == 0;
    if is_empty {
        // An empty file is not in the editor's format: it writes its own.
        return editor.save_history(path).map_err(|error| error.to_string());
    }
    editor.load_history(path).map_err(|error| error.to_string())
}
