//! Renames root properties whose keys the API does not accept.

use super::context::Context;
use super::edit::ObjectEdit;
use super::keywords::object_at;
use super::profile::RestrictedKeys;
use crate::arguments::{Field, ObjectPlan, Plan, Rest};
use crate::json::{Member, Node, Place, get};
use crate::{Effect, names};

/// The name of the definition that holds the root with its original keys.
const ROOT_COPY: &str = "toolwire_root";

impl<'a> Context<'a, '_> {
    /// Renames the root's properties, and the keys in `required` and `dependentRequired`.
    pub(super) fn rename_root_keys(&mut self, root: Node<'a>) -> (Node<'a>, Plan) {
        let members = root.object().unwrap_or_default();
        let properties = object_at(members, "properties");
        let own: Vec<&str> = properties.iter().map(|property| property.key).collect();
        let open = get(members, "additionalProperties")
            .is_some_and(|rest| !matches!(rest, Node::Bool(false)))
            || get(members, "patternProperties").is_some();
        let wires = names::wire_keys(&own, RestrictedKeys::Root, open);
        if own.iter().zip(&wires).all(|(own, wire)| own == wire) {
            return (root, Plan::Same);
        }
        let mut fields = Vec::new();
        let mut renamed: Vec<Member<'a>> = Vec::with_capacity(properties.len());
        let inside = Place::ROOT;
        let inside = inside.key("properties");
        for (property, wire) in properties.iter().zip(wires) {
            let wire: &'a str = self.arena.alloc_str(&wire);
            if wire != property.key {
                self.record_renamed_key(&inside.key(property.key), wire, open);
                fields.push(Field {
                    wire: wire.to_owned(),
                    own: property.key.to_owned(),
                    plan: Plan::Same,
                    null_is_absent: false,
                });
            }
            renamed.push(Member::new(wire, property.value));
        }
        let new_key = |key: &str| {
            let field = fields.iter().find(|field| field.own == key)?;
            Some(&*self.arena.alloc_str(&field.wire))
        };
        let new_keys = |keys: Node<'a>| {
            let keys = keys.list().unwrap_or_default().iter().filter(|key| key.is_string());
            let renamed = keys.map(|key| key.text(self.arena).and_then(new_key).map_or(*key, Node::Text));
            self.list(&renamed.collect::<Vec<_>>())
        };
        let mut edit = ObjectEdit::of(members);
        edit.put("properties", self.object(&renamed));
        if let Some(required @ Node::List(_)) = get(members, "required") {
            edit.put("required", new_keys(required));
        }
        if let Some(Node::Object(rules)) = get(members, "dependentRequired") {
            let rules: Vec<Member<'a>> = rules
                .iter()
                .map(|rule| Member::new(new_key(rule.key).unwrap_or(rule.key), new_keys(rule.value)))
                .collect();
            edit.put("dependentRequired", self.object(&rules));
        }
        // Other rules that name keys would apply to the wrong ones.
        const NAMING_KEYS: [&str; 8] = [
            "dependentSchemas",
            "dependencies",
            "propertyNames",
            "patternProperties",
            "if",
            "then",
            "else",
            "not",
        ];
        for keyword in NAMING_KEYS {
            let Some(rule) = edit.remove(keyword) else { continue };
            if keyword == "patternProperties" {
                edit.put("additionalProperties", Node::Bool(true));
            }
            self.describe_rule(&mut edit, Member::new(keyword, rule));
            let detail = format!("{keyword} moved to the description; it refers to renamed keys");
            self.record(&Place::ROOT, keyword, Effect::Widened, detail);
        }
        let node = self.preserve_root_refs(self.object(edit.members()), root);
        (node, ObjectPlan { fields, rest: Rest::Same, fill: false }.into_plan())
    }

    /// Redirects references to the root or its properties to a copy of the root with the original keys.
    fn preserve_root_refs(&mut self, renamed: Node<'a>, original: Node<'a>) -> Node<'a> {
        let mut found = false;
        let node = self.redirect_root_refs(renamed, &mut found);
        if !found {
            return renamed;
        }
        let copy = self.without(original.object().unwrap_or_default(), "$defs");
        let copy = self.without(copy, "definitions");
        let copy = self.redirect_root_refs(Node::Object(copy), &mut found);
        let members = node.object().unwrap_or_default();
        let mut definitions = object_at(members, "$defs").to_vec();
        definitions.push(Member::new(ROOT_COPY, copy));
        self.with(members, "$defs", self.object(&definitions))
    }

    fn redirect_root_refs(&mut self, node: Node<'a>, found: &mut bool) -> Node<'a> {
        let Some(members) = node.object() else { return node };
        let mut edit = ObjectEdit::of(members);
        if let Some(reference) = get(members, "$ref").and_then(|node| node.text(self.arena))
            && (reference == "#" || reference.starts_with("#/properties"))
        {
            *found = true;
            edit.put("$ref", self.text(&format!("#/$defs/{ROOT_COPY}{}", &reference[1..])));
        }
        for member in members {
            let redirected = self.map_schemas(*member, &Place::ROOT, |context, schema, _, _| {
                Some(context.redirect_root_refs(schema, found))
            });
            if let Some(value) = redirected {
                edit.put(member.key, value);
            }
        }
        Node::Object(self.finish(edit))
    }
}
