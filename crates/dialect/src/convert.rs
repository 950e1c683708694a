//! Converts tools to a dialect, one report per tool.

use bumpalo::Bump;

use crate::definition::{DefinitionParts, accepts_arguments, wrap};
use crate::json::{JsonWriter, Node};
use crate::schema::{self, Converted, Inexpressible, strict_change};
use crate::source::{SourceTool, SourceTools, read};
use crate::strict_choice::{Choice, choose};
use crate::{Change, Dialect, Effect, Family, Options, Refusal, Report, Status, names};

/// Tool definitions as text for a request, with the reports.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Conversion {
    /// JSON text for the request's `tools` field, or a single definition if the input was a single tool.
    /// `None` if the input was a single tool and it was refused.
    pub definitions: Option<String>,
    /// One report per tool, in input order.
    pub reports: Vec<Report>,
}

/// Input that is not JSON, or not a list of tools.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line}, column {column}")]
pub struct ReadError {
    pub message: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
}

/// Converts JSON text in the format of `from` (one tool, an array, `{"tools":[…]}` or a `tools/list`
/// response) to `to`.
pub fn convert(text: &str, from: Dialect, to: Dialect, options: &Options) -> Result<Conversion, ReadError> {
    let arena = Bump::with_capacity(text.len() * 2);
    let sources = read(text, from, to == Dialect::Mcp, &arena)?;
    let mut writer = JsonWriter::new(options.layout, text.len()).reading_from(text);
    let is_list = !sources.is_single;
    let is_grouped = is_list && to.family() == Family::Gemini && !sources.tools.is_empty();
    if is_list {
        writer.open('[');
    }
    let mut reports = Vec::with_capacity(sources.tools.len());
    let mut written = 0usize;
    convert_each(&sources, to, options, &arena, |report, converted| {
        if let Some(converted) = converted {
            if is_grouped && written == 0 {
                writer.item();
                writer.open('{');
                writer.key("functionDeclarations");
                writer.open('[');
            }
            if is_list {
                writer.item();
            }
            writer.node(converted.definition);
            written += 1;
        }
        reports.push(report);
    });
    if is_grouped && written > 0 {
        writer.close(']');
        writer.close('}');
    }
    if is_list {
        writer.close(']');
    }
    let definitions = (is_list || written > 0).then_some(writer.out);
    Ok(Conversion { definitions, reports })
}

/// A converted tool, still in the arena.
pub(crate) struct ConvertedTool<'a> {
    pub(crate) source: SourceTool<'a>,
    pub(crate) definition: Node<'a>,
    pub(crate) converted: Converted<'a>,
}

/// Converts each tool and passes its report to `done`, with the converted tool unless it was refused.
pub(crate) fn convert_each<'a>(
    sources: &SourceTools<'a>,
    dialect: Dialect,
    options: &Options,
    arena: &'a Bump,
    mut done: impl FnMut(Report, Option<ConvertedTool<'a>>),
) {
    let names: Vec<&str> = sources.tools.iter().map(|source| source.name).collect();
    let wire_names = names::wire_names(&names, options.server.as_deref(), schema::Profile::of(dialect));
    let mut limited = match dialect {
        Dialect::AnthropicStrict => convert_within_strict_limits(sources, &wire_names, options, arena),
        _ => Vec::new(),
    };
    for (index, (source, wire_name)) in sources.tools.iter().zip(wire_names).enumerate() {
        let mut refuse = |tool: String, name: String, reason: Refusal| {
            let (status, changes) = (Status::Refused, Vec::new());
            done(Report { tool, name, dialect, status, reason: Some(reason), changes }, None);
        };
        let refusal = |code, message| Refusal { code, pointer: String::new(), message };
        if let Some(error) = source.error {
            let position = index + 1;
            let label = if source.name.is_empty() { format!("#{position}") } else { source.name.to_owned() };
            let position = (!sources.is_single).then_some(position);
            refuse(label.clone(), label, refusal(error.code(), error.message(position)));
            continue;
        }
        let tool = source.name.to_owned();
        let Some(name) = wire_name else {
            let message = "duplicate name; an earlier tool in the list has the same name".to_owned();
            refuse(tool.clone(), tool, refusal("duplicate_name", message));
            continue;
        };
        let converted = limited.get_mut(index).and_then(Option::take);
        let tool_dialect = source.dialect(dialect);
        match converted.unwrap_or_else(|| convert_one(*source, tool_dialect, options, arena)) {
            Err(reason) => refuse(tool, name, reason),
            Ok(mut converted) => {
                let mut changes = std::mem::take(&mut converted.changes);
                if let Some(key) = source.schema_key {
                    let (pointer, keyword) = (String::new(), "inputSchema".to_owned());
                    let detail = format!("read the schema under `{key}`");
                    changes.insert(0, Change { pointer, keyword, effect: Effect::Rewritten, detail });
                }
                if name != tool {
                    let (pointer, keyword) = (String::new(), "name".to_owned());
                    let detail = format!("renamed from `{tool}` to `{name}`");
                    changes.insert(0, Change { pointer, keyword, effect: Effect::Rewritten, detail });
                }
                let definition = define(*source, &converted, tool_dialect, arena.alloc_str(&name), arena);
                let status = Status::of(&changes);
                let report = Report { tool, name, dialect, status, reason: None, changes };
                done(report, Some(ConvertedTool { source: *source, definition, converted }));
            }
        }
    }
}

