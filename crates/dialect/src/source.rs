//! Reads tools from JSON text or from [`Tool`] values.
//!
//! The text is one tool, an array of tools, `{"tools":[…]}` or a `tools/list` response, in MCP's form or a dialect's.

use bumpalo::Bump;
use serde_json::Value;
use toolwire_contract::Tool;

use crate::json::{JsonError, JsonReader, MAX_DEPTH, Member, Node, from_value, get, to_value};
use crate::{Dialect, Family, ReadError};

/// A tool to convert, borrowing from the text or the [`Tool`] it was read from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SourceTool<'a> {
    pub(crate) name: &'a str,
    pub(crate) description: Option<Node<'a>>,
    pub(crate) input_schema: Option<Node<'a>>,
    original: Original<'a>,
    /// Why the entry cannot be used as a tool.
    pub(crate) error: Option<ToolReadError>,
}

/// The complete object that a tool was read from.
#[derive(Clone, Copy, Debug, Default)]
enum Original<'a> {
    #[default]
    NotRetained,
    Node(Node<'a>),
    Tool(&'a Tool),
}

/// Why an entry of a list cannot be used as a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolReadError {
    NotAnObject,
    NoName,
    NotADefinition,
    TooDeep,
}

/// The tools of one text.
pub(crate) struct SourceTools<'a> {
    pub(crate) tools: Vec<SourceTool<'a>>,
    /// The text was a single tool, not a list.
    pub(crate) is_single: bool,
}

impl ToolReadError {
    /// Returns the machine-readable code of the refusal.
    pub(crate) const fn code(self) -> &'static str {
        match self {
            ToolReadError::TooDeep => "too_deep",
            _ => "not_a_tool",
        }
    }

    /// Describes the entry at `position`, counted from 1.
    pub(crate) fn message(self, position: usize) -> String {
        let entry = format!("tool {position} of the list");
        match self {
            ToolReadError::NotAnObject => format!("{entry} is not an object"),
            ToolReadError::NoName => format!("{entry} has no `name`"),
            ToolReadError::NotADefinition => format!("{entry} is not a definition in this dialect"),
            ToolReadError::TooDeep => format!("{entry} is nested deeper than {MAX_DEPTH} levels"),
        }
    }
}

impl<'a> SourceTool<'a> {
    /// Reads a tool without copying its texts or its schema.
    pub(crate) fn from_tool(tool: &'a Tool, arena: &'a Bump) -> SourceTool<'a> {
        let annotated_title = || tool.annotations.as_ref()?.get("title")?.as_str();
        let description = tool.description.as_deref().filter(|text| !text.trim().is_empty());
        let description = description.or(tool.title.as_deref()).or_else(annotated_title);
        SourceTool {
            name: &tool.name,
            description: description.map(Node::Text),
            input_schema: tool.input_schema.as_ref().map(|schema| from_value(schema, arena)),
            original: Original::Tool(tool),
            error: None,
        }
    }

    /// Reads a tool from its members, as MCP names them.
    fn from_members(members: &'a [Member<'a>], arena: &'a Bump) -> SourceTool<'a> {
        let text = |node: Node<'a>| node.is_string().then_some(node);
        let annotated_title =
            || get(members, "annotations").and_then(|node| node.member("title")).and_then(text);
        let description = get(members, "description")
            .and_then(text)
            .filter(|node| !matches!(node, Node::Text(text) if text.trim().is_empty()))
            .or_else(|| get(members, "title").and_then(text))
            .or_else(annotated_title);
        let name = get(members, "name").and_then(|node| node.text(arena));
        SourceTool {
            name: name.unwrap_or_default(),
            description,
            input_schema: get(members, "inputSchema"),
            original: Original::NotRetained,
            error: name.is_none().then_some(ToolReadError::NoName),
        }
    }

    fn invalid(name: &'a str, error: ToolReadError) -> SourceTool<'a> {
        SourceTool { name, error: Some(error), ..SourceTool::default() }
    }

    /// Returns the complete tool object, if it was retained as a node.
    pub(crate) fn original_node(&self) -> Option<Node<'a>> {
        match self.original {
            Original::Node(node) => Some(node),
            _ => None,
        }
    }

    /// Returns the [`Tool`] that this was read from.
    pub(crate) fn original_tool(&self) -> Option<&'a Tool> {
        match self.original {
            Original::Tool(tool) => Some(tool),
            _ => None,
        }
    }

    /// Returns the schema as the server sent it; `null` if there is none.
    pub(crate) fn schema_value(&self, arena: &'a Bump) -> Value {
        match self.original_tool() {
            Some(tool) => tool.input_schema.clone().unwrap_or_default(),
            None => self.input_schema.map_or(Value::Null, |node| to_value(node, arena)),
        }
    }
}

