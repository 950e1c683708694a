//! Records where the schemas of a definition come from, for comparisons.

use std::cell::RefCell;

use super::node_id::{NodeMap, node_id};
use super::walk::{KeyLookup, each_child};
use crate::json::{Node, Place};

/// The original places of schemas, by the id of their node.
#[derive(Default)]
pub(crate) struct Trace {
    places: RefCell<NodeMap<Vec<String>>>,
}

/// A schema of a definition, and its places in the original.
pub(crate) struct Traced {
    pub(crate) pointer: String,
    /// Empty if the original has no schema that corresponds to it.
    pub(crate) origins: Vec<String>,
}

impl Trace {
    /// Records that a schema was made from the one at `pointer`.
    pub(super) fn record(&self, node: Node<'_>, pointer: String) {
        let id = node_id(node);
        if id == 0 {
            return;
        }
        let mut places = self.places.borrow_mut();
        let known = places.entry(id).or_default();
        if !known.contains(&pointer) {
            known.push(pointer);
        }
    }

    /// Records the places of all schemas below `root` that have none.
    pub(super) fn record_all(&self, root: Node<'_>) {
        let mut stack = vec![(root, String::new())];
        while let Some((node, pointer)) = stack.pop() {
            if !self.places.borrow().contains_key(&node_id(node)) {
                self.record(node, pointer.clone());
            }
            each_child(node.object().unwrap_or_default(), |path, child| {
                let mut inside = pointer.clone();
                path.append_to(&mut inside);
                stack.push((child, inside));
            });
        }
    }

    /// Returns all schemas of a definition, in order, with their places in `original`. A schema without a
    /// record is at the same place below its parent.
    pub(crate) fn schemas(&self, definition: Node<'_>, original: Node<'_>) -> Vec<Traced> {
        let places = self.places.borrow();
        let lookup = KeyLookup::default();
        let exists = |pointer: &String| lookup.resolve(original, pointer).is_some();
        let mut traced: Vec<Traced> = Vec::new();
        let mut stack = vec![(definition, String::new(), vec![String::new()])];
        while let Some((node, pointer, inherited)) = stack.pop() {
            let recorded = places.get(&node_id(node)).into_iter().flatten().filter(|place| exists(place));
            let mut origins: Vec<String> = recorded.cloned().collect();
            if origins.is_empty() {
                origins = inherited.into_iter().filter(exists).collect();
            }
            let mut children = Vec::new();
            each_child(node.object().unwrap_or_default(), |path, child| {
                let below = |parent: &String| {
                    let mut inside = parent.clone();
                    path.append_to(&mut inside);
                    inside
                };
                children.push((child, below(&pointer), origins.iter().map(below).collect()));
            });
            stack.extend(children.into_iter().rev());
            traced.push(Traced { pointer, origins });
        }
        traced
    }
}

impl super::context::Context<'_, '_> {
    /// Records that a schema was made from the one at `place`, if there is a trace.
    pub(super) fn trace(&self, node: Node<'_>, place: &Place<'_>) {
        if let Some(trace) = self.trace {
            trace.record(node, place.pointer());
        }
    }
}
