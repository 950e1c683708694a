//! The commands of the chat, carried out.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use toolwire_agent::DefaultRule;
use toolwire_contract::{Conversation, ConversationId, Role, Timestamp, Tool, Toolbox};

use super::Chat;
use super::command::{Command, ENTRIES};
use super::markdown::QUIET;
use super::session::{ChangeError, text_of};
use super::status;
use super::transcript;
use crate::command_error::{CommandError, ERROR, HINT, NOTE};
use crate::output::{self, unless_nobody_reads};
use crate::servers::trouble;
use crate::terminal_text::{counted, padded, sanitize, truncate, width};

/// How many conversations are listed.
const LISTED: usize = 15;
const BOLD: anstyle::Style = anstyle::Style::new().bold();

/// What comes after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Prompt,
    /// The run has been told something and is to be answered.
    Answer,
    Leave,
}

/// A command that could not be carried out: what is wrong, and what to try.
struct Trouble {
    problem: String,
    hint: Option<String>,
}

fn trouble_with(problem: impl Into<String>, hint: impl Into<String>) -> Trouble {
    Trouble { problem: problem.into(), hint: Some(hint.into()) }
}

impl From<CommandError> for Trouble {
    fn from(failure: CommandError) -> Trouble {
        let (problem, hint) = failure.into_parts();
        Trouble { problem, hint }
    }
}

impl Chat {
    /// Carries a command out; what goes wrong is told and ends nothing.
    pub(crate) async fn perform(&mut self, command: Command) -> Result<Next, CommandError> {
        // A script does not see servers come, so what is said about tools waits for them.
        let is_about_tools = matches!(command, Command::Tools(_) | Command::Approve(Some(_)));
        if is_about_tools && !self.input.is_terminal() {
            self.wait_for_servers().await.or_else(|error| unless_nobody_reads(error).map(|()| false))?;
        }
        let outcome = match command {
            Command::Leave => return Ok(Next::Leave),
            Command::Help => Ok(help()),
            Command::Tools(words) => self.tools(&words),
            Command::Servers => Ok(self.servers()),
            Command::Model(None) => Ok(self.models()),
            Command::Model(Some(name)) => self.switch_model(&name),
            Command::Approve(None) => Ok(self.approvals()),
            Command::Approve(Some(pattern)) => self.approve(&pattern),
            Command::Undo => self.undo().await,
            Command::Retry => match self.retry().await {
                Ok(()) => return Ok(Next::Answer),
                Err(error) => {
                    self.has_failed = true;
                    Err(change_trouble(&error))
                }
            },
            Command::Save(file) => self.save(file.as_deref()).await,
            Command::Resume(None) => self.list().await,
            Command::Resume(Some(which)) => self.resume(&which).await,
            Command::Usage => Ok(self.usage()),
            Command::Clear => Ok(self.clear()),
        };
        match outcome {
            Ok(text) => self.print(&text)?,
            Err(trouble) => self.tell_trouble(&trouble.problem, trouble.hint.as_deref())?,
        }
        Ok(Next::Prompt)
    }

    pub(crate) fn tell_trouble(&mut self, problem: &str, hint: Option<&str>) -> Result<(), CommandError> {
        let mut text = format!("{ERROR}error:{ERROR:#} {}\n", sanitize(problem));
        if let Some(hint) = hint {
            let _ = writeln!(text, "{HINT}hint:{HINT:#} {}", sanitize(hint));
        }
        if self.input.is_terminal() {
            return self.print(&text);
        }
        // A script reads answers and results, and nothing else, from standard output.
        self.view.settle().or_else(unless_nobody_reads)?;
        crate::command_error::print_stderr(&text);
        Ok(())
    }

