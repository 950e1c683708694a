//! Collects the properties that the alternatives and conditions inside a schema describe, at any depth.

use std::collections::HashMap;
use std::rc::Rc;

use super::context::Context;
use super::keywords::{list_at, object_at, required_keys};
use super::node_id::{NodeMap, node_id};
use super::refs::Document;
use crate::json::{EMPTY, Node, Object, get};

/// Maximum number of different schemas of one property that are kept apart.
pub(super) const MAX_PROPERTY_SCHEMAS: usize = 256;

/// Maximum depth of schemas that apply to the same object. Deeper ones use up the budget.
const MAX_DEPTH: usize = 256;

/// Keywords whose schemas may describe properties of the same object.
const NESTING: [&str; 6] = ["anyOf", "oneOf", "if", "then", "else", "dependentSchemas"];

/// A property that a schema describes, itself or in a schema that applies to the same object.
#[derive(Clone, Debug)]
pub(crate) struct NestedKey<'a> {
    pub(crate) key: &'a str,
    /// Its different schemas; none if the key is only required.
    schemas: Vec<Node<'a>>,
    /// In every alternative, the key has one of the schemas or is forbidden.
    pub(crate) in_every_alternative: bool,
}

impl<'a> NestedKey<'a> {
    /// Returns schemas of which each value of the property matches one; none if the key is only required.
    pub(crate) fn schemas(&self) -> &[Node<'a>] {
        if self.schemas.len() < MAX_PROPERTY_SCHEMAS { &self.schemas } else { &[EMPTY] }
    }

    fn add_schemas(&mut self, schemas: &[Node<'a>]) {
        for schema in schemas {
            if self.schemas.len() < MAX_PROPERTY_SCHEMAS && !self.schemas.iter().any(|own| own.same(*schema))
            {
                self.schemas.push(*schema);
            }
        }
    }
}

/// The properties that a schema describes.
#[derive(Clone, Debug, Default)]
pub(crate) struct NestedKeys<'a> {
    keys: Vec<NestedKey<'a>>,
    indexes: HashMap<&'a str, usize>,
    /// All other keys are forbidden.
    closed: bool,
    /// Other keys are allowed explicitly.
    pub(crate) open: bool,
}

