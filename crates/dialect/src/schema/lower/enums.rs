//! Lowers `enum` and `const`.

use super::{LowerError, LowerResult, Lowered, Lowering, MergedSchema};
use crate::Effect;
use crate::arguments::Plan;
use crate::json::{Member, Node, Place, get, to_value};
use crate::schema::edit::ObjectEdit;
use crate::schema::excerpt::{compact_json, excerpt};
use crate::schema::keywords::list_at;
use crate::schema::nullable::{any_of_null, null_schema};
use crate::schema::profile::EnumValues;
use crate::schema::types::TypeSet;

impl<'a> Lowering<'_, 'a, '_> {
    pub(super) fn enumeration(&mut self, schema: MergedSchema<'_, 'a>) -> LowerResult<'a> {
        let MergedSchema { members, leftover, place } = schema;
        let constant = get(members, "const");
        let listed = match constant {
            Some(value) => vec![value],
            None => list_at(members, "enum").to_vec(),
        };
        let types = self.declared_types(members, place);
        let mut values: Vec<Node<'a>> = Vec::with_capacity(listed.len());
        let mut seen = std::collections::HashSet::with_capacity(listed.len());
        for value in &listed {
            let new = seen.insert(compact_json(*value));
            if !types.has(TypeSet::of_value(*value)) {
                let detail = format!("enum value {} removed; it does not match type", excerpt(*value));
                self.record(place, "enum", Effect::Rewritten, detail);
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
            return Err(LowerError::Unsatisfiable);
        }
        // Rules next to the list can only exclude some of its values; the server still checks them.
        let rules: Vec<Member<'a>> = members
            .iter()
            .filter(|member| {
                !matches!(member.key, "enum" | "const" | "type") && !crate::schema::is_annotation(member.key)
            })
            .copied()
            .collect();
        let mut output = self.start_output(members, place);
        self.describe_rules(&mut output, &rules, place);
        self.describe_rules(&mut output, leftover, place);
        self.listed_values(output, &values, constant.is_some(), types, place)
    }

    /// Lists values in the form that the grammar allows.
    fn listed_values(
        &mut self,
        mut output: ObjectEdit<'a>,
        values: &[Node<'a>],
        constant: bool,
        types: TypeSet,
        place: &Place<'_>,
    ) -> LowerResult<'a> {
        let null = values.iter().any(|value| matches!(value, Node::Null));
        let composite = values.iter().any(|value| matches!(value, Node::List(_) | Node::Object(_)));
        if self.grammar.enum_values == EnumValues::Any {
            let found = values.iter().fold(TypeSet::EMPTY, |set, value| set.or(TypeSet::of_value(*value)));
            let names = types.and(found).names();
            match names.as_slice() {
                // With `type: object` alone, some APIs would treat the object as closed.
                _ if composite => {}
                [name] => output.put_first("type", Node::Text(widened_type(name, types))),
                _ => {
                    let names: Vec<Node<'a>> =
                        names.iter().map(|name| Node::Text(widened_type(name, types))).collect();
                    output.put_first("type", self.context.list(&names));
                }
            }
            self.put_values(&mut output, values, constant);
            return Ok(Lowered { node: self.context.object(output.members()), plan: Plan::Same });
        }
        if composite {
            return self.composite_values(output, values, place);
        }
        let mut groups: Vec<(&'static str, Vec<Node<'a>>)> = Vec::new();
        for value in values.iter().filter(|value| !matches!(value, Node::Null)) {
            let name = TypeSet::of_value(*value).names()[0];
            // `1` under `type: number` stays a number, so that `1.0` is valid too.
            let name = widened_type(name, types);
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
            output.put_first("type", Node::Text("null"));
            let detail = "enum allows only null; replaced by type null";
            self.record(place, "enum", Effect::Rewritten, detail);
            return Ok(Lowered { node: self.typed(output.members()), plan: Plan::Same });
        }
        if let [(name, group)] = groups.as_slice() {
            let lowered = self.values_of_type(output, name, group, constant, place)?;
            return Ok(if null {
                Lowered { node: self.with_null_value(lowered.node), plan: lowered.plan }
            } else {
                lowered
            });
        }
        let mut branches = Vec::new();
        let mut plan = Plan::Same;
        for (name, group) in &groups {
            let lowered = self.values_of_type(ObjectEdit::of(&[]), name, group, false, place)?;
            if let (Plan::Values(known), Plan::Values(more)) = (&mut plan, &lowered.plan) {
                known.extend(more.iter().cloned());
            } else if !lowered.plan.is_same() {
                plan = lowered.plan;
            }
            branches.push(lowered.node);
        }
        let detail = "enum with values of several types split into one alternative per type";
        self.record(place, "enum", Effect::Rewritten, detail);
        if let Plan::Values(texts) = &mut plan {
            // A listed string with the text of a listed number stays a string.
            let before = texts.len();
            texts
                .retain(|(text, _)| !values.iter().any(|value| value.text(self.context.arena) == Some(text)));
            if texts.len() < before {
                let detail =
                    "enum lists a number and a string with the same text; only the string can be sent";
                self.record(place, "enum", Effect::Narrowed, detail);
            }
        }
        if self.grammar.openapi_types {
            let node = self.annotated(self.context.composed("anyOf", &branches), &output);
            let node = if null { self.with_null(node) } else { node };
            return Ok(Lowered { node, plan });
        }
        if null {
            branches.push(null_schema(self.context));
        }
        let mut union = vec![Member::new("anyOf", self.context.list(&branches))];
        union.extend(output.members());
        Ok(Lowered { node: self.context.object(&union), plan })
    }