    fn tools(&self, words: &[String]) -> Result<String, Trouble> {
        let all = self.session.hub.tools();
        let has_all = |tool: &&Tool| {
            let description = tool.description.as_deref().unwrap_or_default();
            let text = format!("{} {description}", tool.name).to_lowercase();
            words.iter().all(|word| text.contains(word.as_str()))
        };
        let found: Vec<&Tool> = all.iter().filter(has_all).collect();
        if found.is_empty() {
            return Err(match words {
                [] => trouble_with("no server offers a tool", "`/servers` displays their status"),
                _ => trouble_with(
                    format!("no tool matches `{}`", words.join(" ")),
                    format!("`/tools` lists all {}", all.len()),
                ),
            });
        }
        let columns = super::view::terminal_size().columns;
        let wide = found.iter().map(|tool| width(&sanitize(&tool.name))).max().unwrap_or(0).min(columns / 2);
        let mut text = String::new();
        for tool in &found {
            let name = padded(&truncate(&sanitize(&tool.name), wide), wide);
            let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
            let line = description.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let line = truncate(&sanitize(line.trim()), columns.saturating_sub(wide + 3));
            let _ = writeln!(text, "{BOLD}{name}{BOLD:#}  {QUIET}{line}{QUIET:#}");
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
            let _ = match trouble(&server) {
                None => writeln!(text, "{BOLD}{name}{BOLD:#}  ready, {}", counted(server.tool_count, "tool")),
                Some(reason) => writeln!(text, "{BOLD}{name}{BOLD:#}  {ERROR}{}{ERROR:#}", sanitize(&reason)),
            };
            for said in server.stderr.iter().rev().take(3).rev().filter(|_| trouble(&server).is_some()) {
                let _ = writeln!(text, "  {QUIET}{}{QUIET:#}", sanitize(said));
            }
        }
        if text.is_empty() { "no servers are configured\n".to_owned() } else { text }
    }

    fn models(&self) -> String {
        let mut text = format!("{BOLD}{}{BOLD:#} answers\n", sanitize(self.session.model_name()));
        let configured: Vec<String> =
            self.session.models.configured().map(|name| format!("`{}`", sanitize(name))).collect();
        if !configured.is_empty() {
            let _ = writeln!(text, "configured: {}", configured.join(", "));
        }
        let _ = writeln!(text, "{QUIET}`/model PROVIDER/MODEL` changes it{QUIET:#}");
        text
    }

    fn switch_model(&mut self, name: &str) -> Result<String, Trouble> {
        self.session.ask_model(name)?;
        Ok(format!("{BOLD}{}{BOLD:#} is used from now on\n", sanitize(self.session.model_name())))
    }