impl<'a> NestedKeys<'a> {
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, NestedKey<'a>> {
        self.keys.iter()
    }

    fn get(&self, key: &str) -> Option<&NestedKey<'a>> {
        self.indexes.get(key).map(|index| &self.keys[*index])
    }

    fn entry(&mut self, key: &'a str) -> &mut NestedKey<'a> {
        let index = *self.indexes.entry(key).or_insert(self.keys.len());
        if index == self.keys.len() {
            self.keys.push(NestedKey { key, schemas: Vec::new(), in_every_alternative: false });
        }
        &mut self.keys[index]
    }

    /// Adds the keys of a schema that also applies. A key that has a schema in every alternative needs no
    /// other.
    fn and(&mut self, other: &NestedKeys<'a>) {
        for theirs in &other.keys {
            let ours = self.entry(theirs.key);
            if ours.in_every_alternative && !ours.schemas.is_empty() {
                continue;
            }
            if theirs.in_every_alternative {
                ours.schemas.clear();
                ours.in_every_alternative = true;
            }
            ours.add_schemas(&theirs.schemas);
        }
        self.closed |= other.closed;
        self.open |= other.open;
    }

    /// Returns the keys of alternatives.
    fn any(alternatives: &[Rc<NestedKeys<'a>>]) -> NestedKeys<'a> {
        let mut all = NestedKeys::default();
        for alternative in alternatives {
            for key in &alternative.keys {
                all.entry(key.key).add_schemas(&key.schemas);
            }
        }
        for key in &mut all.keys {
            key.in_every_alternative = !key.schemas.is_empty()
                && alternatives.iter().all(|alternative| {
                    alternative.get(key.key).map_or(alternative.closed, |key| key.in_every_alternative)
                });
        }
        all.closed = !alternatives.is_empty() && alternatives.iter().all(|alternative| alternative.closed);
        all.open = alternatives.iter().any(|alternative| alternative.open);
        all
    }
}

/// Whether schemas inside a schema may describe properties of the same object.
pub(crate) fn has_nested_keys(members: Object<'_>) -> bool {
    members.iter().any(|member| NESTING.contains(&member.key))
}

/// Collects keys; schemas with more than one reference are visited once.
pub(crate) struct KeyCollector<'d, 'a> {
    document: Option<&'d Document<'a>>,
    known: NodeMap<Rc<NestedKeys<'a>>>,
}

impl<'d, 'a> KeyCollector<'d, 'a> {
    pub(crate) fn new(document: Option<&'d Document<'a>>) -> Self {
        KeyCollector { document, known: NodeMap::default() }
    }

    /// Returns the keys that a schema describes. If the budget is exceeded, some are missing, and the next
    /// step of the conversion fails.
    pub(crate) fn keys_of(&mut self, node: Node<'a>, context: &Context<'a, '_>) -> Rc<NestedKeys<'a>> {
        self.collect(node, context, 0)
    }

    fn collect(&mut self, node: Node<'a>, context: &Context<'a, '_>, depth: usize) -> Rc<NestedKeys<'a>> {
        let Some(members) = node.object() else {
            let closed = matches!(node, Node::Bool(false));
            return Rc::new(NestedKeys { closed, ..NestedKeys::default() });
        };
        let id = node_id(node);
        if let Some(known) = self.known.get(&id)
            && id != node_id(EMPTY)
        {
            return Rc::clone(known);
        }
        if depth > MAX_DEPTH {
            let _ = context.budget.take(usize::MAX);
            return Rc::default();
        }
        // A schema that leads back to itself adds nothing.
        self.known.insert(id, Rc::default());
        let keys = Rc::new(self.collect_members(members, context, depth + 1));
        self.known.insert(id, Rc::clone(&keys));
        keys
    }

    fn collect_members(
        &mut self,
        members: Object<'a>,
        context: &Context<'a, '_>,
        depth: usize,
    ) -> NestedKeys<'a> {
        let mut keys = NestedKeys::default();
        if context.budget.take(1 + members.len() + object_at(members, "properties").len()).is_err() {
            return keys;
        }
        for property in object_at(members, "properties") {
            let key = keys.entry(property.key);
            key.in_every_alternative = true;
            key.add_schemas(&[property.value]);
        }
        let rest = get(members, "additionalProperties");
        keys.closed = matches!(rest, Some(Node::Bool(false))) && get(members, "patternProperties").is_none();
        let rest = rest.or(get(members, "unevaluatedProperties"));
        keys.open = rest.is_some_and(|rest| !matches!(rest, Node::Bool(false)))
            || get(members, "patternProperties").is_some();
        let mut applied = Vec::new();
        if let (Some(reference), Some(document)) =
            (get(members, "$ref").and_then(|node| node.text(context.arena)), self.document)
            && let Some(target) = document.resolve(reference)
        {
            applied.push(self.collect(target.node, context, depth));
        }
        applied.extend(list_at(members, "allOf").iter().map(|part| self.collect(*part, context, depth)));
        for keyword in ["anyOf", "oneOf"] {
            let branches: Vec<_> = list_at(members, keyword)
                .iter()
                .filter(|branch| !matches!(branch, Node::Bool(false)))
                .map(|branch| self.collect(*branch, context, depth))
                .collect();
            applied.push(Rc::new(NestedKeys::any(&branches)));
        }
        if get(members, "if").is_some() {
            let branches = ["then", "else"]
                .map(|keyword| self.collect(get(members, keyword).unwrap_or(EMPTY), context, depth));
            applied.push(Rc::new(NestedKeys::any(&branches)));
            let mut condition = NestedKeys::default();
            for key in self.collect(get(members, "if").unwrap_or(EMPTY), context, depth).iter() {
                condition.entry(key.key);
            }
            applied.push(Rc::new(condition));
        }
        for entry in object_at(members, "dependentSchemas") {
            let branches = [self.collect(entry.value, context, depth), Rc::default()];
            applied.push(Rc::new(NestedKeys::any(&branches)));
            let mut trigger = NestedKeys::default();
            trigger.entry(entry.key);
            applied.push(Rc::new(trigger));
        }
        for other in applied {
            let size = other.keys.iter().map(|key| 1 + key.schemas.len()).sum();
            if context.budget.take(size).is_err() {
                return keys;
            }
            keys.and(&other);
        }
        for name in required_keys(members, context.arena) {
            keys.entry(name);
        }
        keys
    }
}
