//! Tools bound to a dialect: their definitions, and the way back for arguments.

use std::collections::HashMap;

use bumpalo::Bump;
use serde_json::{Map, Value};

use crate::arguments::{ArgumentError, Codec, Decoded, Encoded};
use crate::definition::{Parts, takes_arguments, wrap};
use crate::json::{Node, Writer, to_value};
use crate::schema::{self, Converted, Inexpressible, SchemaSize};
use crate::source::{Source, Sources, read};
use crate::{Change, Dialect, Effect, Family, Options, Refusal, Report, Status, names, nearest};

/// Tool definitions as text for a request, with the report.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// JSON text: what belongs into the request's `tools` field, or the one definition when one bare tool came in.
    /// `None` when one bare tool came in and was refused.
    pub definitions: Option<String>,
    /// One report per tool, in input order.
    pub reports: Vec<Report>,
}

/// The input is not JSON, or not a list of tools.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line}, column {column}")]
pub struct ReadError {
    pub message: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

/// Converts JSON text in `from`'s form (one tool, an array, `{"tools":[…]}` or a `tools/list` response) to `to`.
pub fn convert(text: &str, from: Dialect, to: Dialect, options: &Options) -> Result<Conversion, ReadError> {
    let arena = Bump::with_capacity(text.len() * 2);
    let sources = read(text, from, to == Dialect::Mcp, &arena)?;
    let mut writer = Writer::new(options.layout, text.len()).reading_from(text);
    let listed = !sources.bare;
    let grouped = listed && to.family() == Family::Gemini && !sources.tools.is_empty();
    if listed {
        writer.open('[');
    }
    let mut reports = Vec::with_capacity(sources.tools.len());
    let mut written = 0usize;
    convert_each(&sources, to, options, &arena, |report, made| {
        if let Some(made) = made {
            if grouped && written == 0 {
                writer.item();
                writer.open('{');
                writer.key("functionDeclarations");
                writer.open('[');
            }
            if listed {
                writer.item();
            }
            writer.node(made.definition);
            written += 1;
        }
        reports.push(report);
    });
    if grouped && written > 0 {
        writer.close(']');
        writer.close('}');
    }
    if listed {
        writer.close(']');
    }
    let definitions = (listed || written > 0).then_some(writer.out);
    Ok(Conversion { definitions, reports })
}

/// Tools bound to a dialect: their definitions, and the way back for arguments.
#[derive(Debug)]
pub struct Toolset {
    definitions: Vec<Value>,
    reports: Vec<Report>,
    tools: Vec<Bound>,
    by_wire_name: HashMap<String, usize>,
    by_own_name: HashMap<String, usize>,
    dialect: Dialect,
}

/// One tool that was not refused.
#[derive(Debug)]
struct Bound {
    name: String,
    wire_name: String,
    codec: Codec,
}

impl Toolset {
    /// Converts tools to `dialect` and keeps what is needed to turn arguments back.
    pub fn new(tools: &[toolwire_contract::Tool], dialect: Dialect, options: &Options) -> Toolset {
        let values: Vec<Value> = tools.iter().map(|tool| Value::from(tool.clone())).collect();
        let arena = Bump::new();
        let sources = values.iter().map(|value| {
            let node = crate::json::from_value(value, &arena);
            crate::source::from_members(node.object().unwrap_or_default(), Some(node), &arena)
        });
        let sources = Sources { tools: sources.collect(), bare: false };
        Toolset::bind(&sources, dialect, options, &arena)
    }

    /// Reads `text` as [`convert`] does (in MCP's form) and binds the tools to `dialect`.
    pub fn from_json(text: &str, dialect: Dialect, options: &Options) -> Result<Toolset, ReadError> {
        let arena = Bump::new();
        let sources = read(text, Dialect::Mcp, dialect == Dialect::Mcp, &arena)?;
        Ok(Toolset::bind(&sources, dialect, options, &arena))
    }

