//! Which keyword holds what: the one table by which every walk tells a schema from data.

use bumpalo::Bump;

use super::draft::Draft;
use crate::json::{Node, Object};

/// What stands under a keyword, as JSON Schema means it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Type,
    Default,
    Required,
    /// The map of properties, whose keys are names.
    Properties,
    /// Another map of schemas, whose keys are names or patterns.
    SchemaMap,
    Schema,
    /// `items`: a schema, or in old drafts a list of them.
    Items,
    /// `additionalItems`: belongs to `items` as a list.
    AdditionalItems,
    SchemaList,
    /// `dependencies`: a map to schemas or lists of names.
    Dependencies,
    /// A map to lists of names.
    NameLists,
    Ref,
    /// `exclusiveMinimum`, `exclusiveMaximum`: a number, or in draft-04 a boolean.
    Exclusive,
    Number,
    /// A non-negative integer.
    Count,
    Flag,
    Text,
    Pattern,
    /// `enum`: a list of data.
    Enum,
    Examples,
    /// For the transport, not for the model.
    McpHeader,
    /// Data, or a keyword we have no name for.
    Other,
}

pub(crate) fn slot(keyword: &str) -> Slot {
    match keyword {
        "type" => Slot::Type,
        "description" | "title" | "$comment" | "format" | "$schema" | "$id" | "$anchor"
        | "$dynamicAnchor" | "contentEncoding" | "contentMediaType" => Slot::Text,
        "properties" => Slot::Properties,
        "required" => Slot::Required,
        "default" => Slot::Default,
        "enum" => Slot::Enum,
        "items" => Slot::Items,
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => Slot::SchemaList,
        "additionalProperties"
        | "not"
        | "if"
        | "then"
        | "else"
        | "contains"
        | "propertyNames"
        | "unevaluatedProperties"
        | "unevaluatedItems"
        | "contentSchema" => Slot::Schema,
        "$defs" | "definitions" | "patternProperties" | "dependentSchemas" => Slot::SchemaMap,
        "minimum" | "maximum" | "multipleOf" => Slot::Number,
        "exclusiveMinimum" | "exclusiveMaximum" => Slot::Exclusive,
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => Slot::Count,
        "pattern" => Slot::Pattern,
        "$ref" | "$dynamicRef" => Slot::Ref,
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => Slot::Flag,
        "examples" => Slot::Examples,
        "additionalItems" => Slot::AdditionalItems,
        "dependencies" => Slot::Dependencies,
        "dependentRequired" => Slot::NameLists,
        "x-mcp-header" => Slot::McpHeader,
        _ => Slot::Other,
    }
}

/// Keywords that only describe: no value is valid or invalid because of them.
pub(crate) fn is_annotation(keyword: &str) -> bool {
    matches!(
        keyword,
        "description"
            | "title"
            | "default"
            | "examples"
            | "example"
            | "$comment"
            | "deprecated"
            | "readOnly"
            | "writeOnly"
            | "$schema"
            | "$id"
            | "id"
            | "$anchor"
            | "$dynamicAnchor"
            | "$defs"
            | "definitions"
            | "$vocabulary"
            | "contentEncoding"
            | "contentMediaType"
            | "contentSchema"
            | "discriminator"
            | "nullable"
            | "externalDocs"
            | "xml"
    ) || slot(keyword) == Slot::Other && keyword != "const"
}

/// Calls `visit` with every schema directly below: its keyword, the key or index under it, and the schema.
pub(crate) fn each_slot<'a>(members: Object<'a>, mut visit: impl FnMut(&'a str, Inside<'a>, Node<'a>)) {
    for member in members {
        match (slot(member.key), member.value) {
            (Slot::Schema | Slot::Items | Slot::AdditionalItems, Node::Object(_)) => {
                visit(member.key, Inside::Alone, member.value)
            }
            (Slot::SchemaList | Slot::Items, Node::List(schemas)) => {
                for (index, schema) in schemas.iter().enumerate() {
                    visit(member.key, Inside::Index(index), *schema);
                }
            }
            (Slot::Properties | Slot::SchemaMap | Slot::Dependencies, Node::Object(schemas)) => {
                for entry in schemas {
                    visit(member.key, Inside::Key(entry.key), entry.value);
                }
            }
            _ => {}
        }
    }
}

/// Where under its keyword a schema stands.
#[derive(Clone, Copy)]
pub(crate) enum Inside<'a> {
    Alone,
    Index(usize),
    Key(&'a str),
}

/// Puts a schema back where [`each_slot`] found it.
pub(crate) fn put_slot<'a>(
    draft: &mut Draft<'a>,
    key: &'a str,
    inside: Inside<'a>,
    schema: Node<'a>,
    arena: &'a Bump,
) {
    let value = match (inside, draft.get(key)) {
        (Inside::Alone, _) => schema,
        (Inside::Index(index), Some(Node::List(schemas))) => {
            let schemas = arena.alloc_slice_copy(schemas);
            schemas[index] = schema;
            Node::List(schemas)
        }
        (Inside::Key(name), Some(Node::Object(schemas))) => {
            let mut schemas = Draft::of(schemas);
            schemas.put(name, schema);
            Node::Object(arena.alloc_slice_copy(schemas.members()))
        }
        _ => return,
    };
    draft.put(key, value);
}
