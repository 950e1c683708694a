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

/// A working mode of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    Planning,
    Implementation,
    Review,
    Debugging,
    /// The name of another mode.
    Other(String),
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Mode::Planning => "planning",
            Mode::Implementation => "implementation",
            Mode::Review => "review",
            Mode::Debugging => "debugging",
            Mode::Other(name) => name,
        })
    }
}
