//! Lowers a normalized schema to the subset of JSON Schema that a grammar describes, and plans how to convert
//! arguments back.
//!
//! Lowering resolves references, merges `allOf`, expands alternatives and handles one type at a time. A
//! keyword that the grammar lacks is moved to the description and reported. A part that must not be lost
//! makes the tool non-strict or, if the caller allows it, gets another shape from which arguments are
//! converted back.

mod all_of;
mod array;
mod counts;
mod enums;
mod fallback;
mod map;
mod object;
mod references;
mod scalar;
mod types;
mod union;

use std::collections::HashMap;

use super::context::Context;
use super::edit::ObjectEdit;
use super::node_id::{NodeMap, NodeSet, is_same_node, node_id};
use super::profile::Grammar;
use super::refs::Document;
use super::types::TypeSet;
use super::{INEXPRESSIBLE, Inexpressible, TOO_COMPLEX, is_annotation};
use crate::Effect;
use crate::arguments::Plan;
use crate::json::{Member, Node, Object, Place, get};

pub(crate) use self::counts::SchemaSize;

/// A lowered schema, and the plan for converting its arguments back.
pub(crate) struct Lowered<'a> {
    pub(crate) node: Node<'a>,
    pub(crate) plan: Plan,
}

/// The reason why a schema could not be lowered.
#[derive(Debug)]
pub(crate) enum LowerError {
    Inexpressible(Inexpressible),
    /// No value satisfies it.
    Unsatisfiable,
}

type LowerResult<'a> = Result<Lowered<'a>, LowerError>;

/// A schema without `$ref` and `allOf`.
#[derive(Clone, Copy)]
struct MergedSchema<'s, 'a> {
    members: Object<'a>,
    /// Rules that could not be merged into it.
    leftover: &'s [Member<'a>],
    place: &'s Place<'s>,
}

/// A complete lowered schema.
pub(crate) struct LoweredRoot<'a> {
    pub(crate) node: Node<'a>,
    pub(crate) plan: Plan,
    /// Plans by the index in [`Plan::Shared`].
    pub(crate) shared: Vec<Plan>,
    pub(crate) size: SchemaSize,
    /// Some schemas are not at their original place.
    pub(crate) moved: bool,
}

struct Lowering<'c, 'a, 'o> {
    context: &'c mut Context<'a, 'o>,
    grammar: &'static Grammar,
    document: Option<&'c Document<'a>>,
    /// Schemas that no value satisfies.
    unsatisfiable: NodeSet,
    root: Node<'a>,
    /// The root before it was turned into an object without composition.
    normalized: Node<'a>,
    /// Referenced definitions, in the order of their first reference.
    definitions: Vec<Definition<'a>>,
    definition_indexes: NodeMap<usize>,
    /// The names of definitions, each with the last number that was appended to it.
    definition_names: HashMap<String, usize>,
    /// Reference targets that are being lowered, and whether an optional property is between one and the
    /// next.
    open: Vec<(usize, bool)>,
    /// The definitions that each definition contains, without an optional property between them.
    requires: NodeMap<Vec<usize>>,
    /// Number of schemas lowered so far.
    lowered_schemas: usize,
    /// Targets that were merged into the current schema.
    merged_targets: NodeSet,
    /// The original places of schemas, once some of them moved.
    origins: Option<NodeMap<&'a Place<'a>>>,
}

struct Definition<'a> {
    target: Node<'a>,
    pointer: String,
    name: String,
    lowered: Option<Lowered<'a>>,
}

/// Lowers `root`, an object without composition that was made from `normalized`.
pub(crate) fn lower<'a>(
    context: &mut Context<'a, '_>,
    grammar: &'static Grammar,
    root: Node<'a>,
    normalized: Node<'a>,
    document: Option<&Document<'a>>,
    unsatisfiable: NodeSet,
) -> Result<LoweredRoot<'a>, LowerError> {
    let mut lowering = Lowering {
        context,
        grammar,
        document,
        unsatisfiable,
        root,
        normalized,
        definitions: Vec::new(),
        definition_indexes: NodeMap::default(),
        definition_names: HashMap::new(),
        open: vec![(node_id(root), false)],
        requires: NodeMap::default(),
        lowered_schemas: 0,
        merged_targets: NodeSet::default(),
        origins: None,
    };
    if !is_same_node(root, normalized) {
        lowering.track_origins();
    }
    let lowered = lowering.root_object(root)?;
    lowering.finish(lowered)
}

