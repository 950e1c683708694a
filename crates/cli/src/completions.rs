//! `toolwire completions`: scripts for shells, and the candidates that these scripts ask for.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{Arg, Args, Command, CommandFactory, ValueEnum};

use crate::CommandLine;
use crate::command_error::CommandError;
use crate::output;

/// Print a script that completes commands and options in a shell
#[derive(Args)]
#[command(after_long_help = include_str!("help/completions.txt"))]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
    /// Print the candidates for the last of these words, for the script
    #[arg(last = true, hide = true)]
    words: Option<Vec<String>>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    /// Returns the script. It runs `toolwire` from the search path and not the typed program, because the Tab
    /// key must not run a program in the current folder.
    fn script(self) -> &'static str {
        match self {
            Shell::Bash => {
                "\
_toolwire() {
    local IFS=$'\\n'
    COMPREPLY=($(command toolwire completions bash -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null))
}
complete -o default -F _toolwire toolwire
"
            }
            Shell::Zsh => {
                "\
_toolwire() {
    local -a candidates
    candidates=(\"${(@f)$(command toolwire completions zsh -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)}\")
    if [[ -n $candidates ]]; then
        _describe toolwire candidates
    else
        _files
    fi
}
compdef _toolwire toolwire
"
            }
            Shell::Fish => {
                "\
function __toolwire_candidates
    set -l words (commandline -opc)
    command toolwire completions fish -- $words[2..] (commandline -ct) 2>/dev/null
end
complete -c toolwire -a '(__toolwire_candidates)'
"
            }
        }
    }

    /// Returns the lines that the script expects.
    fn lines(self, candidates: &[Candidate]) -> String {
        let mut text = String::new();
        for Candidate { value, description } in candidates {
            let _ = match self {
                Shell::Bash => writeln!(text, "{value}"),
                Shell::Zsh => writeln!(text, "{}:{description}", value.replace(':', "\\:")),
                Shell::Fish => writeln!(text, "{value}\t{description}"),
            };
        }
        text
    }
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<ExitCode, CommandError> {
    match &args.words {
        None => output::print(args.shell.script())?,
        Some(words) => {
            let mut command = CommandLine::command();
            // Adds the options that all commands have, and `help`.
            command.build();
            output::print(&args.shell.lines(&candidates(&command, words)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A word that can replace the incomplete one.
#[derive(Debug, PartialEq)]
struct Candidate {
    value: String,
    description: String,
}

/// Returns the candidates for the last word, which may be empty.
fn candidates(root: &Command, words: &[String]) -> Vec<Candidate> {
    let Some((current, before)) = words.split_last() else { return Vec::new() };
    let mut command = root;
    let mut option = None;
    for word in before {
        if word == "--" {
            return Vec::new();
        }
        // Bash passes `=` as a separate word.
        if word == "=" || option.take().is_some() {
            continue;
        }
        match command.find_subcommand(word) {
            Some(subcommand) => command = subcommand,
            None => option = command.get_arguments().find(|argument| takes_next_word(argument, word)),
        }
    }
    let current = if current == "=" { "" } else { current };
    let mut found = Vec::new();
    if let Some(option) = option {
        found.extend(values(option));
    } else if current.starts_with('-') {
        found.extend(command.get_arguments().filter(|argument| !argument.is_hide_set()).filter_map(
            |argument| {
                let value = format!("--{}", argument.get_long()?);
                Some(Candidate { value, description: first_line(argument.get_help()) })
            },
        ));
    } else {
        let subcommands = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
        found.extend(subcommands.map(|subcommand| Candidate {
            value: subcommand.get_name().to_owned(),
            description: first_line(subcommand.get_about()),
        }));
        found.extend(command.get_positionals().flat_map(values));
    }
    found.retain(|candidate| candidate.value.starts_with(current));
    found
}

/// Whether the word is this option, and the next word its value.
fn takes_next_word(argument: &Arg, word: &str) -> bool {
    let is_option = match word.strip_prefix("--") {
        Some(name) => argument.get_long() == Some(name),
        None => word.strip_prefix('-').is_some_and(|name| {
            let mut names = name.chars();
            argument.get_short().is_some() && argument.get_short() == names.next() && names.next().is_none()
        }),
    };
    is_option
        && argument.get_action().takes_values()
        && argument.get_num_args().is_none_or(|count| count.min_values() > 0)
}

fn values(argument: &Arg) -> Vec<Candidate> {
    let values = argument.get_possible_values();
    let values = values.iter().filter(|value| !value.is_hide_set());
    values
        .map(|value| Candidate {
            value: value.get_name().to_owned(),
            description: first_line(value.get_help()),
        })
        .collect()
}

fn first_line(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(|text| text.to_string().lines().next().unwrap_or_default().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        let mut command = CommandLine::command();
        command.build();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let found = candidates(&command, &words);
        let found: Vec<&str> = found.iter().map(|candidate| candidate.value.as_str()).collect();
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn commands_and_their_subcommands_are_completed() {
        check("con", &["convert", "conversations"]);
        check("conversations re", &["rename"]);
        check("--config x.json doc", &["doctor"]);
        check("-c ask doc", &["doctor"]);
        check("completions ", &["bash", "zsh", "fish"]);
    }

    #[test]
    fn options_and_their_values_are_completed() {
        check("chat --con", &["--continue", "--config"]);
        check("convert --to gem", &["gemini", "gemini-openapi"]);
        check("convert --to = gem", &["gemini", "gemini-openapi"]);
        check("convert --to=gem", &[]);
        check("convert --to gemini --fro", &["--from"]);
    }

    #[test]
    fn other_words_are_left_to_the_shell() {
        check("convert tools", &[]);
        check("ask -- con", &[]);
        check("ask --model ", &[]);
    }
}
