//! Maps: objects whose keys have no names, and what is said about keys beside the named ones.

use super::object::{Named, Others};
use super::{Lower, Lowered, Lowering, Stop};
use crate::arguments::{ObjectPlan, Plan, Rest};
use crate::json::{Member, Node, Object, Place, get};
use crate::schema::brief::brief;
use crate::schema::draft::Draft;
use crate::{Effect, names};

impl<'a> Lowering<'_, 'a, '_> {
    /// An object without named properties.
    pub(super) fn map(
        &mut self,
        members: Object<'a>,
        values: Node<'a>,
        leftover: &[Member<'a>],
        place: &Place<'_>,
    ) -> Lower<'a> {
        if self.grammar.strict {
            if !self.context.options.reshape {
                return Err(self.unsayable(place, "additionalProperties", "a map, whose keys are not known"));
            }
            let lowered = match self.lower(values, &place.key("additionalProperties")) {
                // No value fits, so the map is always empty; an empty closed object says that.
                Err(Stop::Never) => {
                    let mut draft = self.begin(members, place);
                    draft.put_first("type", Node::Text("object"));
                    self.finish_closed(&mut draft, &[]);
                    return Ok(Lowered { node: self.context.object(draft.members()), plan: Plan::Same });
                }
                other => other?,
            };
            let mut draft = self.begin(members, place);
            let list = self.entries(lowered.node, "A map, as a list of its entries");
            for member in list.object().unwrap_or_default() {
                if member.key != "description" || draft.get("description").is_none() {
                    draft.put(member.key, member.value);
                }
            }
            self.note(
                place,
                "additionalProperties",
                Effect::Rewritten,
                "a map, asked for as a list of entries",
            );
            self.object_rules(&mut draft, members, place);
            self.tell(&mut draft, leftover, place);
            return Ok(Lowered {
                node: self.context.object(draft.members()),
                plan: Plan::Entries(Box::new(lowered.plan)),
            });
        }
        if !self.grammar.free_objects {
            return self.unsayable_or_text(
                members,
                place,
                "additionalProperties",
                "a map, whose keys are not known",
            );
        }
        let mut draft = self.begin(members, place);
        draft.put_first("type", Node::Text("object"));
        self.tell_patterns(&mut draft, members);
        let free = matches!(values, Node::Bool(true) | Node::Object([]));
        let mut rest = Rest::Same;
        if self.grammar.maps {
            // Said even where the original is silent: some APIs close an object that does not say it.
            let lowered = match self.lower(values, &place.key("additionalProperties")) {
                Err(Stop::Never) => Lowered { node: Node::Bool(false), plan: Plan::Same },
                other => other?,
            };
            let silent = get(members, "additionalProperties").is_none();
            if !silent {
                draft.put("additionalProperties", anything_goes(lowered.node, values));
            } else if !self.grammar.title {
                draft.put("additionalProperties", Node::Bool(true));
                self.note(
                    place,
                    "additionalProperties",
                    Effect::Rewritten,
                    "free-form: said aloud, since silence means closed here",
                );
            }
            rest = Rest::Plan(lowered.plan);
        } else if !free {
            self.context.describe(&mut draft, &format!("The value of each key: {}", brief(values)));
            self.note(
                place,
                "additionalProperties",
                Effect::Widened,
                "what the values must be is only in the description",
            );
        }
        self.object_rules(&mut draft, members, place);
        self.tell(&mut draft, leftover, place);
        let plan = ObjectPlan { fields: Vec::new(), rest, fill: false }.into_plan();
        Ok(Lowered { node: self.typed(draft.members()), plan })
    }

    /// Which keys match a pattern can only be told.
    pub(super) fn tell_patterns(&self, draft: &mut Draft<'a>, members: Object<'a>) {
        if let Some(patterns @ Node::Object([_, ..])) = get(members, "patternProperties") {
            self.context.describe(draft, &format!("Keys by pattern: {}", brief(patterns)));
        }
    }

