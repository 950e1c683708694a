//! The kind of value that each keyword of JSON Schema has. All code that walks a schema uses this table to
//! distinguish schemas from data.

use bumpalo::Bump;

use crate::json::{Member, Node, Object};

/// The kind of value under a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeywordKind {
    Type,
    Default,
    Required,
    /// `properties`: a map of schemas by property name.
    Properties,
    /// Another map of schemas, by name or by pattern.
    SchemaMap,
    Schema,
    /// `items`: a schema, or an array of schemas before 2020-12.
    Items,
    /// `additionalItems`: a schema that has an effect only next to an `items` array.
    AdditionalItems,
    SchemaList,
    /// `dependencies`: a map to schemas or arrays of names.
    Dependencies,
    /// A map to arrays of names.
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
    /// `enum`: an array of data.
    Enum,
    Examples,
    /// `x-mcp-header`: for the transport, not for the model.
    McpHeader,
    /// Data, or an unknown keyword.
    Other,
}

pub(crate) fn keyword_kind(keyword: &str) -> KeywordKind {
    match keyword {
        "type" => KeywordKind::Type,
        "description" | "title" | "$comment" | "format" | "$schema" | "$id" | "$anchor"
        | "$dynamicAnchor" | "contentEncoding" | "contentMediaType" => KeywordKind::Text,
        "properties" => KeywordKind::Properties,
        "required" => KeywordKind::Required,
        "default" => KeywordKind::Default,
        "enum" => KeywordKind::Enum,
        "items" => KeywordKind::Items,
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => KeywordKind::SchemaList,
        "additionalProperties"
        | "not"
        | "if"
        | "then"
        | "else"
        | "contains"
        | "propertyNames"
        | "unevaluatedProperties"
        | "unevaluatedItems"
        | "contentSchema" => KeywordKind::Schema,
        "$defs" | "definitions" | "patternProperties" | "dependentSchemas" => KeywordKind::SchemaMap,
        "minimum" | "maximum" | "multipleOf" => KeywordKind::Number,
        "exclusiveMinimum" | "exclusiveMaximum" => KeywordKind::Exclusive,
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => KeywordKind::Count,
        "pattern" => KeywordKind::Pattern,
        "$ref" | "$dynamicRef" => KeywordKind::Ref,
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => KeywordKind::Flag,
        "examples" => KeywordKind::Examples,
        "additionalItems" => KeywordKind::AdditionalItems,
        "dependencies" => KeywordKind::Dependencies,
        "dependentRequired" => KeywordKind::NameLists,
        "x-mcp-header" => KeywordKind::McpHeader,
        _ => KeywordKind::Other,
    }
}

/// Whether a keyword is an annotation, which no value can violate.
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
    ) || keyword_kind(keyword) == KeywordKind::Other && keyword != "const"
}

/// Returns the object under a keyword, or an empty one.
pub(crate) fn object_at<'a>(members: &[Member<'a>], keyword: &str) -> Object<'a> {
    value_at(members, keyword).and_then(Node::object).unwrap_or_default()
}

/// Returns the array under a keyword, or an empty one.
pub(crate) fn list_at<'a>(members: &[Member<'a>], keyword: &str) -> &'a [Node<'a>] {
    value_at(members, keyword).and_then(Node::list).unwrap_or_default()
}

fn value_at<'a>(members: &[Member<'a>], keyword: &str) -> Option<Node<'a>> {
    members.iter().find(|member| member.key == keyword).map(|member| member.value)
}

/// Returns the keys that `required` lists.
pub(crate) fn required_keys<'a>(
    members: &[Member<'a>],
    arena: &'a Bump,
) -> impl Iterator<Item = &'a str> + use<'a> {
    list_at(members, "required").iter().filter_map(|name| name.text(arena))
}

/// Whether the schemas under a keyword apply to the same value as the schema that has the keyword.
pub(crate) fn applies_in_place(keyword: &str) -> bool {
    matches!(
        keyword,
        "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" | "dependentSchemas" | "dependencies"
    )
}
