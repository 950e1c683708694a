//! The JSON wrapper that each API expects around a tool's name, description and schema.

use crate::json::{Member, Node, get};
use crate::{Dialect, Family};

/// The contents of a definition.
#[derive(Clone, Copy)]
pub(crate) struct DefinitionParts<'a> {
    pub(crate) name: &'a str,
    pub(crate) description: Option<Node<'a>>,
    pub(crate) schema: Node<'a>,
    /// Whether the schema is strict; `None` if the dialect has no strict mode.
    pub(crate) strict: Option<bool>,
}

/// Returns the definition of one tool.
pub(crate) fn wrap<'a>(dialect: Dialect, parts: DefinitionParts<'a>, arena: &'a bumpalo::Bump) -> Node<'a> {
    let object = |members: &[Member<'a>]| Node::Object(arena.alloc_slice_copy(members));
    let name = Member::new("name", Node::Text(parts.name));
    let has_description = parts.description.is_some_and(|node| !matches!(node, Node::Text("")));
    let description = Member::new("description", parts.description.unwrap_or(Node::Text("")));
    let key = schema_key(dialect);
    let mut members = vec![name];
    match dialect.family() {
        Family::OpenAiResponses => {
            members.insert(0, Member::new("type", Node::Text("function")));
            members.extend([description, Member::new(key, parts.schema)]);
            // A missing `strict` would mean "try strict mode".
            members.push(Member::new("strict", Node::Bool(parts.strict.unwrap_or(false))));
            object(&members)
        }
        Family::Anthropic => {
            members.extend(has_description.then_some(description));
            members.push(Member::new(key, parts.schema));
            members.extend(parts.strict.map(|strict| Member::new("strict", Node::Bool(strict))));
            object(&members)
        }
        Family::Gemini => {
            members.push(description);
            if accepts_arguments(parts.schema) {
                members.push(Member::new(key, parts.schema));
            }
            object(&members)
        }
        Family::Bedrock => {
            members.extend(has_description.then_some(description));
            members.push(Member::new(key, object(&[Member::new("json", parts.schema)])));
            object(&[Member::new("toolSpec", object(&members))])
        }
        Family::Mcp => {
            members.extend(has_description.then_some(description));
            members.push(Member::new(key, parts.schema));
            object(&members)
        }
        Family::OpenAiChat | Family::Cohere | Family::Ollama => {
            members.extend([description, Member::new(key, parts.schema)]);
            members.extend(parts.strict.map(|strict| Member::new("strict", Node::Bool(strict))));
            object(&[Member::new("type", Node::Text("function")), Member::new("function", object(&members))])
        }
    }
}

/// Returns the key of the schema in the object that contains the name.
pub(crate) fn schema_key(dialect: Dialect) -> &'static str {
    match dialect.family() {
        Family::Anthropic => "input_schema",
        Family::Gemini if dialect == Dialect::GeminiOpenApi => "parameters",
        Family::Gemini => "parametersJsonSchema",
        Family::Bedrock | Family::Mcp => "inputSchema",
        Family::OpenAiResponses | Family::OpenAiChat | Family::Cohere | Family::Ollama => "parameters",
    }
}

/// Whether a root schema accepts any arguments.
pub(crate) fn accepts_arguments(schema: Node<'_>) -> bool {
    let members = schema.object().unwrap_or_default();
    let properties = get(members, "properties").and_then(Node::object).unwrap_or_default();
    let open = get(members, "additionalProperties").is_some_and(|rest| !matches!(rest, Node::Bool(false)));
    !properties.is_empty() || open
}
