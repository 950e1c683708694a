//! Replaces references to names (`$id`, `$anchor`, `$dynamicAnchor`) by JSON pointers from the root.
//!
//! The rest of the engine supports only pointers. The target of a `$dynamicRef` depends on the resources
//! through which validation gets there, its scope. A schema that is reached in a scope other than that of its
//! place is copied to the root's `$defs` for that scope.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use jsonschema::uri;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use super::budget::{BYTES_PER_STEP, Budget};
use super::context::Context;
use super::edit::ObjectEdit;
use super::keywords::object_at;
use super::node_id::{NodeMap, node_id};
use super::refs::canonical_pointer;
use super::spec_version::SpecVersion;
use super::walk::{KeyLookup, each_child};
use super::{Refusal, TOO_COMPLEX};
use crate::Effect;
use crate::json::{Member, Node, Place, get};

/// The characters that a fragment of a URI may not contain.
const NOT_IN_FRAGMENTS: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The dynamic anchors that are in effect: the index of the resource that has each, by name.
type Scope<'a> = Rc<BTreeMap<&'a str, usize>>;

/// The places of anchors, by name.
type Anchors<'a> = BTreeMap<&'a str, &'a Place<'a>>;

/// A schema with an `$id`, or the root.
struct Resource<'a> {
    uri: String,
    place: &'a Place<'a>,
    /// The resource around it; the root's own index for the root.
    parent: usize,
    anchors: Anchors<'a>,
    dynamic_anchors: Anchors<'a>,
}

/// The resources of a document, the root first.
struct Resources<'a> {
    root: Node<'a>,
    list: Vec<Resource<'a>>,
    by_uri: HashMap<String, usize>,
    by_node: NodeMap<usize>,
    /// For each resource, the scope of its place.
    scopes: Vec<Scope<'a>>,
    version: SpecVersion,
    lookup: KeyLookup<'a>,
    budget: &'a Budget,
}

/// A reference target.
struct NamedTarget {
    /// The pointer to the schema, or the name of an anchor that does not exist.
    pointer: String,
    /// The name of the dynamic anchor that the reference names.
    dynamic: Option<String>,
}

/// A schema that is to be copied for a scope.
struct PendingCopy<'a> {
    node: Node<'a>,
    resource: usize,
    scope: Scope<'a>,
    name: String,
}

struct Rewriting<'a> {
    resources: Resources<'a>,
    /// The names of copied schemas, by pointer and scope.
    copies: HashMap<(String, Scope<'a>), String>,
    pending: Vec<PendingCopy<'a>>,
    /// The names in the root's `$defs`.
    names: HashSet<String>,
    /// The number of the last name.
    last_number: usize,
}

impl<'a> Context<'a, '_> {
    /// Replaces references to names by JSON pointers. References that cannot be resolved are left.
    pub(crate) fn resolve_names(
        &mut self,
        root: Node<'a>,
        version: SpecVersion,
    ) -> Result<Node<'a>, Refusal> {
        let Some(members) = root.object() else { return Ok(root) };
        let mut rewriting = Rewriting {
            resources: Resources::of(root, version, self),
            copies: HashMap::new(),
            pending: Vec::new(),
            names: object_at(members, "$defs").iter().map(|member| member.key.to_owned()).collect(),
            last_number: 0,
        };
        let scope = rewriting.resources.scopes[0].clone();
        let mut rewritten = self.rewrite_names(root, 0, &scope, &mut rewriting);
        let mut copies = Vec::new();
        while let Some(PendingCopy { node, resource, scope, name }) = rewriting.pending.pop() {
            let copy = self.rewrite_names(node, resource, &scope, &mut rewriting);
            copies.push(Member::new(self.arena.alloc_str(&name), copy));
        }
        // Once a step fails, all later ones do.
        if self.budget.take(1).is_err() {
            let message = "the schema is too complex: its references to names multiply".to_owned();
            return Err(Refusal { code: TOO_COMPLEX, pointer: String::new(), message });
        }
        if !copies.is_empty() {
            let members = rewritten.object().unwrap_or_default();
            let definitions = [object_at(members, "$defs"), &copies].concat();
            rewritten = self.with(members, "$defs", self.object(&definitions));
        }
        if node_id(rewritten) != node_id(root) {
            let detail = "references to $id, $anchor and $dynamicAnchor replaced by JSON pointers";
            self.record(&Place::ROOT, "$ref", Effect::Rewritten, detail);
        }
        Ok(rewritten)
    }

    fn rewrite_names(
        &mut self,
        node: Node<'a>,
        resource: usize,
        scope: &Scope<'a>,
        rewriting: &mut Rewriting<'a>,
    ) -> Node<'a> {
        let Some(members) = node.object() else { return node };
        if self.budget.take(1).is_err() {
            return node;
        }
        let (mut resource, mut scope) = (resource, scope);
        let entered_scope;
        let entered = rewriting.resources.by_node.get(&node_id(node)).copied();
        if let Some(index) = entered {
            entered_scope = rewriting.resources.enter(index, scope);
            (resource, scope) = (index, &entered_scope);
        }
        let drops_id = entered.is_some_and(|index| index > 0)
            || rewriting.resources.version.ignores_siblings_of_ref(members);
        let mut edit = ObjectEdit::of(members);
        let mut parts = Vec::new();
        for member in members {
            match member.key {
                "$anchor" | "$dynamicAnchor" | "$recursiveAnchor" => drop(edit.remove(member.key)),
                "$id" | "id" if drops_id => drop(edit.remove(member.key)),
                "$ref" | "$dynamicRef" | "$recursiveRef" => {
                    let Some(reference) = member.value.text(self.arena) else { continue };
                    let Some(pointer) = rewriting.pointer_of(member.key, reference, resource, scope) else {
                        continue;
                    };
                    let is_plain = reference.starts_with("#/") || reference == "#";
                    let decoded = percent_decode_str(reference.trim_start_matches('#')).decode_utf8_lossy();
                    if member.key == "$ref" && is_plain && canonical_pointer("", &decoded) == pointer {
                        continue;
                    }
                    let fragment = utf8_percent_encode(&pointer, NOT_IN_FRAGMENTS);
                    let target = self.text(&format!("#{fragment}"));
                    if member.key != "$ref" && get(members, "$ref").is_some() {
                        edit.remove(member.key);
                        parts.push(self.object(&[Member::new("$ref", target)]));
                    } else {
                        edit.rename(member.key, "$ref");
                        edit.put("$ref", target);
                    }
                }
                _ => {
                    let rewritten = self.map_schemas(*member, &Place::ROOT, |context, schema, _, _| {
                        Some(context.rewrite_names(schema, resource, scope, rewriting))
                    });
                    if let Some(value) = rewritten {
                        edit.put(member.key, value);
                    }
                }
            }
        }
        if !parts.is_empty() {
            let all_of = edit.get("allOf").and_then(Node::list).unwrap_or_default();
            edit.put("allOf", self.list(&[all_of, &parts].concat()));
        }
        Node::Object(self.finish(edit))
    }
}

