//! What a schema says of an object's keys.

use super::changed;
use crate::Effect;
use crate::json::{EMPTY, KeyIndex, Node, Object, Place, get};
use crate::schema::context::Context;
use crate::schema::draft::{Draft, Sifted};

impl<'a> Context<'a, '_> {
    pub(super) fn mend_properties(&mut self, draft: &mut Draft<'a>, value: Node<'a>, place: &Place<'_>) {
        let Some(properties) = value.object() else {
            draft.put("properties", EMPTY);
            return self.note(
                place,
                "properties",
                Effect::Rewritten,
                format!("{} instead of an object", value.kind()),
            );
        };
        let inside = place.key("properties");
        let mut mended = Sifted::of(properties);
        let mut promoted = Vec::new();
        for property in properties {
            let here = inside.key(property.key);
            match property.value {
                Node::Object(members) => {
                    if let Some(Node::Bool(required)) = get(members, "required") {
                        self.note(
                            &here,
                            "required",
                            Effect::Rewritten,
                            "it belongs into the object's own `required`",
                        );
                        if required {
                            promoted.push(property.key);
                        }
                    }
                    let node = self.mend(property.value, &here);
                    if changed(property.value, node) { mended.replace(node) } else { mended.keep() }
                }
                Node::Bool(_) => {
                    self.mend(property.value, &here);
                    mended.keep();
                }
                other => {
                    let required = draft.get("required").and_then(Node::list).unwrap_or_default();
                    let wanted = required.iter().any(|name| name.text(self.arena) == Some(property.key));
                    let what = if wanted { "anything goes" } else { "left out" };
                    if wanted {
                        mended.replace(EMPTY)
                    } else {
                        mended.skip()
                    }
                    self.note(
                        &here,
                        "properties",
                        Effect::Rewritten,
                        format!("{} is no schema: {what}", other.kind()),
                    );
                }
            }
        }
        if let Some(edited) = mended.edited() {
            draft.put("properties", self.object(&edited));
        }
        if !promoted.is_empty() {
            let mut names = draft.get("required").and_then(Node::list).unwrap_or_default().to_vec();
            for name in promoted {
                if !names.iter().any(|other| other.text(self.arena) == Some(name)) {
                    names.push(Node::Text(name));
                }
            }
            draft.put("required", self.list(&names));
        }
    }

    /// Whether a required key is described by no property.
    pub(super) fn requires_more(&self, members: Object<'a>) -> bool {
        let Some(required) = get(members, "required").and_then(Node::list) else { return false };
        let properties = get(members, "properties").and_then(Node::object).unwrap_or_default();
        let properties = KeyIndex::of(properties);
        required.iter().any(|name| name.text(self.arena).is_some_and(|name| properties.get(name).is_none()))
    }

    pub(super) fn mend_required(&mut self, draft: &mut Draft<'a>, value: Node<'a>, place: &Place<'_>) {
        let Some(names) = value.list() else {
            // A boolean was a draft-03 habit; the parent has taken note of it.
            if !matches!(value, Node::Bool(_)) {
                self.note(
                    place,
                    "required",
                    Effect::Rewritten,
                    format!("{} instead of a list of names", value.kind()),
                );
            }
            // What the properties promoted meanwhile stays.
            if draft.get("required").and_then(Node::list).is_none() {
                draft.remove("required");
            }
            return;
        };
        let mut kept: Vec<Node<'a>> = Vec::new();
        let mut seen = Seen::new(names.len());
        for name in names {
            if name.text(self.arena).is_some_and(|text| seen.insert(text)) {
                kept.push(*name);
            }
        }
        if kept.len() == names.len() {
            return;
        }
        // Names promoted from the properties may have been added by now.
        for name in draft.get("required").and_then(Node::list).unwrap_or_default() {
            if name.text(self.arena).is_some_and(|text| seen.insert(text)) {
                kept.push(*name);
            }
        }
        draft.put("required", self.list(&kept));
        self.note(place, "required", Effect::Rewritten, "names must be strings, each once");
    }

    pub(super) fn mend_map(
        &mut self,
        draft: &mut Draft<'a>,
        key: &'a str,
        value: Node<'a>,
        place: &Place<'_>,
    ) {
        let Some(schemas) = value.object() else {
            return self.drop_invalid(draft, key, value, place, "an object");
        };
        let inside = place.key(key);
        let mut mended = Sifted::of(schemas);
        let mut opened = false;
        for entry in schemas {
            let here = inside.key(entry.key);
            if !entry.value.is_schema() {
                mended.skip();
                self.note(
                    &here,
                    key,
                    Effect::Rewritten,
                    format!("{} is no schema: left out", entry.value.kind()),
                );
                continue;
            }
            if key == "patternProperties"
                && self.profile.python_patterns
                && !crate::schema::pattern::compiles_in_python(entry.key)
            {
                mended.skip();
                if self.turned > 0 {
                    self.note(&here, key, Effect::Narrowed, "without it the rule around it refuses more");
                }
                opened = true;
                let detail = "the API's checker cannot compile this pattern: the object is open now";
                self.note(&here, key, Effect::Widened, detail);
                continue;
            }
            let node = self.mend(entry.value, &here);
            if changed(entry.value, node) { mended.replace(node) } else { mended.keep() }
        }
        if let Some(edited) = mended.edited() {
            draft.put(key, self.object(&edited));
        }
        if opened {
            draft.put("additionalProperties", Node::Bool(true));
        }
    }

    pub(super) fn mend_dependencies(&mut self, draft: &mut Draft<'a>, value: Node<'a>, place: &Place<'_>) {
        let Some(entries) = value.object() else {
            return self.drop_invalid(draft, "dependencies", value, place, "an object");
        };
        let inside = place.key("dependencies");
        let mut mended = Sifted::of(entries);
        for entry in entries {
            let here = inside.key(entry.key);
            if entry.value.is_schema() {
                let node = self.mend(entry.value, &here);
                if changed(entry.value, node) { mended.replace(node) } else { mended.keep() }
            } else if entry.value.list().is_some() {
                mended.keep();
            } else {
                mended.skip();
                let detail = format!("{} is no schema: left out", entry.value.kind());
                self.note(&here, "dependencies", Effect::Rewritten, detail);
            }
        }
        if let Some(edited) = mended.edited() {
            draft.put("dependencies", self.object(&edited));
        }
    }
}

/// Names seen so far; a table only where there are many.
struct Seen<'a> {
    few: Vec<&'a str>,
    many: Option<std::collections::HashSet<&'a str>>,
}

impl<'a> Seen<'a> {
    fn new(expected: usize) -> Seen<'a> {
        let many = (expected > 32).then(|| std::collections::HashSet::with_capacity(expected));
        Seen { few: Vec::new(), many }
    }

    /// False if it was there already.
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
