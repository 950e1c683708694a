//! Replaces references to names (`$id`, `$anchor`, `$dynamicAnchor`) by JSON pointers from the root.
//!
//! The rest of the engine knows only pointers. The target of a `$dynamicRef` depends on the resources through
//! which validation gets there, its scope. A schema that is reached in another scope than the one of its place
//! is copied to the root's `$defs` for that scope.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use jsonschema::uri;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use super::context::Context;
use super::edit::ObjectEdit;
use super::keywords::object_at;
use super::node_id::{NodeMap, node_id};
use super::refs::canonical_pointer;
use super::spec_version::SpecVersion;
use super::walk::{KeyLookup, each_child};
use super::{Refusal, TOO_COMPLEX};
use crate::Effect;
use crate::json::{Member, Node, Object, Place, get};

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

/// The pointers to the dynamic anchors that are in effect, by name.
type Scope = Rc<BTreeMap<String, String>>;

/// A schema with an `$id`, or the root.
struct Resource {
    uri: String,
    pointer: String,
    /// The resource around it; the root's own index for the root.
    parent: usize,
    /// Pointers by the names of anchors.
    anchors: HashMap<String, String>,
    dynamic_anchors: BTreeMap<String, String>,
}

/// The resources of a document, the root first.
struct Resources {
    list: Vec<Resource>,
    by_uri: HashMap<String, usize>,
    by_pointer: HashMap<String, usize>,
    by_node: NodeMap<usize>,
    /// For each resource, the scope of its place.
    scopes: Vec<Scope>,
    version: SpecVersion,
}

/// A reference target.
struct NamedTarget {
    /// The pointer to the schema, or the name of an anchor that does not exist.
    pointer: String,
    /// The name of the dynamic anchor that the reference names.
    dynamic: Option<String>,
}

struct Rewriting<'a> {
    resources: Resources,
    root: Object<'a>,
    /// The names of copied schemas, by pointer and scope.
    copies: HashMap<(String, Scope), String>,
    /// Copies that are still to be made: pointer, scope and name.
    pending: Vec<(String, Scope, String)>,
    is_over_budget: bool,
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
            root: members,
            copies: HashMap::new(),
            pending: Vec::new(),
            is_over_budget: false,
        };
        let scope = rewriting.resources.scopes[0].clone();
        let mut rewritten = self.rewrite_names(root, 0, &scope, &mut rewriting);
        let lookup = KeyLookup::default();
        let mut copies = Vec::new();
        while let Some((pointer, scope, name)) = rewriting.pending.pop() {
            let Some(target) = lookup.resolve(root, &pointer) else { continue };
            let resource = rewriting.resources.at(&pointer);
            let copy = self.rewrite_names(target, resource, &scope, &mut rewriting);
            copies.push(Member::new(self.arena.alloc_str(&name), copy));
        }
        if rewriting.is_over_budget {
            let message = "the schema is too complex: its dynamic references multiply".to_owned();
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
        scope: &Scope,
        rewriting: &mut Rewriting<'a>,
    ) -> Node<'a> {
        let Some(members) = node.object() else { return node };
        rewriting.is_over_budget |= self.budget.take(1).is_err();
        if rewriting.is_over_budget {
            return node;
        }
        let entered = rewriting.resources.by_node.get(&node_id(node)).copied();
        let resource = entered.unwrap_or(resource);
        let scope = &rewriting.resources.enter(resource, scope);
        let mut edit = ObjectEdit::of(members);
        for member in members {
            match member.key {
                "$anchor" | "$dynamicAnchor" | "$recursiveAnchor" => drop(edit.remove(member.key)),
                "$id" | "id" if entered.is_some_and(|index| index > 0) => drop(edit.remove(member.key)),
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
                        let parts = edit.get("allOf").and_then(Node::list).unwrap_or_default();
                        let part = self.object(&[Member::new("$ref", target)]);
                        edit.put("allOf", self.list(&[parts, &[part]].concat()));
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
        Node::Object(self.finish(edit))
    }
}

impl<'a> Rewriting<'a> {
    /// Returns the pointer to the target of a reference, or to the copy of it for this scope.
    fn pointer_of(&mut self, keyword: &str, reference: &str, from: usize, scope: &Scope) -> Option<String> {
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
        let bound = dynamic.filter(|_| is_dynamic).and_then(|name| scope.get(&name).cloned());
        let pointer = bound.unwrap_or(pointer);
        let resource = self.resources.at(&pointer);
        let scope = self.resources.enter(resource, scope);
        if scope == self.resources.scopes[resource] {
            return Some(pointer);
        }
        let name = match self.copies.get(&(pointer.clone(), scope.clone())) {
            Some(name) => name.clone(),
            None => {
                let last = pointer.rsplit('/').next().filter(|last| !last.is_empty()).unwrap_or("root");
                let is_free = |name: &String| get(object_at(self.root, "$defs"), name).is_none();
                let number = self.copies.len() + 1;
                let names = (number..).map(|number| format!("{last}_{number}").replace(['~', '/'], "_"));
                let name = names.into_iter().find(is_free).unwrap_or_default();
                self.copies.insert((pointer.clone(), scope.clone()), name.clone());
                self.pending.push((pointer, scope, name.clone()));
                name
            }
        };
        Some(format!("/$defs/{name}"))
    }
}

