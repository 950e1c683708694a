//! Editions of JSON Schema before 2020-12, put in today's words.
//!
//! A dialect that drops `$schema` says its schemas in the words of 2020-12. What an older edition did not know, it did
//! not mean: a keyword that came later says nothing there, and before 2019-09 nothing counts beside a `$ref`.

use super::context::Context;
use super::draft::{Draft, Sifted};
use super::identity::is_untouched;
use super::{Slot, is_annotation, slot};
use crate::Effect;
use crate::json::{Member, Node, Object, Place, get};

/// An edition of JSON Schema, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Edition {
    Draft04,
    Draft06,
    Draft07,
    V2019,
    V2020,
}

impl Edition {
    /// The edition that a root names; today's, if it names none that is known.
    pub(crate) fn of(root: Node<'_>, arena: &bumpalo::Bump) -> Edition {
        let named = root.member("$schema").and_then(|node| node.text(arena)).unwrap_or_default();
        let has = |word: &str| named.contains(word);
        match () {
            () if has("draft-04") || has("draft-03") => Edition::Draft04,
            () if has("draft-06") => Edition::Draft06,
            () if has("draft-07") => Edition::Draft07,
            () if has("2019-09") => Edition::V2019,
            () => Edition::V2020,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Edition::Draft04 => "draft-04",
            Edition::Draft06 => "draft-06",
            Edition::Draft07 => "draft-07",
            Edition::V2019 => "2019-09",
            Edition::V2020 => "2020-12",
        }
    }

    fn knows(self, keyword: &str) -> bool {
        let since = match keyword {
            "const" | "contains" | "propertyNames" => Edition::Draft06,
            "if" | "then" | "else" => Edition::Draft07,
            "dependentRequired"
            | "dependentSchemas"
            | "unevaluatedProperties"
            | "unevaluatedItems"
            | "minContains"
            | "maxContains" => Edition::V2019,
            "prefixItems" | "$dynamicRef" => Edition::V2020,
            _ => return true,
        };
        self >= since
    }
}

impl<'a> Context<'a, '_> {
    /// A whole schema of an older edition in today's words.
    pub(crate) fn modernise(&mut self, root: Node<'a>, edition: Edition) -> Node<'a> {
        let modern = self.modernise_at(root, edition, &Place::ROOT);
        let mut draft = Draft::of(modern.object().unwrap_or_default());
        draft.remove("$schema");
        if self.profile.grammar.is_none() {
            self.note(&Place::ROOT, "$schema", Effect::Dropped, "the schema is in the words of 2020-12 now");
        }
        self.object(draft.members())
    }

    fn modernise_at(&mut self, node: Node<'a>, edition: Edition, place: &Place<'_>) -> Node<'a> {
        let Some(members) = node.object() else { return node };
        let mut draft = Draft::of(members);
        let lone = edition < Edition::V2019 && get(members, "$ref").is_some_and(Node::is_string);
        for member in members {
            let Member { key, value } = *member;
            if lone && key != "$ref" && !is_annotation(key) {
                draft.remove(key);
                let detail = format!("in {} nothing counts beside `$ref`", edition.name());
                self.note(place, key, Effect::Rewritten, detail);
                continue;
            }
            if !edition.knows(key) {
                draft.remove(key);
                let detail = format!("{} has no such keyword: it said nothing", edition.name());
                self.note(place, key, Effect::Rewritten, detail);
                continue;
            }
            match (slot(key), value) {
                (Slot::Exclusive, Node::Number(_)) if edition == Edition::Draft04 => {
                    draft.remove(key);
                    self.note(
                        place,
                        key,
                        Effect::Rewritten,
                        "draft-04 wants a boolean here: it said nothing",
                    );
                }
                (Slot::Dependencies, Node::Object(entries)) if edition < Edition::V2019 => {
                    self.split_dependencies(&mut draft, entries, edition, place);
                }
                (Slot::Schema | Slot::Items | Slot::AdditionalItems, Node::Object(_)) => {
                    let modern = self.modernise_at(value, edition, &place.key(key));
                    if !is_untouched(value, modern) {
                        draft.put(key, modern);
                    }
                }
                (Slot::SchemaList | Slot::Items, Node::List(schemas)) => {
                    let inside = place.key(key);
                    let modern: Vec<Node<'a>> = schemas
                        .iter()
                        .enumerate()
                        .map(|(index, schema)| self.modernise_at(*schema, edition, &inside.index(index)))
                        .collect();
                    if !schemas.iter().zip(&modern).all(|(old, new)| is_untouched(*old, *new)) {
                        draft.put(key, self.list(&modern));
                    }
                }
                (Slot::Properties | Slot::SchemaMap, Node::Object(schemas)) => {
                    let inside = place.key(key);
                    let mut sifted = Sifted::of(schemas);
                    for entry in schemas {
                        let modern = self.modernise_at(entry.value, edition, &inside.key(entry.key));
                        match is_untouched(entry.value, modern) {
                            true => sifted.keep(),
                            false => sifted.replace(modern),
                        }
                    }
                    if let Some(schemas) = sifted.edited() {
                        draft.put(key, self.object(&schemas));
                    }
                }
                _ if key == "$recursiveRef" && edition == Edition::V2019 => {
                    // In a schema of one document it leads where `$ref` does.
                    draft.rename(key, "$ref");
                    self.note(place, key, Effect::Rewritten, "it is `$ref` in a schema that stands alone");
                }
                _ => {}
            }
        }
        if draft.is_edited() { self.object(draft.members()) } else { node }
    }

    /// `dependencies` as the two keywords that it was split into.
    fn split_dependencies(
        &mut self,
        draft: &mut Draft<'a>,
        entries: Object<'a>,
        edition: Edition,
        place: &Place<'_>,
    ) {
        let inside = place.key("dependencies");
        let (mut names, mut schemas) = (Vec::new(), Vec::new());
        for entry in entries {
            match entry.value {
                Node::List(_) => names.push(*entry),
                value if value.is_string() => names.push(Member::new(entry.key, self.list(&[value]))),
                value => {
                    let modern = self.modernise_at(value, edition, &inside.key(entry.key));
                    schemas.push(Member::new(entry.key, modern));
                }
            }
        }
        draft.remove("dependencies");
        for (keyword, entries) in [("dependentRequired", names), ("dependentSchemas", schemas)] {
            if !entries.is_empty() {
                draft.put(keyword, self.object(&entries));
            }
        }
        self.note(
            place,
            "dependencies",
            Effect::Rewritten,
            "said by `dependentRequired` and `dependentSchemas` today",
        );
    }
}
