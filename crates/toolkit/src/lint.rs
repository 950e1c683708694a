//! What breaks the conventions without breaking the build.

use std::fmt;

use serde_json::Value;
use toolwire_contract::Tool;

use crate::names;
use crate::schema::{resolve, subschemas};
use crate::server::Server;

/// Something about a tool that its reader will stumble over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lint {
    /// The tool's name without prefix.
    pub tool: String,
    pub breach: Breach,
}

/// How a tool breaks the conventions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Breach {
    NoDescription,
    /// An argument, or a field inside one, that nobody described.
    NoArgumentDescription {
        argument: String,
    },
    IllegalName {
        name: String,
    },
    /// Some models take no more than 64 characters.
    LongName {
        name: String,
    },
    /// Some models take no more than 1024 characters.
    LongDescription {
        length: usize,
    },
    /// It says that it destroys, and asks nobody first.
    DestructiveWithoutConsent,
    /// It may be left out, and nobody is told what it is then: its type has no JSON.
    UnshownDefault {
        argument: String,
    },
    /// Some models cannot be told of it, or not exactly. Without a name, it is the arguments as a whole.
    HardToSay {
        argument: String,
        what: &'static str,
    },
}

/// Everything about the server's own tools that breaks the conventions. A test that finds none keeps it so:
///
/// ```
/// # use toolwire_toolkit::{Server, lint, tool};
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

const LONGEST_NAME: usize = 64;
const LONGEST_DESCRIPTION: usize = 1024;

/// What is wrong with a tool; `doc` and `arguments` are what its author said, without what was generated.
pub(crate) fn lint_tool(
    tool: &Tool,
    plain_name: &str,
    doc: &str,
    arguments: &Value,
    unshown_defaults: &[String],
) -> Vec<Lint> {
    let mut breaches = Vec::new();
    if doc.trim().is_empty() {
        breaches.push(Breach::NoDescription);
    }
    if !names::is_legal(&tool.name) {
        breaches.push(Breach::IllegalName { name: tool.name.clone() });
    } else if tool.name.len() > LONGEST_NAME {
        breaches.push(Breach::LongName { name: tool.name.clone() });
    }
    let length = tool.description.as_deref().unwrap_or_default().chars().count();
    if length > LONGEST_DESCRIPTION {
        breaches.push(Breach::LongDescription { length });
    }
    let asks_first = tool
        .input_schema
        .as_ref()
        .is_some_and(|schema| schema.pointer("/properties/explicit_action/const").is_some());
    let is_destructive =
        tool.annotations.as_ref().and_then(|hints| hints.get("destructiveHint")) == Some(&true.into());
    if is_destructive && !asks_first {
        breaches.push(Breach::DestructiveWithoutConsent);
    }
    fields(arguments, arguments, "", &mut breaches);
    for argument in unshown_defaults {
        breaches.push(Breach::UnshownDefault { argument: argument.clone() });
    }
    let served = tool.input_schema.as_ref();
    if served.is_some_and(|served| {
        served.get("properties").is_some()
            && ["oneOf", "anyOf", "allOf"].iter().any(|key| served.get(key).is_some())
    }) {
        breaches
            .push(Breach::HardToSay { argument: String::new(), what: "a choice between sets of arguments" });
    }
    breaches.into_iter().map(|breach| Lint { tool: plain_name.to_owned(), breach }).collect()
}

/// Looks at the fields of an object, and at what they are made of.
fn fields(schema: &Value, root: &Value, path: &str, breaches: &mut Vec<Breach>) {
    let hard = |what| Breach::HardToSay { argument: path.to_owned(), what };
    if schema.get("$ref").is_some() {
        // Everything else is inlined; the fields of this one were looked at where it was met first.
        breaches.push(hard("a type that contains itself"));
        return;
    }
    if schema.get("prefixItems").is_some() {
        breaches.push(hard("a tuple"));
    }
    if schema.get("additionalProperties").is_some_and(|others| *others != false) {
        breaches.push(hard("a map"));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let argument = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let has_words = |schema: &Value| {
            schema.get("description").and_then(Value::as_str).is_some_and(|words| !words.trim().is_empty())
        };
        // A tag or a constant explains itself.
        if !has_words(property) && !has_words(resolve(property, root)) && property.get("const").is_none() {
            breaches.push(Breach::NoArgumentDescription { argument: argument.clone() });
        }
        fields(property, root, &argument, breaches);
    }
    let named: Vec<&Value> = properties.into_iter().flat_map(|properties| properties.values()).collect();
    for inside in subschemas(schema) {
        if !named.iter().any(|property| std::ptr::eq(*property, inside))
            && schema.get("$defs").is_none_or(|defs| !holds(defs, inside))
        {
            fields(inside, root, path, breaches);
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
        let Lint { tool, breach } = self;
        match breach {
            Breach::NoDescription => {
                write!(formatter, "the tool `{tool}` has no description: give it a doc comment")
            }
            Breach::NoArgumentDescription { argument } => {
                write!(
                    formatter,
                    "the argument `{argument}` of `{tool}` has no description: give it a doc comment"
                )
            }
            Breach::IllegalName { name } => {
                write!(formatter, "the tool `{tool}` is served as `{name}`, which is no legal name")
            }
            Breach::LongName { name } => {
                write!(
                    formatter,
                    "the tool `{tool}` is served as `{name}`, longer than {LONGEST_NAME} characters"
                )
            }
            Breach::LongDescription { length } => write!(
                formatter,
                "the description of `{tool}` has {length} characters, more than {LONGEST_DESCRIPTION}"
            ),
            Breach::DestructiveWithoutConsent => {
                write!(
                    formatter,
                    "the tool `{tool}` destroys and asks nobody first: give it an `explicit` action"
                )
            }
            Breach::UnshownDefault { argument } => {
                write!(
                    formatter,
                    "the default of the argument `{argument}` of `{tool}` is not shown: let its type derive `Serialize`"
                )
            }
            Breach::HardToSay { argument, what } if argument.is_empty() => {
                write!(
                    formatter,
                    "the arguments of `{tool}` are {what}, which some models cannot be told exactly"
                )
            }
            Breach::HardToSay { argument, what } => {
                write!(
                    formatter,
                    "the argument `{argument}` of `{tool}` is {what}, which some models cannot be told exactly"
                )
            }
        }
    }
}
