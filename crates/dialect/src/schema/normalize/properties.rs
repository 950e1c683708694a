//! Normalizes the keywords about an object's keys.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::Effect;
use crate::json::{EMPTY, KeyIndex, Member, Node, Object, Place, get};
use crate::schema::context::Context;
use crate::schema::edit::{EntryEdits, ObjectEdit};
use crate::schema::keywords::{list_at, object_at, required_keys};
use crate::schema::node_id::is_unchanged;
use crate::schema::pattern::to_python;

impl<'a> Context<'a, '_> {
    pub(super) fn normalize_properties(
        &mut self,
        edit: &mut ObjectEdit<'a>,
        value: Node<'a>,
        place: &Place<'_>,
    ) {
        let Some(properties) = value.object() else {
            edit.put("properties", EMPTY);
            let detail = format!("properties replaced by {{}}; expected an object, found {}", value.kind());
            return self.record(place, "properties", Effect::Rewritten, detail);
        };
        let inside = place.key("properties");
        let mut entries = EntryEdits::of(properties);
        let mut promoted = Vec::new();
        for property in properties {
            let here = inside.key(property.key);
            match property.value {
                Node::Object(members) => {
                    if let Some(Node::Bool(required)) = get(members, "required") {
                        let detail = if required {
                            promoted.push(property.key);
                            "required: true moved to the required array of the object"
                        } else {
                            "required: false removed; it belongs to the object"
                        };
                        self.record(&here, "required", Effect::Rewritten, detail);
                    }
                    self.normalize_entry(&mut entries, property.value, &here);
                }
                Node::Bool(_) => self.normalize_entry(&mut entries, property.value, &here),
                other => {
                    let mut required = required_keys(edit.members(), self.arena);
                    let action = if required.any(|name| name == property.key) {
                        entries.replace(EMPTY);
                        "replaced by {}"
                    } else {
                        entries.remove();
                        "removed"
                    };
                    let detail = format!("property {action}; expected a schema, found {}", other.kind());
                    self.record(&here, "properties", Effect::Rewritten, detail);
                }
            }
        }
        if let Some(edited) = entries.finish() {
            edit.put("properties", self.object(&edited));
        }
        if !promoted.is_empty() {
            let mut names = list_at(edit.members(), "required").to_vec();
            for name in promoted {
                if !names.iter().any(|other| other.text(self.arena) == Some(name)) {
                    names.push(Node::Text(name));
                }
            }
            edit.put("required", self.list(&names));
        }
    }

    fn normalize_entry(&mut self, entries: &mut EntryEdits<'a>, schema: Node<'a>, place: &Place<'_>) {
        let normalized = self.normalize(schema, place);
        if is_unchanged(schema, normalized) { entries.retain() } else { entries.replace(normalized) }
    }

    /// Whether `required` names a key that `properties` does not describe.
    pub(super) fn requires_undescribed_key(&self, members: Object<'a>) -> bool {
        if get(members, "required").is_none() {
            return false;
        }
        let properties = KeyIndex::of(object_at(members, "properties"));
        required_keys(members, self.arena).any(|name| properties.get(name).is_none())
    }

    pub(super) fn normalize_required(
        &mut self,
        edit: &mut ObjectEdit<'a>,
        value: Node<'a>,
        place: &Place<'_>,
    ) {
        let Some(names) = value.list() else {
            // A boolean is draft-03 style; the parent has recorded it.
            if !matches!(value, Node::Bool(_)) {
                let detail = format!("required removed; expected an array of names, found {}", value.kind());
                self.record(place, "required", Effect::Rewritten, detail);
            }
            // The names that properties have moved here stay.
            if edit.get("required").and_then(Node::list).is_none() {
                edit.remove("required");
            }
            return;
        };
        let mut unique: Vec<Node<'a>> = Vec::new();
        let mut seen = SeenNames::new(names.len());
        for name in names {
            if name.text(self.arena).is_some_and(|text| seen.insert(text)) {
                unique.push(*name);
            }
        }
        if unique.len() == names.len() {
            return;
        }
        // The names that properties have moved here stay.
        for name in list_at(edit.members(), "required") {
            if name.text(self.arena).is_some_and(|text| seen.insert(text)) {
                unique.push(*name);
            }
        }
        edit.put("required", self.list(&unique));
        let detail = "duplicate and non-string names removed from required";
        self.record(place, "required", Effect::Rewritten, detail);
    }

    pub(super) fn normalize_map(&mut self, edit: &mut ObjectEdit<'a>, member: Member<'a>, place: &Place<'_>) {
        let Member { key, value } = member;
        let Some(schemas) = value.object() else {
            return self.drop_invalid(edit, member, place, "an object");
        };
        let inside = place.key(key);
        let mut entries = EntryEdits::of(schemas);
        let mut opened = false;
        let mut rewritten_patterns = HashSet::new();
        for entry in schemas {
            let here = inside.key(entry.key);
            if !entry.value.is_schema() {
                entries.remove();
                self.record_not_a_schema(&here, key, entry.value);
                continue;
            }
            if key == "patternProperties" && self.profile.python_patterns {
                match to_python(entry.key) {
                    Some(Cow::Borrowed(_)) => {}
                    // Two patterns can be rewritten to the same one.
                    Some(Cow::Owned(pattern))
                        if get(schemas, &pattern).is_none() && rewritten_patterns.insert(pattern.clone()) =>
                    {
                        let pattern = self.arena.alloc_str(&pattern);
                        let normalized = self.normalize(entry.value, &here);
                        entries.rename(pattern, normalized);
                        let (original, rewritten) = (Node::Text(entry.key), Node::Text(pattern));
                        self.record_rewritten_pattern(&here, key, original, rewritten);
                        continue;
                    }
                    _ => {
                        entries.remove();
                        self.record_negated_removal(&here, key);
                        opened = true;
                        let detail =
                            "pattern removed, because this API cannot compile it; any key is allowed";
                        self.record(&here, key, Effect::Widened, detail);
                        continue;
                    }
                }
            }
            self.normalize_entry(&mut entries, entry.value, &here);
        }
        if let Some(edited) = entries.finish() {
            edit.put(key, self.object(&edited));
        }
        if opened {
            edit.put("additionalProperties", Node::Bool(true));
        }
    }

    pub(super) fn normalize_dependencies(
        &mut self,
        edit: &mut ObjectEdit<'a>,
        member: Member<'a>,
        place: &Place<'_>,
    ) {
        let Some(dependencies) = member.value.object() else {
            return self.drop_invalid(edit, member, place, "an object");
        };
        let inside = place.key("dependencies");
        let mut entries = EntryEdits::of(dependencies);
        for entry in dependencies {
            let here = inside.key(entry.key);
            if entry.value.is_schema() {
                self.normalize_entry(&mut entries, entry.value, &here);
            } else if entry.value.list().is_some() {
                entries.retain();
            } else {
                entries.remove();
                self.record_not_a_schema(&here, "dependencies", entry.value);
            }
        }
        if let Some(edited) = entries.finish() {
            edit.put("dependencies", self.object(&edited));
        }
    }
}

/// Names seen so far, with a hash table only if many are expected.
struct SeenNames<'a> {
    few: Vec<&'a str>,
    many: Option<HashSet<&'a str>>,
}

impl<'a> SeenNames<'a> {
    fn new(expected: usize) -> SeenNames<'a> {
        let many = (expected > KeyIndex::MAX_LINEAR).then(|| HashSet::with_capacity(expected));
        SeenNames { few: Vec::new(), many }
    }

    /// Returns `false` if the name was seen before.
    fn insert(&mut self, name: &'a str) -> bool {
        match &mut self.many {
            Some(many) => many.insert(name),
            None if self.few.contains(&name) => false,
            None => {
                self.few.push(name);
                true
            }
        }
    }
}
