//! Which tool a refusal is about, and where in its schema: every API has its own way to point.

use serde_json::Value;

use crate::Toolset;

/// What a message points at.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The tool's own name.
    pub(super) tool: Option<String>,
    /// RFC 6901 pointer into the schema as it was sent.
    pub(super) pointer: Option<String>,
}

pub(super) fn find(tools: &Toolset, message: &str) -> Place {
    let by_index = INDEXED.iter().find_map(|(before, after)| indexed(message, before, after));
    let (index, path) = match by_index {
        Some((index, path)) => (Some(index), path),
        None => (None, ""),
    };
    let name = index.and_then(|index| tools.name_at(index)).or_else(|| named(tools, message));
    let definition = match (index, name) {
        (Some(index), Some(_)) => tools.definitions().get(index).copied(),
        (None, Some(name)) => {
            tools.place_of(name).and_then(|(place, _)| tools.definitions().get(place).copied())
        }
        _ => None,
    };
    let pointer = context(message)
        .or_else(|| schema_path(path).map(steps))
        .or_else(|| after(message, "At path '").map(|path| steps(until(path, &["'"]))))
        .map(|steps| pointer(&steps, definition.and_then(schema_of)));
    // Bedrock's validator counts from the root of the schema it was given.
    let below = after(message, "is invalid").and_then(|rest| after(rest, "$."));
    let pointer = match below {
        Some(path) => Some(pointer_of(&steps(until(path, &[":", " "])))),
        None => pointer,
    };
    Place { tool: name.map(str::to_owned), pointer }
}

/// What stands before and after the number of a tool. Gemini's `tools[0]` holds all of them, so it comes first.
const INDEXED: [(&str, &str); 5] = [
    ("function_declarations[", "]"),
    ("functionDeclarations[", "]"),
    ("tools[", "]"),
    ("tools.", ""),
    ("tools/", ""),
];

/// The number of a tool, and the path after it.
fn indexed<'m>(message: &'m str, before: &str, closing: &str) -> Option<(usize, &'m str)> {
    let mut rest = message;
    while let Some(found) = after(rest, before) {
        let digits = found.len() - found.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits > 0
            && let Some(path) = found[digits..].strip_prefix(closing)
            && let Ok(index) = found[..digits].parse()
        {
            // A list that holds a list of declarations is not itself a tool.
            let is_outer =
                path.starts_with(".function_declarations") || path.starts_with(".functionDeclarations");
            return (!is_outer).then_some((index, until(path, &["'", ": ", "\"", " ", ","])));
        }
        rest = found;
    }
    None
}

/// The tool whose name is quoted.
fn named<'t>(tools: &'t Toolset, message: &str) -> Option<&'t str> {
    const BEFORE: [(&str, &[&str]); 7] = [
        ("function '", &["'"]),
        ("function `", &["`"]),
        ("function \"", &["\""]),
        ("Function name was ", &[" but"]),
        ("declaration found: ", &[" ", "\n"]),
        ("parameters for tool ", &[" did not"]),
        ("tool '", &["'"]),
    ];
    BEFORE.iter().find_map(|(before, end)| {
        let name = until(after(message, before)?, end).trim_end_matches('.');
        tools.own_name(name).or_else(|| tools.place_of(name).and_then(|(place, _)| tools.name_at(place)))
    })
}

/// Python's way: `In context=('properties', 'v', 'anyOf', '6')`.
fn context(message: &str) -> Option<Vec<String>> {
    let tuple = until(after(message, "In context=(")?, &[")"]);
    let quoted = tuple.split(',').map(|step| step.trim().trim_matches(['\'', '"']));
    Some(quoted.filter(|step| !step.is_empty()).map(str::to_owned).collect())
}

/// The part of a path that lies in the schema.
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

/// `.properties[x].items` and `/properties/x/items` as steps.
fn steps(path: &str) -> Vec<String> {
    let steps = path.split(['.', '[', ']', '/']);
    steps
        .map(|step| step.trim_matches(['\'', '"']))
        .filter(|step| !step.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A pointer; `properties[2].value`, as protobuf counts the entries of a map, is the third property.
fn pointer(steps: &[String], schema: Option<&Value>) -> String {
    let mut named: Vec<String> = Vec::new();
    let mut place = schema;
    let mut rest = steps.iter().peekable();
    while let Some(step) = rest.next() {
        let is_counted = named.last().is_some_and(|last| last == "properties")
            && rest.peek().is_some_and(|next| *next == "value")
            && place.is_some_and(|place| place.get(step).is_none());
        let nth = step.parse::<usize>().ok().filter(|_| is_counted);
        let key = nth.and_then(|nth| place?.as_object()?.keys().nth(nth).cloned());
        if key.is_some() {
            rest.next();
        }
        let step = key.unwrap_or_else(|| step.clone());
        place = place.and_then(|place| match place {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            other => other.get(&step),
        });
        named.push(step);
    }
    pointer_of(&named)
}

fn pointer_of(steps: &[String]) -> String {
    steps.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect()
}

/// The schema in a definition, wherever its API keeps it.
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
