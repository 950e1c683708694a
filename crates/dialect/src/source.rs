//! Reads tools from JSON text or from [`Tool`] values.
//!
//! The text is one tool, an array of tools, `{"tools":[…]}` or a `tools/list` response, in MCP's format or a
//! dialect's.

mod form;
mod unusual;

use bumpalo::Bump;
use serde_json::Value;
use toolwire_contract::Tool;

use self::form::{Form, GEMINI_GROUPS, definition, is_unusual, name_of};
use crate::json::{JsonError, JsonReader, MAX_DEPTH, Member, Node, from_value, get, to_value};
use crate::{Dialect, Family, ReadError};

/// A tool to convert, borrowing from the text or the [`Tool`] it was read from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SourceTool<'a> {
    pub(crate) name: &'a str,
    pub(crate) description: Option<Node<'a>>,
    pub(crate) input_schema: Option<Node<'a>>,
    original: Original<'a>,
    /// The key of the schema, if it is not the usual one.
    pub(crate) schema_key: Option<&'a str>,
    /// The reason why the entry cannot be used as a tool.
    pub(crate) error: Option<ToolReadError<'a>>,
}

/// The complete object that a tool was read from.
#[derive(Clone, Copy, Debug, Default)]
enum Original<'a> {
    #[default]
    NotRetained,
    Node(Node<'a>),
    Tool(&'a Tool),
}

/// The key of `_meta` for a tool of a client that is strict: the API enforces its schema, where it can.
pub(crate) const STRICT: &str = "toolwire/strict";

/// Whether a client has declared its tool as strict.
pub(crate) fn is_strict(tool: &Tool) -> bool {
    tool.extra.get("_meta").and_then(|meta| meta.get(STRICT)) == Some(&Value::Bool(true))
}

/// The reason why an entry of a list cannot be used as a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolReadError<'a> {
    NotAnObject,
    NoName,
    NotADefinition,
    /// The entry has the format of another dialect.
    OtherDialect {
        found: Dialect,
        expected: Dialect,
    },
    /// The provider runs the tool, or its input is free text.
    NoSchema,
    /// The entry has no schema where one is expected, but something similar under another key.
    SchemaUnder(&'a str),
    TooDeep,
}

/// The tools of one text.
pub(crate) struct SourceTools<'a> {
    pub(crate) tools: Vec<SourceTool<'a>>,
    /// The text was a single tool, not a list.
    pub(crate) is_single: bool,
}

impl ToolReadError<'_> {
    /// Returns the machine-readable code of the refusal.
    pub(crate) const fn code(self) -> &'static str {
        match self {
            ToolReadError::TooDeep => "too_deep",
            _ => "not_a_tool",
        }
    }

    /// Describes the entry at `position` of a list, counted from 1, or the only entry.
    pub(crate) fn message(self, position: Option<usize>) -> String {
        let entry = position.map_or("the tool".to_owned(), |position| format!("tool {position} of the list"));
        match self {
            ToolReadError::NotAnObject => format!("{entry} is not an object"),
            ToolReadError::NoName => format!("{entry} has no `name`"),
            ToolReadError::NotADefinition => format!("{entry} is not a definition in this dialect"),
            ToolReadError::OtherDialect { found, expected: Dialect::Mcp } => format!(
                "{entry} is a definition for `{found}`, not an MCP tool; \
                 `toolwire convert --from {found} --to mcp` converts it"
            ),
            ToolReadError::OtherDialect { found, expected } => {
                format!(
                    "{entry} is a definition for `{found}`, not for `{expected}`; `--from {found}` reads it"
                )
            }
            ToolReadError::NoSchema => {
                format!("{entry} is a tool that the provider runs, or that takes free text; it has no schema")
            }
            ToolReadError::SchemaUnder(key) => format!(
                "{entry} has no schema where one is expected, but arguments seem to be described in `{key}`; \
                 write a JSON Schema of them in `inputSchema`"
            ),
            ToolReadError::TooDeep => format!("{entry} is nested deeper than {MAX_DEPTH} levels"),
        }
    }
}

