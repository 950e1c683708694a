//! Flattens `anyOf` and `oneOf` at the root into properties, for APIs that reject them there.

use std::collections::{HashMap, HashSet};

use super::context::Context;
use super::edit::ObjectEdit;
use super::excerpt::excerpt;
use super::keywords::{list_at, object_at, required_keys};
use super::merge::MergeError;
use super::nested_keys::{KeyCollector, MAX_PROPERTY_SCHEMAS, has_nested_keys};
use super::refs::Document;
use super::root::{RootParts, unsatisfiable};
use super::types::TypeSet;
use crate::json::{EMPTY, Member, Node, Object, Place, get};
use crate::{Effect, Refusal};

/// Maximum number of keys times alternatives that are checked one by one.
const MAX_CHECKED_KEYS: usize = 65_536;

impl<'a> Context<'a, '_> {
    /// Replaces `anyOf` or `oneOf` by the properties of all branches. A property is required if every branch
    /// requires it.
    pub(super) fn flatten_root_alternatives(
        &mut self,
        members: Object<'a>,
        keyword: &'static str,
        branches: &'a [Node<'a>],
        document: Option<&Document<'a>>,
    ) -> Result<Object<'a>, Refusal> {
        let mut leftover = Vec::new();
        let mut objects: Vec<Object<'a>> = Vec::new();
        // A branch allows everything.
        let mut open = false;
        for branch in branches {
            match branch {
                Node::Bool(false) => {}
                Node::Object(_) => {
                    let mut parts = RootParts::new(document);
                    let branch = self.merge_part(*branch, &mut parts, 0)?;
                    leftover.append(&mut parts.leftover);
                    objects.extend(branch.filter(|branch| TypeSet::of(branch).has(TypeSet::OBJECT)));
                }
                _ => open = true,
            }
        }
        if objects.is_empty() && !open {
            return Err(unsatisfiable());
        }
        let base = self.without(members, keyword);
        if let ([only], false) = (objects.as_slice(), open) {
            let detail = format!("{keyword} has one alternative left; merged into the root");
            self.record(&Place::ROOT, keyword, Effect::Rewritten, detail);
            let mut edit = ObjectEdit::of(self.merge(base, only, &mut leftover)?);
            self.remove_false_properties(&mut edit);
            self.describe_leftover(&mut edit, leftover);
            return Ok(self.finish(edit));
        }
        let own = object_at(base, "properties");
        let mut collector = KeyCollector::new(document);
        let mut loses_nested_keys = false;
        for branch in objects.iter_mut().filter(|branch| has_nested_keys(branch)) {
            let lost = self.add_nested_keys(branch, &mut collector);
            loses_nested_keys |= lost.iter().any(|key| get(own, key).is_none());
        }
        // The keys of nested alternatives are complete only if the budget was sufficient.
        self.budget.take(1).map_err(MergeError::from)?;
        let mut edit = ObjectEdit::of(base);
        self.flatten_properties(&mut edit, &objects, open);
        if edit.get("unevaluatedProperties").is_some()
            && objects.iter().any(|branch| get(branch, "patternProperties").is_some())
        {
            edit.remove("unevaluatedProperties");
            let detail = format!("unevaluatedProperties removed; {keyword} allows keys by their pattern");
            self.record(&Place::ROOT, "unevaluatedProperties", Effect::Widened, detail);
        }
        if loses_nested_keys
            || self.loses_keys(own, &edit, Member::new(keyword, Node::List(branches)), &objects)
        {
            let detail = format!("keys accept only the values that an alternative of {keyword} describes");
            self.record(&Place::ROOT, keyword, Effect::Narrowed, detail);
        }
        let lines: Vec<String> = objects.iter().map(|branch| self.in_words(branch)).collect();
        let count = if keyword == "oneOf" { "exactly one" } else { "at least one" };
        self.describe(&mut edit, &format!("Provide {count} of: {}", lines.join("; or ")));
        let detail = "flattened into properties; alternatives described in text";
        self.record(&Place::ROOT, keyword, Effect::Widened, detail);
        Ok(self.finish(edit))
    }

    /// Adds the properties that alternatives and conditions inside a branch describe. Returns the keys that
    /// the branch may allow with other values.
    fn add_nested_keys(&self, branch: &mut Object<'a>, collector: &mut KeyCollector<'_, 'a>) -> Vec<&'a str> {
        if matches!(get(branch, "additionalProperties"), Some(Node::Bool(false))) {
            return Vec::new();
        }
        let nested = collector.keys_of(Node::Object(branch), self);
        let own = object_at(branch, "properties");
        let known: HashSet<&str> = own.iter().map(|property| property.key).collect();
        let mut properties = own.to_vec();
        let mut lost = Vec::new();
        for key in nested.iter().filter(|key| !known.contains(key.key)) {
            if !key.schemas().is_empty() {
                properties.push(Member::new(key.key, self.any_of(key.schemas())));
            }
            if !key.in_every_alternative {
                lost.push(key.key);
            }
        }
        let mut edit = ObjectEdit::of(branch);
        if properties.len() > own.len() {
            edit.put("properties", self.object(&properties));
        }
        if nested.open && edit.get("additionalProperties").is_none() {
            edit.put("additionalProperties", Node::Bool(true));
        }
        *branch = self.finish(edit);
        lost
    }

    /// Whether the flattened schema excludes a key or a value that `rule` allows.
    fn loses_keys(
        &self,
        own: Object<'a>,
        flattened: &ObjectEdit<'a>,
        rule: Member<'a>,
        branches: &[Object<'a>],
    ) -> bool {
        let properties = object_at(flattened.members(), "properties");
        let named = crate::names::property_keys_in(rule, self.arena);
        // A branch that does not describe the key allows it with any value.
        let allows_any_value = |branch: &Object<'a>, name: &str| {
            let properties = object_at(branch, "properties");
            let closed = matches!(get(branch, "additionalProperties"), Some(Node::Bool(false)));
            !closed && get(properties, name).is_none()
        };
        named.iter().any(|name| get(properties, name).is_none())
            || branches.len() * named.len() >= MAX_CHECKED_KEYS
            || named
                .iter()
                .filter(|name| get(own, name).is_none())
                .any(|name| branches.iter().any(|branch| allows_any_value(branch, name)))
    }

    fn flatten_properties(&mut self, edit: &mut ObjectEdit<'a>, branches: &[Object<'a>], open: bool) {
        let own = object_at(edit.members(), "properties");
        let closed = matches!(edit.get("additionalProperties"), Some(Node::Bool(false)));
        let mut properties = own.to_vec();
        // For each key, its different schemas and the number of branches that describe it.
        let mut described: Vec<(&'a str, Vec<Node<'a>>, usize)> = Vec::new();
        let mut indexes: HashMap<&'a str, usize> = HashMap::new();
        for branch in branches {
            for property in object_at(branch, "properties") {
                let index = *indexes.entry(property.key).or_insert(described.len());
                if index == described.len() {
                    described.push((property.key, Vec::new(), 0));
                }
                let (_, schemas, count) = &mut described[index];
                *count += 1;
                if schemas.len() < MAX_PROPERTY_SCHEMAS
                    && !schemas.iter().any(|schema| schema.same(property.value))
                {
                    schemas.push(property.value);
                }
            }
        }
        let own_indexes: HashMap<&'a str, usize> =
            own.iter().enumerate().map(|(index, property)| (property.key, index)).collect();
        for (key, schemas, count) in described {
            let in_every_branch = count == branches.len() && !open;
            let schema = if schemas.len() < MAX_PROPERTY_SCHEMAS { self.any_of(&schemas) } else { EMPTY };
            match own_indexes.get(key).map(|index| &mut properties[*index]) {
                Some(property) if in_every_branch => property.value = self.both(property.value, schema),
                Some(_) => {}
                // A closed root does not allow keys that only a branch describes.
                None if closed => {}
                None => properties.push(Member::new(key, schema)),
            }
        }
        properties.retain(|property| !matches!(property.value, Node::Bool(false)));
        edit.put("properties", self.object(&properties));
        let mut required = list_at(edit.members(), "required").to_vec();
        if !open && let Some((first, others)) = branches.split_first() {
            let names = |branch: &Object<'a>| required_keys(branch, self.arena).collect::<HashSet<&str>>();
            let mut common = others.iter().fold(names(first), |common, branch| &common & &names(branch));
            for name in required.iter().filter_map(|name| name.text(self.arena)) {
                common.remove(name);
            }
            let is_new = |name: &&Node<'a>| name.text(self.arena).is_some_and(|name| common.contains(name));
            required.extend(list_at(first, "required").iter().filter(is_new));
        }
        if !required.is_empty() {
            edit.put("required", self.list(&required));
        }
        if edit.get("additionalProperties").is_none() && !branches.is_empty() {
            let closes = |branch: &Object<'a>| {
                get(branch, "additionalProperties").map(|rest| matches!(rest, Node::Bool(false)))
            };
            if !open && branches.iter().all(|branch| closes(branch) == Some(true)) {
                edit.put("additionalProperties", Node::Bool(false));
            } else if branches.iter().any(|branch| closes(branch) == Some(false)) {
                edit.put("additionalProperties", Node::Bool(true));
            }
        }
    }

    /// Returns one schema for several; constants become one `enum`.
    fn any_of(&self, schemas: &[Node<'a>]) -> Node<'a> {
        if let [one] = schemas {
            return *one;
        }
        let constants: Option<Vec<Node<'a>>> = schemas
            .iter()
            .map(|schema| {
                let members = schema.object()?;
                let plain = members
                    .iter()
                    .all(|member| matches!(member.key, "const" | "type" | "description" | "title"));
                get(members, "const").filter(|_| plain)
            })
            .collect();
        let Some(values) = constants else { return self.composed("anyOf", schemas) };
        let mut members = Vec::new();
        if values.iter().all(|value| value.is_string()) {
            members.push(Member::new("type", Node::Text("string")));
        }
        members.push(Member::new("enum", self.list(&values)));
        self.object(&members)
    }

    /// Describes an alternative of the root by its required properties.
    fn in_words(&self, branch: Object<'a>) -> String {
        let properties = object_at(branch, "properties");
        let mut keys = Vec::new();
        for name in required_keys(branch, self.arena) {
            let constant = get(properties, name).and_then(|schema| schema.member("const"));
            keys.push(match constant {
                Some(value) => format!("{name}={}", excerpt(value)),
                None => name.to_owned(),
            });
        }
        if keys.is_empty() {
            keys.extend(properties.iter().map(|property| format!("{} (optional)", property.key)));
        }
        if keys.is_empty() { "any properties".to_owned() } else { keys.join(" and ") }
    }
}
