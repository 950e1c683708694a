//! `lint` finds violations of the conventions.

use schemars::JsonSchema;
use serde::Deserialize;
use toolwire_toolkit::lint::lint;
use toolwire_toolkit::tool;

use crate::support::plain;

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Undescribed {
    name: String,
    /// Described
    parts: Vec<Part>,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Part {
    size: u32,
}

#[allow(deprecated)] // A missing description is also a compiler warning.
mod silent {
    use super::*;

    #[tool]
    pub(crate) async fn silent(number: u8) {
        let _ = number;
    }
}

/// Take undescribed arguments.
#[tool]
async fn undescribed(args: Undescribed) {
    drop(args);
}

/// Take a default that cannot be serialized.
#[tool]
async fn hidden(args: Hidden) {
    let _ = args;
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Hidden {
    /// Which one
    #[serde(default)]
    kind: Kind,
    /// Another one
    other: Option<Kind>,
    /// The number of items
    #[serde(default)]
    count: u8,
}

#[derive(Default, Deserialize, JsonSchema)]
#[allow(dead_code)]
enum Kind {
    #[default]
    Plain,
    Fine,
}

/// Destroy without asking.
#[tool(destructive)]
async fn destroy() {}

/// A tool without problems.
#[tool]
async fn flawless(
    /// A number
    number: u8,
) {
    let _ = number;
}

/// A tool with a very long name.
#[tool]
async fn a_tool_whose_name_is_longer_than_what_some_of_the_models_can_take() {}

#[test]
fn all_problems_are_reported() {
    let server = plain()
        .tool(silent::silent)
        .tool(undescribed)
        .tool(hidden)
        .tool(destroy)
        .tool(flawless)
        .tool(a_tool_whose_name_is_longer_than_what_some_of_the_models_can_take)
        .build()
        .unwrap();
    let problems: Vec<String> = lint(&server).iter().map(ToString::to_string).collect();
    let long = "a_tool_whose_name_is_longer_than_what_some_of_the_models_can_take";
    assert_eq!(
        problems,
        [
            "the tool `silent` has no description; add a doc comment".to_owned(),
            "the argument `number` of `silent` has no description; add a doc comment".to_owned(),
            "the argument `name` of `undescribed` has no description; add a doc comment".to_owned(),
            "the argument `parts.size` of `undescribed` has no description; add a doc comment".to_owned(),
            "the default of the argument `kind` of `hidden` is not in the schema; derive `Serialize` for its type"
                .to_owned(),
            "the tool `destroy` is destructive but does not require consent; add an `explicit` action".to_owned(),
            format!("the name `{long}` of the tool `{long}` is longer than 64 characters"),
        ]
    );
}
