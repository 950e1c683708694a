//! Fast lookup by key in objects of any size.

use std::collections::HashMap;

use super::{Node, Object, get};

/// An object with lookup by key: a linear search if it is small, else a hash table.
pub(crate) struct KeyIndex<'a> {
    members: Object<'a>,
    table: Option<HashMap<&'a str, Node<'a>>>,
}

impl<'a> KeyIndex<'a> {
    /// The largest number of members for which a linear search is faster than a hash table.
    pub(crate) const MAX_LINEAR: usize = 32;

    pub(crate) fn of(members: Object<'a>) -> KeyIndex<'a> {
        let table = (members.len() > Self::MAX_LINEAR)
            .then(|| members.iter().map(|member| (member.key, member.value)).collect());
        KeyIndex { members, table }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Node<'a>> {
        match &self.table {
            Some(table) => table.get(key).copied(),
            None => get(self.members, key),
        }
    }
}