impl Resources {
    fn of<'a>(root: Node<'a>, version: SpecVersion, context: &Context<'a, '_>) -> Resources {
        let mut resources = Resources {
            list: Vec::new(),
            by_uri: HashMap::new(),
            by_pointer: HashMap::new(),
            by_node: NodeMap::default(),
            scopes: Vec::new(),
            version,
        };
        resources.add(root, 0, String::new(), uri::from_str("").map(Into::into).unwrap_or_default());
        let mut stack: Vec<(Node<'a>, usize, &'a Place<'a>)> = vec![(root, 0, &Place::ROOT)];
        while let Some((node, mut resource, place)) = stack.pop() {
            let Some(members) = node.object() else { continue };
            let text = |keyword| get(members, keyword).and_then(|value| value.text(context.arena));
            let id = text("$id").or_else(|| text("id").filter(|_| version == SpecVersion::Draft04));
            let (uri, fragment) =
                id.and_then(|id| id.split_once('#')).unwrap_or((id.unwrap_or_default(), ""));
            if !uri.is_empty()
                && let Some(uri) = resources.join(resource, uri)
            {
                if node_id(node) == node_id(root) {
                    resources.by_uri.insert(uri.clone(), 0);
                    resources.list[0].uri = uri;
                } else {
                    resource = resources.add(node, resource, place.pointer(), uri);
                }
            }
            // Before 2019-09, an `$id` with only a fragment is an anchor.
            let names = [text("$anchor"), text("$dynamicAnchor"), Some(fragment)];
            for name in names.into_iter().flatten().filter(|name| !name.is_empty()) {
                resources.list[resource].anchors.insert(name.to_owned(), place.pointer());
            }
            let is_recursive = matches!(get(members, "$recursiveAnchor"), Some(Node::Bool(true)));
            for name in text("$dynamicAnchor").into_iter().chain(is_recursive.then_some("")) {
                resources.list[resource].dynamic_anchors.insert(name.to_owned(), place.pointer());
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

    fn add(&mut self, node: Node<'_>, parent: usize, pointer: String, uri: String) -> usize {
        let index = self.list.len();
        self.by_node.insert(node_id(node), index);
        self.by_pointer.insert(pointer.clone(), index);
        self.by_uri.insert(uri.clone(), index);
        let (anchors, dynamic_anchors) = (HashMap::new(), BTreeMap::new());
        self.list.push(Resource { uri, pointer, parent, anchors, dynamic_anchors });
        index
    }

    /// Returns a URI relative to a resource, without a fragment.
    fn join(&self, resource: usize, uri: &str) -> Option<String> {
        let base = uri::from_str(&self.list[resource].uri).ok()?;
        uri::resolve_against(&base.borrow(), uri).ok().map(Into::into)
    }

    /// Returns the resource that the schema at a pointer belongs to.
    fn at(&self, pointer: &str) -> usize {
        let mut at = pointer;
        loop {
            if let Some(index) = self.by_pointer.get(at) {
                return *index;
            }
            at = at.rsplit_once('/').map_or("", |(parent, _)| parent);
        }
    }

    /// Returns the scope inside a resource that is entered from `scope`: outer anchors win.
    fn enter(&self, resource: usize, scope: &Scope) -> Scope {
        let anchors = &self.list[resource].dynamic_anchors;
        if anchors.keys().all(|name| scope.contains_key(name)) {
            return scope.clone();
        }
        let mut entered = anchors.clone();
        entered.extend(scope.iter().map(|(name, pointer)| (name.clone(), pointer.clone())));
        Rc::new(entered)
    }

    fn resolve(&self, from: usize, reference: &str) -> Option<NamedTarget> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let index = if uri.is_empty() { from } else { *self.by_uri.get(&self.join(from, uri)?)? };
        let resource = &self.list[index];
        let fragment = percent_decode_str(fragment).decode_utf8_lossy();
        if fragment.is_empty() || fragment.starts_with('/') {
            return Some(NamedTarget {
                pointer: canonical_pointer(&resource.pointer, &fragment),
                dynamic: None,
            });
        }
        let Some(pointer) = resource.anchors.get(fragment.as_ref()).cloned() else {
            return Some(NamedTarget { pointer: fragment.into_owned(), dynamic: None });
        };
        let is_dynamic = resource.dynamic_anchors.get(fragment.as_ref()) == Some(&pointer);
        Some(NamedTarget { pointer, dynamic: is_dynamic.then(|| fragment.into_owned()) })
    }
}
