//! `enum` and `const`: the values that are left once everything else is considered, by type.

use super::{Lower, Lowered, Lowering, Stop};
use crate::Effect;
use crate::arguments::Plan;
use crate::json::{Member, Node, Object, Place, get, to_value};
use crate::schema::brief::{brief, whole};
use crate::schema::draft::Draft;
use crate::schema::profile::{Types, Values};
use crate::schema::types::TypeSet;

impl<'a> Lowering<'_, 'a, '_> {
    pub(super) fn values(
        &mut self,
        members: Object<'a>,
        leftover: &[Member<'a>],
        place: &Place<'_>,
    ) -> Lower<'a> {
        let constant = get(members, "const");
        let listed = match constant {
            Some(value) => vec![value],
            None => get(members, "enum").and_then(Node::list).unwrap_or_default().to_vec(),
        };
        let types = self.types_with_null(members, place);
        let mut values: Vec<Node<'a>> = Vec::with_capacity(listed.len());
        let mut seen = std::collections::HashSet::with_capacity(listed.len());
        for value in &listed {
            let new = seen.insert(whole(*value));
            if !types.has(TypeSet::of_value(*value)) {
                self.note(
                    place,
                    "enum",
                    Effect::Rewritten,
                    format!("{} is not of the type: left out", brief(*value)),
                );
            } else if new {
                values.push(*value);
            }
        }
        if matches!(get(members, "nullable"), Some(Node::Bool(true)))
            && !values.iter().any(|value| matches!(value, Node::Null))
        {
            values.push(Node::Null);
        }
        if values.is_empty() {
            return Err(Stop::Never);
        }
        // Rules beside the list can only take values away; the list is short enough to be left to the server.
        let rules: Vec<Member<'a>> = members
            .iter()
            .filter(|member| {
                !matches!(member.key, "enum" | "const" | "type") && !crate::schema::is_annotation(member.key)
            })
            .copied()
            .collect();
        let mut draft = self.begin(members, place);
        self.tell(&mut draft, &rules, place);
        self.tell(&mut draft, leftover, place);
        self.offer(draft, &values, constant.is_some() && listed.len() == 1, types, place)
    }

    /// Says a list of values in the grammar's words.
    fn offer(
        &mut self,
        mut draft: Draft<'a>,
        values: &[Node<'a>],
        constant: bool,
        types: TypeSet,
        place: &Place<'_>,
    ) -> Lower<'a> {
        let null = values.iter().any(|value| matches!(value, Node::Null));
        let composite = values.iter().any(|value| matches!(value, Node::List(_) | Node::Object(_)));
        if self.grammar.values == Values::Any {
            let found = values.iter().fold(TypeSet::EMPTY, |set, value| set.or(TypeSet::of_value(*value)));
            let names = types.and(found).names();
            match names.as_slice() {
                // A type would say more than the values: some APIs close an object that says nothing else.
                _ if composite => {}
                [name] => draft.put_first("type", Node::Text(self.wider(name, types))),
                _ => {
                    let names: Vec<Node<'a>> =
                        names.iter().map(|name| Node::Text(self.wider(name, types))).collect();
                    draft.put_first("type", self.context.list(&names));
                }
            }
            self.put_values(&mut draft, values, constant);
            return Ok(Lowered { node: self.context.object(draft.members()), plan: Plan::Same });
        }
        if composite {
            return self.composite(draft, values, place);
        }
        let mut groups: Vec<(&'static str, Vec<Node<'a>>)> = Vec::new();
        for value in values.iter().filter(|value| !matches!(value, Node::Null)) {
            let name = TypeSet::of_value(*value).names()[0];
            // `1` under `type: number` stays a number, so that `1.0` fits too.
            let name = self.wider(name, types);
            let name = if name == "integer" && groups.iter().any(|(other, _)| *other == "number") {
                "number"
            } else {
                name
            };
            match groups.iter_mut().find(|(other, _)| *other == name) {
                Some((_, group)) => group.push(*value),
                None => groups.push((name, vec![*value])),
            }
        }
        if groups.is_empty() {
            return self.only_null(draft, place);
        }
        if let [(name, group)] = groups.as_slice() {
            let lowered = self.one_kind(draft, name, group, constant, place)?;
            return Ok(if null {
                Lowered { node: self.null_beside(lowered.node), plan: lowered.plan }
            } else {
                lowered
            });
        }
        let mut branches = Vec::new();
        let mut plan = Plan::Same;
        for (name, group) in &groups {
            let lowered = self.one_kind(Draft::of(&[]), name, group, false, place)?;
            if let (Plan::Values(known), Plan::Values(more)) = (&mut plan, &lowered.plan) {
                known.extend(more.iter().cloned());
            } else if !lowered.plan.is_same() {
                plan = lowered.plan;
            }
            branches.push(lowered.node);
        }
        self.note(place, "enum", Effect::Rewritten, "values of several types, one alternative for each type");
        if let Plan::Values(texts) = &mut plan {
            // A string that reads like a listed number stays a string.
            let before = texts.len();
            texts
                .retain(|(text, _)| !values.iter().any(|value| value.text(self.context.arena) == Some(text)));
            if texts.len() < before {
                self.note(
                    place,
                    "enum",
                    Effect::Narrowed,
                    "a number and a string are listed that read the same",
                );
            }
        }
        if self.grammar.types == Types::OpenApi {
            let node = self.context.object(&[Member::new("anyOf", self.context.list(&branches))]);
            let node = self.annotated(node, &draft);
            let node = if null { self.with_null(node) } else { node };
            return Ok(Lowered { node, plan });
        }
        if null {
            branches.push(self.context.object(&[Member::new("type", Node::Text("null"))]));
        }
        let mut union = vec![Member::new("anyOf", self.context.list(&branches))];
        union.extend(draft.members());
        Ok(Lowered { node: self.context.object(&union), plan })
    }

