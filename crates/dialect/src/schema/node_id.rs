//! Sets and maps of schemas that are identified by their address in memory.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use crate::json::Node;

/// A set of schemas by [`node_id`].
pub(crate) type NodeSet = HashSet<usize, BuildHasherDefault<AddressHasher>>;

/// A map from schemas by [`node_id`].
pub(crate) type NodeMap<T> = HashMap<usize, T, BuildHasherDefault<AddressHasher>>;

/// Returns the address of a schema's members, or 0 for a boolean or an empty object.
pub(crate) fn node_id(node: Node<'_>) -> usize {
    match node {
        Node::Object(members) if !members.is_empty() => members.as_ptr() as usize,
        _ => 0,
    }
}

/// Whether two schemas are the same object in memory.
pub(crate) fn is_same_node(a: Node<'_>, b: Node<'_>) -> bool {
    match (a, b) {
        (Node::Object(a), Node::Object(b)) => std::ptr::eq(a, b),
        _ => false,
    }
}

/// Whether a walk returned the schema it was given. Only objects can change.
pub(crate) fn is_unchanged(before: Node<'_>, after: Node<'_>) -> bool {
    before.object().is_none() || is_same_node(before, after)
}

/// Mixes the bits of an address. Input cannot choose addresses, so the hash need not resist attacks.
#[derive(Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, number: usize) {
        // The hash table uses the low bits for the bucket and the high bits for the tag, so both must be
        // mixed.
        let product = (self.0 ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}