impl<'a> Rewriting<'a> {
    /// Returns the pointer to the target of a reference, or to the copy of it for this scope.
    fn pointer_of(
        &mut self,
        keyword: &str,
        reference: &str,
        from: usize,
        scope: &Scope<'a>,
    ) -> Option<String> {
        let defined = match keyword {
            "$dynamicRef" => self.resources.version == SpecVersion::V2020,
            "$recursiveRef" => self.resources.version == SpecVersion::V2019,
            _ => true,
        };
        let NamedTarget { pointer, dynamic } = self.resources.resolve(from, reference).filter(|_| defined)?;
        let dynamic = if keyword == "$recursiveRef" { Some(String::new()) } else { dynamic };
        let is_dynamic = keyword != "$ref";
        if !pointer.is_empty() && !pointer.starts_with('/') {
            // A missing anchor.
            return (!is_dynamic).then_some(pointer);
        }
        let bound = dynamic.filter(|_| is_dynamic).and_then(|name| {
            let resource = &self.resources.list[*scope.get(name.as_str())?];
            Some(resource.dynamic_anchors.get(name.as_str())?.pointer())
        });
        let pointer = bound.unwrap_or(pointer);
        self.resources.budget.take(pointer.len() / BYTES_PER_STEP).ok()?;
        let Some((node, resource)) = self.resources.find(&pointer) else { return Some(pointer) };
        let scope = self.resources.enter(resource, scope);
        let own_scope = &self.resources.scopes[resource];
        if Rc::ptr_eq(&scope, own_scope) {
            return Some(pointer);
        }
        self.resources.budget.take(scope.len()).ok()?;
        if scope == *own_scope {
            return Some(pointer);
        }
        let key = (pointer, scope);
        if let Some(name) = self.copies.get(&key) {
            return Some(format!("/$defs/{name}"));
        }
        let name = self.free_name(&key.0);
        self.pending.push(PendingCopy { node, resource, scope: key.1.clone(), name: name.clone() });
        let pointer = format!("/$defs/{name}");
        self.copies.insert(key, name);
        Some(pointer)
    }

    /// Returns a name for a copy that the root's `$defs` does not have yet.
    fn free_name(&mut self, pointer: &str) -> String {
        let last = pointer.rsplit('/').next().filter(|last| !last.is_empty()).unwrap_or("root");
        loop {
            self.last_number += 1;
            let name = format!("{last}_{}", self.last_number).replace('~', "_");
            if self.names.insert(name.clone()) {
                return name;
            }
        }
    }
}

