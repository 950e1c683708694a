//! Tools bound to a dialect.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bumpalo::Bump;
use serde_json::{Map, Value};
use toolwire_contract::Tool;
use toolwire_contract::text::nearest_names;

use crate::arguments::{ArgumentError, Codec, Decoded, Encoded};
use crate::convert::{ConvertedTool, ReadError, convert_each};
use crate::json::{Node, to_value};
use crate::schema::is_same_node;
use crate::source::{SourceTool, SourceTools, read};
use crate::{Dialect, Family, Options, Report};

/// Tools bound to a dialect: their definitions for a request, and the conversion of arguments.
#[derive(Debug)]
pub struct Toolset {
    definitions: Vec<Value>,
    /// The definitions as JSON texts, made when they are first needed.
    texts: OnceLock<Vec<String>>,
    reports: Vec<Report>,
    tools: Vec<BoundTool>,
    by_wire_name: HashMap<String, usize>,
    by_own_name: HashMap<String, usize>,
    dialect: Dialect,
}

/// A tool that was not refused.
#[derive(Debug)]
struct BoundTool {
    name: String,
    wire_name: String,
    codec: Codec,
}

impl Toolset {
    /// Converts tools to `dialect` and stores what is needed to convert arguments back.
    pub fn new(tools: &[Tool], dialect: Dialect, options: &Options) -> Toolset {
        let arena = Bump::new();
        let tools = tools.iter().map(|tool| SourceTool::from_tool(tool, &arena)).collect();
        Toolset::bind(&SourceTools { tools, is_single: false }, dialect, options, &arena)
    }

    /// Reads `text` in MCP's format, as [`convert`](crate::convert) does, and binds the tools to `dialect`.
    pub fn from_json(text: &str, dialect: Dialect, options: &Options) -> Result<Toolset, ReadError> {
        let arena = Bump::new();
        let sources = read(text, Dialect::Mcp, dialect == Dialect::Mcp, &arena)?;
        Ok(Toolset::bind(&sources, dialect, options, &arena))
    }

    fn bind<'a>(sources: &SourceTools<'a>, dialect: Dialect, options: &Options, arena: &'a Bump) -> Toolset {
        let mut toolset = Toolset {
            definitions: Vec::new(),
            texts: OnceLock::new(),
            reports: Vec::new(),
            tools: Vec::new(),
            by_wire_name: HashMap::new(),
            by_own_name: HashMap::new(),
            dialect,
        };
        convert_each(sources, dialect, options, arena, |report, converted| {
            if let Some(tool) = converted {
                let index = toolset.tools.len();
                toolset.by_wire_name.insert(report.name.clone(), index);
                toolset.by_own_name.insert(report.tool.clone(), index);
                toolset.definitions.push(match tool.source.original_tool() {
                    Some(original) if dialect == Dialect::Mcp => {
                        let mut original = original.clone();
                        if let Some(key) = tool.source.schema_key {
                            original.input_schema = original.extra.remove(key);
                        }
                        Value::from(original)
                    }
                    _ => to_value(tool.definition, arena),
                });
                toolset.tools.push(BoundTool {
                    name: report.tool.clone(),
                    wire_name: report.name.clone(),
                    codec: codec_of(tool, dialect, arena),
                });
            }
            toolset.reports.push(report);
        });
        toolset
    }

    /// Returns the dialect that the tools are bound to.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns one definition per tool that was not refused, in input order.
    pub fn definitions(&self) -> Vec<&Value> {
        self.definitions.iter().collect()
    }

    /// Returns the definition of a tool as JSON text, which is the same in every request.
    pub(crate) fn definition_text(&self, tool: &str) -> Option<&str> {
        let texts = self.texts.get_or_init(|| self.definitions.iter().map(Value::to_string).collect());
        Some(&texts[*self.by_own_name.get(tool)?])
    }

    /// Returns the value of a request's `tools` field.
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

    /// Returns one report per tool, in input order.
    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    /// Converts the arguments that a model sent (an object, or its JSON text) to the tool's own.
    pub fn decode(&self, name: &str, arguments: &Value) -> Result<Decoded, ArgumentError> {
        let bound = self.find(&self.by_wire_name, name, |bound| &bound.wire_name)?;
        bound.codec.decode(&bound.name, arguments)
    }

    /// Converts a tool's own arguments to those that a model of this dialect would have sent.
    pub fn encode(&self, tool: &str, arguments: &Value) -> Result<Encoded, ArgumentError> {
        let bound = self.find(&self.by_own_name, tool, |bound| &bound.name)?;
        let arguments = bound.codec.encode(&bound.name, arguments)?;
        Ok(Encoded { name: bound.wire_name.clone(), arguments })
    }

    /// Returns the tool's own name for the name that the model sees.
    pub fn own_name(&self, wire_name: &str) -> Option<&str> {
        self.by_wire_name.get(wire_name).map(|&index| self.tools[index].name.as_str())
    }

    /// Returns the name that the model sees for a tool.
    pub fn wire_name(&self, tool: &str) -> Option<&str> {
        self.by_own_name.get(tool).map(|&index| self.tools[index].wire_name.as_str())
    }

    /// Returns the own name of the tool at an index of [`Toolset::definitions`].
    pub fn name_at(&self, index: usize) -> Option<&str> {
        self.tools.get(index).map(|bound| bound.name.as_str())
    }

    /// Returns a tool's index in [`Toolset::definitions`] and the name that the model sees.
    pub(crate) fn index_and_wire_name(&self, tool: &str) -> Option<(usize, &str)> {
        let index = *self.by_own_name.get(tool)?;
        Some((index, &self.tools[index].wire_name))
    }

    fn find<'t>(
        &'t self,
        index: &HashMap<String, usize>,
        name: &str,
        name_of: impl Fn(&'t BoundTool) -> &'t String,
    ) -> Result<&'t BoundTool, ArgumentError> {
        if let Some(position) = index.get(name) {
            return Ok(&self.tools[*position]);
        }
        let known = self.tools.iter().map(|bound| name_of(bound).as_str());
        let nearest = nearest_names(name, known).into_iter().map(str::to_owned).collect();
        Err(ArgumentError::UnknownTool { name: name.to_owned(), nearest })
    }
}

/// Creates the codec of a tool. Schemas that the conversion left unchanged are shared.
fn codec_of<'a>(tool: ConvertedTool<'a>, dialect: Dialect, arena: &'a Bump) -> Codec {
    let ConvertedTool { source, converted, .. } = tool;
    let dialect = source.dialect(dialect);
    let own = Arc::new(source.schema_value(arena));
    let share = |node: Node<'a>, known: Node<'a>, value: &Arc<Value>| {
        if is_same_node(node, known) { value.clone() } else { Arc::new(to_value(node, arena)) }
    };
    let normalized = share(converted.normalized, source.input_schema.unwrap_or(Node::Null), &own);
    let wire = share(converted.schema, converted.normalized, &normalized);
    Codec::new(dialect, converted.plan, converted.shared, wire, own, normalized)
}
