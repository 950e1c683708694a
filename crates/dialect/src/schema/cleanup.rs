//! Makes implicit meaning explicit, for dialects that keep schemas as they are but require them to be valid
//! 2020-12.

use super::context::Context;
use super::edit::ObjectEdit;
use super::keywords::{list_at, required_keys};
use super::node_id::{NodeSet, node_id};
use super::types::{NULLABLE_DETAIL, TypeSet};
use crate::Effect;
use crate::json::{EMPTY, KeyIndex, Member, Node, Object, Place, get};

impl<'a> Context<'a, '_> {
    /// Cleans up a complete schema. `unsatisfiable` holds the schemas that no value satisfies.
    pub(crate) fn clean_up_root(&mut self, root: Node<'a>, unsatisfiable: &NodeSet) -> Node<'a> {
        let cleaned = self.clean_up(root, unsatisfiable, true, &Place::ROOT);
        // The old spelling of `$id`.
        let Some(id) = cleaned.member("id").filter(|id| id.is_string()) else { return cleaned };
        self.record_dropped(&Place::ROOT, Member::new("id", id));
        Node::Object(self.without(cleaned.object().unwrap_or_default(), "id"))
    }

    /// `complete`: the schema is not a part of another one, so no other schema applies to the same value.
    fn clean_up(
        &mut self,
        node: Node<'a>,
        unsatisfiable: &NodeSet,
        complete: bool,
        place: &Place<'_>,
    ) -> Node<'a> {
        let Some(members) = node.object() else { return node };
        const APPLICATORS: [&str; 8] =
            ["$ref", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "unevaluatedProperties"];
        let alone = complete && APPLICATORS.iter().all(|keyword| get(members, keyword).is_none());
        let closed =
            get(members, "additionalProperties").is_none_or(|rest| matches!(rest, Node::Bool(false)));
        let patterned = get(members, "patternProperties").is_some();
        let mut edit = ObjectEdit::of(members);
        for member in members.iter().filter(|member| member.key != "dependencies") {
            let complete = match member.key {
                "items" | "additionalProperties" | "prefixItems" => true,
                "properties" => !patterned,
                _ => false,
            };
            let removes = member.key == "properties" && alone && closed;
            let negates = usize::from(matches!(member.key, "not" | "if" | "oneOf"));
            self.negations += negates;
            let cleaned = self.map_schemas(*member, place, |context, schema, key, place| {
                if removes
                    && unsatisfiable.contains(&node_id(schema))
                    && !required_keys(members, context.arena).any(|name| name == key)
                {
                    context.record_unsatisfiable_property(place);
                    return None;
                }
                Some(context.clean_up(schema, unsatisfiable, complete, place))
            });
            self.negations -= negates;
            if let Some(value) = cleaned {
                edit.put(member.key, value);
            }
        }
        self.clean_up_nulls(&mut edit, members, place);
        if alone && !patterned {
            self.describe_required_keys(&mut edit, members, place);
        }
        Node::Object(self.finish(edit))
    }

    /// Adds `null` where OpenAPI's `nullable` allows it, and removes it from an `enum` whose type forbids it.
    fn clean_up_nulls(&mut self, edit: &mut ObjectEdit<'a>, members: Object<'a>, place: &Place<'_>) {
        let Some(kind) = get(members, "type") else { return };
        let types = TypeSet::of(members);
        let listed = list_at(members, "enum");
        let lists_null = listed.iter().any(|value| matches!(value, Node::Null));
        if matches!(get(members, "nullable"), Some(Node::Bool(true))) {
            edit.remove("nullable");
            if !types.has(TypeSet::NULL) {
                let mut names = kind.list().map_or_else(|| vec![kind], <[Node<'a>]>::to_vec);
                names.push(Node::Text("null"));
                edit.put("type", self.list(&names));
            }
            if !listed.is_empty() && !lists_null {
                let mut values = listed.to_vec();
                values.push(Node::Null);
                edit.put("enum", self.list(&values));
            }
            self.record(place, "nullable", Effect::Widened, NULLABLE_DETAIL);
            if self.negations > 0 {
                let detail = "with null allowed here, the surrounding not, if or oneOf may exclude it";
                self.record(place, "nullable", Effect::Narrowed, detail);
            }
        } else if lists_null && !types.has(TypeSet::NULL) && listed.len() > 1 {
            let values: Vec<Node<'a>> =
                listed.iter().copied().filter(|value| !matches!(value, Node::Null)).collect();
            edit.put("enum", self.list(&values));
            let detail = "enum value null removed; it does not match type";
            self.record(place, "enum", Effect::Rewritten, detail);
        }
    }

    /// Adds required keys that `properties` does not describe.
    fn describe_required_keys(&mut self, edit: &mut ObjectEdit<'a>, members: Object<'a>, place: &Place<'_>) {
        let Some(properties) = edit.get("properties").and_then(Node::object) else { return };
        if get(members, "required").is_none() || get(members, "additionalProperties").is_some() {
            return;
        }
        let known = KeyIndex::of(properties);
        let missing: Vec<&'a str> =
            required_keys(members, self.arena).filter(|name| known.get(name).is_none()).collect();
        if missing.is_empty() {
            return;
        }
        let mut properties = properties.to_vec();
        for name in missing {
            properties.push(Member::new(name, EMPTY));
            self.record_undescribed_key(place, name);
        }
        edit.put("properties", self.object(&properties));
    }
}
