//! The last touches on a schema that a dialect takes word for word.

use super::brief::brief;
use super::context::Context;
use super::draft::{Draft, Sifted};
use super::lower::nullable;
use super::profile::Keys;
use super::refs::{Document, is_same_place};
use super::{Converted, anchored, is_annotation, nulls, once_each};
use crate::arguments::{Field, ObjectPlan, Plan, Rest};
use crate::json::{Member, Node, Object, Place, get};
use crate::{Effect, Refusal, names};

impl<'a> Context<'a, '_> {
    pub(crate) fn keep(
        &mut self,
        root: Node<'a>,
        fixed: Node<'a>,
        mended: Node<'a>,
        document: Option<&Document<'a>>,
    ) -> Result<Converted<'a>, Refusal> {
        let mut schema = fixed;
        let mut plan = Plan::Same;
        if let Some(document) = document
            && self.refs
            && (self.profile.inline || self.profile.tidies && document.points_by_name())
        {
            schema = self.inline(schema, document);
        }
        // What a reference points into must not move.
        if self.profile.nullable_optionals && !document.is_some_and(Document::points_inside) {
            (schema, plan) = self.with_nulls(schema, document, &Place::ROOT);
        }
        if self.profile.keys == Keys::Root {
            (schema, plan) = self.rename_root(schema);
        }
        let mut aside = None;
        if self.profile.bare_root {
            (schema, aside) = self.bare_root(schema);
        }
        let changes = std::mem::take(&mut self.changes);
        let changes = if changes.len() > 1 { once_each(changes) } else { changes };
        let changes = if is_same_place(fixed, mended) { changes } else { anchored(changes, root) };
        Ok(Converted { schema, mended, plan, shared: Vec::new(), strict: None, counts: None, changes, aside })
    }

    /// Optional properties that also take `null`, which is taken out again on the way back.
    fn with_nulls(
        &mut self,
        node: Node<'a>,
        document: Option<&Document<'a>>,
        place: &Place<'_>,
    ) -> (Node<'a>, Plan) {
        let Some(members) = node.object() else { return (node, Plan::Same) };
        // Rules that count or compare keys see the difference between `null` and nothing.
        const COMPOSED: [&str; 16] = [
            "$ref",
            "anyOf",
            "oneOf",
            "allOf",
            "not",
            "if",
            "enum",
            "const",
            "unevaluatedProperties",
            "minProperties",
            "maxProperties",
            "dependentRequired",
            "dependentSchemas",
            "dependencies",
            "patternProperties",
            "propertyNames",
        ];
        if COMPOSED.iter().any(|keyword| get(members, keyword).is_some()) {
            return (node, Plan::Same);
        }
        match get(members, "type") {
            Some(Node::Text("array")) => {
                let Some(items @ Node::Object(_)) = get(members, "items") else { return (node, Plan::Same) };
                if get(members, "prefixItems").is_some() {
                    return (node, Plan::Same);
                }
                let (items, plan) = self.with_nulls(items, document, &place.key("items"));
                if plan.is_same() {
                    return (node, plan);
                }
                let mut draft = Draft::of(members);
                draft.put("items", items);
                (self.object(draft.members()), Plan::items(plan))
            }
            Some(Node::Text("object")) => self.object_with_nulls(members, document, place),
            _ => (node, Plan::Same),
        }
    }

    fn object_with_nulls(
        &mut self,
        members: Object<'a>,
        document: Option<&Document<'a>>,
        place: &Place<'_>,
    ) -> (Node<'a>, Plan) {
        let node = Node::Object(members);
        let Some(properties) = get(members, "properties").and_then(Node::object) else {
            return (node, Plan::Same);
        };
        let required: std::collections::HashSet<&str> = get(members, "required")
            .and_then(Node::list)
            .unwrap_or_default()
            .iter()
            .filter_map(|name| name.text(self.arena))
            .collect();
        let inside = place.key("properties");
        let mut sifted = Sifted::of(properties);
        let mut fields = Vec::new();
        for property in properties {
            let here = inside.key(property.key);
            let (mut schema, plan) = self.with_nulls(property.value, document, &here);
            let optional = !required.contains(property.key);
            let null_is_absent =
                optional && !nulls::allowed(property.value, document, &base_of(document, &here));
            if null_is_absent {
                schema = nullable(schema, self);
                self.note(
                    &here,
                    "required",
                    Effect::Rewritten,
                    "optional: `null` stands for left out too, since models send it",
                );
            }
            if !null_is_absent && plan.is_same() {
                sifted.keep();
            } else {
                sifted.replace(schema);
                let key = property.key.to_owned();
                fields.push(Field { wire: key.clone(), own: key, plan, null_is_absent });
            }
        }
        let Some(properties) = sifted.edited() else { return (node, Plan::Same) };
        let properties = self.object(&properties);
        let mut outer = Draft::of(members);
        outer.put("properties", properties);
        let plan = ObjectPlan { fields, rest: Rest::Same, fill: false }.into_plan();
        (self.object(outer.members()), plan)
    }

    /// Root keys in the API's letters.
    fn rename_root(&mut self, root: Node<'a>) -> (Node<'a>, Plan) {
        let members = root.object().unwrap_or_default();
        let properties = get(members, "properties").and_then(Node::object).unwrap_or_default();
        let own: Vec<&str> = properties.iter().map(|property| property.key).collect();
        // An open object also takes the key as it was, with any value, and keys that look like a renamed one.
        let open = get(members, "additionalProperties")
            .is_some_and(|rest| !matches!(rest, Node::Bool(false)))
            || get(members, "patternProperties").is_some();
        let wires = names::wire_keys(&own, Keys::Root, open);
        if own.iter().zip(&wires).all(|(own, wire)| own == wire) {
            return (root, Plan::Same);
        }
        let mut fields = Vec::new();
        let mut renamed: Vec<Member<'a>> = Vec::with_capacity(properties.len());
        let inside = Place::ROOT;
        let inside = inside.key("properties");
        let effect = if open { Effect::Widened } else { Effect::Rewritten };
        for (property, wire) in properties.iter().zip(wires) {
            let wire: &'a str = self.arena.alloc_str(&wire);
            if wire != property.key {
                let here = inside.key(property.key);
                self.note(
                    &here,
                    "properties",
                    effect,
                    format!("the API takes no such key: it is called `{wire}`"),
                );
                if open {
                    let detail = format!("a further key `{wire}` cannot come beside it");
                    self.note(&here, "properties", Effect::Narrowed, detail);
                }
                fields.push(Field {
                    wire: wire.to_owned(),
                    own: property.key.to_owned(),
                    plan: Plan::Same,
                    null_is_absent: false,
                });
            }
            renamed.push(Member::new(wire, property.value));
        }
        let on_wire =
            |name: &str| fields.iter().find(|field| field.own == name).map(|field| field.wire.as_str());
        let mut draft = Draft::of(members);
        draft.put("properties", self.object(&renamed));
        if let Some(required) = get(members, "required").and_then(Node::list) {
            let required: Vec<Node<'a>> = required
                .iter()
                .map(|name| match name.text(self.arena).and_then(on_wire) {
                    Some(wire) => self.text(wire),
                    None => *name,
                })
                .collect();
            draft.put("required", self.list(&required));
        }
        // Rules that speak of keys by name would speak of the wrong ones.
        const BY_NAME: [&str; 9] = [
            "dependentRequired",
            "dependentSchemas",
            "dependencies",
            "propertyNames",
            "patternProperties",
            "if",
            "then",
            "else",
            "not",
        ];
        for keyword in BY_NAME {
            if let ("dependentRequired", Some(Node::Object(rules))) = (keyword, draft.get(keyword)) {
                let renamed = |name: &'a str| on_wire(name).map_or(name, |wire| self.arena.alloc_str(wire));
                let rules: Vec<Member<'a>> = rules
                    .iter()
                    .map(|rule| {
                        let names = rule.value.list().unwrap_or_default().iter();
                        let names: Vec<Node<'a>> = names
                            .filter_map(|name| name.text(self.arena))
                            .map(|name| Node::Text(renamed(name)))
                            .collect();
                        Member::new(renamed(rule.key), self.list(&names))
                    })
                    .collect();
                draft.put(keyword, self.object(&rules));
                continue;
            }
            if let Some(rule) = draft.remove(keyword) {
                if keyword == "patternProperties" {
                    draft.put("additionalProperties", Node::Bool(true));
                }
                self.describe(&mut draft, &format!("{keyword}: {}", brief(rule)));
                self.note(
                    &Place::ROOT,
                    keyword,
                    Effect::Widened,
                    "it speaks of keys that are renamed; it is in the description",
                );
            }
        }
        let node = self.object(draft.members());
        let node = self.root_refs_kept(node, root);
        (node, ObjectPlan { fields, rest: Rest::Same, fill: false }.into_plan())
    }

    /// References to the root or its properties go to a copy with the keys as they were.
    fn root_refs_kept(&mut self, renamed: Node<'a>, original: Node<'a>) -> Node<'a> {
        let mut found = false;
        let node = self.repoint(renamed, &mut found);
        if !found {
            return renamed;
        }
        let mut copy = Draft::of(original.object().unwrap_or_default());
        copy.remove("$defs");
        copy.remove("definitions");
        let copy = self.object(copy.members());
        let copy = self.repoint(copy, &mut found);
        let mut draft = Draft::of(node.object().unwrap_or_default());
        let mut definitions = draft.get("$defs").and_then(Node::object).unwrap_or_default().to_vec();
        definitions.push(Member::new(ROOT_COPY, copy));
        draft.put("$defs", self.object(&definitions));
        self.object(draft.members())
    }

    fn repoint(&mut self, node: Node<'a>, found: &mut bool) -> Node<'a> {
        let Some(members) = node.object() else { return node };
        let mut draft = Draft::of(members);
        if let Some(reference) = get(members, "$ref").and_then(|node| node.text(self.arena))
            && (reference == "#" || reference.starts_with("#/properties"))
        {
            *found = true;
            draft.put("$ref", self.text(&format!("#/$defs/{ROOT_COPY}{}", &reference[1..])));
        }
        super::keyword::each_slot(members, |key, index, child| {
            let repointed = self.repoint(child, found);
            if !super::refs::is_same_place(child, repointed) {
                super::keyword::put_slot(&mut draft, key, index, repointed, self.arena);
            }
        });
        if draft.is_edited() { self.object(draft.members()) } else { node }
    }

    /// Only `type`, `properties` and `required`, and what has no other place.
    fn bare_root(&mut self, root: Node<'a>) -> (Node<'a>, Option<Node<'a>>) {
        let members = root.object().unwrap_or_default();
        let mut draft = Draft::of(members);
        let mut words = Draft::of(&[]);
        for member in members {
            match member.key {
                "type" | "properties" | "required" => {}
                // Circles and open objects have no other place to stand.
                "$defs" | "definitions" if has_ref(root) => {}
                "additionalProperties"
                    if !matches!(member.value, Node::Bool(false))
                        || get(members, "patternProperties").is_some() => {}
                "additionalProperties" => {
                    draft.remove(member.key);
                    self.note(
                        &Place::ROOT,
                        member.key,
                        Effect::Rewritten,
                        "left out: an object with named properties is closed",
                    );
                }
                "description" => {
                    draft.remove(member.key);
                    let rules = words.remove("description").and_then(|node| node.text(self.arena));
                    words.put("description", member.value);
                    if let Some(rules) = rules {
                        self.describe(&mut words, rules);
                    }
                }
                key if is_annotation(key) => {
                    draft.remove(key);
                    self.note(&Place::ROOT, key, Effect::Dropped, brief(member.value));
                }
                key => {
                    draft.remove(key);
                    if key == "patternProperties" {
                        draft.put("additionalProperties", Node::Bool(true));
                    }
                    self.describe(&mut words, &format!("{key}: {}", brief(member.value)));
                    self.note(
                        &Place::ROOT,
                        key,
                        Effect::Widened,
                        "some models refuse it at the root; it is in the description",
                    );
                }
            }
        }
        let node = if draft.is_edited() { self.object(draft.members()) } else { root };
        (node, words.get("description"))
    }
}

/// The address of the resource that a place stands in.
pub(super) fn base_of(document: Option<&Document<'_>>, place: &Place<'_>) -> String {
    match document {
        Some(document) if document.nested => document.base_of(&place.pointer()),
        _ => String::new(),
    }
}

/// The name of the root's copy among the definitions.
const ROOT_COPY: &str = "toolwire_root";

fn has_ref(node: Node<'_>) -> bool {
    let mut stack = vec![node];
    while let Some(node) = stack.pop() {
        let Some(members) = node.object() else { continue };
        if ["$ref", "$dynamicRef"].iter().any(|keyword| get(members, keyword).is_some_and(Node::is_string)) {
            return true;
        }
        super::walk::each_child(members, |path, child| {
            if !path.is_definition() {
                stack.push(child);
            }
        });
    }
    false
}
