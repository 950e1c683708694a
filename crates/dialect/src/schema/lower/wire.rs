//! Small questions about schemas that are already in the grammar's words.

use super::Lowering;
use crate::json::{Member, Node, Object, get};
use crate::schema::brief::whole;
use crate::schema::draft::Draft;
use crate::schema::profile::{Limits, Types};

impl<'a> Lowering<'_, 'a, '_> {
    /// The same schema, allowing `null` too.
    pub(super) fn with_null(&self, node: Node<'a>) -> Node<'a> {
        if self.grammar.types == Types::OpenApi {
            return self.with_nullable(node);
        }
        nullable(node, self.context)
    }

    /// OpenAPI's way: `nullable`, in every branch of an `anyOf`, since that must stand alone.
    fn with_nullable(&self, node: Node<'a>) -> Node<'a> {
        let Some(members) = node.object() else { return node };
        let mut draft = Draft::of(members);
        match get(members, "anyOf").and_then(Node::list) {
            Some(branches) => {
                let branches: Vec<Node<'a>> =
                    branches.iter().map(|branch| self.with_nullable(*branch)).collect();
                draft.put("anyOf", self.context.list(&branches));
            }
            None => draft.put("nullable", Node::Bool(true)),
        }
        self.context.object(draft.members())
    }
}

/// A schema that also takes `null`, with as few other words as possible.
pub(crate) fn nullable<'a>(node: Node<'a>, context: &crate::schema::context::Context<'a, '_>) -> Node<'a> {
    let null = || context.object(&[Member::new("type", Node::Text("null"))]);
    let Some(members) = node.object() else { return node };
    let mut draft = Draft::of(members);
    let composed = ["$ref", "oneOf", "allOf", "not", "if", "const"]
        .iter()
        .any(|keyword| get(members, keyword).is_some());
    match (get(members, "type"), get(members, "anyOf").and_then(Node::list)) {
        _ if composed => return wrapped(members, null(), context),
        (None, Some(branches)) => {
            if branches.iter().any(|branch| allows_null(*branch)) {
                return node;
            }
            let mut branches = branches.to_vec();
            branches.push(null());
            draft.put("anyOf", context.list(&branches));
        }
        (Some(Node::Text("null")), None) => return node,
        (Some(Node::Text("object")), _) | (_, Some(_)) => return wrapped(members, null(), context),
        (Some(Node::Text(name)), None) => {
            draft.put("type", context.list(&[Node::Text(name), Node::Text("null")]));
        }
        (Some(Node::List(names)), None) => {
            if !names.iter().any(|name| matches!(name, Node::Text("null"))) {
                let mut names = names.to_vec();
                names.push(Node::Text("null"));
                draft.put("type", context.list(&names));
            }
        }
        (None, None) => {
            if get(members, "enum").is_none() {
                return node;
            }
        }
        _ => return node,
    }
    if let Some(values) = draft.get("enum").and_then(Node::list)
        && !values.iter().any(|value| matches!(value, Node::Null))
    {
        let mut values = values.to_vec();
        values.push(Node::Null);
        draft.put("enum", context.list(&values));
    }
    context.object(draft.members())
}

/// `anyOf` of the schema and `null`, the description outside.
fn wrapped<'a>(
    members: Object<'a>,
    null: Node<'a>,
    context: &crate::schema::context::Context<'a, '_>,
) -> Node<'a> {
    let mut inner = Draft::of(members);
    let description = inner.remove("description");
    let inner = context.object(inner.members());
    let mut outer = vec![Member::new("anyOf", context.list(&[inner, null]))];
    outer.extend(description.map(|text| Member::new("description", text)));
    context.object(&outer)
}

/// Whether a schema in plain words lets `null` pass; references are not followed.
pub(crate) fn allows_null(node: Node<'_>) -> bool {
    let Some(members) = node.object() else { return matches!(node, Node::Bool(true)) };
    if get(members, "$ref").is_some() {
        return false;
    }
    let by_type = match get(members, "type") {
        None => true,
        Some(Node::Text(name)) => name == "null",
        Some(Node::List(names)) => names.iter().any(|name| matches!(name, Node::Text("null"))),
        _ => false,
    };
    let by_values = match get(members, "enum").and_then(Node::list) {
        None => get(members, "const").is_none_or(|value| matches!(value, Node::Null)),
        Some(values) => values.iter().any(|value| matches!(value, Node::Null)),
    };
    let by_branch = |keyword| {
        get(members, keyword)
            .and_then(Node::list)
            .is_none_or(|branches| branches.iter().any(|branch| allows_null(*branch)))
    };
    by_type && by_values && by_branch("anyOf") && by_branch("oneOf")
}

/// What a strict API counts in a schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) depth: usize,
    pub(crate) properties: usize,
    pub(crate) enum_values: usize,
    pub(crate) characters: usize,
    /// Characters of the largest enum that has more than 250 values.
    pub(crate) enum_characters: usize,
    pub(crate) optional: usize,
    pub(crate) unions: usize,
}

impl Counts {
    pub(crate) fn of(node: Node<'_>) -> Counts {
        let mut counts = Counts::default();
        counts.add(node, 0);
        counts
    }

    fn add(&mut self, node: Node<'_>, depth: usize) {
        let Some(members) = node.object() else { return };
        let names_types = get(members, "type").and_then(Node::list).is_some();
        self.unions += usize::from(names_types || get(members, "anyOf").is_some());
        let required = get(members, "required").and_then(Node::list).map_or(0, <[Node<'_>]>::len);
        for Member { key, value } in members {
            match *key {
                "properties" => {
                    let properties = value.object().unwrap_or_default();
                    self.depth = self.depth.max(depth + 1);
                    self.properties += properties.len();
                    self.optional += properties.len().saturating_sub(required);
                    for property in properties {
                        self.characters += property.key.chars().count();
                        self.add(property.value, depth + 1);
                    }
                }
                "$defs" => {
                    for definition in value.object().unwrap_or_default() {
                        self.characters += definition.key.chars().count();
                        self.add(definition.value, 0);
                    }
                }
                "items" | "additionalProperties" => self.add(*value, depth),
                "anyOf" | "prefixItems" => {
                    for branch in value.list().unwrap_or_default() {
                        self.add(*branch, depth);
                    }
                }
                "enum" => {
                    let values = value.list().unwrap_or_default();
                    let characters = values.iter().map(|value| whole(*value).chars().count()).sum::<usize>();
                    let quotes = values.iter().filter(|value| value.is_string()).count() * 2;
                    self.enum_values += values.len();
                    self.characters += characters - quotes;
                    if values.len() > 250 {
                        self.enum_characters = self.enum_characters.max(characters - quotes);
                    }
                }
                "const" => self.characters += whole(*value).chars().count(),
                _ => {}
            }
        }
    }

    /// The first limit that is passed, if any.
    pub(crate) fn over(&self, limits: &Limits) -> Option<(&'static str, String)> {
        [
            (self.depth, limits.depth, "properties", "levels of objects"),
            (self.properties, limits.properties, "properties", "properties"),
            (self.enum_values, limits.enum_values, "enum", "enum values"),
            (self.characters, limits.characters, "enum", "characters of names and values"),
            (self.enum_characters, limits.enum_characters, "enum", "characters in one enum"),
            (self.optional, limits.optional, "required", "optional properties"),
            (self.unions, limits.unions, "anyOf", "unions"),
        ]
        .into_iter()
        .find(|(count, limit, ..)| count > limit)
        .map(|(count, limit, keyword, what)| (keyword, format!("{count} {what}, and the API takes {limit}")))
    }
}
