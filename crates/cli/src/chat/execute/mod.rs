//! Executes the commands of the chat.

mod attach;
mod conversations;

use std::fmt::Write as _;

use toolwire_agent::approval::DefaultRule;
use toolwire_contract::Tool;
use toolwire_contract::text::{counted, nearest_names};
use toolwire_contract::toolbox::Toolbox;

use super::Chat;
use super::command::{COMMANDS, Command};
use super::server_changes::tool_warnings;
use crate::command_error::{CommandError, ERROR, HINT, NOTE};
use crate::display::markdown::DIMMED;
use crate::display::view::terminal_size;
use crate::output::ignore_broken_pipe;
use crate::servers::unavailable_reason;
use crate::terminal_text::{padded, sanitize, truncate, width};

const BOLD: anstyle::Style = anstyle::Style::new().bold();

/// The action after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextAction {
    Prompt,
    /// The run has a new message.
    Respond,
    Exit,
    /// Ctrl-C ended a script.
    Interrupted,
}

impl Chat {
    /// Executes a command. If it fails, the error is printed and the chat continues.
    pub(crate) async fn execute(&mut self, command: Command) -> Result<NextAction, CommandError> {
        // A script cannot see when servers become ready, so commands about tools wait for them.
        let is_about_tools = matches!(command, Command::Tools(_) | Command::Approve(Some(_)));
        if is_about_tools
            && !self.input.is_terminal()
            && let Some(next) = self.wait_for_tools().await?
        {
            return Ok(next);
        }
        let outcome = match command {
            Command::Exit => return Ok(NextAction::Exit),
            Command::Help => Ok(help()),
            Command::Tools(words) => self.tools(&words),
            Command::Servers => Ok(self.servers()),
            Command::Model(None) => Ok(self.models()),
            Command::Model(Some(name)) => self.switch_model(&name),
            Command::Attach(paths) => self.attach(paths.as_deref()),
            Command::Approve(None) => Ok(self.approvals()),
            Command::Approve(Some(pattern)) => self.approve(&pattern),
            Command::Undo => self.undo().await,
            Command::Retry => match self.retry().await {
                Ok(()) => return Ok(NextAction::Respond),
                Err(error) => {
                    self.has_failed = true;
                    Err(error.into())
                }
            },
            Command::Save(file) => self.save(file.as_deref()).await,
            Command::Resume(None) => self.list().await,
            Command::Resume(Some(reference)) => self.resume(&reference).await,
            Command::Delete(reference) => self.delete(reference.as_deref()).await,
            Command::Usage => Ok(self.usage()),
            Command::Compact(keep) => self.compact(keep.as_deref()).await,
            Command::Clear => Ok(self.clear()),
        };
        match outcome {
            Ok(text) => self.print(&text)?,
            Err(error) => {
                let (problem, hint) = error.into_parts();
                self.print_error(&problem, hint.as_deref())?;
            }
        }
        Ok(NextAction::Prompt)
    }

    pub(crate) fn print_error(&mut self, problem: &str, hint: Option<&str>) -> Result<(), CommandError> {
        let mut text = format!("{ERROR}error:{ERROR:#} {}\n", sanitize(problem));
        if let Some(hint) = hint {
            let _ = writeln!(text, "{HINT}hint:{HINT:#} {}", sanitize(hint));
        }
        if self.input.is_terminal() {
            return self.print(&text);
        }
        // Standard output of a script has only responses and results.
        self.view.finish_section().or_else(ignore_broken_pipe)?;
        crate::command_error::print_stderr(&text);
        Ok(())
    }

    fn tools(&self, words: &[String]) -> Result<String, CommandError> {
        let all = self.session.hub.tools();
        let has_all_words = |tool: &&Tool| {
            let description = tool.description.as_deref().unwrap_or_default();
            let text = format!("{} {description}", tool.name).to_lowercase();
            words.iter().all(|word| text.contains(word.as_str()))
        };
        let matching: Vec<&Tool> = all.iter().filter(has_all_words).collect();
        if matching.is_empty() {
            return Err(match words {
                [] => CommandError::work("no server offers a tool")
                    .with_hint("`/servers` displays their status"),
                _ => CommandError::usage(format!("no tool matches `{}`", words.join(" ")))
                    .with_hint(format!("`/tools` lists all {}", all.len())),
            });
        }
        let columns = terminal_size().columns;
        let name_widths = matching.iter().map(|tool| width(&sanitize(&tool.name)));
        let name_width = name_widths.max().unwrap_or(0).min(columns / 2);
        let mut text = String::new();
        for tool in &matching {
            let name = padded(&truncate(&sanitize(&tool.name), name_width), name_width);
            let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
            let line = description.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let line = truncate(&sanitize(line.trim()), columns.saturating_sub(name_width + 3));
            let _ = writeln!(text, "{BOLD}{name}{BOLD:#}  {DIMMED}{line}{DIMMED:#}");
        }
        for missing in self.session.hub.missing_servers() {
            let _ = writeln!(text, "{NOTE}note:{NOTE:#} {}", sanitize(&missing.to_string()));
        }
        Ok(text)
    }

