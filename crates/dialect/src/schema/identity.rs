//! Schemas by identity: tables whose keys are places in memory.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use crate::json::Node;

/// Schemas, each known by its place in memory.
pub(crate) type Identities = HashSet<usize, BuildHasherDefault<Scatter>>;

/// Something for each of some schemas.
pub(crate) type ByIdentity<T> = HashMap<usize, T, BuildHasherDefault<Scatter>>;

/// An identity for a schema: its place in memory. Schemas that are booleans or empty have none, and need none.
pub(crate) fn identity(node: Node<'_>) -> usize {
    match node {
        Node::Object(members) if !members.is_empty() => members.as_ptr() as usize,
        _ => 0,
    }
}

/// Whether two schemas are one and the same, not only alike.
pub(crate) fn is_same_place(a: Node<'_>, b: Node<'_>) -> bool {
    match (a, b) {
        (Node::Object(a), Node::Object(b)) => std::ptr::eq(a, b),
        _ => false,
    }
}

/// Whether a walk gave a schema back as it was.
pub(crate) fn is_untouched(before: Node<'_>, after: Node<'_>) -> bool {
    before.object().is_none() || is_same_place(before, after)
}

/// Scatters the bits of an address. Nobody outside chooses addresses, so there is nothing to defend against.
#[derive(Default)]
pub(crate) struct Scatter(u64);

impl Hasher for Scatter {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, number: usize) {
        // The table takes the low bits for the place and the high ones for the tag: both must depend on all of it.
        let product = (self.0 ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}