    /// A list of `{"key", "value"}`.
    pub(super) fn entries(&self, value: Node<'a>, description: &'static str) -> Node<'a> {
        let context = &self.context;
        let key = context.object(&[Member::new("type", Node::Text("string"))]);
        let mut entry = Draft::of(&[]);
        entry.put("type", Node::Text("object"));
        self.finish_closed(&mut entry, &[Member::new("key", key), Member::new("value", value)]);
        context.object(&[
            Member::new("type", Node::Text("array")),
            Member::new("description", Node::Text(description)),
            Member::new("items", context.object(entry.members())),
        ])
    }

    /// What becomes of keys without a name; for a strict grammar they become a list of entries if that was asked for.
    pub(super) fn rest(
        &mut self,
        draft: &mut Draft<'a>,
        named: &mut Named<'a>,
        others: Others<'a>,
        place: &Place<'_>,
    ) -> Result<Option<Rest>, Stop> {
        let Others::Open(values) = others else { return Ok(Some(Rest::Same)) };
        if self.grammar.maps {
            let here = place.key("additionalProperties");
            return match self.lower(values, &here) {
                Ok(lowered) => {
                    draft.put("additionalProperties", anything_goes(lowered.node, values));
                    Ok(Some(Rest::Plan(lowered.plan)))
                }
                Err(Stop::Never) => Ok(None),
                Err(stop) => Err(stop),
            };
        }
        if self.grammar.strict {
            if !self.context.options.reshape {
                return Err(self.unsayable(place, "additionalProperties", "keys without a name are allowed"));
            }
            let lowered = match self.lower(values, &place.key("additionalProperties")) {
                Err(Stop::Never) => return Ok(None),
                other => other?,
            };
            let mut key = "additionalProperties".to_owned();
            while named.fields.iter().any(|field| field.wire == key) {
                key.push('_');
            }
            let wire: &'a str = self.context.arena.alloc_str(&key);
            let list = self.entries(lowered.node, "Further keys of this object, one entry each");
            named.properties.push(Member::new(wire, list));
            named.required.push(Node::Text(wire));
            // An entry may name a described key, with a value that the description does not allow.
            let effect = if named.fields.is_empty() { Effect::Rewritten } else { Effect::Widened };
            let detail = format!("keys without a name are asked for as a list of entries, `{key}`");
            self.note(place, "additionalProperties", effect, detail);
            return Ok(Some(Rest::Entries { wire: key, plan: lowered.plan }));
        }
        Ok(Some(Rest::Same))
    }

    /// The line about keys without a name.
    pub(super) fn say_others(
        &mut self,
        draft: &mut Draft<'a>,
        members: Object<'a>,
        others: Others<'a>,
        rest: &Rest,
        place: &Place<'_>,
    ) {
        let said = get(members, "additionalProperties");
        match others {
            Others::Open(values) if !self.grammar.maps && !matches!(rest, Rest::Entries { .. }) => {
                let what = if matches!(values, Node::Bool(true) | Node::Object([])) {
                    String::new()
                } else {
                    format!(": {}", brief(values))
                };
                self.context.describe(draft, &format!("Other keys are allowed{what}"));
                self.note(
                    place,
                    "additionalProperties",
                    Effect::Narrowed,
                    "keys without a name cannot be offered",
                );
            }
            Others::Open(_) if self.grammar.closed => draft.put("additionalProperties", Node::Bool(false)),
            Others::Open(_) => {}
            Others::None if self.grammar.closed => {
                draft.put("additionalProperties", Node::Bool(false));
                if said.is_none() {
                    self.note(
                        place,
                        "additionalProperties",
                        Effect::Rewritten,
                        "closed: it promised no other keys",
                    );
                }
            }
            Others::None if self.grammar.maps => {
                if said.is_some() {
                    draft.put("additionalProperties", Node::Bool(false));
                }
            }
            Others::None
                if said.is_some()
                    && !place.pointer().is_empty()
                    && draft.get("properties").and_then(Node::object).unwrap_or_default().is_empty() =>
            {
                let detail = "that no key may come cannot be said";
                self.note(place, "additionalProperties", Effect::Widened, detail);
            }
            Others::None if said.is_some() => {
                self.note(
                    place,
                    "additionalProperties",
                    Effect::Rewritten,
                    "left out: an object with named properties is closed",
                );
            }
            Others::None => {}
        }
    }

    /// Reports rules that name a key which no property describes: it was never promised, yet the rule expects it.
    pub(super) fn rules_about_others(
        &mut self,
        members: Object<'a>,
        leftover: &[Member<'a>],
        place: &Place<'_>,
    ) {
        const RULES: [&str; 10] = [
            "if",
            "then",
            "else",
            "not",
            "dependentRequired",
            "dependentSchemas",
            "dependencies",
            "anyOf",
            "oneOf",
            "allOf",
        ];
        let own = get(members, "properties").and_then(Node::object).unwrap_or_default();
        for rule in members.iter().chain(leftover).filter(|rule| RULES.contains(&rule.key)) {
            if names::property_keys_in(*rule, self.context.arena).iter().any(|name| get(own, name).is_none())
            {
                self.note(
                    place,
                    rule.key,
                    Effect::Narrowed,
                    "a key that only this rule names cannot be offered",
                );
            }
        }
    }
}

/// A schema for all other keys; where anything goes, as the original says it.
fn anything_goes<'a>(lowered: Node<'a>, original: Node<'a>) -> Node<'a> {
    match (lowered, original) {
        (Node::Object([]), Node::Bool(true) | Node::Object([])) => original,
        (Node::Object([]), _) => Node::Bool(true),
        _ => lowered,
    }
}
