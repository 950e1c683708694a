//! What a schema says of an array's items, and lists of schemas.

use super::changed;
use crate::Effect;
use crate::json::{Decimal, EMPTY, Node, Place};
use crate::schema::brief::brief;
use crate::schema::context::Context;
use crate::schema::draft::Draft;

impl<'a> Context<'a, '_> {
    pub(super) fn mend_list(
        &mut self,
        draft: &mut Draft<'a>,
        key: &'a str,
        value: Node<'a>,
        place: &Place<'_>,
    ) {
        let schemas = match value {
            Node::List(schemas) => schemas,
            _ => return self.drop_invalid(draft, key, value, place, "a list of schemas"),
        };
        if key == "allOf" {
            self.doubtful = true;
        }
        if schemas.is_empty() {
            draft.remove(key);
            return self.note(place, key, Effect::Rewritten, "an empty list says nothing");
        }
        let inside = place.key(key);
        let mut mended: Option<Vec<Node<'a>>> = None;
        self.turned += usize::from(key == "oneOf");
        for (index, schema) in schemas.iter().enumerate() {
            let here = inside.index(index);
            if !schema.is_schema() {
                mended.get_or_insert_with(|| schemas[..index].to_vec());
                self.note(&here, key, Effect::Rewritten, format!("{} is no schema: left out", schema.kind()));
                continue;
            }
            let node = self.mend(*schema, &here);
            if changed(*schema, node) && mended.is_none() {
                mended = Some(schemas[..index].to_vec());
            }
            if let Some(mended) = &mut mended {
                mended.push(node);
            }
        }
        self.turned -= usize::from(key == "oneOf");
        match mended {
            None => {}
            Some(nodes) if nodes.is_empty() => drop(draft.remove(key)),
            Some(nodes) => draft.put(key, self.list(&nodes)),
        }
    }

    /// `items: true` and `items: false` in words that every checker takes.
    pub(super) fn mend_boolean_items(&mut self, draft: &mut Draft<'a>, value: Node<'a>, place: &Place<'_>) {
        draft.put("items", EMPTY);
        if matches!(value, Node::Bool(false)) {
            self.cap_items(draft);
        }
        self.note(
            place,
            "items",
            Effect::Rewritten,
            format!("`items` must be an object here, not {}", brief(value)),
        );
    }

    /// `items` for an array that has none, where the API wants it.
    pub(super) fn put_items(&mut self, draft: &mut Draft<'a>, place: &Place<'_>) {
        const MAY_EVALUATE: [&str; 8] =
            ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "contains", "not"];
        let alone = MAY_EVALUATE.iter().all(|keyword| draft.get(keyword).is_none());
        if self.unevaluated == 1
            && alone
            && let Some(rest) = draft.get("unevaluatedItems")
        {
            draft.remove("unevaluatedItems");
            draft.put("items", rest);
            if matches!(rest, Node::Bool(_)) {
                draft.put("items", EMPTY);
            }
            if matches!(rest, Node::Bool(false)) {
                self.cap_items(draft);
            }
            let detail = "an array must say `items`; nothing else evaluates its items";
            return self.note(place, "unevaluatedItems", Effect::Rewritten, detail);
        }
        draft.put("items", EMPTY);
        if self.unevaluated > 0 {
            let detail = "an array must say `items`, and what is evaluated by them `unevaluatedItems` no longer reaches";
            return self.note(place, "unevaluatedItems", Effect::Widened, detail);
        }
        self.note(place, "items", Effect::Rewritten, "an array must say `items`; `{}` allows the same");
    }

    /// No item beyond the positions that `prefixItems` names.
    pub(super) fn cap_items(&self, draft: &mut Draft<'a>) {
        let length = draft.get("prefixItems").and_then(Node::list).map_or(0, <[Node<'_>]>::len);
        let cap = self.number(length);
        match draft.get("maxItems") {
            Some(Node::Number(existing)) if Decimal::of(existing) <= Decimal::of(&length.to_string()) => {}
            _ => draft.put("maxItems", cap),
        }
    }

    /// A list under `items`, as drafts before 2020-12 wrote tuples.
    pub(super) fn mend_list_items(&mut self, draft: &mut Draft<'a>, place: &Place<'_>) {
        let positions = draft.get("items").and_then(Node::list).unwrap_or_default();
        let rest = draft.remove("additionalItems");
        let inside = place.key("items");
        let schemas: Vec<Node<'a>> = positions
            .iter()
            .enumerate()
            .map(|(index, schema)| {
                let here = inside.index(index);
                if schema.is_schema() { self.mend(*schema, &here) } else { EMPTY }
            })
            .collect();
        let schemas = self.list(&schemas);
        draft.rename("items", "prefixItems");
        draft.put("prefixItems", schemas);
        match rest {
            Some(Node::Bool(false)) if self.profile.needs_items => {
                draft.put("items", EMPTY);
                self.cap_items(draft);
            }
            Some(Node::Bool(true)) | None if self.profile.needs_items => draft.put("items", EMPTY),
            Some(schema) if schema.is_schema() => {
                let here = place.key("additionalItems");
                let schema = self.mend(schema, &here);
                draft.put("items", schema);
            }
            _ => {}
        }
        self.upgraded = true;
        self.note(place, "items", Effect::Rewritten, "a list of `items` is `prefixItems` today");
    }
}