impl<'a> SourceTool<'a> {
    /// Reads a tool without copying its texts or its schema. A server may have listed it in another format.
    pub(crate) fn from_tool(tool: &'a Tool, arena: &'a Bump) -> SourceTool<'a> {
        let annotated_title = || tool.annotations.as_ref()?.get("title")?.as_str();
        let description = tool.description.as_deref().filter(|text| !text.trim().is_empty());
        let description = description.or(tool.title.as_deref()).or_else(annotated_title);
        let input_schema = tool.input_schema.as_ref().map(|schema| from_value(schema, arena));
        let read = SourceTool {
            name: &tool.name,
            description: description.map(Node::Text),
            input_schema,
            original: Original::Tool(tool),
            schema_key: None,
            error: None,
        };
        if !input_schema.is_none_or(is_unusual) {
            return read;
        }
        let others = tool.extra.iter().map(|(key, value)| Member::new(key, from_value(value, arena)));
        let schema = input_schema.map(|schema| Member::new("inputSchema", schema));
        let members: Vec<Member<'a>> = others.chain(schema).collect();
        read.without_usual_schema(Node::Object(arena.alloc_slice_copy(&members)), arena)
    }

    /// Finds the schema of a tool without a usual `inputSchema` among its other members, or refuses it.
    fn without_usual_schema(self, node: Node<'a>, arena: &'a Bump) -> SourceTool<'a> {
        match Form::of(node, arena) {
            Form::Dialect(Dialect::Mcp) | Form::Unknown => {
                self.with_unusual_schema(node.object().unwrap_or_default(), arena)
            }
            form => {
                let name = if self.name.is_empty() { name_of(node, arena) } else { self.name };
                SourceTool::invalid(name, form.error(Dialect::Mcp))
            }
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
            schema_key: None,
            error: name.is_none().then_some(ToolReadError::NoName),
        }
    }

    fn invalid(name: &'a str, error: ToolReadError<'a>) -> SourceTool<'a> {
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

    /// Returns the dialect for this tool: the strict one of the same API, if a client has declared the tool
    /// as strict.
    pub(crate) fn dialect(&self, dialect: Dialect) -> Dialect {
        let strict =
            self.original_tool().filter(|tool| is_strict(tool)).and_then(|_| dialect.strict_variant());
        strict.unwrap_or(dialect)
    }

    /// Returns the schema as the server sent it; `null` if there is none.
    pub(crate) fn schema_value(&self, arena: &'a Bump) -> Value {
        match self.original_tool() {
            Some(tool) if self.schema_key.is_none() => tool.input_schema.clone().unwrap_or_default(),
            _ => self.input_schema.map_or(Value::Null, |node| to_value(node, arena)),
        }
    }
}

/// Reads `text` in the format of `from`.
///
/// With `retain`, the complete tool objects are retained, not only the members that a definition needs.
pub(crate) fn read<'a>(
    text: &'a str,
    from: Dialect,
    retain: bool,
    arena: &'a Bump,
) -> Result<SourceTools<'a>, ReadError> {
    let mut reader = SourceReader { json: JsonReader::new(text, arena), retain, arena };
    let tools = if from == Dialect::Mcp { reader.mcp() } else { reader.definitions(from) };
    tools.and_then(|tools| reader.json.end().map(|()| tools)).map_err(|error| locate(text, error))
}

struct SourceReader<'a> {
    json: JsonReader<'a>,
    retain: bool,
    arena: &'a Bump,
}

type Read<T> = Result<T, JsonError>;