/// Reads `text` in the form of `from`.
///
/// With `retain`, the complete tool objects are retained, not only the members that a definition needs.
pub(crate) fn read<'a>(
    text: &'a str,
    from: Dialect,
    retain: bool,
    arena: &'a Bump,
) -> Result<SourceTools<'a>, ReadError> {
    let mut reader = JsonReader::new(text, arena);
    let sources = if from == Dialect::Mcp {
        read_mcp(&mut reader, retain, arena)
    } else {
        read_definitions(&mut reader, from, arena)
    };
    sources.and_then(|sources| reader.end().map(|()| sources)).map_err(|error| locate(text, error))
}

fn read_mcp<'a>(
    reader: &mut JsonReader<'a>,
    retain: bool,
    arena: &'a Bump,
) -> Result<SourceTools<'a>, JsonError> {
    match reader.peek() {
        Some(b'[') => Ok(SourceTools { tools: read_list(reader, retain, arena)?, is_single: false }),
        Some(b'{') => {
            let start = reader.position();
            if let Some(tools) = read_nested_list(reader, retain, arena)? {
                return Ok(SourceTools { tools, is_single: false });
            }
            reader.rewind(start);
            let problem = find_problem(reader)?;
            reader.rewind(start);
            match problem {
                Some(message) => reader.error(message),
                None => Ok(SourceTools { tools: vec![read_tool(reader, retain, arena)?], is_single: true }),
            }
        }
        _ => {
            let start = reader.position();
            reader.value()?;
            reader.rewind(start);
            reader.error("expected a tool, an array of tools, or an object with `tools`")
        }
    }
}

/// Returns the reason why an object without a list of tools is not a tool either.
fn find_problem(reader: &mut JsonReader<'_>) -> Result<Option<&'static str>, JsonError> {
    let (mut is_tool, mut has_error, mut has_tools, mut is_empty) = (false, false, false, true);
    let mut more = reader.enter_object()?;
    while more {
        is_empty = false;
        match reader.key()? {
            "name" | "inputSchema" | "description" => is_tool = true,
            "error" => has_error = true,
            "tools" => has_tools = true,
            _ => {}
        }
        reader.skip()?;
        more = reader.next_member()?;
    }
    Ok(if is_tool {
        None
    } else if has_error {
        Some("expected tools, found a server response with an `error`")
    } else if has_tools {
        Some("`tools` is not an array")
    } else if is_empty {
        Some("expected a tool, found an empty object")
    } else {
        None
    })
}

/// Reads the list under `tools` or `result.tools`.
fn read_nested_list<'a>(
    reader: &mut JsonReader<'a>,
    retain: bool,
    arena: &'a Bump,
) -> Result<Option<Vec<SourceTool<'a>>>, JsonError> {
    let mut tools = None;
    let mut more = reader.enter_object()?;
    while more {
        match (reader.key()?, reader.peek()) {
            ("tools", Some(b'[')) => tools = Some(read_list(reader, retain, arena)?),
            ("result", Some(b'{')) if tools.is_none() => tools = read_nested_list(reader, retain, arena)?,
            _ => reader.skip()?,
        }
        more = reader.next_member()?;
    }
    Ok(tools)
}

fn read_list<'a>(
    reader: &mut JsonReader<'a>,
    retain: bool,
    arena: &'a Bump,
) -> Result<Vec<SourceTool<'a>>, JsonError> {
    let mut tools = Vec::new();
    let mut more = reader.enter_list()?;
    while more {
        tools.push(read_tool(reader, retain, arena)?);
        more = reader.next_item()?;
    }
    Ok(tools)
}

/// Reads one tool. If it is nested too deep, only this tool is invalid, not the whole list.
fn read_tool<'a>(
    reader: &mut JsonReader<'a>,
    retain: bool,
    arena: &'a Bump,
) -> Result<SourceTool<'a>, JsonError> {
    if reader.peek() != Some(b'{') {
        reader.skip()?;
        return Ok(SourceTool::invalid("", ToolReadError::NotAnObject));
    }
    let start = reader.position();
    match read_members(reader, retain, arena) {
        Err(error) if error.too_deep => {
            reader.rewind(start);
            Ok(SourceTool::invalid(read_name(reader, arena)?, ToolReadError::TooDeep))
        }
        other => other,
    }
}