    /// Adds `null` to a list of values: in the list if `enum` may contain it, else as an alternative.
    fn with_null_value(&self, node: Node<'a>) -> Node<'a> {
        if !self.grammar.openapi_types && self.grammar.enum_values == EnumValues::StringsAndNumbers {
            return any_of_null(node.object().unwrap_or_default(), self.context);
        }
        self.with_null(node)
    }

    /// Lists values of one scalar type.
    fn values_of_type(
        &mut self,
        mut output: ObjectEdit<'a>,
        name: &'static str,
        values: &[Node<'a>],
        constant: bool,
        place: &Place<'_>,
    ) -> LowerResult<'a> {
        output.put_first("type", Node::Text(name));
        let mut plan = Plan::Same;
        match (name, self.grammar.enum_values) {
            ("boolean", EnumValues::StringsAndNumbers | EnumValues::Strings) => {
                if values.len() < 2 {
                    self.describe_values(&mut output, values, place);
                }
            }
            ("string", EnumValues::Strings) => {
                let non_empty: Vec<Node<'a>> = values
                    .iter()
                    .filter(|value| value.text(self.context.arena) != Some(""))
                    .copied()
                    .collect();
                if non_empty.is_empty() {
                    self.describe_values(&mut output, values, place);
                } else {
                    if non_empty.len() < values.len() {
                        self.context.describe(&mut output, "The empty string is also allowed");
                        let detail = "empty string moved from enum to the description; some models reject it";
                        self.record(place, "enum", Effect::Narrowed, detail);
                    }
                    output.put("format", Node::Text("enum"));
                    output.put("enum", self.context.list(&non_empty));
                }
            }
            ("integer" | "number", EnumValues::Strings) => {
                output.put("format", Node::Text("enum"));
                plan = self.put_values_as_text(&mut output, values);
                let detail = "enum numbers listed as strings; decoded back to numbers";
                self.record(place, "enum", Effect::Rewritten, detail);
            }
            _ => self.put_values(&mut output, values, constant),
        }
        Ok(Lowered { node: self.typed(output.members()), plan })
    }

    /// Lists values that are arrays or objects by their JSON text, or only describes them.
    fn composite_values(
        &mut self,
        mut output: ObjectEdit<'a>,
        values: &[Node<'a>],
        place: &Place<'_>,
    ) -> LowerResult<'a> {
        if self.must_be_exact() {
            return Err(self.inexpressible(place, "enum lists arrays or objects"));
        }
        if self.grammar.strict {
            output.put_first("type", Node::Text("string"));
            let plan = self.put_values_as_text(&mut output, values);
            self.context.describe(&mut output, "The value, encoded as JSON text");
            let detail = "enum lists arrays or objects; encoded as JSON strings";
            self.record(place, "enum", Effect::Rewritten, detail);
            return Ok(Lowered { node: self.context.object(output.members()), plan });
        }
        self.describe_values(&mut output, values, place);
        if self.grammar.untyped {
            return Ok(Lowered { node: self.context.object(output.members()), plan: Plan::Same });
        }
        output.put_first("type", Node::Text("string"));
        self.context.describe(&mut output, "One of these values, encoded as JSON text");
        Ok(Lowered { node: self.typed(output.members()), plan: Plan::JsonText })
    }

    fn put_values(&self, output: &mut ObjectEdit<'a>, values: &[Node<'a>], constant: bool) {
        if constant && self.grammar.constants && values.len() == 1 {
            return output.put("const", values[0]);
        }
        output.put("enum", self.context.list(values));
    }

    /// Lists the JSON text of each value; the plan decodes it.
    fn put_values_as_text(&self, output: &mut ObjectEdit<'a>, values: &[Node<'a>]) -> Plan {
        let arena = self.context.arena;
        let texts: Vec<Node<'a>> =
            values.iter().map(|value| self.context.text(&compact_json(*value))).collect();
        output.put("enum", self.context.list(&texts));
        Plan::Values(values.iter().map(|value| (compact_json(*value), to_value(*value, arena))).collect())
    }

    fn describe_values(&mut self, output: &mut ObjectEdit<'a>, values: &[Node<'a>], place: &Place<'_>) {
        let list = self.context.list(values);
        self.describe_rules(output, &[Member::new("enum", list)], place);
    }
}

/// Returns `number` instead of `integer` if the declared types include it.
fn widened_type(name: &'static str, types: TypeSet) -> &'static str {
    let declared = types != TypeSet::ALL;
    if name == "integer" && declared && types.has(TypeSet::named("number")) { "number" } else { name }
}
