//! Finds the tool that an error message is about, and the location in its schema. Each API has its own
//! notation.

use serde_json::Value;
use toolwire_contract::text::escape_pointer_segment;

use crate::Toolset;

/// The tool and the part of its schema that a message identifies.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Location {
    /// The tool's own name.
    pub(super) tool: Option<String>,
    /// RFC 6901 pointer into the schema as it was sent.
    pub(super) pointer: Option<String>,
}

impl Location {
    pub(super) fn find(tools: &Toolset, message: &str) -> Location {
        let indexed = INDEX_NOTATIONS.iter().find_map(|notation| notation.find(message));
        let (index, path) = indexed.map_or((None, ""), |(index, path)| (Some(index), path));
        let name = index.and_then(|index| tools.name_at(index)).or_else(|| quoted_tool(tools, message));
        let index = index.or_else(|| tools.index_and_wire_name(name?).map(|(index, _)| index));
        let definition = name.and(index).and_then(|index| tools.definitions().get(index).copied());
        // Bedrock's validator reports a path from the root of the schema.
        let bedrock_path = after(message, "is invalid").and_then(|rest| after(rest, "$."));
        let pointer = match bedrock_path {
            Some(path) => Some(to_pointer(&steps(until(path, &[":", " "])))),
            None => python_context(message)
                .or_else(|| schema_path(path).map(steps))
                .or_else(|| after(message, "At path '").map(|path| steps(until(path, &["'"]))))
                .map(|steps| to_pointer(&with_property_names(steps, definition.and_then(schema_of)))),
        };
        Location { tool: name.map(str::to_owned), pointer }
    }
}

/// The text before and after the index of a tool.
struct IndexNotation {
    before: &'static str,
    after: &'static str,
}

/// The Gemini notations come first, because there `tools[0]` is a list of declarations.
const INDEX_NOTATIONS: [IndexNotation; 5] = [
    IndexNotation { before: "function_declarations[", after: "]" },
    IndexNotation { before: "functionDeclarations[", after: "]" },
    IndexNotation { before: "tools[", after: "]" },
    IndexNotation { before: "tools.", after: "" },
    IndexNotation { before: "tools/", after: "" },
];

impl IndexNotation {
    /// Returns the index of a tool and the path after it.
    fn find<'m>(&self, message: &'m str) -> Option<(usize, &'m str)> {
        let mut rest = message;
        while let Some(found) = after(rest, self.before) {
            let digits = found.len() - found.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            if digits > 0
                && let Some(path) = found[digits..].strip_prefix(self.after)
                && let Ok(index) = found[..digits].parse()
            {
                // A list of declarations is not a tool.
                let is_list =
                    path.starts_with(".function_declarations") || path.starts_with(".functionDeclarations");
                return (!is_list).then_some((index, until(path, &["'", ": ", "\"", " ", ","])));
            }
            rest = found;
        }
        None
    }
}

/// The text before the name of a tool, and the texts that may end it.
const NAME_NOTATIONS: [(&str, &[&str]); 7] = [
    ("function '", &["'"]),
    ("function `", &["`"]),
    ("function \"", &["\""]),
    ("Function name was ", &[" but"]),
    ("declaration found: ", &[" ", "\n"]),
    ("parameters for tool ", &[" did not"]),
    ("tool '", &["'"]),
];

/// Returns the own name of the tool that the message names.
fn quoted_tool<'t>(tools: &'t Toolset, message: &str) -> Option<&'t str> {
    NAME_NOTATIONS.iter().find_map(|(before, ends)| {
        let name = until(after(message, before)?, ends).trim_end_matches('.');
        tools
            .own_name(name)
            .or_else(|| tools.index_and_wire_name(name).and_then(|(index, _)| tools.name_at(index)))
    })
}

/// Reads a path written as a Python tuple: `In context=('properties', 'v', 'anyOf', '6')`.
fn python_context(message: &str) -> Option<Vec<String>> {
    let tuple = until(after(message, "In context=(")?, &[")"]);
    let quoted = tuple.split(',').map(|step| step.trim().trim_matches(['\'', '"']));
    Some(quoted.filter(|step| !step.is_empty()).map(str::to_owned).collect())
}

/// Returns the part of a path that is inside the schema.
fn schema_path(path: &str) -> Option<&str> {
    const ROOTS: [&str; 7] = [
        "parameters_json_schema",
        "parametersJsonSchema",
        "parameters",
        "input_schema",
        "inputSchema.json",
        "inputSchema/json",
        "inputSchema",
    ];
    ROOTS.iter().find_map(|root| after(path, root)).map(|rest| rest.trim_end_matches(':'))
}

/// Splits `.properties[x].items` or `/properties/x/items` into steps.
fn steps(path: &str) -> Vec<String> {
    let steps = path.split(['.', '[', ']', '/']);
    steps
        .map(|step| step.trim_matches(['\'', '"']))
        .filter(|step| !step.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Replaces the indexes of properties by their names: protobuf writes `properties[2].value` for the third
/// property.
fn with_property_names(steps: Vec<String>, schema: Option<&Value>) -> Vec<String> {
    let mut named: Vec<String> = Vec::with_capacity(steps.len());
    let mut current = schema;
    let mut rest = steps.into_iter().peekable();
    while let Some(step) = rest.next() {
        let is_index = named.last().is_some_and(|last| last == "properties")
            && rest.peek().is_some_and(|next| *next == "value")
            && current.is_some_and(|current| current.get(&step).is_none());
        let index = step.parse::<usize>().ok().filter(|_| is_index);
        let key = index.and_then(|index| current?.as_object()?.keys().nth(index).cloned());
        if key.is_some() {
            rest.next();
        }
        let step = key.unwrap_or(step);
        current = current.and_then(|current| match current {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            other => other.get(&step),
        });
        named.push(step);
    }
    named
}

fn to_pointer(steps: &[String]) -> String {
    steps.iter().map(|step| format!("/{}", escape_pointer_segment(step))).collect()
}

/// Returns the schema in a definition of any dialect.
fn schema_of(definition: &Value) -> Option<&Value> {
    [
        "/function/parameters",
        "/parameters",
        "/input_schema",
        "/parametersJsonSchema",
        "/toolSpec/inputSchema/json",
        "/inputSchema",
    ]
    .iter()
    .find_map(|place| definition.pointer(place))
}

fn after<'m>(text: &'m str, mark: &str) -> Option<&'m str> {
    text.split_once(mark).map(|(_, rest)| rest)
}

fn until<'m>(text: &'m str, marks: &[&str]) -> &'m str {
    let end = marks.iter().filter_map(|mark| text.find(mark)).min().unwrap_or(text.len());
    &text[..end]
}