    fn servers(&self) -> String {
        let mut text = String::new();
        for server in self.session.hub.status() {
            let name = sanitize(&server.name);
            let Some(reason) = unavailable_reason(&server) else {
                let tools = counted(server.tool_count, "tool");
                let _ = writeln!(text, "{BOLD}{name}{BOLD:#}  ready, {tools}");
                for (warning, _) in tool_warnings(&server) {
                    let _ = writeln!(text, "  {NOTE}!{NOTE:#} {}", sanitize(&warning));
                }
                continue;
            };
            let _ = writeln!(text, "{BOLD}{name}{BOLD:#}  {ERROR}{}{ERROR:#}", sanitize(&reason));
            for line in server.stderr.iter().rev().take(3).rev() {
                let _ = writeln!(text, "  {DIMMED}{}{DIMMED:#}", sanitize(line));
            }
        }
        if text.is_empty() { "no servers are configured\n".to_owned() } else { text }
    }

    fn models(&self) -> String {
        let mut text = format!("current model: {BOLD}{}{BOLD:#}\n", sanitize(self.session.model_name()));
        let configured: Vec<String> =
            self.session.models.configured().map(|name| format!("`{}`", sanitize(name))).collect();
        if !configured.is_empty() {
            let _ = writeln!(text, "configured: {}", configured.join(", "));
        }
        let _ = writeln!(text, "{DIMMED}`/model PROVIDER/MODEL` changes it{DIMMED:#}");
        text
    }

    fn switch_model(&mut self, name: &str) -> Result<String, CommandError> {
        self.session.switch_model(name)?;
        Ok(format!("{BOLD}{}{BOLD:#} is used from now on\n", sanitize(self.session.model_name())))
    }

    fn approvals(&self) -> String {
        let policy = &self.session.settings.agent.approvals;
        let otherwise = match policy.otherwise {
            DefaultRule::ByAnnotation => {
                "tools that only read or only add data run without approval; all others need it"
            }
            DefaultRule::Allow => "every tool runs",
            DefaultRule::Ask => "every call needs approval",
            DefaultRule::Deny => "no tool runs",
        };
        let mut text = format!("{otherwise}, except:\n");
        let always = self.session.run.always_allowed();
        let lists: [(&str, &[String]); 4] = [
            ("run", &policy.allow),
            ("always allowed", always),
            ("need approval", &policy.ask),
            ("denied", &policy.deny),
        ];
        for (label, patterns) in lists.into_iter().filter(|(_, patterns)| !patterns.is_empty()) {
            let patterns: Vec<String> =
                patterns.iter().map(|pattern| format!("`{}`", sanitize(pattern))).collect();
            let _ = writeln!(text, "  {label}: {}", patterns.join(", "));
        }
        if text.lines().count() == 1 {
            text = format!("{otherwise}\n");
        }
        text
    }

    fn approve(&mut self, pattern: &str) -> Result<String, CommandError> {
        let all = self.session.hub.tools();
        if !pattern.contains(['*', '?']) && !all.iter().any(|tool| tool.name == pattern) {
            let names = all.iter().map(|tool| tool.name.as_str());
            let hint = match nearest_names(pattern, names).first() {
                Some(name) => format!("did you mean `{name}`? `/tools` lists all tools"),
                None if all.is_empty() => {
                    "no server offers a tool yet; `/servers` displays their status".to_owned()
                }
                None => "`/tools` lists all tools".to_owned(),
            };
            return Err(CommandError::usage(format!("unknown tool `{pattern}`")).with_hint(hint));
        }
        self.session.approve(pattern)?;
        Ok(format!(
            "`{}` runs without approval in this chat, \
             unless the configuration denies it or requires approval\n",
            sanitize(pattern)
        ))
    }
}

fn help() -> String {
    let width = COMMANDS.iter().map(|info| info.name.len() + info.argument.len() + 2).max().unwrap_or(0);
    let mut text = String::new();
    for info in &COMMANDS {
        let name = padded(&format!("/{} {}", info.name, info.argument), width);
        let _ = writeln!(text, "{BOLD}{name}{BOLD:#}  {}", info.description);
    }
    text.push_str(
        "\nA message continues on the next line after a backslash, after Alt-Enter and inside ``` fences. \
         Tab completes. Up and Down move through earlier messages; if the line is not empty, only through those \
         that start with it. Ctrl-R searches them. A message that starts with a space is not added to them. \
         Ctrl-C stops a response or clears the line; pressed twice within 2 seconds, it exits.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_fit_80_columns() {
        let help = anstream::adapter::strip_str(&help()).to_string();
        for line in help.lines().take(COMMANDS.len()) {
            assert!(width(line) <= 80, "{line}");
        }
    }
}
