//! Resolves references that are JSON pointers, and finds the recursive ones.
//!
//! Nothing is fetched: a tool with a reference that does not resolve inside its own schema is refused.

use std::borrow::Cow;
use std::cell::RefCell;

use bumpalo::Bump;
use percent_encoding::percent_decode_str;
use toolwire_contract::text::unescape_pointer_segment;

use super::budget::Budget;
use super::cycles::cycles;
use super::multiplicity::{check_multiplicity, count_unevaluated, may_multiply};
use super::node_id::{NodeMap, NodeSet, node_id};
use super::walk::{KeyLookup, each_child};
use crate::Refusal;
use crate::json::{Node, Place, get, push_segment};

/// Maximum number of definitions on the longest path of references: consumers of the schema recurse along it.
const MAX_REF_CHAIN: usize = 256;

/// Maximum number of schemas that one tool may grow to when references are replaced by their targets.
pub(crate) const MAX_INLINED_SCHEMAS: usize = 10_000;

/// Maximum number of references that are replaced inside each other.
pub(crate) const MAX_INLINE_DEPTH: usize = 64;

/// A complete schema, indexed for resolving references.
pub(crate) struct Document<'a> {
    pub(super) arena: &'a Bump,
    pub(super) root: Node<'a>,
    /// The target of `#`, after the root was rewritten.
    rewritten_root: Option<Node<'a>>,
    pub(super) lookup: KeyLookup<'a>,
    /// Reference targets that lead back to themselves.
    cyclic: NodeSet,
    /// A reference points to something other than a definition.
    points_inside: bool,
    pub(super) budget: &'a Budget,
    /// Reference targets that were checked for `null`, and whether they accept it.
    pub(super) null_acceptance: RefCell<NodeMap<bool>>,
}

/// The target of a reference, and the pointer to it from the root.
#[derive(Clone, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) node: Node<'a>,
    pub(crate) pointer: String,
}

impl<'a> Document<'a> {
    /// Indexes the schema. Refuses it if a reference in use does not resolve, or leads to references only.
    pub(crate) fn new(root: Node<'a>, arena: &'a Bump, budget: &'a Budget) -> Result<Document<'a>, Refusal> {
        let mut document = Document {
            arena,
            root,
            rewritten_root: None,
            lookup: KeyLookup::default(),
            cyclic: NodeSet::default(),
            points_inside: false,
            budget,
            null_acceptance: RefCell::default(),
        };
        document.check()?;
        Ok(document)
    }

    /// Resolves a reference, which must be a JSON pointer from the root.
    pub(crate) fn resolve(&self, reference: &str) -> Option<Target<'a>> {
        let (node, pointer) = self.find(reference)?;
        Some(Target { node, pointer: canonical_pointer("", &pointer) })
    }

