//! References: where they point, whether they run in circles, and whether anything can satisfy them.
//!
//! Nothing is ever fetched. A reference that cannot be followed inside the tool's own schema refuses the tool.

use std::borrow::Cow;
use std::collections::HashMap;

use bumpalo::Bump;

use super::cycles::cycles;
use super::identity::{ByIdentity, Identities};
pub(crate) use super::identity::{identity, is_same_place};
use super::walk::{Lookup, each_child};
use crate::Refusal;
use crate::json::{Node, Place, escape_segment, get, unescape_segment};

/// How many definitions may stand between a reference and its end: what reads the schema after us recurses too.
const MAX_CHAIN: usize = 256;

/// The schema that references are looked up in, with the places that go by a name of their own.
pub(crate) struct Document<'a> {
    pub(super) arena: &'a Bump,
    pub(super) root: Node<'a>,
    /// What `#` means, once the root was made over.
    alias: Option<Node<'a>>,
    /// Resource address → its root, for schemas with an `$id`.
    resources: HashMap<String, (Node<'a>, String)>,
    /// (resource address, anchor) → where.
    anchors: HashMap<(String, String), (Node<'a>, String)>,
    pub(super) lookup: Lookup<'a>,
    /// Reference targets that lead back to themselves.
    cyclic: Identities,
    /// A reference points at something else than a definition.
    inside: bool,
    /// Whether an `$id` below the root changes what references are relative to.
    pub(crate) nested: bool,
}

/// What a reference points to, and the pointer to it from the root.
#[derive(Clone, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) node: Node<'a>,
    pub(crate) pointer: String,
}

impl<'a> Document<'a> {
    /// Looks through the whole schema. Refuses it for a reference in use that leads nowhere or only to references.
    pub(crate) fn new(root: Node<'a>, arena: &'a Bump) -> Result<Document<'a>, Refusal> {
        let mut document = Document {
            arena,
            root,
            alias: None,
            resources: HashMap::new(),
            anchors: HashMap::new(),
            lookup: Lookup::default(),
            cyclic: Identities::default(),
            inside: false,
            nested: false,
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
                let address = id.strip_suffix('#').unwrap_or(id);
                base = self.arena.alloc_str(&join(base, address));
                let pointer = place.pointer();
                self.nested |= !pointer.is_empty();
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

    /// Follows one reference. `base` is the address of the resource it stands in, `""` for the root's.
    pub(crate) fn resolve(&self, base: &str, reference: &str) -> Option<Target<'a>> {
        let (node, prefix, path) = self.find(base, reference)?;
        Some(Target { node, pointer: spelled(prefix, &path) })
    }

