//! Lowers maps: objects without named properties, and the additional properties of other objects.

use super::object::{LoweredProperties, OtherKeys};
use super::{LowerError, LowerResult, Lowered, Lowering, MergedSchema};
use crate::arguments::{ObjectPlan, Plan, Rest};
use crate::json::{Member, Node, Object, Place, get};
use crate::schema::edit::ObjectEdit;
use crate::schema::excerpt::excerpt;
use crate::schema::keywords::object_at;
use crate::{Effect, names};

const IS_MAP: &str = "additionalProperties describes a map";

impl<'a> Lowering<'_, 'a, '_> {
    /// Lowers an object without named properties.
    pub(super) fn map(&mut self, schema: MergedSchema<'_, 'a>, values: Node<'a>) -> LowerResult<'a> {
        let MergedSchema { members, leftover, place } = schema;
        if self.must_be_exact() {
            return Err(self.inexpressible(place, IS_MAP));
        }
        if self.grammar.strict {
            return self.map_as_entries(schema, values);
        }
        if !self.grammar.free_form_objects {
            return self.fall_back_to_json_text(members, place, "additionalProperties", IS_MAP);
        }
        let mut output = self.start_output(members, place);
        output.put_first("type", Node::Text("object"));
        self.describe_patterns(&mut output, members);
        let mut rest = Rest::Same;
        if self.grammar.maps {
            let lowered = match self.lower_additional(values, place)? {
                Some(lowered) => lowered,
                None => Lowered { node: Node::Bool(false), plan: Plan::Same },
            };
            if get(members, "additionalProperties").is_some() {
                output.put("additionalProperties", shortest_form(lowered.node, values));
            } else if self.grammar.closed_by_default {
                output.put("additionalProperties", Node::Bool(true));
                let detail = "additionalProperties made explicit; this API treats a missing value as false";
                self.record(place, "additionalProperties", Effect::Rewritten, detail);
            }
            rest = Rest::Plan(lowered.plan);
        } else if !allows_anything(values) {
            self.context.describe(&mut output, &format!("Every value must match: {}", excerpt(values)));
            let detail = "the schema in additionalProperties moved to the description";
            self.record(place, "additionalProperties", Effect::Widened, detail);
        }
        self.object_rules(&mut output, members, place);
        self.describe_rules(&mut output, leftover, place);
        let plan = ObjectPlan { fields: Vec::new(), rest, fill: false }.into_plan();
        Ok(Lowered { node: self.typed(output.members()), plan })
    }

    /// Lowers a map to a list of entries.
    fn map_as_entries(&mut self, schema: MergedSchema<'_, 'a>, values: Node<'a>) -> LowerResult<'a> {
        let MergedSchema { members, leftover, place } = schema;
        let lowered = self.lower_additional(values, place)?;
        let mut output = self.start_output(members, place);
        let Some(lowered) = lowered else {
            // No value is valid, so the map is always empty.
            output.put_first("type", Node::Text("object"));
            self.finish_closed(&mut output, &[]);
            return Ok(Lowered { node: self.context.object(output.members()), plan: Plan::Same });
        };
        let list = self.entries(lowered.node, "A map, given as a list of its entries");
        for member in list.object().unwrap_or_default() {
            if member.key != "description" || output.get("description").is_none() {
                output.put(member.key, member.value);
            }
        }
        let detail = "map converted to a list of entries";
        self.record(place, "additionalProperties", Effect::Rewritten, detail);
        self.object_rules(&mut output, members, place);
        self.describe_rules(&mut output, leftover, place);
        let plan = Plan::Entries(Box::new(lowered.plan));
        Ok(Lowered { node: self.context.object(output.members()), plan })
    }

    /// Lowers the schema of additional properties; returns `None` if no value satisfies it.
    fn lower_additional(
        &mut self,
        values: Node<'a>,
        place: &Place<'_>,
    ) -> Result<Option<Lowered<'a>>, LowerError> {
        match self.lower(values, &place.key("additionalProperties")) {
            Err(LowerError::Unsatisfiable) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Describes `patternProperties`, which no grammar has.
    pub(super) fn describe_patterns(&self, output: &mut ObjectEdit<'a>, members: Object<'a>) {
        if let Some(patterns @ Node::Object([_, ..])) = get(members, "patternProperties") {
            self.context.describe(output, &format!("Properties by key pattern: {}", excerpt(patterns)));
        }
    }

    /// Returns the schema of a list of `{"key", "value"}`.
    fn entries(&self, value: Node<'a>, description: &'static str) -> Node<'a> {
        let context = &self.context;
        let key = context.object(&[Member::new("type", Node::Text("string"))]);
        let mut entry = ObjectEdit::of(&[]);
        entry.put("type", Node::Text("object"));
        self.finish_closed(&mut entry, &[Member::new("key", key), Member::new("value", value)]);
        context.object(&[
            Member::new("type", Node::Text("array")),
            Member::new("description", Node::Text(description)),
            Member::new("items", context.object(entry.members())),
        ])
    }

    /// Lowers additional properties next to named ones. A strict grammar gets them as a list of entries if
    /// the caller allows it. Returns `None` if no value satisfies their schema.
    pub(super) fn rest(
        &mut self,
        output: &mut ObjectEdit<'a>,
        lowered: &mut LoweredProperties<'a>,
        others: OtherKeys<'a>,
        place: &Place<'_>,
    ) -> Result<Option<Rest>, LowerError> {
        let OtherKeys::Allowed(values) = others else { return Ok(Some(Rest::Same)) };
        if !self.grammar.maps && !self.grammar.strict {
            return Ok(Some(Rest::Same));
        }
        if self.must_be_exact() {
            return Err(self.inexpressible(place, "additionalProperties allows other keys"));
        }
        let Some(additional) = self.lower_additional(values, place)? else { return Ok(None) };
        if self.grammar.maps {
            output.put("additionalProperties", shortest_form(additional.node, values));
            return Ok(Some(Rest::Plan(additional.plan)));
        }
        let mut key = "additionalProperties".to_owned();
        while lowered.fields.iter().any(|field| field.wire == key) {
            key.push('_');
        }
        let wire: &'a str = self.context.arena.alloc_str(&key);
        let list = self.entries(additional.node, "Additional properties of this object, one entry each");
        lowered.properties.push(Member::new(wire, list));
        lowered.required.push(Node::Text(wire));
        // An entry may use the key of a named property, with a value that the property does not allow.
        let effect = if lowered.fields.is_empty() { Effect::Rewritten } else { Effect::Widened };
        let detail = format!("additional properties converted to a list of entries in {key}");
        self.record(place, "additionalProperties", effect, detail);
        Ok(Some(Rest::Entries { wire: key, plan: additional.plan }))
    }

    /// Sets `additionalProperties` as the grammar requires it, and records the change.
    pub(super) fn put_additional_properties(
        &mut self,
        output: &mut ObjectEdit<'a>,
        members: Object<'a>,
        others: OtherKeys<'a>,
        rest: &Rest,
        place: &Place<'_>,
    ) {
        const KEYWORD: &str = "additionalProperties";
        let explicit = get(members, KEYWORD).is_some();
        match others {
            OtherKeys::Allowed(values) if !self.grammar.maps && !matches!(rest, Rest::Entries { .. }) => {
                let schema =
                    if allows_anything(values) { String::new() } else { format!(": {}", excerpt(values)) };
                self.context.describe(output, &format!("Additional properties are allowed{schema}"));
                self.record(place, KEYWORD, Effect::Narrowed, "additional properties cannot be sent");
            }
            OtherKeys::Allowed(_) if self.grammar.closed => output.put(KEYWORD, Node::Bool(false)),
            OtherKeys::Allowed(_) => {}
            OtherKeys::Forbidden if self.grammar.closed => {
                output.put(KEYWORD, Node::Bool(false));
                if !explicit {
                    self.record(place, KEYWORD, Effect::Rewritten, "added additionalProperties: false");
                }
            }
            OtherKeys::Forbidden if !explicit => {}
            OtherKeys::Forbidden if self.grammar.maps => output.put(KEYWORD, Node::Bool(false)),
            OtherKeys::Forbidden
                if !place.pointer().is_empty() && object_at(output.members(), "properties").is_empty() =>
            {
                let detail = "additionalProperties: false removed; this API cannot forbid all keys";
                self.record(place, KEYWORD, Effect::Widened, detail);
            }
            OtherKeys::Forbidden => self.context.record_implied_closed(place),
        }
    }

    /// Records rules that name a key which no property describes, and which therefore cannot be sent.
    pub(super) fn record_unnamed_keys(&mut self, schema: MergedSchema<'_, 'a>) {
        let MergedSchema { members, leftover, place } = schema;
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
        let own = object_at(members, "properties");
        for rule in members.iter().chain(leftover).filter(|rule| RULES.contains(&rule.key)) {
            if names::property_keys_in(*rule, self.context.arena).iter().any(|name| get(own, name).is_none())
            {
                let detail = format!("a key named only in {} cannot be sent", rule.key);
                self.record(place, rule.key, Effect::Narrowed, detail);
            }
        }
    }
}

/// Returns the schema of additional properties; if it allows everything, in the original form or as `true`.
fn shortest_form<'a>(lowered: Node<'a>, original: Node<'a>) -> Node<'a> {
    match lowered {
        Node::Object([]) if allows_anything(original) => original,
        Node::Object([]) => Node::Bool(true),
        _ => lowered,
    }
}

fn allows_anything(schema: Node<'_>) -> bool {
    matches!(schema, Node::Bool(true) | Node::Object([]))
}
