//! What a person types that is no message: the commands of the chat.

use strsim::damerau_levenshtein;

/// A command, with what was typed behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    /// The words that the tools must have.
    Tools(Vec<String>),
    Servers,
    Model(Option<String>),
    Approve(Option<String>),
    Retry,
    Undo,
    Save(Option<String>),
    Resume(Option<String>),
    Usage,
    Clear,
    Leave,
}

/// What is typed, and what it does.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) argument: &'static str,
    pub(crate) does: &'static str,
}

const fn entry(name: &'static str, argument: &'static str, does: &'static str) -> Entry {
    Entry { name, argument, does }
}

pub(crate) const ENTRIES: [Entry; 12] = [
    entry("help", "", "lists the commands"),
    entry("tools", "[WORDS]", "lists the tools, or those that match all words"),
    entry("servers", "", "lists the servers with their status"),
    entry("model", "[MODEL]", "displays or changes the model"),
    entry("approve", "[TOOL]", "lists the approval rules, or allows a tool or `read_*`"),
    entry("retry", "", "sends the last message again"),
    entry("undo", "", "removes the last message and its response"),
    entry("save", "[FILE]", "writes the conversation to a file, as Markdown or .json"),
    entry("resume", "[NUMBER|ID]", "lists the stored conversations, or continues one"),
    entry("usage", "", "displays tokens and cost of the conversation"),
    entry("clear", "", "starts a new conversation; the old one stays stored"),
    entry("exit", "", "exits, like `quit`, Ctrl-D, and Ctrl-C twice"),
];

/// What was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    Nothing,
    Message(String),
    Command(Command),
    /// Meant as a command, but none: what is wrong, and what to try.
    Wrong {
        problem: String,
        hint: String,
    },
}

/// Reads what was typed. A path such as `/etc/hosts` at the beginning makes no command.
pub(crate) fn read(text: &str) -> Typed {
    let text = text.trim();
    if text.is_empty() {
        return Typed::Nothing;
    }
    if matches!(text, "exit" | "quit") {
        return Typed::Command(Command::Leave);
    }
    let Some(rest) = text.strip_prefix('/') else { return Typed::Message(text.to_owned()) };
    let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let argument = argument.trim();
    if !name.is_empty() && !name.chars().all(char::is_alphabetic) {
        return Typed::Message(text.to_owned());
    }
    let optional = || Some(argument.to_owned()).filter(|argument| !argument.is_empty());
    let command = match name {
        "help" => Command::Help,
        "tools" => Command::Tools(argument.split_whitespace().map(str::to_lowercase).collect()),
        "servers" => Command::Servers,
        "model" => Command::Model(optional()),
        "approve" => Command::Approve(optional()),
        "retry" => Command::Retry,
        "undo" => Command::Undo,
        "save" => Command::Save(optional()),
        "resume" => Command::Resume(optional()),
        "usage" => Command::Usage,
        "clear" => Command::Clear,
        "exit" | "quit" => Command::Leave,
        _ => return unknown(name),
    };
    let takes = ENTRIES.iter().find(|entry| entry.name == name).map_or("", |entry| entry.argument);
    let words = argument.split_whitespace().count();
    match takes {
        "" if words > 0 => wrong(format!("`/{name}` takes no arguments"), format!("type `/{name}` alone")),
        "[MODEL]" | "[TOOL]" | "[NUMBER|ID]" if words > 1 => {
            wrong(format!("`/{name}` takes one argument, not {words}"), format!("type `/{name} {takes}`"))
        }
        _ => Typed::Command(command),
    }
}

fn unknown(name: &str) -> Typed {
    let distance = |entry: &&Entry| damerau_levenshtein(entry.name, &name.to_lowercase());
    let begun = ENTRIES.iter().find(|entry| !name.is_empty() && entry.name.starts_with(&name.to_lowercase()));
    let nearest = begun.or_else(|| ENTRIES.iter().min_by_key(distance).filter(|entry| distance(entry) <= 2));
    let hint = match nearest {
        Some(entry) => format!("did you mean `/{}`? `/help` lists them all", entry.name),
        None => "`/help` lists them all".to_owned(),
    };
    let problem = if name.is_empty() {
        "`/` is not a command".to_owned()
    } else {
        format!("unknown command `/{name}`")
    };
    wrong(problem, hint)
}

fn wrong(problem: String, hint: String) -> Typed {
    Typed::Wrong { problem, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Typed) {
        assert_eq!(read(text), expected);
    }

    #[track_caller]
    fn check_wrong(text: &str, problem: &str, hint: &str) {
        check(text, wrong(problem.to_owned(), hint.to_owned()));
    }

    #[test]
    fn commands_are_read_with_what_is_behind_them() {
        check("/help", Typed::Command(Command::Help));
        check("  /tools Read file ", Typed::Command(Command::Tools(vec!["read".into(), "file".into()])));
        check("/model openai/x", Typed::Command(Command::Model(Some("openai/x".into()))));
        check("/save my notes.md", Typed::Command(Command::Save(Some("my notes.md".into()))));
        check("/resume", Typed::Command(Command::Resume(None)));
        check("quit", Typed::Command(Command::Leave));
        check("/quit", Typed::Command(Command::Leave));
    }

    #[test]
    fn all_else_is_a_message() {
        check(" \n", Typed::Nothing);
        check("quit smoking?", Typed::Message("quit smoking?".into()));
        check("/etc/hosts: what is it?", Typed::Message("/etc/hosts: what is it?".into()));
        check("a\n/help", Typed::Message("a\n/help".into()));
    }

    #[test]
    fn wrong_use_is_told_with_what_to_try() {
        check_wrong("/modle x", "unknown command `/modle`", "did you mean `/model`? `/help` lists them all");
        check_wrong("/re", "unknown command `/re`", "did you mean `/retry`? `/help` lists them all");
        check_wrong("/xyzzy", "unknown command `/xyzzy`", "`/help` lists them all");
        check_wrong("/", "`/` is not a command", "`/help` lists them all");
        check_wrong("/undo 3", "`/undo` takes no arguments", "type `/undo` alone");
        check_wrong("/model a b", "`/model` takes one argument, not 2", "type `/model [MODEL]`");
    }

    #[test]
    fn every_entry_is_a_command() {
        for entry in &ENTRIES {
            assert!(matches!(read(&format!("/{}", entry.name)), Typed::Command(_)), "/{}", entry.name);
        }
    }
}
