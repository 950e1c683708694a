//! Ways through a schema: down to the schemas directly below, and along pointers.

use std::cell::RefCell;

use bumpalo::Bump;

use crate::json::{KeyIndex, Node, Object, Place, get, unescape_segment};
use crate::schema::identity::{ByIdentity, identity};
use crate::schema::keyword::Inside;
use crate::schema::{Slot, slot};

/// Looks keys up in objects of any size: large ones get a table when something is looked up in them.
#[derive(Default)]
pub(crate) struct Lookup<'a> {
    tables: RefCell<ByIdentity<KeyIndex<'a>>>,
}

impl<'a> Lookup<'a> {
    /// The value of `key`.
    pub(crate) fn get(&self, members: Object<'a>, key: &str) -> Option<Node<'a>> {
        if members.len() <= KeyIndex::MAX_LINEAR {
            return get(members, key);
        }
        let mut tables = self.tables.borrow_mut();
        tables.entry(identity(Node::Object(members))).or_insert_with(|| KeyIndex::of(members)).get(key)
    }

    /// Follows a pointer step by step, through data as well.
    pub(crate) fn walk(&self, start: Node<'a>, path: &str) -> Option<Node<'a>> {
        let mut node = start;
        for token in path.split('/').skip(1) {
            let name = unescape_segment(token);
            node = match node {
                Node::Object(members) => self.get(members, &name)?,
                Node::List(nodes) => *nodes.get(name.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(node)
    }
}

/// The way from a schema to one directly below it.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    keyword: &'a str,
    inside: Inside<'a>,
}

impl<'a> Path<'a> {
    /// Whether it leads to a definition, which counts only where something points at it.
    pub(crate) fn is_definition(self) -> bool {
        matches!(self.keyword, "$defs" | "definitions")
    }

    /// The place this way from `place`.
    pub(crate) fn below(self, place: &'a Place<'a>, arena: &'a Bump) -> &'a Place<'a> {
        let keyword = arena.alloc(place.key(self.keyword));
        match self.inside {
            Inside::Alone => keyword,
            Inside::Index(index) => arena.alloc(keyword.index(index)),
            Inside::Key(key) => arena.alloc(keyword.key(key)),
        }
    }
}

/// Calls `visit` with every schema directly below, and the way to it.
pub(crate) fn each_child<'a>(members: Object<'a>, mut visit: impl FnMut(Path<'a>, Node<'a>)) {
    for member in members {
        let mut child = |inside, schema: Node<'a>| {
            if schema.is_schema() {
                visit(Path { keyword: member.key, inside }, schema);
            }
        };
        match (slot(member.key), member.value) {
            (Slot::Items | Slot::SchemaList, Node::List(schemas)) => {
                for (index, schema) in schemas.iter().enumerate() {
                    child(Inside::Index(index), *schema);
                }
            }
            (Slot::Schema | Slot::AdditionalItems | Slot::Items, schema) => child(Inside::Alone, schema),
            (Slot::Properties | Slot::SchemaMap | Slot::Dependencies, Node::Object(schemas)) => {
                for entry in schemas {
                    child(Inside::Key(entry.key), entry.value);
                }
            }
            _ => {}
        }
    }
}
