//! Traversal of schemas: to the schemas directly below, and along JSON pointers.

use std::cell::RefCell;
use std::fmt::Write as _;

use bumpalo::Bump;
use toolwire_contract::text::unescape_pointer_segment;

use super::context::Context;
use super::edit::EntryEdits;
use super::node_id::{NodeMap, is_unchanged, node_id};
use super::{KeywordKind, keyword_kind};
use crate::json::{KeyIndex, Member, Node, Object, Place, get, push_segment};

/// Looks up keys in objects of any size. A large object gets a hash table on its first lookup.
#[derive(Default)]
pub(crate) struct KeyLookup<'a> {
    tables: RefCell<NodeMap<KeyIndex<'a>>>,
}

impl<'a> KeyLookup<'a> {
    pub(crate) fn get(&self, members: Object<'a>, key: &str) -> Option<Node<'a>> {
        if members.len() <= KeyIndex::MAX_LINEAR {
            return get(members, key);
        }
        let mut tables = self.tables.borrow_mut();
        tables.entry(node_id(Node::Object(members))).or_insert_with(|| KeyIndex::of(members)).get(key)
    }

    /// Resolves a JSON pointer, through schemas and data.
    pub(crate) fn resolve(&self, start: Node<'a>, pointer: &str) -> Option<Node<'a>> {
        self.resolve_through(start, pointer, |_| {})
    }

    /// Resolves a JSON pointer and calls `visit` with every node on the way, the last one included.
    pub(crate) fn resolve_through(
        &self,
        start: Node<'a>,
        pointer: &str,
        mut visit: impl FnMut(Node<'a>),
    ) -> Option<Node<'a>> {
        let mut node = start;
        for token in pointer.split('/').skip(1) {
            let name = unescape_pointer_segment(token);
            node = match node {
                Node::Object(members) => self.get(members, &name)?,
                Node::List(nodes) => *nodes.get(name.parse::<usize>().ok()?)?,
                _ => return None,
            };
            visit(node);
        }
        Some(node)
    }
}

/// The path from a schema to one directly below it.
#[derive(Clone, Copy)]
pub(crate) struct ChildPath<'a> {
    keyword: &'a str,
    position: ChildPosition<'a>,
}

/// The position of a schema under its keyword.
#[derive(Clone, Copy)]
enum ChildPosition<'a> {
    Direct,
    Index(usize),
    Key(&'a str),
}

impl<'a> ChildPath<'a> {
    pub(crate) fn keyword(self) -> &'a str {
        self.keyword
    }

    /// Whether it leads to a definition, which has an effect only where a `$ref` points to it.
    pub(crate) fn is_definition(self) -> bool {
        matches!(self.keyword, "$defs" | "definitions")
    }

    /// Appends the path to a JSON pointer.
    pub(crate) fn append_to(self, pointer: &mut String) {
        pointer.push('/');
        push_segment(self.keyword, pointer);
        match self.position {
            ChildPosition::Direct => {}
            ChildPosition::Index(index) => {
                // Writing to a string does not fail.
                let _ = write!(pointer, "/{index}");
            }
            ChildPosition::Key(key) => {
                pointer.push('/');
                push_segment(key, pointer);
            }
        }
    }

    /// Returns the place that this path leads to from `place`.
    pub(crate) fn below(self, place: &'a Place<'a>, arena: &'a Bump) -> &'a Place<'a> {
        let keyword = arena.alloc(place.key(self.keyword));
        match self.position {
            ChildPosition::Direct => keyword,
            ChildPosition::Index(index) => arena.alloc(keyword.index(index)),
            ChildPosition::Key(key) => arena.alloc(keyword.key(key)),
        }
    }
}

/// Calls `visit` with every schema directly below, and the path to it.
pub(crate) fn each_child<'a>(members: Object<'a>, mut visit: impl FnMut(ChildPath<'a>, Node<'a>)) {
    for member in members {
        let mut child = |position, schema: Node<'a>| {
            if schema.is_schema() {
                visit(ChildPath { keyword: member.key, position }, schema);
            }
        };
        match (keyword_kind(member.key), member.value) {
            (KeywordKind::Items | KeywordKind::SchemaList, Node::List(schemas)) => {
                for (index, schema) in schemas.iter().enumerate() {
                    child(ChildPosition::Index(index), *schema);
                }
            }
            (KeywordKind::Schema | KeywordKind::AdditionalItems | KeywordKind::Items, schema) => {
                child(ChildPosition::Direct, schema);
            }
            (
                KeywordKind::Properties | KeywordKind::SchemaMap | KeywordKind::Dependencies,
                Node::Object(schemas),
            ) => {
                for entry in schemas {
                    child(ChildPosition::Key(entry.key), entry.value);
                }
            }
            _ => {}
        }
    }
}

impl<'a> Context<'a, '_> {
    /// Applies `map` to every schema under one keyword; returns the new value of the keyword if it changed.
    ///
    /// `map` gets the schema, its key if the keyword holds a map (else `""`), and its place. It returns
    /// `None` to remove the schema from a map or an array.
    pub(crate) fn map_schemas(
        &mut self,
        member: Member<'a>,
        place: &Place<'_>,
        mut map: impl FnMut(&mut Self, Node<'a>, &'a str, &Place<'_>) -> Option<Node<'a>>,
    ) -> Option<Node<'a>> {
        let inside = place.key(member.key);
        match (keyword_kind(member.key), member.value) {
            (KeywordKind::Schema | KeywordKind::Items | KeywordKind::AdditionalItems, Node::Object(_)) => {
                let mapped = map(self, member.value, "", &inside)?;
                (!is_unchanged(member.value, mapped)).then_some(mapped)
            }
            (KeywordKind::SchemaList | KeywordKind::Items, Node::List(schemas)) => {
                let mut mapped = Vec::with_capacity(schemas.len());
                for (index, schema) in schemas.iter().enumerate() {
                    mapped.extend(map(self, *schema, "", &inside.index(index)));
                }
                let unchanged = mapped.len() == schemas.len()
                    && schemas.iter().zip(&mapped).all(|(before, after)| is_unchanged(*before, *after));
                (!unchanged).then(|| self.list(&mapped))
            }
            (
                KeywordKind::Properties | KeywordKind::SchemaMap | KeywordKind::Dependencies,
                Node::Object(schemas),
            ) => {
                let mut entries = EntryEdits::of(schemas);
                for entry in schemas {
                    match map(self, entry.value, entry.key, &inside.key(entry.key)) {
                        None => entries.remove(),
                        Some(mapped) if is_unchanged(entry.value, mapped) => entries.retain(),
                        Some(mapped) => entries.replace(mapped),
                    }
                }
                entries.finish().map(|schemas| self.object(&schemas))
            }
            _ => None,
        }
    }
}
