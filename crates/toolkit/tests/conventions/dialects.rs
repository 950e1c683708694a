//! Generated definitions convert to every dialect without loss.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use toolwire_contract::Tool;
use toolwire_dialect::{Dialect, Options, Status, Toolset};
use toolwire_toolkit::lint::{LintProblem, lint};
use toolwire_toolkit::{Secret, tool};

use crate::support::{list, plain};

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Everything {
    /// Text
    #[schemars(length(min = 1, max = 9), regex(pattern = "^[a-z]+$"))]
    text: String,
    /// Optional text
    optional: Option<String>,
    /// A small whole number
    small: u8,
    /// A signed one
    signed: i16,
    /// A large one
    large: u64,
    /// A number
    #[schemars(range(min = 0.5))]
    float: f32,
    /// A flag
    #[serde(default)]
    flag: bool,
    /// A choice
    choice: Choice,
    /// A described choice
    described: Option<Described>,
    /// A structure
    nested: Nested,
    /// An optional structure
    maybe: Option<Nested>,
    /// Several
    #[schemars(length(max = 3))]
    list: Vec<Nested>,
    /// All different
    set: BTreeSet<String>,
    /// Tagged
    tagged: Tagged,
    /// Tagged from the outside
    outside: Outside,
    /// Either
    either: Either,
    /// Anything
    anything: Value,
    /// Secret
    secret: Secret<String>,
    /// An optional secret
    optional_secret: Option<Secret<String>>,
    /// A letter
    letter: char,
    /// A default structure
    #[serde(default)]
    defaulted: Nested,
}

#[derive(Deserialize, JsonSchema)]
enum Choice {
    One,
    Two,
}

#[derive(Deserialize, JsonSchema)]
enum Described {
    /// The first
    One,
    /// The second
    Two,
}

#[derive(Default, Deserialize, serde::Serialize, JsonSchema)]
struct Nested {
    /// A part
    part: Option<u32>,
    /// Another part
    #[serde(default)]
    other: Vec<i64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind")]
#[allow(dead_code)]
enum Tagged {
    Near {
        /// The distance
        metres: u32,
    },
    Far(Nested),
    Nowhere,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
enum Outside {
    Near {
        /// The distance
        metres: u32,
    },
    Nowhere,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code)]
enum Either {
    Text(String),
    Number(i32),
}

/// Take everything.
#[tool(explicit = "TAKE")]
async fn everything(args: Everything) {
    drop(args);
}

/// Take one of several sets of arguments.
#[tool]
async fn flattened(args: Flattened) {
    drop(args);
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Flattened {
    /// A name
    name: String,
    #[serde(flatten)]
    place: Place,
    #[serde(flatten)]
    size: Size,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "place", rename_all = "snake_case")]
#[allow(dead_code)]
enum Place {
    /// Somewhere near.
    Near {
        /// The distance
        metres: u32,
    },
    Far {
        /// The direction
        direction: String,
        /// The distance
        metres: f64,
    },
    Nowhere,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code)]
enum Size {
    /// In pieces
    Count(u32),
    /// In grams
    Weight(f64),
}

/// Take nothing.
#[tool]
async fn nothing() {}

/// Take a few.
#[tool]
async fn few(
    /// A number
    #[tool(default = 4)]
    number: u32,
    /// A secret
    secret: Secret<String>,
) {
    drop((number, secret));
}

/// Take types that some models do not support.
#[tool]
async fn hard(
    /// A map
    map: BTreeMap<String, u32>,
    /// A tuple
    tuple: (u8, String),
    /// A tree
    tree: Tree,
    /// Anything
    unknown: serde_json::Map<String, Value>,
) {
    drop((map, tuple, tree, unknown));
}

/// Take anything.
#[tool]
async fn open(args: Open) {
    drop(args);
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Open {
    /// A name
    name: String,
    /// All else
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Tree {
    /// Its branches
    branches: Vec<Tree>,
}

#[track_caller]
fn check(tools: &[Tool]) {
    for dialect in Dialect::all() {
        let set = Toolset::new(tools, dialect, &Options::default());
        assert_eq!(set.reports().len(), tools.len());
        for report in set.reports() {
            let is_clean = matches!(report.status, Status::Exact | Status::Rewritten);
            assert!(is_clean, "{}", serde_json::to_string_pretty(report).unwrap());
        }
    }
}

#[test]
fn every_definition_is_exact_or_rewritten_in_every_dialect() {
    check(&list(&plain().tool(everything).tool(nothing).tool(few).tool(flattened).build().unwrap()));
}

#[test]
fn a_schema_that_some_models_cannot_express_is_a_lint() {
    let server = plain().tool(hard).tool(open).build().unwrap();
    let hard: Vec<(String, &str)> = lint(&server)
        .into_iter()
        .filter_map(|lint| match lint.problem {
            LintProblem::NotPortable { argument, what } => Some((argument, what)),
            _ => None,
        })
        .collect();
    let expected = [
        ("map", "a map"),
        ("tuple", "a tuple"),
        ("tree.branches", "a recursive type"),
        ("unknown", "a map"),
        ("", "a map"),
    ];
    assert_eq!(hard, expected.map(|(argument, what)| (argument.to_owned(), what)));
}
