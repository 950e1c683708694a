//! Attachments of the next message.

use toolwire_contract::{Block, Content, Message, Role};

use crate::attachment;
use crate::chat::Chat;
use crate::chat::mentions::{mentioned_files, split_paths};
use crate::command_error::{CommandError, print_stderr};
use crate::display::markdown::DIMMED;

impl Chat {
    /// Attaches files to the next message, lists them, or removes them (`-`).
    pub(super) fn attach(&mut self, paths: Option<&str>) -> Result<String, CommandError> {
        match paths {
            None if self.attachments.is_empty() => {
                return Err(CommandError::usage("nothing is attached to the next message")
                    .with_hint("`/attach PATH` attaches a file; so does `@PATH` in a message"));
            }
            None => {}
            Some("-") => {
                self.attachments.clear();
                return Ok("nothing is attached to the next message\n".to_owned());
            }
            Some(paths) => {
                let new = self.read_files(split_paths(paths))?;
                self.attachments.extend(new);
            }
        }
        let lines = self.attachments.iter().map(attached_line).collect::<String>();
        Ok(format!("{lines}{DIMMED}sent with the next message; `/attach -` removes them{DIMMED:#}\n"))
    }

    /// Creates a message with the attached and the mentioned files, and displays the mentioned ones.
    pub(crate) fn message(&mut self, text: String) -> Result<Message, CommandError> {
        let is_new =
            |path: &String| self.attachments.iter().all(|known| known.resource_name().as_ref() != Some(path));
        let mentioned = mentioned_files(&text).into_iter().filter(is_new).collect();
        let mentioned = self.read_files(mentioned)?;
        let lines: String = mentioned.iter().map(attached_line).collect();
        if self.input.is_terminal() && !lines.is_empty() {
            self.print(&lines)?;
        } else {
            print_stderr(&lines);
        }
        let files = std::mem::take(&mut self.attachments).into_iter().chain(mentioned);
        let blocks = files.chain([Content::text(text)]).map(Block::Content);
        Ok(Message::new(Role::User, blocks.collect()))
    }

    /// Reads files, and checks that the model accepts them together with the attached ones.
    fn read_files(&self, paths: Vec<String>) -> Result<Vec<Content>, CommandError> {
        let files = paths.iter().map(|path| attachment::read(path));
        let files = files.collect::<Result<Vec<Content>, CommandError>>()?;
        let all: Vec<Content> = self.attachments.iter().chain(&files).cloned().collect();
        attachment::check(&**self.session.agent.model(), &all)?;
        Ok(files)
    }
}

fn attached_line(file: &Content) -> String {
    format!("{DIMMED}attached: {}{DIMMED:#}\n", attachment::describe(file))
}