    fn bind<'a>(sources: &Sources<'a>, dialect: Dialect, options: &Options, arena: &'a Bump) -> Toolset {
        let mut toolset = Toolset {
            definitions: Vec::new(),
            reports: Vec::new(),
            tools: Vec::new(),
            by_wire_name: HashMap::new(),
            by_own_name: HashMap::new(),
            dialect,
        };
        convert_each(sources, dialect, options, arena, |report, made| {
            if let Some(made) = made {
                let index = toolset.tools.len();
                toolset.by_wire_name.insert(report.name.clone(), index);
                toolset.by_own_name.insert(report.tool.clone(), index);
                toolset.definitions.push(to_value(made.definition, arena));
                let own = made.source.input_schema.map_or(Value::Null, |node| to_value(node, arena));
                let converted = made.converted;
                let (wire, mended) =
                    (to_value(converted.schema, arena), to_value(converted.normalized, arena));
                let codec = Codec::new(dialect, converted.plan, converted.shared, wire, own, mended);
                toolset.tools.push(Bound {
                    name: report.tool.clone(),
                    wire_name: report.name.clone(),
                    codec,
                });
            }
            toolset.reports.push(report);
        });
        toolset
    }

    /// The dialect that the tools are bound to.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// One definition per tool that was not refused, in input order.
    pub fn definitions(&self) -> Vec<&Value> {
        self.definitions.iter().collect()
    }

    /// What belongs into a request's `tools` field.
    pub fn request_tools(&self) -> Value {
        if self.dialect.family() == Family::Gemini && !self.definitions.is_empty() {
            let declarations = Value::Array(self.definitions.clone());
            return Value::Array(vec![Value::Object(Map::from_iter([(
                "functionDeclarations".to_owned(),
                declarations,
            )]))]);
        }
        Value::Array(self.definitions.clone())
    }

    /// One report per tool, in input order.
    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    /// Turns the arguments a model sent (an object, or JSON text of one) into the tool's own.
    pub fn decode(&self, name: &str, arguments: &Value) -> Result<Decoded, ArgumentError> {
        let bound = self.find(&self.by_wire_name, name, |bound| &bound.wire_name)?;
        bound.codec.decode(&bound.name, arguments)
    }

    /// Turns a tool's own arguments into what a model of this dialect would have sent.
    pub fn encode(&self, tool: &str, arguments: &Value) -> Result<Encoded, ArgumentError> {
        let bound = self.find(&self.by_own_name, tool, |bound| &bound.name)?;
        let arguments = bound.codec.encode(&bound.name, arguments)?;
        Ok(Encoded { name: bound.wire_name.clone(), arguments })
    }

    /// The tool's own name for the one a model of this dialect knows it by.
    pub fn own_name(&self, wire_name: &str) -> Option<&str> {
        self.by_wire_name.get(wire_name).map(|&index| self.tools[index].name.as_str())
    }

    /// The name a model of this dialect knows a tool by.
    pub fn wire_name(&self, tool: &str) -> Option<&str> {
        self.by_own_name.get(tool).map(|&index| self.tools[index].wire_name.as_str())
    }

    /// The tool's own name at a place of [`Toolset::definitions`].
    pub fn name_at(&self, index: usize) -> Option<&str> {
        self.tools.get(index).map(|bound| bound.name.as_str())
    }

    /// Where a tool stands in [`Toolset::definitions`], and the name a model knows it by.
    pub(crate) fn place_of(&self, tool: &str) -> Option<(usize, &str)> {
        let place = *self.by_own_name.get(tool)?;
        Some((place, &self.tools[place].wire_name))
    }

    fn find<'t>(
        &'t self,
        names: &HashMap<String, usize>,
        name: &str,
        called: impl Fn(&'t Bound) -> &'t String,
    ) -> Result<&'t Bound, ArgumentError> {
        if let Some(index) = names.get(name) {
            return Ok(&self.tools[*index]);
        }
        let known = self.tools.iter().map(|bound| called(bound).as_str());
        Err(ArgumentError::UnknownTool { name: name.to_owned(), nearest: nearest(name, known) })
    }
}

/// A definition as it was made, still in the arena.
struct Made<'a> {
    source: Source<'a>,
    definition: Node<'a>,
    converted: Converted<'a>,
}

/// How much an API takes in one request, where what one tool uses is gone for the others.
#[derive(Default)]
struct Spent {
    strict: usize,
    optional: usize,
    unions: usize,
}

/// Strict tools in one Anthropic request.
const STRICT_TOOLS: usize = 20;
/// Optional parameters and unions over all strict tools of one Anthropic request.
const STRICT_OPTIONAL: usize = 24;
const STRICT_UNIONS: usize = 16;

