//! The commands of the chat, and parsing of the user's input.

use toolwire_contract::text::nearest_names;

/// A command with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    /// The words that a listed tool must contain.
    Tools(Vec<String>),
    Servers,
    Model(Option<String>),
    Approve(Option<String>),
    /// Paths, `-` to remove the attachments, or nothing to list them.
    Attach(Option<String>),
    Retry,
    Undo,
    Save(Option<String>),
    Resume(Option<String>),
    Delete(Option<String>),
    Usage,
    /// What the summary must contain.
    Compact(Option<String>),
    Clear,
    Exit,
}

/// A command's name, argument and description, for `/help` and completion.
pub(crate) struct CommandInfo {
    pub(crate) name: &'static str,
    pub(crate) argument: &'static str,
    pub(crate) description: &'static str,
}

const fn info(name: &'static str, argument: &'static str, description: &'static str) -> CommandInfo {
    CommandInfo { name, argument, description }
}

pub(crate) const COMMANDS: [CommandInfo; 15] = [
    info("help", "", "lists the commands"),
    info("tools", "[WORDS]", "lists the tools, or those that match all words"),
    info("servers", "", "lists the servers with their status"),
    info("model", "[MODEL]", "displays or changes the model"),
    info("approve", "[TOOL]", "lists the approval rules, or allows tools (`read_*`)"),
    info("attach", "[PATHS]", "attaches files to the next message, like `@PATH` in it"),
    info("retry", "", "sends the last message again"),
    info("undo", "", "removes the last message and its response"),
    info("save", "[FILE]", "writes the conversation to a file, as Markdown or .json"),
    info("resume", "[WORDS]", "lists the stored conversations, or continues one"),
    info("delete", "[WORDS]", "deletes this conversation, or the one that matches"),
    info("usage", "", "displays tokens and cost of the conversation"),
    info("compact", "[WHAT TO KEEP]", "summarizes the conversation to free context"),
    info("clear", "", "starts a new conversation; the old one stays stored"),
    info("exit", "", "exits, like `quit`, Ctrl-D, and Ctrl-C twice"),
];

/// Parsed input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ParsedInput {
    Empty,
    Message(String),
    Command(Command),
    /// An unknown command or wrong arguments.
    Invalid {
        problem: String,
        hint: String,
    },
}

/// Parses input. A message may start with a path such as `/etc/hosts`.
pub(crate) fn parse(text: &str) -> ParsedInput {
    let text = text.trim();
    if text.is_empty() {
        return ParsedInput::Empty;
    }
    if matches!(text, "exit" | "quit") {
        return ParsedInput::Command(Command::Exit);
    }
    let Some(rest) = text.strip_prefix('/') else { return ParsedInput::Message(text.to_owned()) };
    let (name, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let argument = argument.trim();
    if !name.is_empty() && !name.chars().all(char::is_alphabetic) {
        return ParsedInput::Message(text.to_owned());
    }
    let optional = || Some(argument.to_owned()).filter(|argument| !argument.is_empty());
    let command = match name {
        "help" => Command::Help,
        "tools" => Command::Tools(argument.split_whitespace().map(str::to_lowercase).collect()),
        "servers" => Command::Servers,
        "model" => Command::Model(optional()),
        "approve" => Command::Approve(optional()),
        "attach" => Command::Attach(optional()),
        "retry" => Command::Retry,
        "undo" => Command::Undo,
        "save" => Command::Save(optional()),
        "resume" => Command::Resume(optional()),
        "delete" => Command::Delete(optional()),
        "usage" => Command::Usage,
        "compact" => Command::Compact(optional()),
        "clear" => Command::Clear,
        "exit" | "quit" => Command::Exit,
        _ => return unknown_command(name),
    };
    let expected = COMMANDS.iter().find(|info| info.name == name).map_or("", |info| info.argument);
    let words = argument.split_whitespace().count();
    match expected {
        "" if words > 0 => invalid(format!("`/{name}` takes no arguments"), format!("type `/{name}` alone")),
        "[MODEL]" | "[TOOL]" if words > 1 => invalid(
            format!("`/{name}` takes one argument, not {words}"),
            format!("type `/{name} {expected}`"),
        ),
        _ => ParsedInput::Command(command),
    }
}

fn unknown_command(name: &str) -> ParsedInput {
    let lowercase = name.to_lowercase();
    let names = || COMMANDS.iter().map(|info| info.name);
    let completed = names().find(|known| !name.is_empty() && known.starts_with(&lowercase));
    let hint = match completed.or_else(|| nearest_names(name, names()).first().copied()) {
        Some(known) => format!("did you mean `/{known}`? `/help` lists all commands"),
        None => "`/help` lists all commands".to_owned(),
    };
    let problem = if name.is_empty() {
        "`/` is not a command".to_owned()
    } else {
        format!("unknown command `/{name}`")
    };
    invalid(problem, hint)
}

fn invalid(problem: String, hint: String) -> ParsedInput {
    ParsedInput::Invalid { problem, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: ParsedInput) {
        assert_eq!(parse(text), expected);
    }

    #[track_caller]
    fn check_invalid(text: &str, problem: &str, hint: &str) {
        check(text, invalid(problem.to_owned(), hint.to_owned()));
    }

    #[test]
    fn commands_are_parsed_with_their_arguments() {
        check("/help", ParsedInput::Command(Command::Help));
        check(
            "  /tools Read file ",
            ParsedInput::Command(Command::Tools(vec!["read".into(), "file".into()])),
        );
        check("/model openai/x", ParsedInput::Command(Command::Model(Some("openai/x".into()))));
        check("/save my notes.md", ParsedInput::Command(Command::Save(Some("my notes.md".into()))));
        check("/resume", ParsedInput::Command(Command::Resume(None)));
        check("quit", ParsedInput::Command(Command::Exit));
        check("/quit", ParsedInput::Command(Command::Exit));
    }

    #[test]
    fn other_input_is_a_message() {
        check(" \n", ParsedInput::Empty);
        check("quit smoking?", ParsedInput::Message("quit smoking?".into()));
        check("/etc/hosts: what is it?", ParsedInput::Message("/etc/hosts: what is it?".into()));
        check("a\n/help", ParsedInput::Message("a\n/help".into()));
    }

    #[test]
    fn invalid_commands_have_a_hint() {
        check_invalid(
            "/modle x",
            "unknown command `/modle`",
            "did you mean `/model`? `/help` lists all commands",
        );
        check_invalid("/re", "unknown command `/re`", "did you mean `/retry`? `/help` lists all commands");
        check_invalid("/xyzzy", "unknown command `/xyzzy`", "`/help` lists all commands");
        check_invalid("/", "`/` is not a command", "`/help` lists all commands");
        check_invalid("/undo 3", "`/undo` takes no arguments", "type `/undo` alone");
        check_invalid("/model a b", "`/model` takes one argument, not 2", "type `/model [MODEL]`");
    }

    #[test]
    fn every_listed_command_is_parsed() {
        for info in &COMMANDS {
            assert!(matches!(parse(&format!("/{}", info.name)), ParsedInput::Command(_)), "/{}", info.name);
        }
    }
}
