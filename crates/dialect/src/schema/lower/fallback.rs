//! Fallbacks for what the grammar lacks: text in the description, or a string that contains JSON.

use super::{LowerResult, Lowered, Lowering, MergedSchema, may_allow_keys};
use crate::arguments::Plan;
use crate::json::{Member, Node, Object, Place, get};
use crate::schema::edit::ObjectEdit;
use crate::schema::excerpt::excerpt;
use crate::schema::is_annotation;
use crate::{Defaults, Effect};

impl<'a> Lowering<'_, 'a, '_> {
    /// Lowers a schema that allows every value.
    pub(super) fn any_value(&mut self, members: Object<'a>, place: &Place<'_>) -> LowerResult<'a> {
        if self.grammar.untyped {
            let output = self.start_output(members, place);
            return Ok(Lowered { node: self.context.object(output.members()), plan: Plan::Same });
        }
        if self.must_be_exact() {
            return Err(self.inexpressible(place, "type is missing, so any value is allowed"));
        }
        let detail = "type is missing, so any value is allowed; encoded as a JSON string";
        self.record(place, "type", Effect::Rewritten, detail);
        Ok(self.json_text(members, place, "Any value"))
    }

    /// Lowers rules that do not imply a type.
    pub(super) fn untyped_rules(&mut self, schema: MergedSchema<'_, 'a>) -> LowerResult<'a> {
        let MergedSchema { members, leftover, place } = schema;
        if !self.grammar.untyped {
            return self.fall_back_to_json_text(members, place, "type", "type is missing");
        }
        let mut output = self.start_output(members, place);
        self.describe_rules(&mut output, &rules(members), place);
        self.describe_rules(&mut output, leftover, place);
        Ok(Lowered { node: self.context.object(output.members()), plan: Plan::Same })
    }

    /// Encodes a value that the grammar cannot express as a JSON string. In a strict grammar this is an
    /// error, unless the caller allows reshaping.
    pub(super) fn fall_back_to_json_text(
        &mut self,
        members: Object<'a>,
        place: &Place<'_>,
        keyword: &str,
        reason: &str,
    ) -> LowerResult<'a> {
        if self.must_be_exact() {
            return Err(self.inexpressible(place, reason));
        }
        self.record(place, keyword, Effect::Widened, format!("{reason}; encoded as a JSON string"));
        let what = format!("A value that matches {}", excerpt(self.context.object(&rules(members))));
        Ok(self.json_text(members, place, &what))
    }

    /// Encodes a schema that allows only `null` as a JSON string.
    pub(super) fn null_as_json_text(&mut self, schema: Node<'a>, place: &Place<'_>) -> LowerResult<'a> {
        let members = schema.object().unwrap_or_default();
        self.fall_back_to_json_text(members, place, "type", "type allows only null")
    }

    /// Returns a string schema for the JSON text of `what`.
    fn json_text(&mut self, members: Object<'a>, place: &Place<'_>, what: &str) -> Lowered<'a> {
        let mut output = self.start_output(members, place);
        output.put_first("type", Node::Text("string"));
        self.context.describe(&mut output, &format!("{what}, encoded as JSON text"));
        let node = self.typed(output.members());
        Lowered { node, plan: Plan::JsonText }
    }

    /// Starts a schema with the annotations of `members` that the grammar has, and records the others as
    /// dropped.
    pub(super) fn start_output(&mut self, members: Object<'a>, place: &Place<'_>) -> ObjectEdit<'a> {
        let mut output = ObjectEdit::of(&[]);
        let described = get(members, "description").is_some();
        for member in members {
            match member.key {
                "description" => output.put("description", member.value),
                "title" if self.grammar.title => output.put("title", member.value),
                "title" if !described => {
                    output.put("description", member.value);
                    self.record(place, "title", Effect::Rewritten, "title used as the description");
                }
                "default" if self.context.defaults() == Defaults::Keep => output.put("default", member.value),
                "$defs" | "definitions" | "nullable" => {}
                key if is_annotation(key) => self.context.record_dropped(place, *member),
                _ => {}
            }
        }
        output
    }

    /// Moves rules to the description, and records each as widened.
    pub(super) fn describe_rules(
        &mut self,
        output: &mut ObjectEdit<'a>,
        rules: &[Member<'a>],
        place: &Place<'_>,
    ) {
        for rule in rules {
            if may_allow_keys(rule.key) {
                self.context.record_lost_keys(place, rule.key);
            }
            self.context.describe_rule(output, *rule);
            let detail = format!("{} {} moved to the description", rule.key, excerpt(rule.value));
            self.record(place, rule.key, Effect::Widened, detail);
        }
    }
}

/// Returns the members that are not annotations.
fn rules<'a>(members: Object<'a>) -> Vec<Member<'a>> {
    members.iter().filter(|member| !is_annotation(member.key)).copied().collect()
}
