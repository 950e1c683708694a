//! Strings, numbers, booleans and null.

use super::kinds::implied_type;
use super::{Lower, Lowered, Lowering};
use crate::Effect;
use crate::arguments::Plan;
use crate::json::{Decimal, Member, Node, Object, Place, get};
use crate::schema::draft::Draft;
use crate::schema::is_annotation;
use crate::schema::pattern;
use crate::schema::profile::{Formats, Patterns};

impl<'a> Lowering<'_, 'a, '_> {
    pub(super) fn scalar(
        &mut self,
        name: &'static str,
        members: Object<'a>,
        leftover: &[Member<'a>],
        place: &Place<'_>,
    ) -> Lower<'a> {
        let mut draft = self.begin(members, place);
        draft.put_first("type", Node::Text(name));
        let patterned = !self.grammar.lengths_beside_pattern
            && get(members, "pattern")
                .and_then(|node| node.text(self.context.arena))
                .is_some_and(|text| self.takes_pattern(text));
        for member in members {
            if patterned && matches!(member.key, "minLength" | "maxLength") {
                self.tell(&mut draft, &[*member], place);
                continue;
            }
            if !is_annotation(member.key) && !matches!(member.key, "type" | "enum" | "const") {
                self.bound(name, &mut draft, *member, place);
            }
        }
        self.tell(&mut draft, leftover, place);
        Ok(Lowered { node: self.typed(draft.members()), plan: Plan::Same })
    }

    /// One keyword of a schema of type `name`: kept, put in other words, or told.
    pub(super) fn bound(&mut self, name: &str, draft: &mut Draft<'a>, member: Member<'a>, place: &Place<'_>) {
        let Member { key, value } = member;
        let of = implied_type(key);
        let fits = of == Some(name) || of == Some("number") && name == "integer";
        if !fits {
            return match of {
                Some(other) => {
                    self.note(
                        place,
                        key,
                        Effect::Rewritten,
                        format!("it speaks of type `{other}`, so it says nothing about `{name}`"),
                    );
                }
                None => self.tell(draft, &[member], place),
            };
        }
        let kept = match (key, value) {
            ("format", _) => return self.format(draft, value, place),
            ("pattern", _) => {
                let text = value.text(self.context.arena).unwrap_or_default();
                self.takes_pattern(text)
            }
            ("minItems", Node::Number(digits)) if self.grammar.small_min_items => matches!(digits, "0" | "1"),
            _ => self.grammar.bounds.contains(&key),
        };
        if kept {
            return draft.put(key, value);
        }
        if name == "integer"
            && let Some((bound, digits)) = inclusive(key, value)
            && self.grammar.bounds.contains(&bound)
        {
            let tighter = match draft.get(bound) {
                Some(Node::Number(existing)) => {
                    (Decimal::of(existing) > Decimal::of(&digits)) == (bound == "minimum")
                }
                _ => false,
            };
            if !tighter {
                draft.put(bound, Node::Number(self.context.arena.alloc_str(&digits)));
            }
            return self.note(
                place,
                key,
                Effect::Rewritten,
                format!("`{bound}` {digits} says the same of integers"),
            );
        }
        self.tell(draft, &[member], place);
    }

    fn takes_pattern(&self, text: &str) -> bool {
        match self.grammar.patterns {
            Patterns::Any => true,
            Patterns::None => false,
            Patterns::Simple => pattern::is_simple(text),
            Patterns::WithoutLookaround => pattern::is_without_lookaround(text),
        }
    }

    fn format(&mut self, draft: &mut Draft<'a>, value: Node<'a>, place: &Place<'_>) {
        let name = value.text(self.context.arena).unwrap_or_default();
        let kept = match self.grammar.formats {
            Formats::Any => true,
            Formats::Only(names) => names.contains(&name),
        };
        if kept {
            return draft.put("format", value);
        }
        self.context.describe(draft, &format!("Format: {name}"));
        self.note(place, "format", Effect::Dropped, format!("`{name}`, now only in the description"));
    }
}

/// An exclusive bound on integers as an inclusive one.
fn inclusive(key: &str, value: Node<'_>) -> Option<(&'static str, String)> {
    let Node::Number(digits) = value else { return None };
    let number: i128 = digits.parse().ok()?;
    match key {
        "exclusiveMinimum" => Some(("minimum", (number.checked_add(1)?).to_string())),
        "exclusiveMaximum" => Some(("maximum", (number.checked_sub(1)?).to_string())),
        _ => None,
    }
}