impl<'a> SourceReader<'a> {
    /// Reads tools in MCP's format.
    fn mcp(&mut self) -> Read<SourceTools<'a>> {
        let first = self.json.peek();
        let start = self.json.position();
        match first {
            Some(b'[') => Ok(SourceTools { tools: self.list()?, is_single: false }),
            Some(b'{') => {
                if let Some(tools) = self.nested_list()? {
                    return Ok(SourceTools { tools, is_single: false });
                }
                self.json.rewind(start);
                let problem = self.find_problem()?;
                self.json.rewind(start);
                match problem {
                    Some(message) => self.json.error(message),
                    None => Ok(SourceTools { tools: vec![self.tool()?], is_single: true }),
                }
            }
            _ => {
                self.json.value()?;
                self.json.rewind(start);
                self.json.error("expected a tool, an array of tools, or an object with `tools`")
            }
        }
    }

    /// Returns the reason why an object without a list of tools is not a tool either.
    fn find_problem(&mut self) -> Read<Option<&'static str>> {
        let (mut is_tool, mut has_error, mut has_tools, mut is_empty) = (false, false, false, true);
        let mut more = self.json.enter_object()?;
        while more {
            is_empty = false;
            match self.json.key()? {
                "name" | "inputSchema" | "description" => is_tool = true,
                "error" => has_error = true,
                "tools" => has_tools = true,
                _ => {}
            }
            self.json.skip()?;
            more = self.json.next_member()?;
        }
        let problems = [
            (has_error, "expected tools, found a server response with an `error`"),
            (has_tools, "`tools` is not an array"),
            (is_empty, "expected a tool, found an empty object"),
        ];
        let found = problems.into_iter().find(|(is_present, _)| *is_present && !is_tool);
        Ok(found.map(|(_, message)| message))
    }

    /// Reads the list under `tools` or `result.tools`.
    fn nested_list(&mut self) -> Read<Option<Vec<SourceTool<'a>>>> {
        let mut tools = None;
        let mut more = self.json.enter_object()?;
        while more {
            match (self.json.key()?, self.json.peek()) {
                ("tools", Some(b'[')) => tools = Some(self.list()?),
                ("result", Some(b'{')) if tools.is_none() => tools = self.nested_list()?,
                _ => self.json.skip()?,
            }
            more = self.json.next_member()?;
        }
        Ok(tools)
    }

    fn list(&mut self) -> Read<Vec<SourceTool<'a>>> {
        let mut tools = Vec::new();
        let mut more = self.json.enter_list()?;
        while more {
            tools.push(self.tool()?);
            more = self.json.next_item()?;
        }
        Ok(tools)
    }

    /// Reads one tool. If it is nested too deep, only this tool is invalid, not the whole list.
    fn tool(&mut self) -> Read<SourceTool<'a>> {
        if self.json.peek() != Some(b'{') {
            self.json.skip()?;
            return Ok(SourceTool::invalid("", ToolReadError::NotAnObject));
        }
        let start = self.json.position();
        match self.members() {
            Err(error) if error.too_deep => {
                self.json.rewind(start);
                Ok(SourceTool::invalid(self.name()?, ToolReadError::TooDeep))
            }
            Ok(tool) if tool.input_schema.is_none_or(is_unusual) => {
                self.json.rewind(start);
                let node = self.json.value()?;
                Ok(tool.without_usual_schema(node, self.arena))
            }
            other => other,
        }
    }

    fn members(&mut self) -> Read<SourceTool<'a>> {
        if self.retain {
            let node = self.json.value()?;
            let tool = SourceTool::from_members(node.object().unwrap_or_default(), self.arena);
            return Ok(SourceTool { original: Original::Node(node), ..tool });
        }
        let mut members: [Member<'a>; 5] = [Member::new("", Node::Null); 5];
        let mut count = 0;
        let mut more = self.json.enter_object()?;
        while more {
            let key = self.json.key()?;
            if matches!(key, "name" | "title" | "description" | "inputSchema" | "annotations") {
                let value = self.json.value()?;
                match members[..count].iter_mut().find(|member| member.key == key) {
                    Some(member) => member.value = value,
                    None => {
                        members[count] = Member::new(key, value);
                        count += 1;
                    }
                }
            } else {
                self.json.skip()?;
            }
            more = self.json.next_member()?;
        }
        Ok(SourceTool::from_members(self.arena.alloc_slice_copy(&members[..count]), self.arena))
    }

    /// Reads only the name of a tool, skipping everything else.
    fn name(&mut self) -> Read<&'a str> {
        let mut name = "";
        let mut more = self.json.enter_object()?;
        while more {
            match (self.json.key()?, self.json.peek()) {
                ("name", Some(b'"')) => name = self.json.value()?.text(self.arena).unwrap_or_default(),
                _ => self.json.skip()?,
            }
            more = self.json.next_member()?;
        }
        Ok(name)
    }

    /// Reads definitions in the format of another dialect.
    fn definitions(&mut self, from: Dialect) -> Read<SourceTools<'a>> {
        self.json.peek();
        let start = self.json.position();
        let node = self.json.value()?;
        let list = match node {
            Node::List(_) => Some(node),
            _ => ["result", "toolConfig"]
                .into_iter()
                .fold(node.member("tools"), |found, key| found.or_else(|| node.member(key)?.member("tools"))),
        };
        let (nodes, mut is_single): (&[Node<'a>], bool) = match (list, node) {
            (Some(Node::List(nodes)), _) => (nodes, false),
            (_, Node::Object(_)) => (self.arena.alloc_slice_copy(&[node]), true),
            _ => {
                self.json.rewind(start);
                return self
                    .json
                    .error("expected a definition, an array of definitions, or an object with `tools`");
            }
        };
        let mut tools = Vec::with_capacity(nodes.len());
        for node in nodes {
            match GEMINI_GROUPS.iter().find_map(|key| node.member(key)) {
                Some(Node::List(declarations)) if from.family() == Family::Gemini => {
                    is_single = false;
                    tools.extend(declarations.iter().map(|node| definition(*node, from, self.arena)));
                }
                _ => tools.push(definition(*node, from, self.arena)),
            }
        }
        Ok(SourceTools { tools, is_single })
    }
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
