//! Resolves `$ref`s, and finds the recursive ones.
//!
//! Nothing is fetched: a tool with a reference that does not resolve inside its own schema is refused.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;

use bumpalo::Bump;
use percent_encoding::percent_decode_str;

use super::budget::Budget;
use super::cycles::cycles;
use super::multiplicity::{MIN_REFERENCES, check_multiplicity};
use super::node_id::{NodeMap, NodeSet, node_id};
use super::walk::{KeyLookup, each_child};
use crate::Refusal;
use crate::json::{Node, Place, escape_segment, get, unescape_segment};

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
    /// URI → schema and pointer, for schemas with an `$id`.
    resources: HashMap<String, (Node<'a>, String)>,
    /// (URI, anchor) → schema and pointer.
    anchors: HashMap<(String, String), (Node<'a>, String)>,
    pub(super) lookup: KeyLookup<'a>,
    /// Reference targets that lead back to themselves.
    cyclic: NodeSet,
    /// A reference points to something other than a definition.
    points_inside: bool,
    /// An `$id` below the root changes the base URI of references.
    has_nested_ids: bool,
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
            resources: HashMap::new(),
            anchors: HashMap::new(),
            lookup: KeyLookup::default(),
            cyclic: NodeSet::default(),
            points_inside: false,
            has_nested_ids: false,
            budget,
            null_acceptance: RefCell::default(),
        };
        document.index();
        document.check()?;
        Ok(document)
    }

    fn index(&mut self) {
        let mut stack: Vec<(Node<'a>, &'a str, &'a Place<'a>)> = vec![(self.root, "", &Place::ROOT)];
        while let Some((node, mut base, place)) = stack.pop() {
            let Some(members) = node.object() else { continue };
            if let Some(id) = get(members, "$id").and_then(|id| id.text(self.arena)) {
                let uri = id.strip_suffix('#').unwrap_or(id);
                base = self.arena.alloc_str(&join(base, uri));
                let pointer = place.pointer();
                self.has_nested_ids |= !pointer.is_empty();
                self.resources.insert(base.to_owned(), (node, pointer));
            }
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(anchor) = get(members, keyword).and_then(|anchor| anchor.text(self.arena)) {
                    self.anchors.insert((base.to_owned(), anchor.to_owned()), (node, place.pointer()));
                }
            }
            each_child(members, |path, child| stack.push((child, base, path.below(place, self.arena))));
        }
    }

    /// Resolves a reference at `place`.
    pub(crate) fn resolve_at(&self, place: &Place<'_>, reference: &str) -> Option<Target<'a>> {
        self.resolve(&self.base_at(place), reference)
    }

    /// Resolves a reference relative to the URI `base`, which is `""` for the root.
    pub(crate) fn resolve(&self, base: &str, reference: &str) -> Option<Target<'a>> {
        let (node, prefix, path) = self.find(base, reference)?;
        Some(Target { node, pointer: joined_pointer(prefix, &path) })
    }

    /// Resolves a reference to a schema, the pointer to its resource or anchor, and the pointer from there.
    pub(super) fn find<'r>(
        &'r self,
        base: &str,
        reference: &'r str,
    ) -> Option<(Node<'a>, &'r str, Cow<'r, str>)> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let full = if uri.is_empty() { Cow::Borrowed(base) } else { join(base, uri).into() };
        let (resource, prefix) = if full.is_empty() || full == self.root_base() {
            (self.root, "")
        } else {
            let (resource, pointer) = self.resources.get(full.as_ref())?;
            (*resource, pointer.as_str())
        };
        let fragment = percent_decode_str(fragment).decode_utf8_lossy();
        if fragment.is_empty() {
            let node = if prefix.is_empty() { self.rewritten_root.unwrap_or(resource) } else { resource };
            return Some((node, prefix, fragment));
        }
        if fragment.starts_with('/') {
            let node = self.lookup.resolve(resource, &fragment).filter(|node| node.is_schema())?;
            return Some((node, prefix, fragment));
        }
        let (node, pointer) = self.anchors.get(&(full.into_owned(), fragment.into_owned()))?;
        Some((*node, pointer, Cow::Borrowed("")))
    }

    fn root_base(&self) -> &'a str {
        let id = self.root.member("$id").and_then(|id| id.text(self.arena)).unwrap_or_default();
        id.strip_suffix('#').unwrap_or(id)
    }

    /// Whether a reference may use an `$id` or an anchor instead of a pointer from the root.
    pub(crate) fn points_by_name(&self) -> bool {
        self.has_nested_ids || !self.anchors.is_empty()
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
        let mut reference_count = 0;
        while let Some((target, target_place)) = targets.pop() {
            let mut edges = Vec::new();
            let mut stack = vec![(target, target_place)];
            while let Some((node, place)) = stack.pop() {
                let Some(members) = node.object() else { continue };
                for keyword in ["$ref", "$dynamicRef"] {
                    let Some(reference) = get(members, keyword).and_then(|value| value.text(self.arena))
                    else {
                        continue;
                    };
                    let found = self.check_ref(keyword, reference, place, &mut resolving)?;
                    self.points_inside |=
                        !found.pointer.starts_with("/$defs/") && !found.pointer.starts_with("/definitions/");
                    edges.push(node_id(found.node));
                    reference_count += 1;
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
        if reference_count >= MIN_REFERENCES {
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
        let first = self.resolve_at(place, reference).ok_or_else(|| {
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
            match self.resolve(&self.base_of(&current.pointer), next) {
                Some(target) => current = target,
                None => break,
            }
        }
        resolving.extend(seen);
        Ok(first)
    }

    /// Returns the base URI for references at `place`.
    pub(super) fn base_at(&self, place: &Place<'_>) -> String {
        if self.has_nested_ids { self.base_of(&place.pointer()) } else { String::new() }
    }

    /// Returns the base URI for references below `pointer`.
    pub(crate) fn base_of(&self, pointer: &str) -> String {
        if !self.has_nested_ids {
            return String::new();
        }
        self.resources
            .iter()
            .filter(|(_, (_, root))| !root.is_empty() && pointer.starts_with(root.as_str()))
            .max_by_key(|(_, (_, root))| root.len())
            .map(|(uri, _)| uri.clone())
            .unwrap_or_default()
    }
}

/// Appends a pointer to `prefix`, with canonical escapes.
fn joined_pointer(prefix: &str, path: &str) -> String {
    let mut pointer = String::with_capacity(prefix.len() + path.len());
    pointer.push_str(prefix);
    if !path.contains('~') {
        pointer.push_str(path);
        return pointer;
    }
    for token in path.split('/').skip(1) {
        pointer.push('/');
        escape_segment(&unescape_segment(token), &mut pointer);
    }
    pointer
}

/// Resolves a URI against a base: enough of RFC 3986 to tell the resources of one document apart.
fn join(base: &str, uri: &str) -> String {
    let absolute = uri.split_once(':').is_some_and(|(scheme, _)| !scheme.contains('/'));
    match base.rsplit_once('/') {
        Some((folder, _)) if !absolute && !uri.starts_with('/') => format!("{folder}/{uri}"),
        _ => uri.to_owned(),
    }
}
