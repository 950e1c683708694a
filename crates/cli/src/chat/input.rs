//! The source of input lines: the line editor on a terminal, otherwise standard input.

use std::io::{self, BufRead};
use std::path::PathBuf;
use std::thread;

use tokio::sync::mpsc;

use super::completion::SharedNames;
use super::editor::{InputLine, LineEditor};

pub(crate) enum Input {
    Terminal(LineEditor),
    /// The input of a script. No user can answer questions.
    Lines(mpsc::Receiver<InputLine>),
}

impl Input {
    /// Creates the input, with a note for the user if something is missing.
    pub(crate) fn new(
        is_terminal: bool,
        names: SharedNames,
        history: Option<PathBuf>,
        is_coloured: bool,
    ) -> (Input, Option<String>) {
        if !is_terminal {
            return (read_stdin(), None);
        }
        match LineEditor::start(names, history, is_coloured) {
            Ok((editor, problem)) => {
                let note = problem.map(|problem| format!("the input history is not saved: {problem}"));
                (Input::Terminal(editor), note)
            }
            Err(error) => (read_stdin(), Some(format!("this terminal has no line editor: {error}"))),
        }
    }

    /// Whether a user can answer questions.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Input::Terminal(_))
    }

    /// Saves type-ahead for the next message, so that it does not answer the next question.
    pub(crate) fn save_type_ahead(&mut self) {
        if let Input::Terminal(editor) = self {
            editor.save_type_ahead();
        }
    }

    /// Adds text to the next message.
    pub(crate) fn add_type_ahead(&mut self, text: &str) {
        if let Input::Terminal(editor) = self {
            editor.add_type_ahead(text);
        }
    }

    /// Reads the answer to a question. If the future is dropped, call
    /// [`abandon_answer`](Input::abandon_answer).
    pub(crate) async fn answer(&mut self, prompt: (String, String)) -> InputLine {
        match self {
            Input::Terminal(editor) => editor.answer(prompt).await,
            Input::Lines(lines) => lines.recv().await.unwrap_or(InputLine::Eof),
        }
    }

    /// Ends a question that is obsolete, and prints the reason.
    pub(crate) async fn abandon_answer(&mut self, reason: &str) {
        if let Input::Terminal(editor) = self {
            editor.abandon_answer(reason).await;
        }
    }
}

/// Reads standard input on its own thread, at most one line ahead. The thread ends with the process.
fn read_stdin() -> Input {
    let (sender, lines) = mpsc::channel(1);
    thread::spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            let mut bytes = Vec::new();
            let line = match input.read_until(b'\n', &mut bytes) {
                Ok(0) => InputLine::Eof,
                Ok(_) => {
                    InputLine::Text(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned())
                }
                Err(error) => InputLine::Failed(error.to_string()),
            };
            let is_last = !matches!(line, InputLine::Text(_));
            if sender.blocking_send(line).is_err() || is_last {
                return;
            }
        }
    });
    Input::Lines(lines)
}
