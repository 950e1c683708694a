//! Objects of any size, looked up by key.

use std::collections::HashMap;

use super::{Node, Object, get};

/// Members by key, with a table where there are many.
pub(crate) struct Keyed<'a> {
    members: Object<'a>,
    table: Option<HashMap<&'a str, Node<'a>>>,
}

impl<'a> Keyed<'a> {
    /// Up to this many members a linear look is quicker than a table.
    pub(crate) const LINEAR: usize = 32;

    pub(crate) fn of(members: Object<'a>) -> Keyed<'a> {
        let table = (members.len() > Self::LINEAR)
            .then(|| members.iter().map(|member| (member.key, member.value)).collect());
        Keyed { members, table }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Node<'a>> {
        match &self.table {
            Some(table) => table.get(key).copied(),
            None => get(self.members, key),
        }
    }
}
