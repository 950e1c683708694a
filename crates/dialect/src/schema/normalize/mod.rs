//! Normalizes schemas: repairs invalid parts, replaces keywords of old drafts, and removes what no model
//! should see.
//!
//! One walk over all schema positions serves every dialect. It returns the same node wherever nothing is
//! wrong, which is nearly everywhere, and records each repair. The profile adds what an API rejects at any
//! depth: `default`, arrays without `items`, patterns that it cannot compile. Structural changes are left to
//! lowering.

mod items;
mod properties;
mod scalar;

use super::context::Context;
use super::edit::ObjectEdit;
use super::excerpt::excerpt;
use super::keywords::applies_in_place;
use super::node_id::is_unchanged;
use super::{KeywordKind, keyword_kind};
use crate::json::{Member, Node, Object, Place, get};
use crate::{Defaults, Effect};

impl<'a> Context<'a, '_> {
    /// Normalizes a schema, which must be an object or a boolean.
    pub(crate) fn normalize(&mut self, node: Node<'a>, place: &Place<'_>) -> Node<'a> {
        match node {
            Node::Object(members) => {
                self.budget.add_schema(members);
                Node::Object(self.normalize_object(members, place))
            }
            Node::Bool(false) => {
                self.may_be_unsatisfiable = true;
                node
            }
            _ => node,
        }
    }

    fn normalize_object(&mut self, members: Object<'a>, place: &Place<'_>) -> Object<'a> {
        let mut edit = ObjectEdit::of(members);
        let mut array = false;
        let mut has_items = false;
        let mut items_list = false;
        let mut closed = false;
        let outer = self.unevaluated_items;
        let inner = outer + usize::from(get(members, "unevaluatedItems").is_some());
        for member in members {
            let Member { key, value } = *member;
            // `unevaluatedItems` only depends on schemas for the same value.
            self.unevaluated_items = if applies_in_place(key) { inner } else { 0 };
            match keyword_kind(key) {
                KeywordKind::Type => {
                    self.normalize_type(&mut edit, value, place);
                    array = edit.get(key).is_some_and(allows_array);
                }
                KeywordKind::Properties => self.normalize_properties(&mut edit, value, place),
                KeywordKind::Required => self.normalize_required(&mut edit, value, place),
                KeywordKind::Default => self.normalize_default(&mut edit, *member, place),
                KeywordKind::Schema => {
                    closed |= key == "additionalProperties" && matches!(value, Node::Bool(false));
                    self.normalize_child(&mut edit, *member, place);
                }
                KeywordKind::SchemaMap => self.normalize_map(&mut edit, *member, place),
                KeywordKind::SchemaList => self.normalize_list(&mut edit, *member, place),
                KeywordKind::Items => {
                    has_items = true;
                    match value {
                        Node::List(_) => items_list = true,
                        Node::Bool(_) if self.profile.requires_items => {
                            self.normalize_boolean_items(&mut edit, value, place)
                        }
                        _ => self.normalize_child(&mut edit, *member, place),
                    }
                }
                KeywordKind::AdditionalItems => {
                    if !matches!(get(members, "items"), Some(Node::List(_))) {
                        edit.remove(key);
                        let detail = "additionalItems removed; it has no effect without an items array";
                        self.record(place, key, Effect::Dropped, detail);
                    }
                }
                KeywordKind::Dependencies => self.normalize_dependencies(&mut edit, *member, place),
                KeywordKind::NameLists => {
                    self.drop_unless(value.object().is_some(), "an object", &mut edit, *member, place)
                }
                KeywordKind::Ref => {
                    self.has_refs |= value.is_string();
                    self.has_names |= key != "$ref"
                        || !matches!(value, Node::Text(text) if text == "#" || text.starts_with("#/"));
                    self.may_be_unsatisfiable |= value.is_string();
                    self.drop_unless(value.is_string(), "a string", &mut edit, *member, place);
                }
                KeywordKind::Number => self.normalize_number(&mut edit, *member, place),
                KeywordKind::Exclusive => self.normalize_exclusive(&mut edit, *member, place),
                KeywordKind::Count => self.normalize_count(&mut edit, *member, place),
                KeywordKind::Flag => {
                    self.drop_unless(matches!(value, Node::Bool(_)), "a boolean", &mut edit, *member, place)
                }
                KeywordKind::Text => {
                    self.has_names |= key == "$id" && !place.is_root();
                    self.drop_unless(value.is_string(), "a string", &mut edit, *member, place)
                }
                KeywordKind::Pattern => self.normalize_pattern(&mut edit, *member, place),
                KeywordKind::Enum => {
                    self.may_be_unsatisfiable |=
                        matches!(value, Node::List([])) || get(members, "const").is_some();
                    self.drop_unless(value.list().is_some(), "an array", &mut edit, *member, place);
                }
                KeywordKind::Examples => {
                    if value.list().is_none() {
                        edit.put(key, self.list(&[value]));
                        self.record(place, key, Effect::Rewritten, "examples wrapped in an array");
                    }
                }
                KeywordKind::McpHeader => {
                    edit.remove(key);
                    let detail = format!("{key} removed; it is for the transport, not for the model");
                    self.record(place, key, Effect::Dropped, detail);
                }
                // The `$id` of draft-04.
                KeywordKind::Other if key == "id" => self.has_names |= !place.is_root(),
                // The `$dynamicRef` of 2019-09.
                KeywordKind::Other if key == "$recursiveRef" => {
                    self.has_refs |= value.is_string();
                    self.has_names = true;
                }
                KeywordKind::Other => {}
            }
        }
        self.unevaluated_items = 0;
        if items_list {
            self.normalize_items_list(&mut edit, place);
        }
        self.unevaluated_items = inner;
        if array && !has_items && self.profile.requires_items {
            self.add_items(&mut edit, place);
        }
        self.unevaluated_items = outer;
        self.may_be_unsatisfiable |= closed && self.requires_undescribed_key(members);
        self.finish(edit)
    }

    fn normalize_child(&mut self, edit: &mut ObjectEdit<'a>, member: Member<'a>, place: &Place<'_>) {
        let Member { key, value } = member;
        if !value.is_schema() {
            return self.drop_invalid(edit, member, place, "a schema");
        }
        let negates = usize::from(matches!(key, "not" | "if"));
        self.negations += negates;
        let normalized = self.normalize(value, &place.key(key));
        self.negations -= negates;
        if !is_unchanged(value, normalized) {
            edit.put(key, normalized);
        }
    }

    fn normalize_default(&mut self, edit: &mut ObjectEdit<'a>, member: Member<'a>, place: &Place<'_>) {
        let choice = self.defaults();
        if choice == Defaults::Keep {
            return;
        }
        edit.remove("default");
        if choice != Defaults::Describe {
            return self.record_dropped(place, member);
        }
        let value = excerpt(member.value);
        self.describe(edit, &format!("Default: {value}"));
        let detail = format!("default {value} moved to the description");
        self.record(place, "default", Effect::Dropped, detail);
    }

    /// Removes a keyword if its value is not `valid`.
    fn drop_unless(
        &mut self,
        valid: bool,
        expected: &str,
        edit: &mut ObjectEdit<'a>,
        member: Member<'a>,
        place: &Place<'_>,
    ) {
        if !valid {
            self.drop_invalid(edit, member, place, expected);
        }
    }

    fn drop_invalid(
        &mut self,
        edit: &mut ObjectEdit<'a>,
        Member { key, value }: Member<'a>,
        place: &Place<'_>,
        expected: &str,
    ) {
        edit.remove(key);
        let detail = format!("{key} removed; expected {expected}, found {}", value.kind());
        self.record(place, key, Effect::Rewritten, detail);
    }

    /// Records that an entry under `keyword` was removed because it is not a schema.
    fn record_not_a_schema(&mut self, place: &Place<'_>, keyword: &str, value: Node<'a>) {
        let detail = format!("entry removed; expected a schema, found {}", value.kind());
        self.record(place, keyword, Effect::Rewritten, detail);
    }

    /// Records that a rule is removed inside a `not`, `if` or `oneOf`, which then excludes more values.
    fn record_negated_removal(&mut self, place: &Place<'_>, keyword: &str) {
        if self.negations > 0 {
            let detail =
                format!("removing {keyword} makes the surrounding not, if or oneOf exclude more values");
            self.record(place, keyword, Effect::Narrowed, detail);
        }
    }
}

fn allows_array(node: Node<'_>) -> bool {
    match node {
        Node::Text(name) => name == "array",
        Node::List(names) => names.iter().any(|name| matches!(name, Node::Text("array"))),
        _ => false,
    }
}