    /// What a reference points to: the schema, the pointer to where the search began, and the path from there.
    pub(super) fn find<'r>(
        &'r self,
        base: &str,
        reference: &'r str,
    ) -> Option<(Node<'a>, &'r str, Cow<'r, str>)> {
        let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let full = if address.is_empty() { Cow::Borrowed(base) } else { join(base, address).into() };
        let (resource, prefix) = if full.is_empty() || full == self.root_base() {
            (self.root, "")
        } else {
            let (resource, pointer) = self.resources.get(full.as_ref())?;
            (*resource, pointer.as_str())
        };
        let fragment = percent_decode(fragment);
        if fragment.is_empty() {
            let node = if prefix.is_empty() { self.alias.unwrap_or(resource) } else { resource };
            return Some((node, prefix, fragment));
        }
        if fragment.starts_with('/') {
            let node = self.lookup.walk(resource, &fragment).filter(|node| node.is_schema())?;
            return Some((node, prefix, fragment));
        }
        let (node, pointer) = self.anchors.get(&(full.into_owned(), fragment.into_owned()))?;
        Some((*node, pointer, Cow::Borrowed("")))
    }

    fn root_base(&self) -> &'a str {
        let id = self.root.member("$id").and_then(|id| id.text(self.arena)).unwrap_or_default();
        id.strip_suffix('#').unwrap_or(id)
    }

    /// Whether something is pointed at by a name of its own, not by a pointer from the root.
    pub(crate) fn points_by_name(&self) -> bool {
        self.nested || !self.anchors.is_empty()
    }

    /// Whether a reference points at something else than a definition.
    pub(crate) fn points_inside(&self) -> bool {
        self.inside
    }

    /// From now on `#` means `root`, which was made from this document's.
    pub(crate) fn rooted(&mut self, root: Node<'a>) {
        if self.cyclic.contains(&identity(self.root)) {
            self.cyclic.insert(identity(root));
        }
        self.alias = Some(root);
    }

    /// Whether what `node` says leads back to `node`.
    pub(crate) fn is_cyclic(&self, node: Node<'_>) -> bool {
        self.cyclic.contains(&identity(node))
    }

    /// Follows every reference that is in use, from the root on.
    fn check(&mut self) -> Result<(), Refusal> {
        // Edges between reference targets: what a target uses directly.
        let mut uses: ByIdentity<Vec<usize>> = ByIdentity::default();
        let mut targets: Vec<(Node<'a>, &'a Place<'a>)> = vec![(self.root, &Place::ROOT)];
        let mut known = Identities::from_iter([identity(self.root)]);
        let mut ending: Identities = Identities::default();
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
                    let found = self.follow(reference, place, &mut ending)?;
                    self.inside |=
                        !found.pointer.starts_with("/$defs/") && !found.pointer.starts_with("/definitions/");
                    edges.push(identity(found.node));
                    if known.insert(identity(found.node)) {
                        let pointer = self.arena.alloc_str(&found.pointer);
                        targets.push((found.node, self.arena.alloc(Place::at(pointer))));
                    }
                }
                // Definitions are walked when something points at them.
                each_child(members, |path, child| {
                    if !path.is_definition() {
                        stack.push((child, path.below(place, self.arena)));
                    }
                });
            }
            uses.insert(identity(target), edges);
        }
        let (cyclic, longest) = cycles(&uses);
        if longest > MAX_CHAIN {
            return Err(Refusal {
                code: "too_deep",
                pointer: String::new(),
                message: format!(
                    "references lead through {longest} definitions, and at most {MAX_CHAIN} are followed"
                ),
            });
        }
        self.cyclic = cyclic;
        Ok(())
    }

    /// The target of a reference, past references that say nothing else.
    /// `ending` holds references that are known to lead somewhere.
    fn follow(
        &self,
        reference: &str,
        place: &Place<'_>,
        ending: &mut Identities,
    ) -> Result<Target<'a>, Refusal> {
        let first = self.resolve(&self.base_at(place), reference).ok_or_else(|| {
            let remote = !reference.starts_with('#');
            Refusal {
                code: if remote { "remote_ref" } else { "dangling_ref" },
                pointer: place.pointer(),
                message: if remote {
                    format!("`$ref` points outside the schema, to `{reference}`, and nothing is ever fetched")
                } else {
                    format!("`$ref` points to `{reference}`, which is not there")
                },
            }
        })?;
        let mut seen = Identities::default();
        let mut current = first.clone();
        while let Some(next) = current.node.member("$ref").and_then(|value| value.text(self.arena)) {
            if ending.contains(&identity(current.node)) {
                break;
            }
            if !seen.insert(identity(current.node)) {
                return Err(Refusal {
                    code: "ref_loop",
                    pointer: place.pointer(),
                    message: format!(
                        "`$ref` to `{reference}` leads in a circle of references that say nothing"
                    ),
                });
            }
            match self.resolve(&self.base_of(&current.pointer), next) {
                Some(target) => current = target,
                None => break,
            }
        }
        ending.extend(seen);
        Ok(first)
    }

    /// The address of the resource that `place` belongs to.
    pub(super) fn base_at(&self, place: &Place<'_>) -> String {
        if self.nested { self.base_of(&place.pointer()) } else { String::new() }
    }

    /// The address of the resource that the place at `pointer` belongs to.
    pub(crate) fn base_of(&self, pointer: &str) -> String {
        if !self.nested {
            return String::new();
        }
        self.resources
            .iter()
            .filter(|(_, (_, root))| !root.is_empty() && pointer.starts_with(root.as_str()))
            .max_by_key(|(_, (_, root))| root.len())
            .map(|(address, _)| address.clone())
            .unwrap_or_default()
    }
}

/// A pointer below `prefix`, in its plain spelling.
fn spelled(prefix: &str, path: &str) -> String {
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

/// An address against the one it stands in: enough of RFC 3986 to tell resources of one document apart.
fn join(base: &str, address: &str) -> String {
    let absolute = address.split_once(':').is_some_and(|(scheme, _)| !scheme.contains('/'));
    if absolute || base.is_empty() {
        return address.to_owned();
    }
    match base.rsplit_once('/') {
        Some((folder, _)) if !address.starts_with('/') => format!("{folder}/{address}"),
        _ => address.to_owned(),
    }
}

fn percent_decode(fragment: &str) -> Cow<'_, str> {
    if !fragment.contains('%') {
        return fragment.into();
    }
    let bytes = fragment.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let byte = match (bytes[at], fragment.get(at + 1..at + 3)) {
            (b'%', Some(digits)) => u8::from_str_radix(digits, 16).ok(),
            _ => None,
        };
        match byte {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned().into()
}
