//! State of one tool's conversion: the arena, the recorded changes, and facts about its schema.

use std::collections::HashSet;

use bumpalo::Bump;

use super::Profile;
use super::budget::Budget;
use super::edit::ObjectEdit;
use super::excerpt::excerpt;
use super::profile::DefaultSupport;
use super::trace::Trace;
use super::walk::KeyLookup;
use crate::json::{Member, Node, Object, Place};
use crate::{Change, Defaults, Effect, Options};

pub(crate) struct Context<'a, 'o> {
    pub(crate) arena: &'a Bump,
    pub(crate) profile: &'static Profile,
    pub(crate) options: &'o Options,
    pub(crate) changes: Vec<Change>,
    /// The schema contains a `$ref`.
    pub(crate) has_refs: bool,
    /// The schema may contain a reference to a name instead of a JSON pointer from the root.
    pub(crate) has_names: bool,
    /// The schema contains something that may allow no value: `false`, an empty `enum`, an `allOf`, a `$ref`.
    pub(crate) may_be_unsatisfiable: bool,
    /// A keyword of an older specification was replaced, so the old `$schema` no longer applies.
    pub(crate) upgraded: bool,
    /// Number of enclosing `not`, `if` and `oneOf`: widening a schema inside them may narrow the outer
    /// schema.
    pub(crate) negations: usize,
    /// Number of enclosing schemas with `unevaluatedItems`: an `items` inside them evaluates every item.
    pub(crate) unevaluated_items: usize,
    pub(crate) budget: &'a Budget,
    /// Records where schemas come from, for a comparison.
    pub(crate) trace: Option<&'o Trace>,
}

impl<'a, 'o> Context<'a, 'o> {
    pub(crate) fn new(
        arena: &'a Bump,
        profile: &'static Profile,
        options: &'o Options,
        budget: &'a Budget,
    ) -> Self {
        Context {
            arena,
            profile,
            options,
            changes: Vec::new(),
            has_refs: false,
            has_names: false,
            may_be_unsatisfiable: false,
            upgraded: false,
            negations: 0,
            unevaluated_items: 0,
            budget,
            trace: None,
        }
    }

    /// Adds a change to the report.
    pub(crate) fn record(
        &mut self,
        place: &Place<'_>,
        keyword: &str,
        effect: Effect,
        detail: impl Into<String>,
    ) {
        // If the budget is exceeded, the next step of the conversion fails.
        let _ = self.budget.take(1);
        self.changes.push(Change {
            pointer: place.pointer(),
            keyword: keyword.to_owned(),
            effect,
            detail: detail.into(),
        });
    }

    /// Records an annotation that the dialect does not have.
    pub(crate) fn record_dropped(&mut self, place: &Place<'_>, annotation: Member<'_>) {
        let detail = format!("{} {}", annotation.key, excerpt(annotation.value));
        self.record(place, annotation.key, Effect::Dropped, detail);
    }

    pub(crate) fn record_unsatisfiable_property(&mut self, place: &Place<'_>) {
        let detail = "property removed; no value satisfies its schema";
        self.record(place, "properties", Effect::Rewritten, detail);
    }

    /// Records that a key in `required` got a schema because `properties` has none for it.
    pub(crate) fn record_undescribed_key(&mut self, place: &Place<'_>, key: &str) {
        let detail = format!("required key {key:?} has no schema; added, any value is allowed");
        self.record(place, "required", Effect::Rewritten, detail);
    }

    /// Records that a key was renamed because the API restricts its characters. In an open object the
    /// original key is now an additional property, and an additional property can no longer have the new
    /// name.
    pub(crate) fn record_renamed_key(&mut self, place: &Place<'_>, name: &str, open: bool) {
        let effect = if open { Effect::Widened } else { Effect::Rewritten };
        self.record(place, "properties", effect, format!("renamed to {name}"));
        if open {
            let detail = format!("an additional property named {name} can no longer be sent");
            self.record(place, "properties", Effect::Narrowed, detail);
        }
    }

    /// Records that a rule moved to the description, so keys that only it allows cannot be sent.
    pub(crate) fn record_lost_keys(&mut self, place: &Place<'_>, keyword: &str) {
        let detail = format!("keys allowed by {keyword} cannot be sent");
        self.record(place, keyword, Effect::Narrowed, detail);
    }

