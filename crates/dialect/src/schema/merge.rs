//! Two schemas that hold at once, as one.
//!
//! Merging is exact or it does not happen: what cannot be said in one schema is handed back, for the caller to keep
//! beside it or to tell in words. One level is merged; where both name the same property, an `allOf` of the two is left
//! for whoever lowers that property.

use super::context::Context;
use super::draft::Draft;
use super::is_annotation;
use super::types::TypeSet;
use crate::json::{Decimal, KeyIndex, Member, Node, Object, get};

/// Why two schemas cannot be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clash {
    /// No value satisfies both.
    Never,
    /// So much was merged already that it can only be meant to do harm.
    TooLarge,
}

/// How many members may be copied while the schemas of one tool are merged.
const BUDGET: usize = 1_000_000;

impl<'a> Context<'a, '_> {
    /// Both `a` and `b`. Annotations of `a` win. Keywords of `b` that found no place go to `leftover`.
    pub(crate) fn merge(
        &self,
        a: Object<'a>,
        b: Object<'a>,
        leftover: &mut Vec<Member<'a>>,
    ) -> Result<Object<'a>, Clash> {
        let size = |schema: Object<'a>| {
            schema.len() + get(schema, "properties").and_then(Node::object).map_or(0, <[_]>::len)
        };
        self.merged.set(self.merged.get() + 1 + size(a) + size(b));
        if self.merged.get() > BUDGET {
            return Err(Clash::TooLarge);
        }
        let mut merged = Draft::of(a);
        let patterned = |schema: Object<'a>| get(schema, "patternProperties").is_some();
        let bounded = |schema: Object<'a>| {
            get(schema, "additionalProperties").is_some_and(|rest| !matches!(rest, Node::Bool(true)))
        };
        if (patterned(a) || patterned(b))
            && (bounded(a) || bounded(b))
            && speaks_of_keys(a)
            && speaks_of_keys(b)
        {
            // Which keys a pattern covers cannot be told from the names alone.
            let (object, rest): (Vec<Member<'a>>, Vec<Member<'a>>) =
                b.iter().partition(|member| is_about_keys(member.key));
            leftover.extend(object);
            for member in rest {
                self.merge_keyword(&mut merged, member, leftover)?;
            }
            return Ok(self.members(merged.members()));
        }
        self.merge_properties(&mut merged, a, b)?;
        for member in b {
            if !matches!(member.key, "properties" | "additionalProperties") {
                self.merge_keyword(&mut merged, *member, leftover)?;
            }
        }
        if let Some(values) = merged.get("enum").and_then(Node::list)
            && values.is_empty()
        {
            return Err(Clash::Never);
        }
        Ok(if merged.is_edited() { self.members(merged.members()) } else { a })
    }

    fn merge_keyword(
        &self,
        merged: &mut Draft<'a>,
        member: Member<'a>,
        leftover: &mut Vec<Member<'a>>,
    ) -> Result<(), Clash> {
        let Member { key, value } = member;
        let Some(existing) = merged.get(key) else {
            if key == "const" && merged.get("enum").is_some() {
                let kept = keep(merged.get("enum"), |other| other.same(value));
                if kept.is_empty() {
                    return Err(Clash::Never);
                }
                merged.remove("enum");
            }
            if key == "enum"
                && let Some(constant) = merged.get("const")
            {
                let allowed =
                    value.list().is_some_and(|values| values.iter().any(|other| other.same(constant)));
                return if allowed { Ok(()) } else { Err(Clash::Never) };
            }
            merged.put(key, value);
            return Ok(());
        };
        if existing.same(value) {
            return Ok(());
        }
        match key {
            "type" => {
                let types = types_of(existing).and(types_of(value));
                if types.is_empty() {
                    return Err(Clash::Never);
                }
                let names: Vec<Node<'a>> = types.names().into_iter().map(Node::Text).collect();
                merged.put("type", if names.len() == 1 { names[0] } else { self.list(&names) });
            }
            "enum" => {
                let kept = keep(Some(existing), |one| {
                    value.list().is_some_and(|others| others.iter().any(|other| other.same(one)))
                });
                if kept.is_empty() {
                    return Err(Clash::Never);
                }
                merged.put("enum", self.list(&kept));
            }
            "const" => return Err(Clash::Never),
            "required" => {
                let mut names = existing.list().unwrap_or_default().to_vec();
                for name in value.list().unwrap_or_default() {
                    if !names.iter().any(|other| other.same(*name)) {
                        names.push(*name);
                    }
                }
                merged.put("required", self.list(&names));
            }
            "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => {
                merged.put(key, tighter(existing, value, true));
            }
            "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => {
                merged.put(key, tighter(existing, value, false));
            }
            "items" => merged.put("items", self.both(existing, value)),
            "$defs" | "definitions" => {
                // Definitions are found by pointer, never by what they were merged into.
            }
            "uniqueItems" => merged.put(key, Node::Bool(true)),
            _ if is_annotation(key) => {}
            _ => leftover.push(member),
        }
        Ok(())
    }

    /// The properties of both, and what both say about all other keys.
    fn merge_properties(&self, merged: &mut Draft<'a>, a: Object<'a>, b: Object<'a>) -> Result<(), Clash> {
        let ours = get(a, "properties").and_then(Node::object).unwrap_or_default();
        let theirs = get(b, "properties").and_then(Node::object).unwrap_or_default();
        let (our_rest, their_rest) = (get(a, "additionalProperties"), get(b, "additionalProperties"));
        let (our_keys, their_keys) = (KeyIndex::of(ours), KeyIndex::of(theirs));
        let mut properties: Vec<Member<'a>> = Vec::with_capacity(ours.len() + theirs.len());
        let mut add = |key: &'a str, schema: Node<'a>| properties.push(Member::new(key, schema));
        for member in ours {
            match their_keys.get(member.key) {
                Some(other) => add(member.key, self.both(member.value, other)),
                None => match their_rest {
                    Some(rest) => add(member.key, self.both(member.value, rest)),
                    None => add(member.key, member.value),
                },
            }
        }
        for member in theirs.iter().filter(|member| our_keys.get(member.key).is_none()) {
            match our_rest {
                Some(rest) => add(member.key, self.both(rest, member.value)),
                None => add(member.key, member.value),
            }
        }
        if !theirs.is_empty() || their_rest.is_some() {
            let required = |schema: Object<'a>, key: &str| {
                get(schema, "required")
                    .and_then(Node::list)
                    .is_some_and(|names| names.iter().any(|name| name.text(self.arena) == Some(key)))
            };
            if properties.iter().any(|member| {
                matches!(member.value, Node::Bool(false))
                    && (required(a, member.key) || required(b, member.key))
            }) {
                return Err(Clash::Never);
            }
            if get(a, "properties").is_some() || get(b, "properties").is_some() {
                merged.put("properties", self.object(&properties));
            }
        }
        match (our_rest, their_rest) {
            (None, Some(rest)) => merged.put("additionalProperties", rest),
            (Some(ours), Some(theirs)) => merged.put("additionalProperties", self.both(ours, theirs)),
            _ => {}
        }
        Ok(())
    }

    /// One schema for both, their meeting put off to when it is looked at.
    pub(crate) fn both(&self, a: Node<'a>, b: Node<'a>) -> Node<'a> {
        match (a, b) {
            (Node::Bool(false), _) | (_, Node::Bool(false)) => Node::Bool(false),
            (Node::Bool(true) | Node::Object([]), other) | (other, Node::Bool(true) | Node::Object([])) => {
                other
            }
            (a, b) if a.same(b) => a,
            // Side by side, not inside each other: nothing may nest deeper than it did.
            (Node::Object([Member { key: "allOf", value: Node::List(parts) }]), b) => {
                self.merged.set(self.merged.get() + parts.len());
                let mut parts = parts.to_vec();
                parts.push(b);
                self.object(&[Member::new("allOf", self.list(&parts))])
            }
            (a, b) => self.object(&[Member::new("allOf", self.list(&[a, b]))]),
        }
    }
}

/// Keeps the values of an `enum` that pass.
fn keep<'a>(values: Option<Node<'a>>, mut passes: impl FnMut(Node<'a>) -> bool) -> Vec<Node<'a>> {
    values.and_then(Node::list).unwrap_or_default().iter().copied().filter(|value| passes(*value)).collect()
}

fn types_of(node: Node<'_>) -> TypeSet {
    TypeSet::of(&[Member::new("type", node)])
}

fn tighter<'a>(a: Node<'a>, b: Node<'a>, larger: bool) -> Node<'a> {
    let (Node::Number(left), Node::Number(right)) = (a, b) else { return a };
    if (Decimal::of(left) > Decimal::of(right)) == larger { a } else { b }
}

fn is_about_keys(keyword: &str) -> bool {
    matches!(keyword, "properties" | "additionalProperties" | "patternProperties")
}

fn speaks_of_keys(members: Object<'_>) -> bool {
    members.iter().any(|member| is_about_keys(member.key))
}