    fn approvals(&self) -> String {
        let policy = &self.session.settings.agent.approvals;
        let otherwise = match policy.otherwise {
            DefaultRule::ByAnnotation => "tools that only read or only add run; all others need approval",
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
        for (what, patterns) in lists.into_iter().filter(|(_, patterns)| !patterns.is_empty()) {
            let patterns: Vec<String> =
                patterns.iter().map(|pattern| format!("`{}`", sanitize(pattern))).collect();
            let _ = writeln!(text, "  {what}: {}", patterns.join(", "));
        }
        if text.lines().count() == 1 {
            text = format!("{otherwise}\n");
        }
        text
    }

    fn approve(&mut self, pattern: &str) -> Result<String, Trouble> {
        let all = self.session.hub.tools();
        if !pattern.contains(['*', '?']) && !all.iter().any(|tool| tool.name == pattern) {
            let nearest = all.iter().min_by_key(|tool| strsim::damerau_levenshtein(&tool.name, pattern));
            let hint = match nearest {
                Some(tool) => format!("did you mean `{}`? `/tools` lists them all", tool.name),
                None => "no server offers a tool yet; `/servers` displays their status".to_owned(),
            };
            return Err(trouble_with(format!("unknown tool `{pattern}`"), hint));
        }
        self.session.approve(pattern)?;
        Ok(format!(
            "`{}` runs without approval in this chat, unless the configuration denies it or requires approval\n",
            sanitize(pattern)
        ))
    }

    async fn retry(&mut self) -> Result<(), ChangeError> {
        let message = self.session.undo().await?;
        self.session.run.say_message(message);
        Ok(())
    }

    async fn undo(&mut self) -> Result<String, Trouble> {
        let message = self.session.undo().await.map_err(|error| change_trouble(&error))?;
        let line = text_of(&message).lines().next().unwrap_or_default().to_owned();
        Ok(format!("removed: {QUIET}{}{QUIET:#}\n", truncate(&sanitize(&line), 60)))
    }

    async fn save(&mut self, file: Option<&str>) -> Result<String, Trouble> {
        let (transcript, unkept) = self.session.transcript().await.map_err(|error| change_trouble(&error))?;
        let id = transcript.conversation.id.as_str();
        let usual = format!("chat-{}.md", id.rsplit('-').next().unwrap_or_default());
        let file = Path::new(file.unwrap_or(&usual));
        if file.exists() {
            let problem = format!("`{}` already exists", file.display());
            return Err(trouble_with(problem, "choose another file: `/save FILE`"));
        }
        let is_json = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        let text = if is_json { transcript.to_json() } else { transcript::in_markdown(&transcript) };
        output::write_file(file, &text)?;
        let mut told = format!("saved as {}\n", sanitize(&file.display().to_string()));
        if let Some(error) = unkept {
            let _ = writeln!(
                told,
                "{NOTE}note:{NOTE:#} from memory, because the store failed: {}",
                sanitize(&error.to_string())
            );
        }
        Ok(told)
    }

    async fn list(&mut self) -> Result<String, Trouble> {
        let conversations = self.kept().await?;
        if conversations.is_empty() {
            return Err(trouble_with("no conversation is stored yet", "type a message to start one"));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let columns = super::view::terminal_size().columns;
        let mut text = String::new();
        for (index, conversation) in conversations.iter().enumerate() {
            let title = conversation.title.as_deref().unwrap_or("(no title)");
            let here = if Some(&conversation.id) == self.session.conversation() { " (this one)" } else { "" };
            let about = format!(
                "{}, {}{here}",
                age(conversation.changed, now),
                counted(usize::try_from(conversation.messages).unwrap_or(usize::MAX), "message")
            );
            let room = columns.saturating_sub(width(&about) + 8);
            let _ = writeln!(
                text,
                "{BOLD}{:>3}{BOLD:#}  {}  {QUIET}{about}{QUIET:#}",
                index + 1,
                truncate(&sanitize(title), room)
            );
        }
        let _ = writeln!(text, "{QUIET}`/resume NUMBER` continues one{QUIET:#}");
        self.listed = conversations.into_iter().map(|conversation| conversation.id).collect();
        Ok(text)
    }

    async fn kept(&self) -> Result<Vec<Conversation>, Trouble> {
        let page = self.session.store.list(LISTED, None).await.map_err(|error| store_trouble(&error))?;
        Ok(page.conversations.into_iter().filter(|conversation| conversation.messages > 0).collect())
    }

    async fn resume(&mut self, which: &str) -> Result<String, Trouble> {
        let id = self.find_kept(which).await?;
        let conversation = self.session.resume(&id).await.map_err(|error| store_trouble(&error))?;
        let title = sanitize(conversation.title.as_deref().unwrap_or("(no title)"));
        let mut text = format!("{BOLD}{title}{BOLD:#}\n");
        let messages = self.session.run.messages();
        let last = |role: Role| {
            messages.iter().rev().find(|message| message.role == role && !text_of(message).is_empty())
        };
        for (mark, message) in [("> ", last(Role::User)), ("", last(Role::Assistant))] {
            for line in message.map(|message| text_of(message)).unwrap_or_default().lines().take(8) {
                let _ = writeln!(text, "{QUIET}{mark}{}{QUIET:#}", sanitize(line));
            }
        }
        if !self.session.run.is_done() {
            let mut calls: Vec<String> =
                self.session.run.interrupted_calls().map(|name| format!("`{}`", sanitize(name))).collect();
            calls.dedup();
            let _ = if calls.is_empty() {
                writeln!(
                    text,
                    "{HINT}hint:{HINT:#} the last message has no response: `/retry` sends it again"
                )
            } else {
                writeln!(
                    text,
                    "{NOTE}note:{NOTE:#} {} had begun and may have done its work\n\
                     {HINT}hint:{HINT:#} type a message to go on, and the model is told so; \
                     `/retry` asks from the beginning and may do it again",
                    calls.join(", ")
                )
            };
        }
        Ok(text)
    }

    /// A conversation by its number in the list, its id, or the beginning or end of one.
    async fn find_kept(&mut self, which: &str) -> Result<ConversationId, Trouble> {
        if let Ok(id) = which.parse::<ConversationId>() {
            return Ok(id);
        }
        if self.listed.is_empty() {
            self.listed = self.kept().await?.into_iter().map(|conversation| conversation.id).collect();
        }
        if let Ok(number) = which.parse::<usize>()
            && let Some(id) = number.checked_sub(1).and_then(|index| self.listed.get(index))
        {
            return Ok(id.clone());
        }
        let fitting: Vec<&ConversationId> = self
            .listed
            .iter()
            .filter(|id| which.len() >= 4 && (id.as_str().starts_with(which) || id.as_str().ends_with(which)))
            .collect();
        match fitting.as_slice() {
            [one] => Ok((*one).clone()),
            [] => Err(trouble_with(
                format!("unknown conversation `{which}`"),
                "`/resume` lists them with their numbers",
            )),
            _ => Err(trouble_with(
                format!("`{which}` fits {} conversations", fitting.len()),
                "type more of the id, or the number that `/resume` lists",
            )),
        }
    }

    fn usage(&self) -> String {
        let rows = status::table(self.session.model_name(), &self.session.usage(), self.session.context());
        let mut text: String =
            rows.iter().map(|(name, value)| format!("{}  {value}\n", padded(name, 19))).collect();
        if let Some(id) = self.session.conversation() {
            let _ = writeln!(text, "{}  {id}", padded("conversation", 19));
        }
        text
    }

    fn clear(&mut self) -> String {
        let last = self.session.conversation().cloned();
        self.session.clear();
        self.listed.clear();
        let before =
            last.map(|id| format!("; `/resume {id}` returns to the previous one")).unwrap_or_default();
        format!("{NOTE}a new conversation{NOTE:#}{before}\n")
    }
}

fn help() -> String {
    let wide = ENTRIES.iter().map(|entry| entry.name.len() + entry.argument.len() + 2).max().unwrap_or(0);
    let mut text = String::new();
    for entry in &ENTRIES {
        let name = padded(&format!("/{} {}", entry.name, entry.argument), wide);
        let _ = writeln!(text, "{BOLD}{name}{BOLD:#}  {}", entry.does);
    }
    text.push_str(
        "\nA message goes on in the next line after a backslash, after Alt-Enter, and\n\
         inside of ``` fences. Ctrl-C stops an answer, and clears the line at the\n\
         prompt; twice leaves. Tab completes, Ctrl-R searches.\n",
    );
    text
}

fn age(time: Timestamp, now: u128) -> String {
    let minutes = now.saturating_sub(time.0.into()) / 60_000;
    match minutes {
        0 => "just now".to_owned(),
        1..60 => format!("{minutes} min ago"),
        60..1_440 => format!("{} h ago", minutes / 60),
        _ => format!("{} d ago", minutes / 1_440),
    }
}

fn store_trouble(error: &toolwire_contract::StoreError) -> Trouble {
    Trouble { problem: error.to_string(), hint: error.hint().map(str::to_owned) }
}

fn change_trouble(error: &ChangeError) -> Trouble {
    Trouble { problem: error.to_string(), hint: error.hint().map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_fits_a_terminal() {
        let help = anstream::adapter::strip_str(&help()).to_string();
        for line in help.lines() {
            assert!(width(line) <= 80, "{line}");
        }
    }
}
