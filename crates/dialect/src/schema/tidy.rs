//! Says aloud what a schema only means, for dialects whose models read it word for word but whose API wants it valid.

use super::context::Context;
use super::draft::{Draft, Sifted};
use super::identity::{Identities, identity, is_untouched};
use super::types::{NULLABLE, TypeSet};
use super::{Slot, slot};
use crate::Effect;
use crate::json::{EMPTY, Member, Node, Object, Place, get};

impl<'a> Context<'a, '_> {
    /// The root without what only an old edition read.
    pub(crate) fn tidy_root(&mut self, root: Node<'a>, impossible: &Identities) -> Node<'a> {
        let tidy = self.tidy(root, impossible, true, &Place::ROOT);
        let Some(id) = tidy.member("id").filter(|id| id.is_string()) else { return tidy };
        let mut draft = Draft::of(tidy.object().unwrap_or_default());
        draft.remove("id");
        self.note(&Place::ROOT, "id", Effect::Dropped, super::brief::brief(id));
        self.object(draft.members())
    }

    /// `whole`: it is not a part of another schema, so nothing else speaks of its keys.
    fn tidy(&mut self, node: Node<'a>, impossible: &Identities, whole: bool, place: &Place<'_>) -> Node<'a> {
        let Some(members) = node.object() else { return node };
        const PARTS: [&str; 9] = [
            "$ref",
            "$dynamicRef",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "if",
            "dependentSchemas",
            "unevaluatedProperties",
        ];
        let alone = whole && PARTS.iter().all(|keyword| get(members, keyword).is_none());
        let mut draft = Draft::of(members);
        for Member { key, value } in members {
            let inside = place.key(key);
            match (slot(key), *value) {
                (Slot::Schema | Slot::Items, Node::Object(_)) => {
                    let whole = matches!(*key, "items" | "additionalProperties");
                    let tidy = self.tidy(*value, impossible, whole, &inside);
                    if !is_untouched(*value, tidy) {
                        draft.put(key, tidy);
                    }
                }
                (Slot::SchemaList, Node::List(schemas)) => {
                    let tidy: Vec<Node<'a>> = schemas
                        .iter()
                        .enumerate()
                        .map(|(index, schema)| {
                            self.tidy(*schema, impossible, *key == "prefixItems", &inside.index(index))
                        })
                        .collect();
                    if !schemas.iter().zip(&tidy).all(|(before, after)| is_untouched(*before, *after)) {
                        draft.put(key, self.list(&tidy));
                    }
                }
                (Slot::Properties | Slot::SchemaMap, Node::Object(schemas)) => {
                    let named = slot(key) == Slot::Properties;
                    if let Some(schemas) = self.tidy_map(schemas, members, named, alone, impossible, &inside)
                    {
                        draft.put(key, self.object(&schemas));
                    }
                }
                _ => {}
            }
        }
        self.tidy_nulls(&mut draft, members, place);
        if alone {
            self.tidy_required(&mut draft, members, place);
        }
        if draft.is_edited() { self.object(draft.members()) } else { node }
    }

    /// Schemas by name, without optional properties that no value can fit; `None` if nothing was done.
    fn tidy_map(
        &mut self,
        schemas: Object<'a>,
        members: Object<'a>,
        named: bool,
        alone: bool,
        impossible: &Identities,
        inside: &Place<'_>,
    ) -> Option<Vec<Member<'a>>> {
        let required = get(members, "required").and_then(Node::list).unwrap_or_default();
        let closed =
            get(members, "additionalProperties").is_none_or(|rest| matches!(rest, Node::Bool(false)));
        // What a reference or a pattern leads to may be one part of several.
        let whole = named && get(members, "patternProperties").is_none();
        let mut sifted = Sifted::of(schemas);
        for entry in schemas {
            let here = inside.key(entry.key);
            let never = named
                && alone
                && closed
                && impossible.contains(&identity(entry.value))
                && !required.iter().any(|name| name.text(self.arena) == Some(entry.key));
            if never {
                sifted.skip();
                self.note(&here, "properties", Effect::Rewritten, "no value can fit, so it is not offered");
                continue;
            }
            let tidy = self.tidy(entry.value, impossible, whole, &here);
            if is_untouched(entry.value, tidy) {
                sifted.keep();
            } else {
                sifted.replace(tidy);
            }
        }
        sifted.edited()
    }

    /// `null` where OpenAPI's `nullable` means it, and not where the type forbids it.
    fn tidy_nulls(&mut self, draft: &mut Draft<'a>, members: Object<'a>, place: &Place<'_>) {
        let Some(kind) = get(members, "type") else { return };
        let types = TypeSet::of(members);
        let listed = get(members, "enum").and_then(Node::list).unwrap_or_default();
        let lists_null = listed.iter().any(|value| matches!(value, Node::Null));
        if matches!(get(members, "nullable"), Some(Node::Bool(true))) {
            draft.remove("nullable");
            if !types.has(TypeSet::NULL) {
                let mut names = kind.list().map_or_else(|| vec![kind], <[Node<'a>]>::to_vec);
                names.push(Node::Text("null"));
                draft.put("type", self.list(&names));
            }
            if !listed.is_empty() && !lists_null {
                let mut values = listed.to_vec();
                values.push(Node::Null);
                draft.put("enum", self.list(&values));
            }
            self.note(place, "nullable", Effect::Widened, NULLABLE);
        } else if lists_null && !types.has(TypeSet::NULL) && listed.len() > 1 {
            let values: Vec<Node<'a>> =
                listed.iter().copied().filter(|value| !matches!(value, Node::Null)).collect();
            draft.put("enum", self.list(&values));
            self.note(place, "enum", Effect::Rewritten, "null is not of the type: left out");
        }
    }

    /// Required keys that no property describes, described.
    fn tidy_required(&mut self, draft: &mut Draft<'a>, members: Object<'a>, place: &Place<'_>) {
        let required = get(members, "required").and_then(Node::list).unwrap_or_default();
        let silent = get(members, "additionalProperties").is_none();
        let Some(properties) = draft.get("properties").and_then(Node::object) else { return };
        if required.is_empty() || !silent || get(members, "patternProperties").is_some() {
            return;
        }
        let known: std::collections::HashSet<&str> = properties.iter().map(|property| property.key).collect();
        let ghosts: Vec<&'a str> = required
            .iter()
            .filter_map(|name| name.text(self.arena))
            .filter(|name| !known.contains(name))
            .collect();
        if ghosts.is_empty() {
            return;
        }
        let mut properties = properties.to_vec();
        for ghost in ghosts {
            properties.push(Member::new(ghost, EMPTY));
            let detail = format!("`{ghost}` is required but not described: anything goes");
            self.note(place, "required", Effect::Rewritten, detail);
        }
        draft.put("properties", self.object(&properties));
    }
}
