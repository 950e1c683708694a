//! Normalizes the items of arrays, and arrays of schemas.

use crate::Effect;
use crate::json::{Decimal, EMPTY, Member, Node, Place};
use crate::schema::context::Context;
use crate::schema::edit::ObjectEdit;
use crate::schema::keywords::list_at;
use crate::schema::node_id::is_unchanged;

impl<'a> Context<'a, '_> {
    pub(super) fn normalize_list(
        &mut self,
        edit: &mut ObjectEdit<'a>,
        member: Member<'a>,
        place: &Place<'_>,
    ) {
        let Member { key, value } = member;
        let Node::List(schemas) = value else {
            return self.drop_invalid(edit, member, place, "an array of schemas");
        };
        if key == "allOf" {
            self.may_be_unsatisfiable = true;
        }
        if schemas.is_empty() {
            edit.remove(key);
            return self.record(place, key, Effect::Rewritten, format!("empty {key} removed"));
        }
        let inside = place.key(key);
        let mut normalized: Option<Vec<Node<'a>>> = None;
        self.negations += usize::from(key == "oneOf");
        for (index, schema) in schemas.iter().enumerate() {
            let here = inside.index(index);
            if !schema.is_schema() {
                normalized.get_or_insert_with(|| schemas[..index].to_vec());
                self.record_not_a_schema(&here, key, *schema);
                continue;
            }
            let node = self.normalize(*schema, &here);
            if !is_unchanged(*schema, node) && normalized.is_none() {
                normalized = Some(schemas[..index].to_vec());
            }
            if let Some(normalized) = &mut normalized {
                normalized.push(node);
            }
        }
        self.negations -= usize::from(key == "oneOf");
        match normalized {
            None => {}
            Some(nodes) if nodes.is_empty() => drop(edit.remove(key)),
            Some(nodes) => edit.put(key, self.list(&nodes)),
        }
    }

    /// Replaces `items: true` and `items: false` by a schema object.
    pub(super) fn normalize_boolean_items(
        &mut self,
        edit: &mut ObjectEdit<'a>,
        value: Node<'a>,
        place: &Place<'_>,
    ) {
        self.put_boolean_items(edit, value);
        let detail = if matches!(value, Node::Bool(false)) {
            "items: false replaced by maxItems, because this API requires a schema object"
        } else {
            "items: true replaced by items: {}, because this API requires a schema object"
        };
        self.record(place, "items", Effect::Rewritten, detail);
    }

    /// Adds `items` to an array that has none.
    pub(super) fn add_items(&mut self, edit: &mut ObjectEdit<'a>, place: &Place<'_>) {
        const MAY_EVALUATE: [&str; 7] = ["$ref", "allOf", "anyOf", "oneOf", "if", "contains", "not"];
        if self.unevaluated_items == 1
            && MAY_EVALUATE.iter().all(|keyword| edit.get(keyword).is_none())
            && let Some(rest) = edit.remove("unevaluatedItems")
        {
            match rest {
                Node::Bool(_) => self.put_boolean_items(edit, rest),
                _ => edit.put("items", rest),
            }
            let detail = "unevaluatedItems replaced by items, which this API requires";
            return self.record(place, "unevaluatedItems", Effect::Rewritten, detail);
        }
        edit.put("items", EMPTY);
        if self.unevaluated_items > 0 {
            let detail = "added items: {}, which this API requires; unevaluatedItems no longer has an effect";
            return self.record(place, "unevaluatedItems", Effect::Widened, detail);
        }
        let detail = "added items: {}, which this API requires";
        self.record(place, "items", Effect::Rewritten, detail);
    }

    /// Sets `items` to `{}`, and for `false` limits the array to the positions in `prefixItems`.
    fn put_boolean_items(&self, edit: &mut ObjectEdit<'a>, value: Node<'a>) {
        edit.put("items", EMPTY);
        if matches!(value, Node::Bool(false)) {
            let length = list_at(edit.members(), "prefixItems").len();
            match edit.get("maxItems") {
                Some(Node::Number(existing)) if Decimal::of(existing) <= Decimal::of(&length.to_string()) => {
                }
                _ => edit.put("maxItems", self.number(length)),
            }
        }
    }

    /// Replaces an `items` array, the tuple form before 2020-12, by `prefixItems`.
    pub(super) fn normalize_items_list(&mut self, edit: &mut ObjectEdit<'a>, place: &Place<'_>) {
        let positions = list_at(edit.members(), "items");
        let rest = edit.remove("additionalItems");
        let inside = place.key("items");
        let schemas: Vec<Node<'a>> = positions
            .iter()
            .enumerate()
            .map(|(index, schema)| {
                let here = inside.index(index);
                if schema.is_schema() { self.normalize(*schema, &here) } else { EMPTY }
            })
            .collect();
        edit.rename("items", "prefixItems");
        edit.put("prefixItems", self.list(&schemas));
        match rest {
            Some(rest @ Node::Bool(_)) if self.profile.requires_items => self.put_boolean_items(edit, rest),
            None if self.profile.requires_items => edit.put("items", EMPTY),
            Some(schema) if schema.is_schema() => {
                let schema = self.normalize(schema, &place.key("additionalItems"));
                edit.put("items", schema);
            }
            _ => {}
        }
        self.upgraded = true;
        self.record(place, "items", Effect::Rewritten, "items array replaced by prefixItems");
    }
}
