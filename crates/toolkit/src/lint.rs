//! Lints: problems of tools that do not prevent building a server.

use std::fmt;

use serde_json::Value;
use toolwire_contract::Tool;

use crate::names;
use crate::schema::{resolve, subschemas};
use crate::server::Server;

/// A problem of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lint {
    /// The tool's name without prefix.
    pub tool: String,
    pub problem: LintProblem,
}

/// The kind of a lint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LintProblem {
    NoDescription,
    /// An argument, or a field inside one, without a description.
    NoArgumentDescription {
        argument: String,
    },
    IllegalName {
        name: String,
    },
    /// Some model APIs accept at most 64 characters.
    LongName {
        name: String,
    },
    /// Some model APIs accept at most 1024 characters.
    LongDescription {
        length: usize,
    },
    /// The tool is destructive but does not require an explicit action.
    DestructiveWithoutConsent,
    /// An optional argument whose default is not in the schema, because its type cannot be serialized.
    HiddenDefault {
        argument: String,
    },
    /// A schema that some model APIs cannot express exactly. `argument` is empty if it concerns the arguments
    /// as a whole.
    NotPortable {
        argument: String,
        what: &'static str,
    },
}

/// Returns the problems of the server's own tools. Use it in a test:
///
/// ```
/// # use toolwire_toolkit::{Server, tool, lint::lint};
/// /// Say hello.
/// #[tool]
/// async fn hello() -> String {
///     "hello".to_owned()
/// }
///
/// let server = Server::builder("greetings").tool(hello).build()?;
/// assert_eq!(lint(&server), []);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn lint(server: &Server) -> Vec<Lint> {
    server.lints.clone()
}

const MAX_NAME_CHARS: usize = 64;
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// Returns the problems of a tool. `doc` and `arguments` are what the author wrote, without generated text.
pub(crate) fn lint_tool(
    tool: &Tool,
    plain_name: &str,
    doc: &str,
    arguments: &Value,
    hidden_defaults: &[String],
) -> Vec<Lint> {
    let mut problems = Vec::new();
    if doc.trim().is_empty() {
        problems.push(LintProblem::NoDescription);
    }
    if !names::is_legal(&tool.name) {
        problems.push(LintProblem::IllegalName { name: tool.name.clone() });
    } else if tool.name.len() > MAX_NAME_CHARS {
        problems.push(LintProblem::LongName { name: tool.name.clone() });
    }
    let length = tool.description.as_deref().unwrap_or_default().chars().count();
    if length > MAX_DESCRIPTION_CHARS {
        problems.push(LintProblem::LongDescription { length });
    }
    let asks_first = tool
        .input_schema
        .as_ref()
        .is_some_and(|schema| schema.pointer("/properties/explicit_action/const").is_some());
    if tool.hints().destructive == Some(true) && !asks_first {
        problems.push(LintProblem::DestructiveWithoutConsent);
    }
    fields(arguments, arguments, "", &mut problems);
    for argument in hidden_defaults {
        problems.push(LintProblem::HiddenDefault { argument: argument.clone() });
    }
    let served = tool.input_schema.as_ref();
    if served.is_some_and(|served| {
        served.get("properties").is_some()
            && ["oneOf", "anyOf", "allOf"].iter().any(|key| served.get(key).is_some())
    }) {
        problems.push(LintProblem::NotPortable {
            argument: String::new(),
            what: "a choice between sets of arguments",
        });
    }
    problems.into_iter().map(|problem| Lint { tool: plain_name.to_owned(), problem }).collect()
}

/// Checks the fields of an object and their schemas.
fn fields(schema: &Value, root: &Value, path: &str, problems: &mut Vec<LintProblem>) {
    let not_portable = |what| LintProblem::NotPortable { argument: path.to_owned(), what };
    if schema.get("$ref").is_some() {
        // All other references are inlined. The fields of a recursive type were checked at its first
        // occurrence.
        problems.push(not_portable("a recursive type"));
        return;
    }
    if schema.get("prefixItems").is_some() {
        problems.push(not_portable("a tuple"));
    }
    if schema.get("additionalProperties").is_some_and(|others| *others != false) {
        problems.push(not_portable("a map"));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let argument = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let has_description = |schema: &Value| {
            schema.get("description").and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty())
        };
        // A tag or a constant needs no description.
        if !has_description(property)
            && !has_description(resolve(property, root))
            && property.get("const").is_none()
        {
            problems.push(LintProblem::NoArgumentDescription { argument: argument.clone() });
        }
        fields(property, root, &argument, problems);
    }
    let named: Vec<&Value> = properties.into_iter().flat_map(|properties| properties.values()).collect();
    for inside in subschemas(schema) {
        if !named.iter().any(|property| std::ptr::eq(*property, inside))
            && schema.get("$defs").is_none_or(|defs| !holds(defs, inside))
        {
            fields(inside, root, path, problems);
        }
    }
}

fn holds(definitions: &Value, schema: &Value) -> bool {
    definitions
        .as_object()
        .is_some_and(|named| named.values().any(|definition| std::ptr::eq(definition, schema)))
}

impl fmt::Display for Lint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lint { tool, problem } = self;
        match problem {
            LintProblem::NoDescription => {
                write!(formatter, "the tool `{tool}` has no description; add a doc comment")
            }
            LintProblem::NoArgumentDescription { argument } => {
                write!(
                    formatter,
                    "the argument `{argument}` of `{tool}` has no description; add a doc comment"
                )
            }
            LintProblem::IllegalName { name } => {
                write!(formatter, "invalid name `{name}` for the tool `{tool}`")
            }
            LintProblem::LongName { name } => {
                write!(
                    formatter,
                    "the name `{name}` of the tool `{tool}` is longer than {MAX_NAME_CHARS} characters"
                )
            }
            LintProblem::LongDescription { length } => write!(
                formatter,
                "the description of `{tool}` has {length} characters; the limit is {MAX_DESCRIPTION_CHARS}"
            ),
            LintProblem::DestructiveWithoutConsent => {
                write!(
                    formatter,
                    "the tool `{tool}` is destructive but does not require consent; add an `explicit` action"
                )
            }
            LintProblem::HiddenDefault { argument } => {
                write!(
                    formatter,
                    "the default of the argument `{argument}` of `{tool}` is not in the schema; derive `Serialize` for its type"
                )
            }
            LintProblem::NotPortable { argument, what } if argument.is_empty() => {
                write!(
                    formatter,
                    "the arguments of `{tool}` are {what}, which some model APIs cannot express exactly"
                )
            }
            LintProblem::NotPortable { argument, what } => {
                write!(
                    formatter,
                    "the argument `{argument}` of `{tool}` is {what}, which some model APIs cannot express exactly"
                )
            }
        }
    }
}