    pub(crate) fn record_implied_closed(&mut self, place: &Place<'_>) {
        let detail = "additionalProperties: false removed; this API assumes it";
        self.record(place, "additionalProperties", Effect::Rewritten, detail);
    }

    /// Takes the recorded changes, each once, since alternatives repeat the keywords next to them. If schemas
    /// `moved`, a change at a place that `root` does not have is reported at the nearest place above.
    pub(crate) fn take_changes(&mut self, root: Node<'a>, moved: bool) -> Vec<Change> {
        let mut changes = std::mem::take(&mut self.changes);
        if changes.len() > 1 {
            let mut seen = HashSet::with_capacity(changes.len());
            let new: Vec<bool> = changes.iter().map(|change| seen.insert(change)).collect();
            let mut new = new.into_iter();
            changes.retain(|_| new.next() == Some(true));
        }
        if moved {
            let lookup = KeyLookup::default();
            for change in &mut changes {
                while lookup.resolve(root, &change.pointer).is_none() {
                    let end = change.pointer.rfind('/').unwrap_or(0);
                    change.pointer.truncate(end);
                }
            }
        }
        changes
    }

    pub(crate) fn object(&self, members: &[Member<'a>]) -> Node<'a> {
        Node::Object(self.members(members))
    }

    pub(crate) fn members(&self, members: &[Member<'a>]) -> Object<'a> {
        self.arena.alloc_slice_copy(members)
    }

    /// Returns the edited object, or the original if nothing changed.
    pub(crate) fn finish(&self, edit: ObjectEdit<'a>) -> Object<'a> {
        edit.edited().map_or(edit.original(), |members| self.members(members))
    }

    /// Returns a copy of `members` without `key`.
    pub(crate) fn without(&self, members: Object<'a>, key: &str) -> Object<'a> {
        let mut edit = ObjectEdit::of(members);
        edit.remove(key);
        self.finish(edit)
    }

    /// Returns a copy of `members` with `key` set to `value`.
    pub(crate) fn with(&self, members: Object<'a>, key: &'a str, value: Node<'a>) -> Node<'a> {
        let mut edit = ObjectEdit::of(members);
        edit.put(key, value);
        self.object(edit.members())
    }

    pub(crate) fn list(&self, nodes: &[Node<'a>]) -> Node<'a> {
        Node::List(self.arena.alloc_slice_copy(nodes))
    }

    /// Returns the schema `{keyword: [schemas]}`.
    pub(crate) fn composed(&self, keyword: &'static str, schemas: &[Node<'a>]) -> Node<'a> {
        self.object(&[Member::new(keyword, self.list(schemas))])
    }

    pub(crate) fn text(&self, text: &str) -> Node<'a> {
        Node::Text(self.arena.alloc_str(text))
    }

    pub(crate) fn number(&self, number: usize) -> Node<'a> {
        Node::Number(self.arena.alloc_str(&number.to_string()))
    }

    /// Appends a line to the description.
    pub(crate) fn describe(&self, edit: &mut ObjectEdit<'a>, line: &str) {
        let text = match edit.get("description").and_then(|node| node.text(self.arena)) {
            Some(text) if !text.trim().is_empty() => format!("{}\n{line}", text.trim_end()),
            _ => line.to_owned(),
        };
        edit.put("description", self.text(&text));
    }

    /// Appends a rule that the schema cannot express to the description.
    pub(crate) fn describe_rule(&self, edit: &mut ObjectEdit<'a>, rule: Member<'a>) {
        self.describe(edit, &format!("{}: {}", rule.key, excerpt(rule.value)));
    }

    /// Returns what to do with a `default`.
    pub(crate) fn defaults(&self) -> Defaults {
        match (self.options.defaults, self.profile.defaults) {
            (Defaults::PerDialect, DefaultSupport::Kept) => Defaults::Keep,
            (Defaults::PerDialect, _) | (Defaults::Keep, DefaultSupport::Unsupported) => Defaults::Drop,
            (chosen, _) => chosen,
        }
    }
}