    fn only_null(&mut self, mut draft: Draft<'a>, place: &Place<'_>) -> Lower<'a> {
        draft.put_first("type", Node::Text("null"));
        self.note(place, "enum", Effect::Rewritten, "only `null` fits: said by its type");
        Ok(Lowered { node: self.typed(draft.members()), plan: Plan::Same })
    }

    /// `null` beside a list of values: inside the list where it may stand there, else as an alternative.
    fn null_beside(&self, node: Node<'a>) -> Node<'a> {
        if self.grammar.types == Types::Lists && self.grammar.values == Values::StringsAndNumbers {
            let null = self.context.object(&[Member::new("type", Node::Text("null"))]);
            let mut inner = Draft::of(node.object().unwrap_or_default());
            let description = inner.remove("description");
            let inner = self.context.object(inner.members());
            let mut outer = vec![Member::new("anyOf", self.context.list(&[inner, null]))];
            outer.extend(description.map(|text| Member::new("description", text)));
            return self.context.object(&outer);
        }
        self.with_null(node)
    }

    /// Values of one scalar type.
    fn one_kind(
        &mut self,
        mut draft: Draft<'a>,
        name: &'static str,
        values: &[Node<'a>],
        constant: bool,
        place: &Place<'_>,
    ) -> Lower<'a> {
        draft.put_first("type", Node::Text(name));
        let mut plan = Plan::Same;
        match (name, self.grammar.values) {
            ("boolean", Values::StringsAndNumbers | Values::Strings) => {
                if values.len() < 2 {
                    let list = self.context.list(values);
                    self.tell(&mut draft, &[Member::new("enum", list)], place);
                }
            }
            ("string", Values::Strings) => {
                let kept: Vec<Node<'a>> = values
                    .iter()
                    .filter(|value| value.text(self.context.arena) != Some(""))
                    .copied()
                    .collect();
                if kept.is_empty() {
                    let list = self.context.list(values);
                    self.tell(&mut draft, &[Member::new("enum", list)], place);
                } else {
                    if kept.len() < values.len() {
                        self.context.describe(&mut draft, "The empty string is allowed too");
                        self.note(
                            place,
                            "enum",
                            Effect::Narrowed,
                            "some models refuse an empty string in the list",
                        );
                    }
                    draft.put("format", Node::Text("enum"));
                    draft.put("enum", self.context.list(&kept));
                }
            }
            ("integer" | "number", Values::Strings) => {
                let texts: Vec<Node<'a>> =
                    values.iter().map(|value| self.context.text(&whole(*value))).collect();
                draft.put("format", Node::Text("enum"));
                draft.put("enum", self.context.list(&texts));
                let arena = self.context.arena;
                plan = Plan::Values(
                    values.iter().map(|value| (whole(*value), to_value(*value, arena))).collect(),
                );
                self.note(place, "enum", Effect::Rewritten, "numbers are listed as text, and turned back");
            }
            _ => self.put_values(&mut draft, values, constant),
        }
        Ok(Lowered { node: self.typed(draft.members()), plan })
    }

    /// Values that are arrays or objects: by their JSON text if asked for, else only in words.
    fn composite(&mut self, mut draft: Draft<'a>, values: &[Node<'a>], place: &Place<'_>) -> Lower<'a> {
        if self.grammar.strict {
            if !self.context.options.reshape {
                return Err(self.unsayable(place, "enum", "the values are arrays or objects"));
            }
            let texts: Vec<Node<'a>> = values.iter().map(|value| self.context.text(&whole(*value))).collect();
            draft.put_first("type", Node::Text("string"));
            draft.put("enum", self.context.list(&texts));
            self.context.describe(&mut draft, "The JSON text of the value");
            self.note(
                place,
                "enum",
                Effect::Rewritten,
                "values that are arrays or objects are asked for as JSON text",
            );
            let arena = self.context.arena;
            let plan =
                Plan::Values(values.iter().map(|value| (whole(*value), to_value(*value, arena))).collect());
            return Ok(Lowered { node: self.context.object(draft.members()), plan });
        }
        let list = self.context.list(values);
        self.tell(&mut draft, &[Member::new("enum", list)], place);
        if self.grammar.untyped {
            return Ok(Lowered { node: self.context.object(draft.members()), plan: Plan::Same });
        }
        draft.put_first("type", Node::Text("string"));
        self.context.describe(&mut draft, "JSON text of one of these values.");
        Ok(Lowered { node: self.typed(draft.members()), plan: Plan::JsonText })
    }

    fn put_values(&self, draft: &mut Draft<'a>, values: &[Node<'a>], constant: bool) {
        if constant && self.grammar.constants && values.len() == 1 {
            return draft.put("const", values[0]);
        }
        draft.put("enum", self.context.list(values));
    }

    /// `number` instead of `integer` where the original says so.
    fn wider(&self, name: &'static str, types: TypeSet) -> &'static str {
        let declared = types != TypeSet::ALL;
        if name == "integer" && declared && types.has(TypeSet::named("number")) { "number" } else { name }
    }
}
