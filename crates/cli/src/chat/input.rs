//! Where lines come from: the editor at a terminal, or plain lines of standard input.

use std::io::{self, BufRead};
use std::path::PathBuf;
use std::thread;

use tokio::sync::mpsc;

use super::completion::SharedNames;
use super::editor::{Line, LineEditor, Purpose};

pub(crate) enum Input {
    Terminal(LineEditor),
    /// A script: nobody can be asked.
    Lines(mpsc::Receiver<Line>),
}

impl Input {
    /// The input, and a remark for the person, if there is one to make.
    pub(crate) fn new(
        is_terminal: bool,
        names: SharedNames,
        history: Option<PathBuf>,
        is_coloured: bool,
    ) -> (Input, Option<String>) {
        if is_terminal {
            match LineEditor::start(names, history, is_coloured) {
                Ok((editor, problem)) => {
                    let remark = problem.map(|problem| format!("the input history is not saved: {problem}"));
                    return (Input::Terminal(editor), remark);
                }
                Err(error) => return (lines(), Some(format!("this terminal has no line editor: {error}"))),
            }
        }
        (lines(), None)
    }

    /// Whether a person can be asked.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Input::Terminal(_))
    }

    /// What was typed until now is no answer to what is asked next; it waits for the next message.
    pub(crate) fn put_aside(&mut self) {
        if let Input::Terminal(editor) = self {
            editor.put_aside();
        }
    }

    /// The next line. Whoever stops waiting for it has not lost it, but for one of the terminal's.
    pub(crate) async fn next(&mut self, prompt: (String, String), purpose: Purpose) -> Line {
        match self {
            Input::Terminal(editor) => {
                let gone = |_| Line::Failed("the line editor exited".to_owned());
                editor.ask(prompt, purpose).await.unwrap_or_else(gone)
            }
            Input::Lines(lines) => lines.recv().await.unwrap_or(Line::Ended),
        }
    }
}

/// Reads standard input on a thread of its own, one line ahead at most. It ends with the process.
fn lines() -> Input {
    let (sender, lines) = mpsc::channel(1);
    thread::spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            let mut bytes = Vec::new();
            let line = match input.read_until(b'\n', &mut bytes) {
                Ok(0) => Line::Ended,
                Ok(_) => {
                    Line::Text(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned())
                }
                Err(error) => Line::Failed(error.to_string()),
            };
            let is_last = !matches!(line, Line::Text(_));
            if sender.blocking_send(line).is_err() || is_last {
                return;
            }
        }
    });
    Input::Lines(lines)
}
