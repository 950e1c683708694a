//! What the grammar has no word for: told in the description, or sent as JSON text.

use super::{Lower, Lowered, Lowering, speaks_of_keys};
use crate::Effect;
use crate::arguments::Plan;
use crate::json::{Member, Node, Object, Place, get};
use crate::schema::brief::brief;
use crate::schema::draft::Draft;
use crate::schema::is_annotation;

impl<'a> Lowering<'_, 'a, '_> {
    /// A schema that allows everything.
    pub(super) fn anything(&mut self, members: Object<'a>, place: &Place<'_>) -> Lower<'a> {
        if self.grammar.untyped {
            let draft = self.begin(members, place);
            return Ok(Lowered { node: self.context.object(draft.members()), plan: Plan::Same });
        }
        if self.grammar.strict && !self.context.options.reshape {
            return Err(self.unsayable(place, "type", "any value at all is allowed here"));
        }
        self.note(place, "type", Effect::Rewritten, "any value at all: asked for as JSON text");
        Ok(self.json_text(members, place, "any JSON value"))
    }

    /// Rules that say nothing about the type: only words are left for them.
    pub(super) fn untyped_rules(
        &mut self,
        members: Object<'a>,
        leftover: &[Member<'a>],
        place: &Place<'_>,
    ) -> Lower<'a> {
        if self.grammar.untyped {
            let mut draft = self.begin(members, place);
            let rules: Vec<Member<'a>> =
                members.iter().filter(|member| !is_annotation(member.key)).copied().collect();
            self.tell(&mut draft, &rules, place);
            self.tell(&mut draft, leftover, place);
            return Ok(Lowered { node: self.context.object(draft.members()), plan: Plan::Same });
        }
        self.unsayable_or_text(members, place, "type", "no type is given")
    }

    /// What cannot be said: a stop for a strict dialect, JSON text where that was asked for or is the dialect's way.
    pub(super) fn unsayable_or_text(
        &mut self,
        members: Object<'a>,
        place: &Place<'_>,
        keyword: &'static str,
        why: &str,
    ) -> Lower<'a> {
        if self.grammar.strict && !self.context.options.reshape {
            return Err(self.unsayable(place, keyword, why));
        }
        self.note(place, keyword, Effect::Widened, format!("{why}: asked for as JSON text"));
        let rules: Vec<Member<'a>> =
            members.iter().filter(|member| !is_annotation(member.key)).copied().collect();
        let hint = format!("a value that fits {}", brief(self.context.object(&rules)));
        Ok(self.json_text(members, place, &hint))
    }

    /// A string that holds the JSON text of the value.
    pub(super) fn json_text(&mut self, members: Object<'a>, place: &Place<'_>, what: &str) -> Lowered<'a> {
        let mut draft = self.begin(members, place);
        draft.put_first("type", Node::Text("string"));
        self.context.describe(&mut draft, &format!("JSON text of {what}."));
        let node = self.typed(draft.members());
        Lowered { node, plan: Plan::JsonText }
    }

    /// A new schema with the description of `members`, other annotations noted as dropped.
    pub(super) fn begin(&mut self, members: Object<'a>, place: &Place<'_>) -> Draft<'a> {
        let mut draft = Draft::of(&[]);
        let described = get(members, "description").is_some();
        for member in members {
            match member.key {
                "description" => draft.put("description", member.value),
                "title" if self.grammar.title => draft.put("title", member.value),
                "title" if !described => {
                    draft.put("description", member.value);
                    self.note(place, "title", Effect::Rewritten, "now the description");
                }
                "default"
                    if self.context.profile.takes_defaults
                        && self.context.defaults() == crate::Defaults::Keep =>
                {
                    draft.put("default", member.value);
                }
                "$defs" | "definitions" | "nullable" => {}
                key if is_annotation(key) => {
                    self.note(place, key, Effect::Dropped, brief(member.value));
                }
                _ => {}
            }
        }
        draft
    }

    /// Puts rules into words, and reports each as widened.
    pub(super) fn tell(&mut self, draft: &mut Draft<'a>, rules: &[Member<'a>], place: &Place<'_>) {
        for rule in rules {
            if speaks_of_keys(rule.key) {
                self.note(place, rule.key, Effect::Narrowed, "keys that it allows cannot be offered");
            }
            self.context.describe(draft, &format!("{}: {}", rule.key, brief(rule.value)));
            self.note(
                place,
                rule.key,
                Effect::Widened,
                format!("{}, now only in the description", brief(rule.value)),
            );
        }
    }
}
