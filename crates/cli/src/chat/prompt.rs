//! The prompt: reads messages, and displays changes of servers above it.

use std::sync::PoisonError;
use std::time::Duration;

use toolwire_contract::toolbox::Toolbox;
use toolwire_hub::host::ElicitReply;

use super::completion::CompletionNames;
use super::editor::{InputLine, PromptKind};
use super::input::Input;
use super::questions::Question;
use super::server_changes::ServerChange;
use super::{Chat, status};
use crate::command_error::{CommandError, NOTE};
use crate::output::ignore_broken_pipe;
use crate::terminal_text::sanitize;

/// The time between two checks for changes of servers at the prompt.
const SERVER_POLL_INTERVAL: Duration = Duration::from_millis(250);

impl Chat {
    /// Displays the prompt and waits for a message. Changes of servers are printed above the prompt.
    pub(super) async fn read_message(&mut self) -> Result<InputLine, CommandError> {
        self.input.add_type_ahead(&self.view.take_typed());
        self.update_completions();
        if self.input.is_terminal() {
            let session = &self.session;
            let line = status::line(session.model_name(), &session.usage(), session.context());
            // Before the first message there is only the model, which the greeting has displayed.
            if line != session.model_name() {
                self.view.print_status(&line).or_else(ignore_broken_pipe)?;
            }
        }
        let is_script = !self.input.is_terminal();
        let mut edited_line = match &mut self.input {
            Input::Terminal(editor) => {
                let bold = anstyle::AnsiColor::Cyan.on_default().bold();
                Some(editor.ask(("> ".to_owned(), format!("{bold}>{bold:#} ")), PromptKind::Message))
            }
            Input::Lines(_) => None,
        };
        loop {
            let notes = tokio::select! {
                line = async {
                    match (&mut edited_line, &mut self.input) {
                        (Some(line), _) => {
                            line.await.unwrap_or_else(|_| InputLine::Failed("the line editor exited".into()))
                        }
                        (None, Input::Lines(lines)) => lines.recv().await.unwrap_or(InputLine::Eof),
                        (None, Input::Terminal(_)) => InputLine::Eof,
                    }
                } => return Ok(line),
                () = self.interrupts.next(), if is_script => {
                    return Ok(InputLine::Interrupted { was_empty: true });
                }
                Some(Question::Server { server, reply, .. }) = self.questions.recv() => {
                    // The next line is a message and not an answer to this question.
                    let _ = reply.send(ElicitReply::Decline);
                    vec![format!(
                        "{NOTE}note:{NOTE:#} server `{}` asked a question between responses; it was declined",
                        sanitize(&server)
                    )]
                }
                // In a script, changes are reported before the next response.
                () = tokio::time::sleep(SERVER_POLL_INTERVAL), if !is_script => {
                    self.server_changes().iter().map(ServerChange::to_string).collect()
                }
            };
            self.update_tool_names();
            if let (Input::Terminal(editor), false) = (&mut self.input, notes.is_empty()) {
                editor.print_above(format!("{}\n", notes.join("\n")));
            }
        }
    }

    /// Updates the names that can be completed.
    fn update_completions(&mut self) {
        if !self.input.is_terminal() {
            return;
        }
        let mut models: Vec<String> = self.session.models.configured().map(str::to_owned).collect();
        models.extend(toolwire_llm::PROVIDERS.iter().map(|provider| format!("{}/", provider.name)));
        models.push(toolwire_llm::Demo::NAME.to_owned());
        models.push(self.session.model_name().to_owned());
        models.sort_unstable();
        models.dedup();
        let names = CompletionNames { tools: Vec::new(), models };
        *self.names.write().unwrap_or_else(PoisonError::into_inner) = names;
        self.update_tool_names();
    }

    /// Updates the names of the tools, which can change while the user types.
    fn update_tool_names(&mut self) {
        let tools = self.session.hub.tools();
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        if names.tools.len() != tools.len() {
            names.tools = tools.iter().map(|tool| tool.name.clone()).collect();
        }
    }
}
