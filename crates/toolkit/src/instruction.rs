//! Instructions from a tool to the agent that called it.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// An instruction to the agent: what to do next.
///
/// Common instructions have constructors, so that all tools use the same text. Free text works too: `"Show
/// the table as it is.".into()`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Instruction(String);

impl Instruction {
    /// Present the result and wait for the user.
    pub fn present_and_stop() -> Instruction {
        Instruction::from(
            "Present this result to the user, then stop. Do not call another tool until the user replies.",
        )
    }

    /// Propose something and let the user decide.
    pub fn suggest(what: impl fmt::Display) -> Instruction {
        Instruction(format!("Suggest to the user: {what}. Do not do it unless the user agrees."))
    }

    /// Ask the user for missing information first.
    pub fn ask_for(what: impl fmt::Display) -> Instruction {
        Instruction(format!("Ask the user for {what} before you continue. Do not invent it."))
    }

    /// Switch to another mode.
    pub fn switch_to(mode: Mode) -> Instruction {
        Instruction(format!("Switch to {mode} mode before you continue."))
    }

    /// Make no changes.
    pub fn no_changes() -> Instruction {
        Instruction::from("Do not make changes, directly or with other tools, until the user asks for them.")
    }

    /// Ask the user for consent first.
    pub fn require_consent() -> Instruction {
        Instruction::from(
            "Tell the user exactly what would be done and ask for explicit consent. Call the tool again only after \
             the user has given it.",
        )
    }

    /// Retry with something changed.
    pub fn retry_with(what: impl fmt::Display) -> Instruction {
        Instruction(format!("Call the tool again with {what}."))
    }

    /// Discuss something with the user before anything is done.
    pub fn discuss(what: impl fmt::Display) -> Instruction {
        Instruction(format!("Discuss {what} with the user. Do not act on it before the user has decided."))
    }

    /// Verify something before the next step.
    pub fn check(what: impl fmt::Display) -> Instruction {
        Instruction(format!("Check {what} before you continue. Tell the user if it is not as expected."))
    }

    /// Explain something to the user.
    pub fn explain(what: impl fmt::Display) -> Instruction {
        Instruction(format!("Explain to the user: {what}."))
    }

    /// Let the user choose one of several options.
    pub fn let_choose<O: fmt::Display>(options: impl IntoIterator<Item = O>) -> Instruction {
        let options: Vec<String> = options.into_iter().map(|option| option.to_string()).collect();
        Instruction(format!("Let the user choose one of: {}. Do not choose yourself.", options.join("; ")))
    }

    /// Call another tool next.
    pub fn use_tool(name: impl fmt::Display) -> Instruction {
        Instruction(format!("Call the tool `{name}` next."))
    }

    /// Continue without asking.
    pub fn proceed() -> Instruction {
        Instruction::from("Continue with the task. The user does not need to confirm this result.")
    }

    /// Do not retry.
    pub fn do_not_retry() -> Instruction {
        Instruction::from(
            "Do not call the tool again; the result would be the same. Tell the user what failed.",
        )
    }

    /// Appends another instruction.
    pub fn then(self, next: impl Into<Instruction>) -> Instruction {
        Instruction(format!("{self} {}", next.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl From<&str> for Instruction {
    fn from(text: &str) -> Instruction {
        Instruction(text.to_owned())
    }
}

impl From<String> for Instruction {
    fn from(text: String) -> Instruction {
        Instruction(text)
    }
}

impl JsonSchema for Instruction {
    fn schema_name() -> Cow<'static, str> {
        "Instruction".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

/// A working mode of an agent. Its text is the name in upper case, as in `Switch to PLANNING mode`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    Discussion,
    Planning,
    Implementation,
    Check,
    Review,
    Debugging,
    /// The name of another mode.
    Other(String),
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Mode::Discussion => "DISCUSSION",
            Mode::Planning => "PLANNING",
            Mode::Implementation => "IMPLEMENTATION",
            Mode::Check => "CHECK",
            Mode::Review => "REVIEW",
            Mode::Debugging => "DEBUGGING",
            Mode::Other(name) => return formatter.write_str(&name.to_uppercase()),
        };
        formatter.write_str(name)
    }
}