impl<'a> Lowering<'_, 'a, '_> {
    /// Lowers the referenced definitions and assembles the result.
    fn finish(mut self, root: Lowered<'a>) -> Result<LoweredRoot<'a>, LowerError> {
        let mut index = 0;
        while index < self.definitions.len() {
            let target = self.definitions[index].target;
            let pointer = self.context.arena.alloc_str(&self.definitions[index].pointer);
            self.open = vec![(node_id(target), false)];
            let lowered = self.lower(target, &Place::at(pointer))?;
            self.definitions[index].lowered = Some(lowered);
            index += 1;
        }
        let mut shared = vec![root.plan.clone()];
        let mut entries = Vec::new();
        for definition in &self.definitions {
            let lowered = definition.lowered.as_ref().expect("every definition was lowered above");
            shared.push(lowered.plan.clone());
            entries.push(Member::new(self.context.arena.alloc_str(&definition.name), lowered.node));
        }
        let mut node = root.node;
        if !entries.is_empty() {
            let members = node.object().unwrap_or_default();
            node = self.context.with(members, "$defs", self.context.object(&entries));
        }
        let size = SchemaSize::of(node);
        if let Some(detail) = size.exceeded(&self.grammar.limits) {
            return Err(self.inexpressible(&Place::ROOT, detail));
        }
        let moved = self.origins.is_some() || self.context.options.reshape;
        Ok(LoweredRoot { node, plan: root.plan, shared, size, moved })
    }

    /// Lowers a schema in a position where OpenAPI cannot express `null` alone.
    fn lower_item(&mut self, node: Node<'a>, place: &Place<'_>) -> LowerResult<'a> {
        let lowered = self.lower(node, place)?;
        if self.is_openapi_null(lowered.node) {
            return self.null_as_json_text(node, place);
        }
        Ok(lowered)
    }

