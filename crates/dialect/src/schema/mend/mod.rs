//! Mends what is no schema, puts old drafts in today's words, and takes out what no model should see.
//!
//! One walk, by schema position, for every dialect. It returns the same node wherever nothing is wrong, which is nearly
//! everywhere; each mend is in the report. What the profile adds here is what an API refuses at any depth (`default`,
//! arrays without `items`, patterns its checker cannot compile); everything structural is left to lowering.

mod items;
mod keys;
mod scalar;

use super::brief::brief;
use super::context::Context;
use super::draft::Draft;
use super::{Slot, slot};
use crate::json::{Member, Node, Object, Place, get};
use crate::{Defaults, Effect};

impl<'a> Context<'a, '_> {
    /// A mended schema. `node` must be an object or a boolean.
    pub(crate) fn mend(&mut self, node: Node<'a>, place: &Place<'_>) -> Node<'a> {
        match node {
            Node::Object(members) => match self.mend_object(members, place) {
                None => node,
                Some(mended) => mended,
            },
            Node::Bool(false) => {
                self.doubtful = true;
                node
            }
            _ => node,
        }
    }

    fn mend_object(&mut self, members: Object<'a>, place: &Place<'_>) -> Option<Node<'a>> {
        let mut draft = Draft::of(members);
        let mut array = false;
        let mut has_items = false;
        let mut list_items = false;
        let mut closed = false;
        let around = self.unevaluated;
        let here = around + usize::from(get(members, "unevaluatedItems").is_some());
        for member in members {
            let Member { key, value } = *member;
            // Only what speaks of the same value is seen by it.
            self.unevaluated = if is_part(key) { here } else { 0 };
            match slot(key) {
                Slot::Type => {
                    if let Some(mended) = self.mend_type(value, place) {
                        match mended {
                            Some(node) => draft.put(key, node),
                            None => drop(draft.remove(key)),
                        }
                    }
                    array = draft.get(key).is_some_and(allows_array);
                }
                Slot::Properties => self.mend_properties(&mut draft, value, place),
                Slot::Required => self.mend_required(&mut draft, value, place),
                Slot::Default => self.mend_default(&mut draft, value, place),
                Slot::Schema => {
                    closed |= key == "additionalProperties" && matches!(value, Node::Bool(false));
                    self.mend_child(&mut draft, key, value, place);
                }
                Slot::SchemaMap => self.mend_map(&mut draft, key, value, place),
                Slot::SchemaList => self.mend_list(&mut draft, key, value, place),
                Slot::Items => {
                    has_items = true;
                    match value {
                        Node::List(_) => list_items = true,
                        Node::Bool(_) if self.profile.needs_items => {
                            self.mend_boolean_items(&mut draft, value, place)
                        }
                        _ => self.mend_child(&mut draft, key, value, place),
                    }
                }
                Slot::AdditionalItems => {
                    // Without a list of items it says nothing, in any draft.
                    if !members.iter().any(|member| member.key == "items" && member.value.list().is_some()) {
                        draft.remove(key);
                        self.note(place, key, Effect::Dropped, "it has no meaning without a list of `items`");
                    }
                }
                Slot::Dependencies => self.mend_dependencies(&mut draft, value, place),
                Slot::NameLists => {
                    if value.object().is_none() {
                        self.drop_invalid(&mut draft, key, value, place, "an object");
                    }
                }
                Slot::Ref => match value {
                    _ if value.is_string() => {
                        self.refs = true;
                        self.doubtful = true;
                    }
                    _ => self.drop_invalid(&mut draft, key, value, place, "a string"),
                },
                Slot::Number => self.mend_number(&mut draft, key, value, place),
                Slot::Exclusive => self.mend_exclusive(&mut draft, key, value, place),
                Slot::Count => self.mend_count(&mut draft, key, value, place),
                Slot::Flag => {
                    if !matches!(value, Node::Bool(_)) {
                        self.drop_invalid(&mut draft, key, value, place, "a boolean");
                    }
                }
                Slot::Text => {
                    if !value.is_string() {
                        self.drop_invalid(&mut draft, key, value, place, "a string");
                    }
                }
                Slot::Pattern => self.mend_pattern(&mut draft, value, place),
                Slot::Enum => match value {
                    Node::List([]) => self.doubtful = true,
                    Node::List(_) => {}
                    _ => self.drop_invalid(&mut draft, key, value, place, "an array"),
                },
                Slot::Examples => {
                    if value.list().is_none() {
                        let wrapped = self.list(&[value]);
                        draft.put(key, wrapped);
                        self.note(place, key, Effect::Rewritten, "a lone example, now in an array");
                    }
                }
                Slot::McpHeader => {
                    draft.remove(key);
                    self.note(place, key, Effect::Dropped, "it is for the transport, not for the model");
                }
                Slot::Other => {}
            }
        }
        self.unevaluated = 0;
        if list_items {
            self.mend_list_items(&mut draft, place);
        }
        self.unevaluated = here;
        if array && !has_items && self.profile.needs_items {
            self.put_items(&mut draft, place);
        }
        self.unevaluated = around;
        self.doubtful |= closed && self.requires_more(members);
        draft.is_edited().then(|| self.object(draft.members()))
    }

    fn mend_child(&mut self, draft: &mut Draft<'a>, key: &'a str, value: Node<'a>, place: &Place<'_>) {
        if !value.is_schema() {
            return self.drop_invalid(draft, key, value, place, "a schema");
        }
        let inside = place.key(key);
        let turns = usize::from(matches!(key, "not" | "if"));
        self.turned += turns;
        let mended = self.mend(value, &inside);
        self.turned -= turns;
        if changed(value, mended) {
            draft.put(key, mended);
        }
    }

    fn mend_default(&mut self, draft: &mut Draft<'a>, value: Node<'a>, place: &Place<'_>) {
        let choice = self.defaults();
        if choice == Defaults::Keep && self.profile.takes_defaults {
            return;
        }
        draft.remove("default");
        if choice == Defaults::Describe {
            self.describe(draft, &format!("Default: {}", brief(value)));
            return self.note(
                place,
                "default",
                Effect::Dropped,
                format!("default {}, now in the description", brief(value)),
            );
        }
        self.note(place, "default", Effect::Dropped, format!("default {}", brief(value)));
    }

    fn drop_invalid(
        &mut self,
        draft: &mut Draft<'a>,
        key: &'a str,
        value: Node<'a>,
        place: &Place<'_>,
        due: &str,
    ) {
        draft.remove(key);
        self.note(place, key, Effect::Rewritten, format!("{} where {due} is due: left out", value.kind()));
    }

    /// Adds a sentence to the description.
    pub(crate) fn describe(&self, draft: &mut Draft<'a>, sentence: &str) {
        let text = match draft.get("description").and_then(|node| node.text(self.arena)) {
            Some(text) if !text.trim().is_empty() => format!("{}\n{sentence}", text.trim_end()),
            _ => sentence.to_owned(),
        };
        draft.put("description", self.text(&text));
    }
}

/// Whether the schemas under a keyword speak of the same value as the schema they stand in.
fn is_part(keyword: &str) -> bool {
    matches!(keyword, "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" | "dependentSchemas")
}

fn changed(before: Node<'_>, after: Node<'_>) -> bool {
    match (before, after) {
        (Node::Object(before), Node::Object(after)) => !std::ptr::eq(before, after),
        (Node::Bool(before), Node::Bool(after)) => before != after,
        _ => true,
    }
}

fn allows_array(node: Node<'_>) -> bool {
    match node {
        Node::Text(name) => name == "array",
        Node::List(names) => names.iter().any(|name| matches!(name, Node::Text("array"))),
        _ => false,
    }
}