    /// Resolves a reference to a schema and its pointer.
    pub(super) fn find<'r>(&self, reference: &'r str) -> Option<(Node<'a>, Cow<'r, str>)> {
        let pointer = percent_decode_str(reference.strip_prefix('#')?).decode_utf8_lossy();
        if pointer.is_empty() {
            return Some((self.rewritten_root.unwrap_or(self.root), pointer));
        }
        if !pointer.starts_with('/') {
            return None;
        }
        let node = self.lookup.resolve(self.root, &pointer).filter(|node| node.is_schema())?;
        Some((node, pointer))
    }

    /// Whether a reference points to something other than a definition.
    pub(crate) fn points_inside(&self) -> bool {
        self.points_inside
    }

    /// Lets `#` resolve to `root`, a rewritten form of this document's root.
    pub(crate) fn set_root(&mut self, root: Node<'a>) {
        if self.cyclic.contains(&node_id(self.root)) {
            self.cyclic.insert(node_id(root));
        }
        self.rewritten_root = Some(root);
    }

    /// Whether references in `node` lead back to `node`.
    pub(crate) fn is_cyclic(&self, node: Node<'_>) -> bool {
        self.cyclic.contains(&node_id(node))
    }

    /// Resolves every reference that is in use, starting at the root.
    fn check(&mut self) -> Result<(), Refusal> {
        // Edges from each reference target to the targets that it uses directly.
        let mut uses: NodeMap<Vec<usize>> = NodeMap::default();
        let mut targets: Vec<(Node<'a>, &'a Place<'a>)> = vec![(self.root, &Place::ROOT)];
        let mut known = NodeSet::from_iter([node_id(self.root)]);
        let mut resolving = NodeSet::default();
        let mut all_targets = targets.clone();
        let (mut schemas, mut references, mut unevaluated) = (0, 0, 0);
        while let Some((target, target_place)) = targets.pop() {
            let mut edges = Vec::new();
            let mut stack = vec![(target, target_place)];
            while let Some((node, place)) = stack.pop() {
                let Some(members) = node.object() else { continue };
                schemas += 1;
                unevaluated += count_unevaluated(members);
                for keyword in ["$ref", "$dynamicRef"] {
                    let Some(reference) = get(members, keyword).and_then(|value| value.text(self.arena))
                    else {
                        continue;
                    };
                    let found = self.check_ref(keyword, reference, place, &mut resolving)?;
                    self.points_inside |=
                        !found.pointer.starts_with("/$defs/") && !found.pointer.starts_with("/definitions/");
                    edges.push(node_id(found.node));
                    references += 1;
                    if known.insert(node_id(found.node)) {
                        let pointer = self.arena.alloc_str(&found.pointer);
                        let target = (found.node, &*self.arena.alloc(Place::at(pointer)));
                        targets.push(target);
                        all_targets.push(target);
                    }
                }
                // Definitions are visited when a reference points to them.
                each_child(members, |path, child| {
                    if !path.is_definition() {
                        stack.push((child, path.below(place, self.arena)));
                    }
                });
            }
            uses.insert(node_id(target), edges);
        }
        if may_multiply(schemas, references, unevaluated) {
            check_multiplicity(self, all_targets)?;
        }
        let (cyclic, longest) = cycles(&uses);
        if longest > MAX_REF_CHAIN {
            return Err(Refusal {
                code: "too_deep",
                pointer: String::new(),
                message: format!(
                    "$ref chain passes through {longest} definitions; the limit is {MAX_REF_CHAIN}"
                ),
            });
        }
        self.cyclic = cyclic;
        Ok(())
    }

    /// Returns the target of a reference, and checks that it does not lead to references only.
    /// `resolving` holds references that are known to lead to a schema.
    fn check_ref(
        &self,
        keyword: &str,
        reference: &str,
        place: &Place<'_>,
        resolving: &mut NodeSet,
    ) -> Result<Target<'a>, Refusal> {
        let first = self.resolve(reference).ok_or_else(|| {
            let remote = !reference.starts_with('#');
            Refusal {
                code: if remote { "remote_ref" } else { "dangling_ref" },
                pointer: place.pointer(),
                message: if remote {
                    format!("{keyword} points to {reference}; remote schemas are not fetched")
                } else {
                    format!("{keyword} points to {reference}, which does not exist")
                },
            }
        })?;
        let mut seen = NodeSet::default();
        let mut current = first.clone();
        while let Some(next) = current.node.member("$ref").and_then(|value| value.text(self.arena)) {
            if resolving.contains(&node_id(current.node)) {
                break;
            }
            if !seen.insert(node_id(current.node)) {
                return Err(Refusal {
                    code: "ref_loop",
                    pointer: place.pointer(),
                    message: format!("{keyword} {reference} loops without reaching a schema"),
                });
            }
            match self.resolve(next) {
                Some(target) => current = target,
                None => break,
            }
        }
        resolving.extend(seen);
        Ok(first)
    }
}

/// Appends a pointer to `prefix`, with canonical escapes.
pub(super) fn canonical_pointer(prefix: &str, path: &str) -> String {
    let mut pointer = String::with_capacity(prefix.len() + path.len());
    pointer.push_str(prefix);
    if !path.contains('~') {
        pointer.push_str(path);
        return pointer;
    }
    for token in path.split('/').skip(1) {
        pointer.push('/');
        push_segment(&unescape_pointer_segment(token), &mut pointer);
    }
    pointer
}