    /// Lowers any schema.
    fn lower(&mut self, node: Node<'a>, place: &Place<'_>) -> LowerResult<'a> {
        let result = self.lower_schema(node, place);
        if let (Some(_), Ok(lowered)) = (self.context.trace, &result) {
            self.context.trace(lowered.node, self.origin(node).unwrap_or(place));
        }
        result
    }

    fn lower_schema(&mut self, node: Node<'a>, place: &Place<'_>) -> LowerResult<'a> {
        let members = match node {
            Node::Bool(false) => return Err(LowerError::Unsatisfiable),
            Node::Object(members) => members,
            _ => &[],
        };
        if self.unsatisfiable.contains(&node_id(node)) {
            return Err(LowerError::Unsatisfiable);
        }
        self.lowered_schemas += 1;
        self.context.budget.take_schema(members).map_err(|_| self.too_complex(place))?;
        let place = self.origin(node).unwrap_or(place);
        if get(members, "$ref").is_some_and(Node::is_string) {
            return self.reference(members, place);
        }
        if let Some(reference) = self.wrapped_reference(members) {
            return self.reference(reference, place);
        }
        let outer = std::mem::take(&mut self.merged_targets);
        let merged = self.merge_all_of(members, place);
        // Targets that were merged in must not be merged in again further down.
        let merged_targets = std::mem::replace(&mut self.merged_targets, outer);
        let (members, leftover) = merged?;
        let open = self.open.len();
        self.open.extend(merged_targets.into_iter().map(|id| (id, false)));
        let lowered = self.lower_merged(MergedSchema { members, leftover: &leftover, place });
        self.open.truncate(open);
        lowered
    }

    /// Returns the reference of an `allOf` that contains only one, with the annotations around it.
    fn wrapped_reference(&self, members: Object<'a>) -> Option<Object<'a>> {
        let part = match get(members, "allOf")? {
            Node::List([part]) => part.object()?,
            _ => return None,
        };
        let has_only = |schema: Object<'a>, keyword: &str| {
            schema.iter().all(|member| member.key == keyword || is_annotation(member.key))
        };
        if !has_only(members, "allOf") || !has_only(part, "$ref") || !get(part, "$ref")?.is_string() {
            return None;
        }
        let mut edit = ObjectEdit::of(part);
        for member in members.iter().filter(|member| member.key != "allOf") {
            edit.put(member.key, member.value);
        }
        Some(self.context.finish(edit))
    }

    /// Returns the original place of a schema, once schemas moved.
    fn origin(&self, node: Node<'a>) -> Option<&'a Place<'a>> {
        self.origins.as_ref()?.get(&node_id(node)).copied()
    }

    fn lower_merged(&mut self, schema: MergedSchema<'_, 'a>) -> LowerResult<'a> {
        let MergedSchema { members, leftover, place } = schema;
        if matches!(get(members, "not"), Some(Node::Bool(true) | Node::Object([]))) {
            return Err(LowerError::Unsatisfiable);
        }
        if let Some(lowered) = self.alternatives(schema)? {
            return Ok(lowered);
        }
        if get(members, "enum").and_then(Node::list).is_some() || get(members, "const").is_some() {
            return self.enumeration(schema);
        }
        let (types, implied) = self.types(members, place);
        if types == TypeSet::ALL && !implied && !has_rules(members) && leftover.is_empty() {
            return self.any_value(members, place);
        }
        if types == TypeSet::ALL && get(members, "type").is_none() {
            // Only rules that apply to every type, such as `not`.
            return self.untyped_rules(schema);
        }
        let names = types.names();
        match names.as_slice() {
            [] => Err(LowerError::Unsatisfiable),
            [name] => self.one_type(name, schema),
            [name, "null"] => {
                let lowered = self.one_type(name, schema)?;
                Ok(Lowered { node: self.with_null(lowered.node), plan: lowered.plan })
            }
            names => self.several_types(names, schema),
        }
    }

    /// Returns a finished node, with its `type` as the grammar spells types.
    fn typed(&self, members: &[Member<'a>]) -> Node<'a> {
        if !self.grammar.openapi_types {
            return self.context.object(members);
        }
        let spelled: Vec<Member<'a>> = members
            .iter()
            .map(|member| match (member.key, member.value) {
                ("type", Node::Text(name)) => Member::new("type", Node::Text(openapi_type(name))),
                _ => *member,
            })
            .collect();
        self.context.object(&spelled)
    }

    fn record(&mut self, place: &Place<'_>, keyword: &str, effect: Effect, detail: impl Into<String>) {
        self.context.record(place, keyword, effect, detail);
    }

    fn inexpressible(&self, place: &Place<'_>, detail: impl Into<String>) -> LowerError {
        let (pointer, detail) = (place.pointer(), detail.into());
        LowerError::Inexpressible(Inexpressible { code: INEXPRESSIBLE, pointer, detail })
    }

    fn too_complex(&self, place: &Place<'_>) -> LowerError {
        let detail = "the schema is too complex: its references and alternatives multiply".to_owned();
        LowerError::Inexpressible(Inexpressible { code: TOO_COMPLEX, pointer: place.pointer(), detail })
    }

    /// Whether a grammar cannot express a part and the caller does not allow another shape for it.
    fn must_be_exact(&self) -> bool {
        self.grammar.strict && !self.context.options.reshape
    }
}

/// Whether a rule may allow keys.
pub(crate) fn may_allow_keys(keyword: &str) -> bool {
    matches!(
        keyword,
        "properties" | "additionalProperties" | "patternProperties" | "anyOf" | "oneOf" | "allOf"
    )
}

/// Whether a schema has more than its type and annotations.
fn has_rules(members: Object<'_>) -> bool {
    members.iter().any(|member| member.key != "type" && !is_annotation(member.key))
}

fn openapi_type(name: &str) -> &'static str {
    match name {
        "string" => "STRING",
        "number" => "NUMBER",
        "integer" => "INTEGER",
        "boolean" => "BOOLEAN",
        "array" => "ARRAY",
        "object" => "OBJECT",
        _ => "NULL",
    }
}
