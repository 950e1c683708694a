//! Reads tools from text: one tool, an array, `{"tools":[…]}` or a `tools/list` response, in MCP's form or a dialect's.

use bumpalo::Bump;

use crate::json::{Fault, Member, Node, Reader, get};
use crate::{Dialect, Family, ReadError};

/// A tool as it was read, borrowing from the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    pub(crate) description: Option<Node<'a>>,
    pub(crate) input_schema: Option<Node<'a>>,
    /// The whole tool, if it was asked for.
    pub(crate) whole: Option<Node<'a>>,
    /// Why it is no tool at all.
    pub(crate) fault: Option<&'static str>,
}

/// The tools of one text, and whether it was one bare tool.
pub(crate) struct Sources<'a> {
    pub(crate) tools: Vec<Source<'a>>,
    pub(crate) bare: bool,
}

/// Reads `text`. With `whole`, everything a tool says is kept, not only what a definition needs.
pub(crate) fn read<'a>(
    text: &'a str,
    from: Dialect,
    whole: bool,
    arena: &'a Bump,
) -> Result<Sources<'a>, ReadError> {
    let mut reader = Reader::new(text, arena);
    let sources = if from == Dialect::Mcp {
        read_mcp(&mut reader, whole, arena)
    } else {
        read_definitions(&mut reader, from, arena)
    };
    sources.and_then(|sources| reader.end().map(|()| sources)).map_err(|fault| locate(text, fault))
}

fn read_mcp<'a>(reader: &mut Reader<'a>, whole: bool, arena: &'a Bump) -> Result<Sources<'a>, Fault> {
    match reader.peek() {
        Some(b'[') => Ok(Sources { tools: tool_list(reader, whole, arena)?, bare: false }),
        Some(b'{') => {
            let start = reader.position();
            match tools_inside(reader, whole, arena)? {
                Some(tools) => Ok(Sources { tools, bare: false }),
                None => {
                    reader.rewind(start);
                    if let Some(message) = no_tool(reader)? {
                        reader.rewind(start);
                        return reader.fault(message);
                    }
                    reader.rewind(start);
                    Ok(Sources { tools: vec![tool(reader, whole, arena)?], bare: true })
                }
            }
        }
        _ => {
            let start = reader.position();
            reader.value()?;
            reader.rewind(start);
            reader.fault("expected a tool, an array of tools, or an object with `tools`")
        }
    }
}

/// What is wrong with an object that is neither a tool nor holds any.
fn no_tool(reader: &mut Reader<'_>) -> Result<Option<&'static str>, Fault> {
    let (mut named, mut error, mut tools, mut empty) = (false, false, false, true);
    let mut more = reader.enter_object()?;
    while more {
        empty = false;
        match reader.key()? {
            "name" | "inputSchema" | "description" => named = true,
            "error" => error = true,
            "tools" => tools = true,
            _ => {}
        }
        reader.skip()?;
        more = reader.next_member()?;
    }
    Ok(match () {
        () if named => None,
        () if error => Some("expected tools, but this is a server's answer with an `error`"),
        () if tools => Some("`tools` must be an array"),
        () if empty => Some("expected a tool, but this object is empty"),
        () => None,
    })
}

/// The list under `tools`, or under `result.tools`.
fn tools_inside<'a>(
    reader: &mut Reader<'a>,
    whole: bool,
    arena: &'a Bump,
) -> Result<Option<Vec<Source<'a>>>, Fault> {
    let mut tools = None;
    let mut more = reader.enter_object()?;
    while more {
        match (reader.key()?, reader.peek()) {
            ("tools", Some(b'[')) => tools = Some(tool_list(reader, whole, arena)?),
            ("result", Some(b'{')) if tools.is_none() => tools = tools_inside(reader, whole, arena)?,
            _ => reader.skip()?,
        }
        more = reader.next_member()?;
    }
    Ok(tools)
}

fn tool_list<'a>(reader: &mut Reader<'a>, whole: bool, arena: &'a Bump) -> Result<Vec<Source<'a>>, Fault> {
    let mut tools = Vec::new();
    let mut more = reader.enter_list()?;
    while more {
        tools.push(tool(reader, whole, arena)?);
        more = reader.next_item()?;
    }
    Ok(tools)
}

/// One tool. What is nested too deep costs this tool alone.
fn tool<'a>(reader: &mut Reader<'a>, whole: bool, arena: &'a Bump) -> Result<Source<'a>, Fault> {
    if reader.peek() != Some(b'{') {
        reader.skip()?;
        return Ok(Source {
            name: "",
            description: None,
            input_schema: None,
            whole: None,
            fault: Some("it is no object"),
        });
    }
    let start = reader.position();
    match tool_members(reader, whole, arena) {
        Err(fault) if fault.too_deep => {
            reader.rewind(start);
            let name = shallow_name(reader, arena)?;
            let fault = Some("it is nested deeper than 512 levels");
            Ok(Source { name, description: None, input_schema: None, whole: None, fault })
        }
        other => other,
    }
}