fn convert_each<'a>(
    sources: &Sources<'a>,
    dialect: Dialect,
    options: &Options,
    arena: &'a Bump,
    mut done: impl FnMut(Report, Option<Made<'a>>),
) {
    let own: Vec<&str> = sources.tools.iter().map(|source| source.name).collect();
    let wire = names::tools(&own, options.server.as_deref(), schema::Profile::of(dialect));
    let mut spent = Spent::default();
    for (index, (source, name)) in sources.tools.iter().zip(wire).enumerate() {
        let label =
            || if source.name.is_empty() { format!("#{}", index + 1) } else { source.name.to_owned() };
        let refused = |refusal: Refusal, name: String| Report {
            tool: if source.fault.is_some() { label() } else { source.name.to_owned() },
            name,
            dialect,
            status: Status::Refused,
            reason: Some(refusal),
            changes: Vec::new(),
        };
        let refusal = |code, message: String| Refusal { code, pointer: String::new(), message };
        if let Some(fault) = source.fault {
            let code = if fault.contains("levels") { "too_deep" } else { "not_a_tool" };
            done(refused(refusal(code, format!("{fault} (tool {} of the list)", index + 1)), label()), None);
            continue;
        }
        let Some(name) = name else {
            let message =
                "a tool of this name stands earlier in the list, and names must be unique".to_owned();
            done(refused(refusal("duplicate_name", message), source.name.to_owned()), None);
            continue;
        };
        match convert_one(*source, dialect, options, arena, &mut spent) {
            Err(refusal) => done(refused(refusal, name), None),
            Ok(mut converted) => {
                let mut changes = std::mem::take(&mut converted.changes);
                if name != source.name {
                    let detail = format!("`{}` is called `{name}`", source.name);
                    changes.insert(
                        0,
                        Change {
                            pointer: String::new(),
                            keyword: "name".to_owned(),
                            effect: Effect::Rewritten,
                            detail,
                        },
                    );
                }
                let definition = define(*source, &converted, dialect, arena.alloc_str(&name), arena);
                let status = Status::of(&changes);
                let report =
                    Report { tool: source.name.to_owned(), name, dialect, status, reason: None, changes };
                done(report, Some(Made { source: *source, definition, converted }));
            }
        }
    }
}

fn convert_one<'a>(
    source: Source<'a>,
    dialect: Dialect,
    options: &Options,
    arena: &'a Bump,
    spent: &mut Spent,
) -> Result<Converted<'a>, Refusal> {
    if dialect == Dialect::Mcp {
        let schema = source.input_schema.unwrap_or(Node::Null);
        return Ok(Converted::unchanged(schema));
    }
    let converted = schema::convert(source.input_schema, dialect, options, arena)?;
    if dialect != Dialect::AnthropicStrict || converted.strict != Some(true) {
        return Ok(converted);
    }
    let SchemaSize { optional, unions, .. } = converted.size;
    let over = [
        (spent.strict + 1, STRICT_TOOLS, "strict tools"),
        (spent.optional + optional, STRICT_OPTIONAL, "optional properties"),
        (spent.unions + unions, STRICT_UNIONS, "unions"),
    ]
    .into_iter()
    .find(|(count, limit, _)| count > limit);
    if let Some((_, limit, what)) = over {
        let reason = format!(
            "one request takes {limit} {what} over all strict tools, and the earlier tools have used them"
        );
        return schema::fall_back(
            source.input_schema,
            dialect,
            options,
            arena,
            Inexpressible { pointer: String::new(), detail: reason },
        );
    }
    spent.strict += 1;
    spent.optional += optional;
    spent.unions += unions;
    Ok(converted)
}

fn define<'a>(
    source: Source<'a>,
    converted: &Converted<'a>,
    dialect: Dialect,
    name: &'a str,
    arena: &'a Bump,
) -> Node<'a> {
    if dialect == Dialect::Mcp
        && let Some(whole) = source.whole
    {
        return whole;
    }
    // Gemini's tools without arguments have no schema, so what its root says goes to the tool.
    let unshown = dialect.family() == Family::Gemini && !takes_arguments(converted.schema);
    let aside = if unshown { converted.schema.member("description") } else { converted.root_description };
    let description = match (source.description, aside) {
        (description, None) => description,
        (None, aside) => aside,
        (Some(words), Some(aside)) => {
            let text = format!(
                "{}\n{}",
                words.text(arena).unwrap_or_default(),
                aside.text(arena).unwrap_or_default()
            );
            Some(Node::Text(arena.alloc_str(&text)))
        }
    };
    let strict = match dialect {
        Dialect::OpenAiStrict | Dialect::ResponsesStrict | Dialect::AnthropicStrict => {
            Some(converted.strict == Some(true))
        }
        Dialect::Responses => Some(false),
        _ => None,
    };
    wrap(dialect, Parts { name, description, schema: converted.schema, strict }, arena)
}
