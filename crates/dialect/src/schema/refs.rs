//! References: where they point, whether they run in circles, and whether anything can satisfy them.
//!
//! Nothing is ever fetched. A reference that cannot be followed inside the tool's own schema refuses the tool.

use std::collections::{HashMap, HashSet};

use bumpalo::Bump;

use super::{Slot, slot};
use crate::Refusal;
use crate::json::{Node, Object, escape_segment, get, unescape_segment};

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
    /// Every schema by the pointer to it from the root.
    places: HashMap<String, Node<'a>>,
    /// Reference targets that lead back to themselves.
    cyclic: HashSet<usize>,
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

impl<'a> Document<'a> {
    /// Looks through the whole schema. Refuses it for a reference in use that leads nowhere or only to references.
    pub(crate) fn new(root: Node<'a>, arena: &'a Bump) -> Result<Document<'a>, Refusal> {
        let mut document = Document {
            arena,
            root,
            alias: None,
            resources: HashMap::new(),
            anchors: HashMap::new(),
            places: HashMap::new(),
            cyclic: HashSet::new(),
            inside: false,
            nested: false,
        };
        document.index(root, String::new(), String::new());
        document.check()?;
        Ok(document)
    }

    fn index(&mut self, node: Node<'a>, base: String, pointer: String) {
        let mut stack = vec![(node, base, pointer)];
        while let Some((node, mut base, pointer)) = stack.pop() {
            let Some(members) = node.object() else { continue };
            if let Some(id) = get(members, "$id").and_then(|id| id.text(self.arena)) {
                let address = id.strip_suffix('#').unwrap_or(id);
                base = join(&base, address);
                self.nested |= !pointer.is_empty();
                self.resources.insert(base.clone(), (node, pointer.clone()));
            }
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(anchor) = get(members, keyword).and_then(|anchor| anchor.text(self.arena)) {
                    self.anchors.insert((base.clone(), anchor.to_owned()), (node, pointer.clone()));
                }
            }
            each_child(members, |path, child| stack.push((child, base.clone(), format!("{pointer}{path}"))));
            self.places.insert(pointer, node);
        }
    }

    /// Follows one reference. `base` is the address of the resource it stands in, `""` for the root's.
    pub(crate) fn resolve(&self, base: &str, reference: &str) -> Option<Target<'a>> {
        let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let root_base = match self.root.member("$id").and_then(|id| id.text(self.arena)) {
            Some(id) => id.strip_suffix('#').unwrap_or(id),
            None => "",
        };
        let full = if address.is_empty() { base.to_owned() } else { join(base, address) };
        let (resource, prefix) = if full.is_empty() || full == root_base {
            (self.root, String::new())
        } else {
            self.resources.get(&full).cloned()?
        };
        let fragment = percent_decode(fragment);
        if fragment.is_empty() {
            let node = if prefix.is_empty() { self.alias.unwrap_or(resource) } else { resource };
            return Some(Target { node, pointer: prefix });
        }
        if fragment.starts_with('/') {
            // Nearly all references name a place in its plain spelling.
            if let Some(node) = self.places.get(&format!("{prefix}{fragment}")) {
                return Some(Target { node: *node, pointer: prefix + &fragment });
            }
            let node = walk(resource, &fragment).filter(|node| node.is_schema())?;
            return Some(Target { node, pointer: spelled(prefix, &fragment) });
        }
        let (node, pointer) = self.anchors.get(&(full, fragment))?.clone();
        Some(Target { node, pointer })
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
        let mut uses: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut targets: Vec<(Node<'a>, String)> = vec![(self.root, String::new())];
        let mut known: HashSet<usize> = HashSet::from([identity(self.root)]);
        let mut ending: HashSet<usize> = HashSet::new();
        while let Some((target, target_pointer)) = targets.pop() {
            let mut edges = Vec::new();
            let mut stack = vec![(target, target_pointer)];
            while let Some((node, pointer)) = stack.pop() {
                let Some(members) = node.object() else { continue };
                let base = self.base_of(&pointer);
                for keyword in ["$ref", "$dynamicRef"] {
                    let Some(reference) = get(members, keyword).and_then(|value| value.text(self.arena))
                    else {
                        continue;
                    };
                    let found = self.follow(&base, reference, &pointer, &mut ending)?;
                    self.inside |=
                        !found.pointer.starts_with("/$defs/") && !found.pointer.starts_with("/definitions/");
                    edges.push(identity(found.node));
                    if known.insert(identity(found.node)) {
                        targets.push((found.node, found.pointer));
                    }
                }
                // Definitions are walked when something points at them.
                each_child(members, |path, child| {
                    if !path.starts_with("/$defs/") && !path.starts_with("/definitions/") {
                        stack.push((child, format!("{pointer}{path}")));
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
        base: &str,
        reference: &str,
        pointer: &str,
        ending: &mut HashSet<usize>,
    ) -> Result<Target<'a>, Refusal> {
        let first = self.resolve(base, reference).ok_or_else(|| {
            let remote = !reference.starts_with('#');
            Refusal {
                code: if remote { "remote_ref" } else { "dangling_ref" },
                pointer: pointer.to_owned(),
                message: if remote {
                    format!("`$ref` points outside the schema, to `{reference}`, and nothing is ever fetched")
                } else {
                    format!("`$ref` points to `{reference}`, which is not there")
                },
            }
        })?;
        let mut seen = HashSet::new();
        let mut current = first.clone();
        while let Some(next) = current.node.member("$ref").and_then(|value| value.text(self.arena)) {
            if ending.contains(&identity(current.node)) {
                break;
            }
            if !seen.insert(identity(current.node)) {
                return Err(Refusal {
                    code: "ref_loop",
                    pointer: pointer.to_owned(),
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

/// Follows a pointer step by step, through data as well.
pub(crate) fn walk<'a>(start: Node<'a>, path: &str) -> Option<Node<'a>> {
    let mut node = start;
    for token in path.split('/').skip(1) {
        let name = unescape_segment(token);
        node = match node {
            Node::Object(members) => get(members, &name)?,
            Node::List(nodes) => *nodes.get(name.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(node)
}

/// The pointers to all schemas.
pub(crate) fn pointers(root: Node<'_>) -> HashSet<String> {
    let mut pointers = HashSet::new();
    let mut stack = vec![(root, String::new())];
    while let Some((node, pointer)) = stack.pop() {
        each_child(node.object().unwrap_or_default(), |path, child| {
            stack.push((child, format!("{pointer}{path}")))
        });
        pointers.insert(pointer);
    }
    pointers
}

/// A pointer below `prefix`, in its plain spelling.
fn spelled(mut prefix: String, path: &str) -> String {
    for token in path.split('/').skip(1) {
        prefix.push('/');
        escape_segment(&unescape_segment(token), &mut prefix);
    }
    prefix
}

/// Which schemas no value can satisfy: a least fixpoint, so that recursion without an end counts as impossible.
pub(crate) fn impossible<'a>(document: &Document<'a>) -> HashSet<usize> {
    let mut schemas: Vec<(Node<'a>, String)> = Vec::new();
    let mut stack = vec![(document.root, String::new())];
    while let Some((node, pointer)) = stack.pop() {
        if let Some(members) = node.object() {
            each_child(members, |path, child| stack.push((child, format!("{pointer}{path}"))));
            schemas.push((node, pointer));
        }
    }
    // Who must be looked at again when a schema turns out possible.
    let mut users: HashMap<usize, Vec<usize>> = HashMap::new();
    for (index, (node, pointer)) in schemas.iter().enumerate() {
        let members = node.object().unwrap_or_default();
        each_child(members, |_, child| users.entry(identity(child)).or_default().push(index));
        if let Some(reference) = get(members, "$ref").and_then(|value| value.text(document.arena))
            && let Some(target) = document.resolve(&document.base_of(pointer), reference)
        {
            users.entry(identity(target.node)).or_default().push(index);
        }
    }
    let mut possible: HashSet<usize> = HashSet::from([0]);
    // Children come after their parents in the list, so going backwards settles most at the first look.
    let mut waiting: Vec<usize> = (0..schemas.len()).collect();
    let mut queued = vec![true; schemas.len()];
    while let Some(index) = waiting.pop() {
        queued[index] = false;
        let (node, pointer) = &schemas[index];
        let id = identity(*node);
        if !possible.contains(&id) && is_possible(*node, pointer, document, &possible) {
            possible.insert(id);
            for user in users.get(&id).into_iter().flatten() {
                if !std::mem::replace(&mut queued[*user], true) {
                    waiting.push(*user);
                }
            }
        }
    }
    schemas.iter().map(|(node, _)| identity(*node)).filter(|id| !possible.contains(id)).collect()
}

fn is_possible<'a>(
    node: Node<'a>,
    pointer: &str,
    document: &Document<'a>,
    possible: &HashSet<usize>,
) -> bool {
    let arena = document.arena;
    let Some(members) = node.object() else { return true };
    let can = |schema: Node<'a>| match schema {
        Node::Bool(value) => value,
        other => possible.contains(&identity(other)),
    };
    if let Some(reference) = get(members, "$ref").and_then(|value| value.text(arena)) {
        let target = document.resolve(&document.base_of(pointer), reference);
        if target.is_some_and(|target| !can(target.node)) {
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
                && let Some(schema) = get(properties, name)
                && !can(schema)
            {
                return false;
            }
        }
    }
    true
}

/// Calls `visit` with every schema directly below, and the pointer path to it.
pub(crate) fn each_child<'a>(members: Object<'a>, mut visit: impl FnMut(String, Node<'a>)) {
    for member in members {
        let key = member.key;
        let path = |name: &str| {
            let mut path = format!("/{key}/");
            escape_segment(name, &mut path);
            path
        };
        match slot(key) {
            Slot::Schema | Slot::AdditionalItems if member.value.is_schema() => {
                visit(format!("/{key}"), member.value)
            }
            Slot::Items | Slot::SchemaList => match member.value {
                Node::List(schemas) => {
                    for (index, schema) in schemas.iter().enumerate().filter(|(_, schema)| schema.is_schema())
                    {
                        visit(format!("/{key}/{index}"), *schema);
                    }
                }
                schema if slot(key) == Slot::Items && schema.is_schema() => visit(format!("/{key}"), schema),
                _ => {}
            },
            Slot::Properties | Slot::SchemaMap | Slot::Dependencies => {
                for entry in
                    member.value.object().unwrap_or_default().iter().filter(|entry| entry.value.is_schema())
                {
                    visit(path(entry.key), entry.value);
                }
            }
            _ => {}
        }
    }
}

/// Nodes of a graph that lie on a circle, and the length of its longest way, each circle counting once.
fn cycles(uses: &HashMap<usize, Vec<usize>>) -> (HashSet<usize>, usize) {
    // Tarjan's strongly connected components, with the stack in our hands.
    let mut index: HashMap<usize, (usize, usize)> = HashMap::new();
    let mut on_stack: HashSet<usize> = HashSet::new();
    let mut component: Vec<usize> = Vec::new();
    let mut found = HashSet::new();
    let mut ways: HashMap<usize, usize> = HashMap::new();
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

fn percent_decode(fragment: &str) -> String {
    if !fragment.contains('%') {
        return fragment.to_owned();
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
    String::from_utf8_lossy(&decoded).into_owned()
}
