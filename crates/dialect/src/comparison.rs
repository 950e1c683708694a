//! Comparisons of a tool with its definition, place by place.

use std::collections::HashMap;

use bumpalo::Bump;
use serde_json::Value;

use crate::convert::{ConvertedTool, convert_each};
use crate::definition::schema_key;
use crate::json::{EMPTY, Node, to_value};
use crate::schema::{Trace, convert_traced};
use crate::source::read;
use crate::{Change, Dialect, Family, Options, ReadError, Report};

/// A tool and its definition in a dialect.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Comparison {
    pub report: Report,
    /// The tool's description.
    pub description: Option<String>,
    /// The tool's `inputSchema`; `null` if it has none.
    pub schema: Value,
    /// `None` if the tool was refused.
    pub definition: Option<ComparedDefinition>,
}

impl Comparison {
    /// Returns the comparison of a tool that was refused and whose schema is not known.
    pub fn without_schema(report: Report) -> Comparison {
        Comparison { report, description: None, schema: Value::Null, definition: None }
    }
}

/// A definition whose parts are assigned to those of its tool.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct ComparedDefinition {
    /// The complete definition, as it is sent.
    pub value: Value,
    pub description: Option<String>,
    /// The schema inside the definition; `None` if it is left out because the tool takes no arguments.
    pub schema: Option<Value>,
    /// The changes of the report, in the same order.
    pub changes: Vec<PlacedChange>,
    /// All schemas of the definition, in order.
    pub origins: Vec<Origin>,
}

/// A change with its places in the definition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlacedChange {
    pub change: Change,
    /// Pointers into the definition's schema: to the schemas that were made from the one that
    /// [`Change::pointer`] points to, or from the nearest one above that the definition has.
    pub definition: Vec<String>,
}

/// A schema of a definition, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// A pointer into the definition's schema.
    pub definition: String,
    /// Pointers into the original `inputSchema`; empty if nothing there corresponds to it.
    pub original: Vec<String>,
}

/// Reads `text` in MCP's format, as [`convert`](crate::convert()) does, and compares each tool with its
/// definition in a dialect. It does the work of two conversions.
///
/// ```
/// use toolwire_dialect::comparison::compare;
/// use toolwire_dialect::{Dialect, Options};
///
/// let tool = r##"{"name": "f", "inputSchema": {
///     "type": "object",
///     "properties": {"a": {"$ref": "#/$defs/A"}},
///     "$defs": {"A": {"type": "string", "pattern": "^a"}}
/// }}"##;
/// let comparisons = compare(tool, Dialect::Gemini, &Options::default())?;
/// let definition = comparisons[0].definition.as_ref().unwrap();
/// let moved = definition.changes.iter().find(|placed| placed.change.keyword == "pattern").unwrap();
/// assert_eq!(moved.change.pointer, "/$defs/A");
/// assert_eq!(moved.definition, ["/properties/a"]);
/// # Ok::<(), toolwire_dialect::ReadError>(())
/// ```
pub fn compare(text: &str, dialect: Dialect, options: &Options) -> Result<Vec<Comparison>, ReadError> {
    let arena = Bump::with_capacity(text.len() * 2);
    let sources = read(text, Dialect::Mcp, dialect == Dialect::Mcp, &arena)?;
    let mut comparisons = Vec::with_capacity(sources.tools.len());
    let mut tools = sources.tools.iter();
    convert_each(&sources, dialect, options, &arena, |report, converted| {
        let source = tools.next();
        let description = source.and_then(|source| source.description?.text(&arena)).map(str::to_owned);
        let schema = source.map_or(Value::Null, |source| source.schema_value(&arena));
        let definition = converted.map(|tool| compared(tool, &report, options, &arena));
        comparisons.push(Comparison { report, description, schema, definition });
    });
    Ok(comparisons)
}

fn compared<'a>(
    tool: ConvertedTool<'a>,
    report: &Report,
    options: &Options,
    arena: &'a Bump,
) -> ComparedDefinition {
    let dialect = report.dialect;
    let trace = Trace::default();
    let original = tool.source.input_schema.filter(|schema| schema.object().is_some()).unwrap_or(EMPTY);
    let schema = match dialect {
        Dialect::Mcp => Some(original),
        _ => {
            let input = tool.source.input_schema;
            convert_traced(input, tool.source.dialect(dialect), tool.converted.strict, options, &trace, arena)
        }
    };
    let traced = schema.map(|schema| trace.schemas(schema, original)).unwrap_or_default();
    let mut by_origin: HashMap<&str, Vec<&str>> = HashMap::new();
    for traced in &traced {
        for origin in &traced.origins {
            by_origin.entry(origin).or_default().push(&traced.pointer);
        }
    }
    let changes = report.changes.iter().map(|change| place(change, &by_origin)).collect();
    let (description, schema) = parts(dialect, tool.definition, arena);
    ComparedDefinition {
        value: to_value(tool.definition, arena),
        description,
        schema,
        changes,
        origins: traced
            .into_iter()
            .map(|traced| Origin { definition: traced.pointer, original: traced.origins })
            .collect(),
    }
}

/// Returns the description and the schema of a definition.
fn parts<'a>(dialect: Dialect, definition: Node<'a>, arena: &'a Bump) -> (Option<String>, Option<Value>) {
    let wrapper = match dialect.family() {
        Family::OpenAiChat | Family::Cohere | Family::Ollama => Some("function"),
        Family::Bedrock => Some("toolSpec"),
        _ => None,
    };
    let inner = wrapper.and_then(|key| definition.member(key)).unwrap_or(definition);
    let description = inner.member("description").and_then(|node| node.text(arena)).map(str::to_owned);
    let schema = inner.member(schema_key(dialect));
    let schema = schema.and_then(|schema| match dialect.family() {
        Family::Bedrock => schema.member("json"),
        _ => Some(schema),
    });
    (description.filter(|text| !text.is_empty()), schema.map(|schema| to_value(schema, arena)))
}

/// Finds the schemas of the definition that a change is about, by the schemas from which they were made.
fn place(change: &Change, by_origin: &HashMap<&str, Vec<&str>>) -> PlacedChange {
    let mut pointer = change.pointer.as_str();
    let definition = loop {
        match (by_origin.get(pointer), pointer.rfind('/')) {
            (Some(found), _) => break found.iter().map(|&place| place.to_owned()).collect(),
            (None, Some(parent)) => pointer = &pointer[..parent],
            (None, None) => break Vec::new(),
        }
    };
    PlacedChange { change: change.clone(), definition }
}
