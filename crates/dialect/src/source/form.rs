//! The formats in which APIs define tools.

use bumpalo::Bump;

use super::{SourceTool, ToolReadError};
use crate::json::{Member, Node};
use crate::{Dialect, Family};

/// The format of an entry in a list of tools.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Dialect(Dialect),
    /// A tool that the provider runs, or that takes free text.
    NoSchema,
    Unknown,
}

impl Form {
    pub(super) fn of<'a>(node: Node<'a>, arena: &'a Bump) -> Form {
        let has = |key: &str| node.member(key).is_some();
        let kind = node.member("type").and_then(|kind| kind.text(arena));
        if has("function") {
            Form::Dialect(Dialect::OpenAi)
        } else if has("toolSpec")
            || has("toolConfig")
            || node.member("inputSchema").is_some_and(is_wrapped_schema)
        {
            Form::Dialect(Dialect::Bedrock)
        } else if has("inputSchema") {
            Form::Dialect(Dialect::Mcp)
        } else if has("input_schema") {
            Form::Dialect(Dialect::Anthropic)
        } else if kind == Some("function") {
            Form::Dialect(Dialect::Responses)
        } else if kind.is_some_and(|kind| kind != "object") {
            Form::NoSchema
        } else if GEMINI_GROUPS.into_iter().chain(GEMINI_SCHEMAS).any(has) {
            Form::Dialect(Dialect::Gemini)
        } else {
            Form::Unknown
        }
    }

    /// Returns the reason why an entry in this format is not a definition for `expected`.
    pub(super) fn error(self, expected: Dialect) -> ToolReadError<'static> {
        match self {
            Form::Dialect(found) if found.family() != expected.family() => {
                ToolReadError::OtherDialect { found, expected }
            }
            Form::NoSchema => ToolReadError::NoSchema,
            Form::Dialect(_) | Form::Unknown => ToolReadError::NotADefinition,
        }
    }
}

/// Members of Gemini's tools that list definitions.
pub(super) const GEMINI_GROUPS: [&str; 2] = ["functionDeclarations", "function_declarations"];

/// Members of Gemini's definitions that have the schema.
const GEMINI_SCHEMAS: [&str; 3] = ["parametersJsonSchema", "parameters_json_schema", "parameters"];

/// Whether an `inputSchema` is Bedrock's `{"json": …}`.
pub(super) fn is_wrapped_schema(schema: Node<'_>) -> bool {
    matches!(schema, Node::Object([member]) if member.key == "json" && member.value.object().is_some())
}

/// Whether the format of an `inputSchema` is not that of MCP.
pub(super) fn is_unusual(schema: Node<'_>) -> bool {
    is_wrapped_schema(schema) || matches!(schema, Node::Null)
}

/// Returns the name of an entry in any format.
pub(super) fn name_of<'a>(node: Node<'a>, arena: &'a Bump) -> &'a str {
    let places = [Some(node), node.member("function"), node.member("toolSpec")];
    places.into_iter().find_map(|place| place?.member("name")?.text(arena)).unwrap_or_default()
}

/// Reads a definition in the format of `from`.
pub(super) fn definition<'a>(node: Node<'a>, from: Dialect, arena: &'a Bump) -> SourceTool<'a> {
    let (inner, schema) = match from.family() {
        Family::Bedrock => {
            let spec = node.member("toolSpec").unwrap_or(node);
            let schema = spec.member("inputSchema").filter(|schema| is_wrapped_schema(*schema));
            (Some(spec), schema.and_then(|schema| schema.member("json")))
        }
        Family::Anthropic => (Some(node), node.member("input_schema")),
        Family::Gemini => (Some(node), GEMINI_SCHEMAS.iter().find_map(|key| node.member(key))),
        Family::OpenAiResponses => (Some(node), node.member("parameters")),
        _ => {
            let function = node.member("function");
            (function, function.and_then(|function| function.member("parameters")))
        }
    };
    let schema = schema.filter(|schema| !matches!(schema, Node::Null));
    let form = Form::of(node, arena);
    // In these families, a function without parameters accepts no arguments.
    let may_omit_schema = !matches!(from.family(), Family::Anthropic | Family::Bedrock)
        && match form {
            Form::Dialect(found) => found.family() == from.family(),
            Form::Unknown => from.family() == Family::Gemini,
            Form::NoSchema => false,
        };
    let (Some(Node::Object(members)), true) = (inner, schema.is_some() || may_omit_schema) else {
        return SourceTool::invalid(name_of(node, arena), form.error(from));
    };
    let tool = SourceTool { input_schema: schema, ..SourceTool::from_members(members, arena) };
    let tool = tool.with_unusual_schema(members, arena);
    let no_arguments = || Node::Object(arena.alloc_slice_copy(&[Member::new("type", Node::Text("object"))]));
    SourceTool { input_schema: Some(tool.input_schema.unwrap_or_else(no_arguments)), ..tool }
}
