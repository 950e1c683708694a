//! `toolwire conversations`: lists, searches, displays and changes the stored conversations.

pub(crate) mod find;
pub(crate) mod list;
pub(crate) mod markdown;
mod transfer;

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;
use toolwire_contract::conversations::Conversations;
use toolwire_contract::text::counted;

use crate::command_error::{CommandError, NOTE, print_stderr};
use crate::display::markdown::DIMMED;
use crate::display::view::{View, is_styled, terminal_size};
use crate::output::{self, ignore_broken_pipe};
use crate::servers;
use crate::settings;
use crate::storage;
use crate::terminal_text::{sanitize, truncate};

/// List, search, display, rename, delete, export and import stored conversations
///
/// A conversation is named by its id, the start or end of it, or words of its title or messages.
#[derive(Args)]
#[command(after_long_help = include_str!("help/conversations.txt"))]
pub(crate) struct ConversationsArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the conversations, the last changed first
    List {
        /// The maximum number of conversations
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Find messages that contain all words
    Search {
        #[arg(value_name = "WORD", required = true)]
        words: Vec<String>,
        /// The maximum number of messages
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Display a conversation, as Markdown unless on a terminal
    Show {
        #[arg(value_name = "ID|WORDS")]
        conversation: String,
        /// Print the messages as JSON, in the format of `export`
        #[arg(long)]
        json: bool,
    },
    /// Change the title
    Rename {
        #[arg(value_name = "ID|WORDS")]
        conversation: String,
        #[arg(value_name = "TITLE")]
        title: String,
    },
    /// Delete conversations permanently
    Delete {
        #[arg(value_name = "ID|WORDS", required = true)]
        conversations: Vec<String>,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
    /// Write conversations as JSON, one per line
    Export {
        #[arg(value_name = "ID|WORDS", required_unless_present = "all")]
        conversations: Vec<String>,
        /// Export all conversations
        #[arg(long, conflicts_with = "conversations")]
        all: bool,
        /// Write to this file instead of standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Read conversations that were exported
    Import {
        /// The file; `-` is standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

pub(crate) fn run(args: &ConversationsArgs, config: Option<&Path>) -> Result<ExitCode, CommandError> {
    let loaded = servers::find_config(config)?;
    let settings = settings::read(loaded.config.toolwire.as_ref(), &loaded.origin)?;
    servers::run(async {
        let store = storage::open(&settings.store).await?;
        execute(&args.action, store).await.map(|()| ExitCode::SUCCESS)
    })
}

async fn execute(action: &Action, store: Arc<dyn Conversations>) -> Result<(), CommandError> {
    let store = &*store;
    match action {
        Action::List { limit, json } => {
            let conversations = find::stored(store, *limit).await?;
            if *json {
                return output::print(&output::to_json(&conversations, false));
            }
            if conversations.is_empty() {
                print_stderr(&format!("{NOTE}note:{NOTE:#} no conversation is stored yet\n"));
            }
            output::print_styled(&list::lines(&conversations, list::Label::Id, columns()))
        }
        Action::Search { words, limit, json } => {
            let results = store.search(&words.join(" "), *limit).await.map_err(storage::command_error)?;
            if *json {
                let results = json!({"hits": results.hits, "complete": results.is_complete});
                return output::print(&output::to_json(&results, false));
            }
            let columns = columns();
            let mut text = String::new();
            for hit in &results.hits {
                let title = sanitize(hit.title.as_deref().unwrap_or("(no title)"));
                text.push_str(&format!(
                    "{}  {DIMMED}{}{DIMMED:#}\n  {}\n",
                    hit.conversation,
                    truncate(&title, columns.saturating_sub(38)),
                    truncate(&sanitize(&hit.snippet), columns.saturating_sub(2))
                ));
            }
            if results.hits.is_empty() {
                return Err(CommandError::work("no message contains all these words"));
            }
            output::print_styled(&text)?;
            if !results.is_complete {
                print_stderr(&format!("{NOTE}note:{NOTE:#} older conversations were not searched\n"));
            }
            Ok(())
        }
        Action::Show { conversation, json } => {
            let id = find::one(store, conversation).await?.id;
            let transcript = store.load(&id, 0).await.map_err(storage::command_error)?;
            if *json {
                return output::print_untrusted(&format!("{}\n", transcript.to_json()));
            }
            if !is_styled() {
                return output::print_untrusted(&markdown::to_markdown(&transcript));
            }
            let messages: Vec<_> = transcript.entries.into_iter().map(|entry| entry.message).collect();
            let mut view = View::new(true);
            view.replay(&messages).or_else(ignore_broken_pipe)
        }
        Action::Rename { conversation, title } => {
            let id = find::one(store, conversation).await?.id;
            let title = Some(title.trim().to_owned()).filter(|title| !title.is_empty());
            store.rename(&id, title).await.map_err(storage::command_error)
        }
        Action::Delete { conversations, yes } => delete(store, conversations, *yes).await,
        Action::Export { conversations, output, .. } => {
            transfer::export(store, conversations, output.as_deref()).await
        }
        Action::Import { file } => transfer::import(store, file).await,
    }
}

/// Returns the width of the terminal, or the width of lines that a program reads.
fn columns() -> usize {
    const PROGRAM_COLUMNS: usize = 200;
    if io::stdout().is_terminal() { terminal_size().columns } else { PROGRAM_COLUMNS }
}

/// Deletes conversations. Either all of them are found and confirmed, or none is deleted.
async fn delete(
    store: &dyn Conversations,
    references: &[String],
    is_confirmed: bool,
) -> Result<(), CommandError> {
    let mut found = Vec::new();
    for reference in references {
        found.push(find::one(store, reference).await?);
    }
    if !is_confirmed {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Err(
                CommandError::usage("the deletion was not confirmed").with_hint("`--yes` confirms it")
            );
        }
        for conversation in &found {
            print_stderr(&format!("{}\n", list::summary(conversation)));
        }
        print_stderr(&format!("{NOTE}delete {}? y or n:{NOTE:#} ", counted(found.len(), "conversation")));
        let mut answer = String::new();
        // If standard input cannot be read, nothing is confirmed.
        let _ = io::stdin().lock().read_line(&mut answer);
        if !matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
            return Err(CommandError::work("nothing was deleted"));
        }
    }
    for conversation in found {
        store.remove(&conversation.id).await.map_err(storage::command_error)?;
        print_stderr(&format!("deleted {}\n", list::summary(&conversation)));
    }
    Ok(())
}
