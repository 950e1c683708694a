//! Merges two schemas that both apply into one.
//!
//! Merging never changes the meaning: a rule that does not fit into one schema is returned to the caller.
//! Only one level is merged. A property of both schemas becomes an `allOf`, which is merged when that
//! property is lowered.

use super::budget::{BudgetExceeded, data_steps};
use super::context::Context;
use super::edit::ObjectEdit;
use super::is_annotation;
use super::keywords::{object_at, required_keys};
use super::types::TypeSet;
use crate::json::{Decimal, KeyIndex, Member, Node, Object, ValueSet, get};

/// The reason why two schemas cannot be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeError {
    /// No value satisfies both.
    Unsatisfiable,
    BudgetExceeded,
}

impl From<BudgetExceeded> for MergeError {
    fn from(_: BudgetExceeded) -> MergeError {
        MergeError::BudgetExceeded
    }
}

impl<'a> Context<'a, '_> {
    /// Merges `b` into `a`. Annotations of `a` win. Rules of `b` that cannot be merged go to `leftover`.
    pub(crate) fn merge(
        &self,
        a: Object<'a>,
        b: Object<'a>,
        leftover: &mut Vec<Member<'a>>,
    ) -> Result<Object<'a>, MergeError> {
        let size = |schema: Object<'a>| schema.len() + object_at(schema, "properties").len();
        self.budget.take(size(a) + size(b))?;
        self.budget.take_schema(b)?;
        let mut merged = ObjectEdit::of(a);
        let patterned = |schema: Object<'a>| get(schema, "patternProperties").is_some();
        let bounded = |schema: Object<'a>| {
            get(schema, "additionalProperties").is_some_and(|rest| !matches!(rest, Node::Bool(true)))
        };
        let has_key_rules = |schema: Object<'a>| schema.iter().any(|member| is_key_rule(member.key));
        if (patterned(a) || patterned(b))
            && (bounded(a) || bounded(b))
            && has_key_rules(a)
            && has_key_rules(b)
        {
            // `additionalProperties` of one schema would no longer see which keys the patterns of the other
            // cover.
            let (key_rules, rest): (Vec<Member<'a>>, Vec<Member<'a>>) =
                b.iter().partition(|member| is_key_rule(member.key));
            leftover.extend(key_rules);
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
        if matches!(merged.get("enum"), Some(Node::List([]))) {
            return Err(MergeError::Unsatisfiable);
        }
        Ok(self.finish(merged))
    }

    fn merge_keyword(
        &self,
        merged: &mut ObjectEdit<'a>,
        member: Member<'a>,
        leftover: &mut Vec<Member<'a>>,
    ) -> Result<(), MergeError> {
        let Member { key, value } = member;
        if matches!(key, "enum" | "const") {
            let listed = merged.get("enum").or(merged.get("const"));
            self.budget.take(listed.map_or(0, data_steps))?;
        }
        let Some(existing) = merged.get(key) else {
            if key == "const" && merged.get("enum").is_some() {
                if !lists(merged.get("enum"), value) {
                    return Err(MergeError::Unsatisfiable);
                }
                merged.remove("enum");
            }
            if key == "enum"
                && let Some(constant) = merged.get("const")
            {
                let allowed = lists(Some(value), constant);
                return if allowed { Ok(()) } else { Err(MergeError::Unsatisfiable) };
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
                    return Err(MergeError::Unsatisfiable);
                }
                let names: Vec<Node<'a>> = types.names().into_iter().map(Node::Text).collect();
                merged.put("type", if names.len() == 1 { names[0] } else { self.list(&names) });
            }
            "enum" => {
                let allowed = ValueSet::of(value.list().unwrap_or_default());
                let existing = existing.list().unwrap_or_default().iter();
                let common: Vec<Node<'a>> = existing.copied().filter(|one| allowed.contains(*one)).collect();
                if common.is_empty() {
                    return Err(MergeError::Unsatisfiable);
                }
                merged.put("enum", self.list(&common));
            }
            "const" => return Err(MergeError::Unsatisfiable),
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
            "uniqueItems" => merged.put(key, Node::Bool(true)),
            // This includes definitions, which references find in the original schema.
            _ if is_annotation(key) => {}
            _ => leftover.push(member),
        }
        Ok(())
    }

    /// Merges `properties` and `additionalProperties`.
    fn merge_properties(
        &self,
        merged: &mut ObjectEdit<'a>,
        a: Object<'a>,
        b: Object<'a>,
    ) -> Result<(), MergeError> {
        let ours = object_at(a, "properties");
        let theirs = object_at(b, "properties");
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
            let required =
                |schema: Object<'a>, key: &str| required_keys(schema, self.arena).any(|name| name == key);
            if properties.iter().any(|member| {
                matches!(member.value, Node::Bool(false))
                    && (required(a, member.key) || required(b, member.key))
            }) {
                return Err(MergeError::Unsatisfiable);
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

    /// Returns a schema for both: one of them if that is enough, else an `allOf`, which is not merged yet.
    pub(crate) fn both(&self, a: Node<'a>, b: Node<'a>) -> Node<'a> {
        match (a, b) {
            (Node::Bool(false), _) | (_, Node::Bool(false)) => Node::Bool(false),
            (Node::Bool(true) | Node::Object([]), other) | (other, Node::Bool(true) | Node::Object([])) => {
                other
            }
            (a, b) if a.same(b) => a,
            // Append to an existing `allOf`, so that schemas do not nest deeper than in the original.
            (Node::Object([Member { key: "allOf", value: Node::List(parts) }]), b) => {
                // If the budget is exceeded, the next step of the conversion fails.
                let _ = self.budget.take(parts.len());
                let mut parts = parts.to_vec();
                parts.push(b);
                self.composed("allOf", &parts)
            }
            (a, b) => self.composed("allOf", &[a, b]),
        }
    }

    /// Replaces `unevaluatedProperties` by `additionalProperties` if no other keyword can evaluate a key.
    pub(crate) fn close_evaluated(&self, members: Object<'a>) -> Object<'a> {
        let Some(rest) = get(members, "unevaluatedProperties") else { return members };
        const MAY_EVALUATE: [&str; 7] =
            ["anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "patternProperties"];
        if MAY_EVALUATE.iter().any(|keyword| get(members, keyword).is_some()) {
            return members;
        }
        let mut edit = ObjectEdit::of(members);
        edit.remove("unevaluatedProperties");
        if get(members, "additionalProperties").is_none() {
            edit.put("additionalProperties", rest);
        }
        self.finish(edit)
    }
}

/// Whether an `enum` lists a value.
fn lists(values: Option<Node<'_>>, value: Node<'_>) -> bool {
    values.and_then(Node::list).unwrap_or_default().iter().any(|other| other.same(value))
}

fn types_of(node: Node<'_>) -> TypeSet {
    TypeSet::of(&[Member::new("type", node)])
}

fn tighter<'a>(a: Node<'a>, b: Node<'a>, larger: bool) -> Node<'a> {
    let (Node::Number(left), Node::Number(right)) = (a, b) else { return a };
    if (Decimal::of(left) > Decimal::of(right)) == larger { a } else { b }
}

fn is_key_rule(keyword: &str) -> bool {
    matches!(keyword, "properties" | "additionalProperties" | "patternProperties")
}