fn read_members<'a>(
    reader: &mut JsonReader<'a>,
    retain: bool,
    arena: &'a Bump,
) -> Result<SourceTool<'a>, JsonError> {
    if retain {
        let node = reader.value()?;
        let source = SourceTool::from_members(node.object().unwrap_or_default(), arena);
        return Ok(SourceTool { original: Original::Node(node), ..source });
    }
    let mut members: [Member<'a>; 5] = [Member::new("", Node::Null); 5];
    let mut count = 0;
    let mut more = reader.enter_object()?;
    while more {
        let key = reader.key()?;
        if matches!(key, "name" | "title" | "description" | "inputSchema" | "annotations") {
            let value = reader.value()?;
            match members[..count].iter_mut().find(|member| member.key == key) {
                Some(member) => member.value = value,
                None => {
                    members[count] = Member::new(key, value);
                    count += 1;
                }
            }
        } else {
            reader.skip()?;
        }
        more = reader.next_member()?;
    }
    Ok(SourceTool::from_members(arena.alloc_slice_copy(&members[..count]), arena))
}

/// Reads only the name of a tool, skipping everything else.
fn read_name<'a>(reader: &mut JsonReader<'a>, arena: &'a Bump) -> Result<&'a str, JsonError> {
    let mut name = "";
    let mut more = reader.enter_object()?;
    while more {
        match (reader.key()?, reader.peek()) {
            ("name", Some(b'"')) => name = reader.value()?.text(arena).unwrap_or_default(),
            _ => reader.skip()?,
        }
        more = reader.next_member()?;
    }
    Ok(name)
}

/// Reads definitions in the form of another dialect.
fn read_definitions<'a>(
    reader: &mut JsonReader<'a>,
    from: Dialect,
    arena: &'a Bump,
) -> Result<SourceTools<'a>, JsonError> {
    reader.peek();
    let start = reader.position();
    let node = reader.value()?;
    let list = match node {
        Node::List(_) => Some(node),
        _ => ["result", "toolConfig"]
            .into_iter()
            .fold(node.member("tools"), |found, key| found.or_else(|| node.member(key)?.member("tools"))),
    };
    let (nodes, mut is_single): (&[Node<'a>], bool) = match (list, node) {
        (Some(Node::List(nodes)), _) => (nodes, false),
        (_, Node::Object(_)) => (arena.alloc_slice_copy(&[node]), true),
        _ => {
            reader.rewind(start);
            return reader.error("expected a definition, an array of definitions, or an object with `tools`");
        }
    };
    let mut tools = Vec::with_capacity(nodes.len());
    for node in nodes {
        match node.member("functionDeclarations").or_else(|| node.member("function_declarations")) {
            Some(Node::List(declarations)) if from.family() == Family::Gemini => {
                is_single = false;
                tools.extend(
                    declarations.iter().map(|declaration| read_definition(*declaration, from, arena)),
                );
            }
            _ => tools.push(read_definition(*node, from, arena)),
        }
    }
    Ok(SourceTools { tools, is_single })
}

fn read_definition<'a>(node: Node<'a>, from: Dialect, arena: &'a Bump) -> SourceTool<'a> {
    let (inner, schema) = match from.family() {
        Family::Bedrock => {
            let spec = node.member("toolSpec");
            (spec, spec.and_then(|spec| spec.member("inputSchema")).and_then(|schema| schema.member("json")))
        }
        Family::Anthropic => {
            // Tools that the provider runs itself have another type and no schema.
            let kind = node.member("type").and_then(|kind| kind.text(arena)).unwrap_or("custom");
            ((kind == "custom").then_some(node), node.member("input_schema"))
        }
        Family::Gemini => {
            let schema = ["parametersJsonSchema", "parameters_json_schema", "parameters"]
                .iter()
                .find_map(|key| node.member(key));
            (Some(node), schema)
        }
        Family::OpenAiResponses => (Some(node), node.member("parameters")),
        _ => {
            let function = node.member("function");
            (function, function.and_then(|function| function.member("parameters")))
        }
    };
    let Some(Node::Object(members)) = inner else {
        return SourceTool::invalid("", ToolReadError::NotADefinition);
    };
    // A function without parameters accepts no arguments.
    let schema = schema
        .filter(|schema| !matches!(schema, Node::Null))
        .unwrap_or(Node::Object(arena.alloc_slice_copy(&[Member::new("type", Node::Text("object"))])));
    SourceTool { input_schema: Some(schema), ..SourceTool::from_members(members, arena) }
}

/// Adds the line and column to an error.
fn locate(text: &str, error: JsonError) -> ReadError {
    let before = text.get(..error.offset.min(text.len())).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |index| index + 1);
    ReadError {
        message: error.message.to_owned(),
        line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}