fn tool_members<'a>(reader: &mut Reader<'a>, whole: bool, arena: &'a Bump) -> Result<Source<'a>, Fault> {
    if whole {
        let node = reader.value()?;
        return Ok(from_members(node.object().unwrap_or_default(), Some(node), arena));
    }
    let mut kept: [Member<'a>; 5] = [Member::new("", Node::Null); 5];
    let mut count = 0;
    let mut more = reader.enter_object()?;
    while more {
        let key = reader.key()?;
        if matches!(key, "name" | "title" | "description" | "inputSchema" | "annotations") {
            let value = reader.value()?;
            match kept[..count].iter_mut().find(|member| member.key == key) {
                Some(member) => member.value = value,
                None => {
                    kept[count] = Member::new(key, value);
                    count += 1;
                }
            }
        } else {
            reader.skip()?;
        }
        more = reader.next_member()?;
    }
    Ok(from_members(arena.alloc_slice_copy(&kept[..count]), None, arena))
}

/// The name of a tool that cannot be read whole.
fn shallow_name<'a>(reader: &mut Reader<'a>, arena: &'a Bump) -> Result<&'a str, Fault> {
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

/// A tool by its members, as MCP names them.
pub(crate) fn from_members<'a>(
    members: &'a [Member<'a>],
    whole: Option<Node<'a>>,
    arena: &'a Bump,
) -> Source<'a> {
    let text = |node: Node<'a>| node.is_string().then_some(node);
    let title = || get(members, "annotations").and_then(|node| node.member("title")).and_then(text);
    let description = get(members, "description")
        .and_then(text)
        .filter(|node| !matches!(node, Node::Text(words) if words.trim().is_empty()))
        .or_else(|| get(members, "title").and_then(text))
        .or_else(title);
    let name = get(members, "name").and_then(|node| node.text(arena));
    Source {
        name: name.unwrap_or_default(),
        description,
        input_schema: get(members, "inputSchema"),
        whole,
        fault: if name.is_none() { Some("it has no name") } else { None },
    }
}

/// Definitions in the form of another dialect.
fn read_definitions<'a>(
    reader: &mut Reader<'a>,
    from: Dialect,
    arena: &'a Bump,
) -> Result<Sources<'a>, Fault> {
    reader.peek();
    let start = reader.position();
    let node = reader.value()?;
    let list = match node {
        Node::List(_) => Some(node),
        _ => ["result", "toolConfig"]
            .into_iter()
            .fold(node.member("tools"), |found, key| found.or_else(|| node.member(key)?.member("tools"))),
    };
    let (nodes, bare): (&[Node<'a>], bool) = match (list, node) {
        (Some(Node::List(nodes)), _) => (nodes, false),
        (_, Node::Object(_)) => (arena.alloc_slice_copy(&[node]), true),
        _ => {
            reader.rewind(start);
            return reader.fault("expected a definition, an array of definitions, or an object with `tools`");
        }
    };
    let mut tools = Vec::with_capacity(nodes.len());
    let mut bare = bare;
    for node in nodes {
        match node.member("functionDeclarations").or_else(|| node.member("function_declarations")) {
            Some(Node::List(declarations)) if from.family() == Family::Gemini => {
                bare = false;
                tools.extend(declarations.iter().map(|declaration| definition(*declaration, from, arena)));
            }
            _ => tools.push(definition(*node, from, arena)),
        }
    }
    Ok(Sources { tools, bare })
}

fn definition<'a>(node: Node<'a>, from: Dialect, arena: &'a Bump) -> Source<'a> {
    let (inner, schema) = match from.family() {
        Family::Bedrock => {
            let spec = node.member("toolSpec");
            (spec, spec.and_then(|spec| spec.member("inputSchema")).and_then(|schema| schema.member("json")))
        }
        Family::Anthropic => {
            // Tools that the provider runs itself have a type of their own and no schema.
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
        let fault = Some("it is no definition of this dialect");
        return Source { name: "", description: None, input_schema: None, whole: None, fault };
    };
    let mut source = from_members(members, None, arena);
    // Without parameters a function takes no arguments.
    source.input_schema = Some(
        schema
            .filter(|schema| !matches!(schema, Node::Null))
            .unwrap_or(Node::Object(arena.alloc_slice_copy(&[Member::new("type", Node::Text("object"))]))),
    );
    source
}

/// Where in the text something went wrong, as people count.
fn locate(text: &str, fault: Fault) -> ReadError {
    let before = text.get(..fault.at.min(text.len())).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |index| index + 1);
    ReadError {
        message: fault.message.to_owned(),
        line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}
