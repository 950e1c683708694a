//! References: where they point, whether they run in circles, and whether anything can satisfy them.
//!
//! Nothing is ever fetched. A reference that cannot be followed inside the tool's own schema refuses the tool.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;

use bumpalo::Bump;

use super::identity::{ByIdentity, Identities};
pub(crate) use super::identity::{identity, is_same_place};
use super::keyword::Inside;
use super::{Slot, slot};
use crate::Refusal;
use crate::json::{Keyed, Node, Object, Place, escape_segment, get, unescape_segment};

/// How many definitions may stand between a reference and its end: what reads the schema after us recurses too.
const MAX_CHAIN: usize = 256;

/// The schema that references are looked up in, with the places that go by a name of their own.
pub(crate) struct Document<'a> {
    arena: &'a Bump,
    root: Node<'a>,
    /// What `#` means, once the root was made over.
    alias: Option<Node<'a>>,
    /// Resource address → its root, for schemas with an `$id`.
    resources: HashMap<String, (Node<'a>, String)>,
    /// (resource address, anchor) → where.
    anchors: HashMap<(String, String), (Node<'a>, String)>,
    lookup: Lookup<'a>,
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
    fn find<'r>(&'r self, base: &str, reference: &'r str) -> Option<(Node<'a>, &'r str, Cow<'r, str>)> {
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
    fn base_at(&self, place: &Place<'_>) -> String {
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

/// Looks keys up in objects of any size: large ones get a table when something is looked up in them.
#[derive(Default)]
pub(crate) struct Lookup<'a> {
    tables: RefCell<ByIdentity<Keyed<'a>>>,
}

impl<'a> Lookup<'a> {
    /// The value of `key`.
    pub(crate) fn get(&self, members: Object<'a>, key: &str) -> Option<Node<'a>> {
        if members.len() <= Keyed::LINEAR {
            return get(members, key);
        }
        let mut tables = self.tables.borrow_mut();
        tables.entry(identity(Node::Object(members))).or_insert_with(|| Keyed::of(members)).get(key)
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

/// Which schemas no value can satisfy: a least fixpoint, so that recursion without an end counts as impossible.
pub(crate) fn impossible<'a>(document: &Document<'a>) -> Identities {
    let mut schemas: Vec<(Node<'a>, &'a Place<'a>)> = Vec::new();
    let mut stack: Vec<(Node<'a>, &'a Place<'a>)> = vec![(document.root, &Place::ROOT)];
    while let Some((node, place)) = stack.pop() {
        if let Some(members) = node.object() {
            each_child(members, |path, child| stack.push((child, path.below(place, document.arena))));
            schemas.push((node, place));
        }
    }
    // Children come after their parents in the list, so going backwards settles most at the first look.
    let mut possible = Identities::with_capacity_and_hasher(schemas.len() + 1, Default::default());
    possible.insert(0);
    let mut open: Vec<usize> = Vec::new();
    for (index, (node, place)) in schemas.iter().enumerate().rev() {
        if is_possible(*node, place, document, &possible) {
            possible.insert(identity(*node));
        } else {
            open.push(index);
        }
    }
    // Who must be looked at again when a schema turns out possible.
    let mut users: ByIdentity<Vec<usize>> = ByIdentity::default();
    for index in &open {
        let (node, place) = schemas[*index];
        let members = node.object().unwrap_or_default();
        each_child(members, |_, child| users.entry(identity(child)).or_default().push(*index));
        if let Some(reference) = get(members, "$ref").and_then(|value| value.text(document.arena))
            && let Some((target, ..)) = document.find(&document.base_at(place), reference)
        {
            users.entry(identity(target)).or_default().push(*index);
        }
    }
    let mut queued = vec![false; schemas.len()];
    for index in &open {
        queued[*index] = true;
    }
    let mut waiting = open.clone();
    while let Some(index) = waiting.pop() {
        queued[index] = false;
        let (node, place) = schemas[index];
        let id = identity(node);
        if !possible.contains(&id) && is_possible(node, place, document, &possible) {
            possible.insert(id);
            for user in users.get(&id).into_iter().flatten() {
                if !std::mem::replace(&mut queued[*user], true) {
                    waiting.push(*user);
                }
            }
        }
    }
    open.into_iter().map(|index| identity(schemas[index].0)).filter(|id| !possible.contains(id)).collect()
}

fn is_possible<'a>(
    node: Node<'a>,
    place: &Place<'_>,
    document: &Document<'a>,
    possible: &Identities,
) -> bool {
    let arena = document.arena;
    let Some(members) = node.object() else { return true };
    let can = |schema: Node<'a>| match schema {
        Node::Bool(value) => value,
        other => possible.contains(&identity(other)),
    };
    if let Some(reference) = get(members, "$ref").and_then(|value| value.text(arena)) {
        let target = document.find(&document.base_at(place), reference);
        if target.is_some_and(|(target, ..)| !can(target)) {
            return false;
        }
    }
    if matches!(get(members, "enum"), Some(Node::List([])))
        || matches!(get(members, "not"), Some(Node::Bool(true) | Node::Object([])))
    {
        return false;
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(Node::List(branches)) = get(members, keyword)
            && !branches.iter().any(|branch| can(*branch))
        {
            return false;
        }
    }
    let mut types = super::types::TypeSet::of(members);
    if let Some(Node::List(parts)) = get(members, "allOf") {
        for part in parts {
            if !can(*part) {
                return false;
            }
            if let Some(part) = part.object() {
                types = types.and(super::types::TypeSet::of(part));
            }
        }
    }
    if types.is_empty() {
        return false;
    }
    let least = matches!(get(members, "minItems"), Some(Node::Number(digits)) if digits.parse::<u64>().is_ok_and(|least| least > 0));
    if least
        && types == super::types::TypeSet::named("array")
        && get(members, "prefixItems").is_none()
        && get(members, "items").is_some_and(|items| items.is_schema() && !can(items))
    {
        return false;
    }
    if types.is_only_object() {
        let properties = get(members, "properties").and_then(Node::object).unwrap_or_default();
        let required = get(members, "required").and_then(Node::list).unwrap_or_default();
        for name in required {
            if let Some(name) = name.text(arena)
                && let Some(schema) = document.lookup.get(properties, name)
                && !can(schema)
            {
                return false;
            }
        }
    }
    true
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

/// Nodes of a graph that lie on a circle, and the length of its longest way, each circle counting once.
fn cycles(uses: &ByIdentity<Vec<usize>>) -> (Identities, usize) {
    // Tarjan's strongly connected components, with the stack in our hands.
    let mut index: ByIdentity<(usize, usize)> = ByIdentity::default();
    let mut on_stack: Identities = Identities::default();
    let mut component: Vec<usize> = Vec::new();
    let mut found = Identities::default();
    let mut ways: ByIdentity<usize> = ByIdentity::default();
    let none = Vec::new();
    for start in uses.keys() {
        if index.contains_key(start) {
            continue;
        }
        let mut work: Vec<(usize, usize)> = vec![(*start, 0)];
        while let Some((node, edge)) = work.pop() {
            if edge == 0 {
                let order = index.len();
                index.insert(node, (order, order));
                component.push(node);
                on_stack.insert(node);
            }
            let edges = uses.get(&node).unwrap_or(&none);
            if let Some(next) = edges.get(edge) {
                work.push((node, edge + 1));
                if !index.contains_key(next) {
                    work.push((*next, 0));
                } else if on_stack.contains(next) {
                    let low = index[next].0;
                    let entry = index.get_mut(&node).expect("the node was just entered");
                    entry.1 = entry.1.min(low);
                }
                continue;
            }
            let (order, low) = index[&node];
            if let Some((parent, _)) = work.last() {
                let entry = index.get_mut(parent).expect("a parent is entered before its child");
                entry.1 = entry.1.min(low);
            }
            if order == low {
                let from = component.iter().rposition(|member| *member == node).unwrap_or(0);
                let members = component.split_off(from);
                let circular = members.len() > 1 || edges.contains(&node);
                // What a component leads to was finished before it.
                let onward = members.iter().filter_map(|member| uses.get(member)).flatten();
                let way = 1 + onward.filter_map(|next| ways.get(next)).max().copied().unwrap_or(0);
                ways.extend(members.iter().map(|member| (*member, way)));
                for member in members {
                    on_stack.remove(&member);
                    if circular {
                        found.insert(member);
                    }
                }
            }
        }
    }
    (found, ways.values().max().copied().unwrap_or(0))
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