impl<'a> Resources<'a> {
    fn of(root: Node<'a>, version: SpecVersion, context: &Context<'a, '_>) -> Resources<'a> {
        let mut resources = Resources {
            root,
            list: Vec::new(),
            by_uri: HashMap::new(),
            by_node: NodeMap::default(),
            scopes: Vec::new(),
            version,
            lookup: KeyLookup::default(),
            budget: context.budget,
        };
        resources.add(root, 0, &Place::ROOT, uri::from_str("").map(Into::into).unwrap_or_default());
        let mut stack: Vec<(Node<'a>, usize, &'a Place<'a>)> = vec![(root, 0, &Place::ROOT)];
        while let Some((node, mut resource, place)) = stack.pop() {
            let Some(members) = node.object() else { continue };
            let text = |keyword| get(members, keyword).and_then(|value| value.text(context.arena));
            let id = text("$id").or_else(|| text("id").filter(|_| version == SpecVersion::Draft04));
            let id = id.filter(|_| !version.ignores_siblings_of_ref(members)).unwrap_or_default();
            let (uri, fragment) = id.split_once('#').unwrap_or((id, ""));
            if !uri.is_empty()
                && let Some(uri) = resources.join(resource, uri)
            {
                if node_id(node) == node_id(root) {
                    resources.by_uri.insert(uri.clone(), 0);
                    resources.list[0].uri = uri;
                } else {
                    resource = resources.add(node, resource, place, uri);
                }
            }
            let resource_anchors = &mut resources.list[resource];
            // Before 2019-09, an `$id` with only a fragment is an anchor.
            let names = [text("$anchor"), text("$dynamicAnchor"), Some(fragment)];
            for name in names.into_iter().flatten().filter(|name| !name.is_empty()) {
                resource_anchors.anchors.insert(name, place);
            }
            let is_recursive = matches!(get(members, "$recursiveAnchor"), Some(Node::Bool(true)));
            for name in text("$dynamicAnchor").into_iter().chain(is_recursive.then_some("")) {
                resource_anchors.dynamic_anchors.insert(name, place);
            }
            each_child(members, |path, child| {
                stack.push((child, resource, path.below(place, context.arena)));
            });
        }
        for index in 0..resources.list.len() {
            let around = resources.scopes.get(resources.list[index].parent).cloned().unwrap_or_default();
            let scope = resources.enter(index, &around);
            resources.scopes.push(scope);
        }
        resources
    }

    fn add(&mut self, node: Node<'a>, parent: usize, place: &'a Place<'a>, uri: String) -> usize {
        let index = self.list.len();
        self.by_node.insert(node_id(node), index);
        self.by_uri.insert(uri.clone(), index);
        let (anchors, dynamic_anchors) = (Anchors::new(), Anchors::new());
        self.list.push(Resource { uri, place, parent, anchors, dynamic_anchors });
        index
    }

    /// Returns a URI relative to a resource, without a fragment.
    fn join(&self, resource: usize, uri: &str) -> Option<String> {
        let base = &self.list[resource].uri;
        self.budget.take(base.len() / BYTES_PER_STEP).ok()?;
        let base = uri::from_str(base).ok()?;
        uri::resolve_against(&base.borrow(), uri).ok().map(Into::into)
    }

    /// Returns the schema at a pointer and the resource that it belongs to.
    fn find(&self, pointer: &str) -> Option<(Node<'a>, usize)> {
        let mut resource = 0;
        let node = self.lookup.resolve_through(self.root, pointer, |node| {
            resource = self.by_node.get(&node_id(node)).copied().unwrap_or(resource);
        })?;
        node.is_schema().then_some((node, resource))
    }

    /// Returns the scope inside a resource that is entered from `scope`: outer anchors win.
    fn enter(&self, resource: usize, scope: &Scope<'a>) -> Scope<'a> {
        if self.scopes.get(resource).is_some_and(|own| Rc::ptr_eq(own, scope)) {
            return scope.clone();
        }
        let anchors = &self.list[resource].dynamic_anchors;
        // If the budget is exceeded, the tool is refused in the end.
        if self.budget.take(anchors.len()).is_err()
            || anchors.keys().all(|name| scope.contains_key(name))
            || self.budget.take(scope.len()).is_err()
        {
            return scope.clone();
        }
        let mut entered: BTreeMap<&'a str, usize> = anchors.keys().map(|name| (*name, resource)).collect();
        entered.extend(scope.iter());
        Rc::new(entered)
    }

    fn resolve(&self, from: usize, reference: &str) -> Option<NamedTarget> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let index = if uri.is_empty() { from } else { *self.by_uri.get(&self.join(from, uri)?)? };
        let resource = &self.list[index];
        let fragment = percent_decode_str(fragment).decode_utf8_lossy();
        if fragment.is_empty() || fragment.starts_with('/') {
            return Some(NamedTarget {
                pointer: canonical_pointer(&resource.place.pointer(), &fragment),
                dynamic: None,
            });
        }
        let Some(place) = resource.anchors.get(fragment.as_ref()) else {
            return Some(NamedTarget { pointer: fragment.into_owned(), dynamic: None });
        };
        let dynamic = resource.dynamic_anchors.get(fragment.as_ref());
        let is_dynamic = dynamic.is_some_and(|dynamic| std::ptr::eq(*dynamic, *place));
        Some(NamedTarget { pointer: place.pointer(), dynamic: is_dynamic.then(|| fragment.into_owned()) })
    }
}