fn convert_one<'a>(
    source: SourceTool<'a>,
    dialect: Dialect,
    options: &Options,
    arena: &'a Bump,
) -> Result<Converted<'a>, Refusal> {
    if dialect == Dialect::Mcp {
        return Ok(Converted::unchanged(source.input_schema.unwrap_or(Node::Null)));
    }
    schema::convert(source.input_schema, dialect, options, arena)
}

/// Converts every tool that has a name in the request, and makes only as many strict as a request may have.
fn convert_within_strict_limits<'a>(
    sources: &SourceTools<'a>,
    wire_names: &[Option<String>],
    options: &Options,
    arena: &'a Bump,
) -> Vec<Option<Result<Converted<'a>, Refusal>>> {
    let dialect = Dialect::AnthropicStrict;
    let mut results: Vec<_> = sources
        .tools
        .iter()
        .zip(wire_names)
        .map(|(source, name)| {
            let is_usable = source.error.is_none() && name.is_some();
            is_usable.then(|| convert_one(*source, dialect, options, arena))
        })
        .collect();
    let candidates: Vec<_> = sources
        .tools
        .iter()
        .zip(&results)
        .map(|(source, result)| match result {
            Some(Ok(converted)) if converted.strict == Some(true) => Some((source.name, converted)),
            _ => None,
        })
        .collect();
    let choices = choose(&candidates, &options.recent_tools);
    for ((source, result), choice) in sources.tools.iter().zip(&mut results).zip(choices) {
        match (choice, &mut *result) {
            (Some(Choice::Strict(reason)), Some(Ok(converted))) => {
                let detail = format!(
                    "strict: true; not all tools can be strict, and this one was chosen because {reason}"
                );
                converted.changes.insert(0, strict_change(String::new(), detail));
            }
            (Some(Choice::NotStrict(reason)), _) => {
                let reason = Inexpressible::at_root(reason);
                *result = Some(schema::fall_back(source.input_schema, dialect, options, arena, reason));
            }
            _ => {}
        }
    }
    results
}

fn define<'a>(
    source: SourceTool<'a>,
    converted: &Converted<'a>,
    dialect: Dialect,
    name: &'a str,
    arena: &'a Bump,
) -> Node<'a> {
    if dialect == Dialect::Mcp
        && let Some(original) = source.original_node()
    {
        return original;
    }
    // A Gemini tool without arguments has no schema, so the root's description moves to the tool.
    let omits_schema = dialect.family() == Family::Gemini && !accepts_arguments(converted.schema);
    let addition =
        if omits_schema { converted.schema.member("description") } else { converted.root_description };
    let description = match (source.description, addition) {
        (Some(description), Some(addition)) => {
            let text = |node: Node<'a>| node.text(arena).unwrap_or_default();
            let joined = format!("{}\n{}", text(description), text(addition));
            Some(Node::Text(arena.alloc_str(&joined)))
        }
        (description, addition) => description.or(addition),
    };
    let strict = match dialect {
        Dialect::OpenAiStrict | Dialect::ResponsesStrict | Dialect::AnthropicStrict => {
            Some(converted.strict == Some(true))
        }
        Dialect::Responses => Some(false),
        _ => None,
    };
    wrap(dialect, DefinitionParts { name, description, schema: converted.schema, strict }, arena)
}
