//! Lowers arrays and tuples.

use super::{LowerError, LowerResult, Lowered, Lowering, MergedSchema};
use crate::Effect;
use crate::arguments::{Plan, PositionsPlan};
use crate::json::{Decimal, EMPTY, Member, Node, Object, Place, get};
use crate::schema::edit::ObjectEdit;
use crate::schema::excerpt::excerpt;
use crate::schema::is_annotation;
use crate::schema::keywords::list_at;

impl<'a> Lowering<'_, 'a, '_> {
    pub(super) fn array(&mut self, schema: MergedSchema<'_, 'a>) -> LowerResult<'a> {
        let MergedSchema { members, leftover, place } = schema;
        let positions = list_at(members, "prefixItems");
        let items = get(members, "items");
        if !positions.is_empty() && !self.grammar.prefix_items {
            return self.tuple(schema, positions, items);
        }
        let mut output = self.start_output(members, place);
        output.put_first("type", Node::Text("array"));
        let mut plans = Vec::new();
        if !positions.is_empty() {
            let inside = place.key("prefixItems");
            let mut lowered = Vec::with_capacity(positions.len());
            for (index, position) in positions.iter().enumerate() {
                let one = self.lower(*position, &inside.index(index))?;
                lowered.push(one.node);
                plans.push(one.plan);
            }
            output.put("prefixItems", self.context.list(&lowered));
        }
        // Where this is used, the array has no such items, so any type is correct.
        let unused_items = || Member::new("type", Node::Text("string"));
        let rest = match items {
            Some(Node::Bool(false)) => {
                self.end_array(&mut output, members, positions.len(), place);
                if !self.grammar.arrays_without_items {
                    output.put("items", self.typed(&[unused_items()]));
                }
                Plan::Same
            }
            None if self.grammar.arrays_without_items => Plan::Same,
            schema => {
                let here = place.key("items");
                let lowered =
                    self.lower_item(schema.unwrap_or(EMPTY), if schema.is_some() { &here } else { place });
                match lowered {
                    Ok(lowered) => {
                        output.put("items", lowered.node);
                        lowered.plan
                    }
                    Err(LowerError::Unsatisfiable) if min_items(members) <= positions.len() => {
                        self.end_array(&mut output, members, positions.len(), place);
                        output.put("items", self.typed(&[unused_items()]));
                        Plan::Same
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        self.array_bounds(&mut output, members, place);
        self.describe_rules(&mut output, leftover, place);
        let plan = if plans.iter().all(Plan::is_same) {
            Plan::items(rest)
        } else {
            Plan::Tuple { positions: plans, rest: Box::new(rest) }
        };
        Ok(Lowered { node: self.typed(output.members()), plan })
    }

    fn array_bounds(&mut self, output: &mut ObjectEdit<'a>, members: Object<'a>, place: &Place<'_>) {
        for member in members {
            let done = match member.key {
                "type" | "items" | "prefixItems" => true,
                "maxItems" => output.get("maxItems").is_some(),
                "uniqueItems" => matches!(member.value, Node::Bool(false)),
                key => is_annotation(key),
            };
            if !done {
                self.lower_keyword("array", output, *member, place);
            }
        }
    }

    /// Allows no item after the first `count`: with `maxItems`, or in the description if the grammar lacks
    /// it.
    fn end_array(
        &mut self,
        output: &mut ObjectEdit<'a>,
        members: Object<'a>,
        count: usize,
        place: &Place<'_>,
    ) {
        self.put_max_items(output, members, count);
        if output.get("maxItems").is_some() {
            let detail = "no additional items are allowed; expressed with maxItems";
            return self.record(place, "items", Effect::Rewritten, detail);
        }
        self.context.describe(output, &format!("maxItems: {count}"));
        let detail = format!("no additional items are allowed; maxItems {count} added to the description");
        self.record(place, "items", Effect::Widened, detail);
    }

    /// Sets `maxItems` to `count`, or to the schema's own value if it is smaller.
    fn put_max_items(&self, output: &mut ObjectEdit<'a>, members: Object<'a>, count: usize) {
        if self.grammar.has_bound("maxItems") {
            let own = get(members, "maxItems").filter(|_| max_items_within(members, count));
            output.put("maxItems", own.unwrap_or_else(|| self.context.number(count)));
        }
    }

    /// Lowers a tuple where the grammar has no `prefixItems`: to one schema for all positions if they are
    /// alike, to an object if the caller allows it, else to an array of the schemas of all positions.
    fn tuple(
        &mut self,
        schema: MergedSchema<'_, 'a>,
        positions: &'a [Node<'a>],
        items: Option<Node<'a>>,
    ) -> LowerResult<'a> {
        let MergedSchema { members, place, .. } = schema;
        let closed = matches!(items, Some(Node::Bool(false)));
        let capped = max_items_within(members, positions.len());
        let ends = closed || capped;
        let alike = positions.iter().all(|position| position.same(positions[0]));
        let rest_alike = items.is_some_and(|items| items.same(positions[0]));
        if alike && (ends && self.grammar.has_bound("maxItems") || rest_alike) {
            let mut edit = ObjectEdit::of(members);
            edit.remove("prefixItems");
            edit.put("items", positions[0]);
            if ends && !capped {
                edit.put("maxItems", self.context.number(positions.len()));
            }
            let detail = "prefixItems replaced by items; all positions have the same schema";
            self.record(place, "prefixItems", Effect::Rewritten, detail);
            let members = self.context.members(edit.members());
            return self.array(MergedSchema { members, ..schema });
        }
        if self.grammar.strict {
            if self.must_be_exact() {
                return Err(self.inexpressible(place, "prefixItems describes a tuple"));
            }
            return self.tuple_as_object(schema, positions, items);
        }
        let mut branches = positions.to_vec();
        match items {
            Some(Node::Bool(false)) => {}
            Some(schema) => branches.push(schema),
            None if capped => {}
            None => branches.push(EMPTY),
        }
        let mut edit = ObjectEdit::of(members);
        edit.remove("prefixItems");
        self.track_origins();
        edit.put("items", self.context.composed("anyOf", &branches));
        if closed {
            self.put_max_items(&mut edit, members, positions.len());
        }
        let described: Vec<String> = positions.iter().map(|position| excerpt(*position)).collect();
        self.context.describe(&mut edit, &format!("Items by position: {}", described.join(", ")));
        let detail = "prefixItems moved to the description; every item accepts the schema of any position";
        self.record(place, "prefixItems", Effect::Widened, detail);
        let members = self.context.members(edit.members());
        self.array(MergedSchema { members, ..schema })
    }

    /// Lowers a tuple to an object with one key per position.
    fn tuple_as_object(
        &mut self,
        schema: MergedSchema<'_, 'a>,
        positions: &'a [Node<'a>],
        items: Option<Node<'a>>,
    ) -> LowerResult<'a> {
        let MergedSchema { members, leftover, place } = schema;
        let min_items = min_items(members);
        let mut output = self.start_output(members, place);
        output.put_first("type", Node::Text("object"));
        self.context.describe(&mut output, "An array, given as an object with one key per position");
        let inside = place.key("prefixItems");
        let mut properties = Vec::new();
        let min_length = min_items.min(positions.len());
        let mut plan = PositionsPlan { keys: Vec::new(), plans: Vec::new(), min_length, rest: None };
        for (index, position) in positions.iter().enumerate() {
            let lowered = self.lower(*position, &inside.index(index))?;
            let key: &'a str = self.context.arena.alloc_str(&index.to_string());
            let node = if index < min_items { lowered.node } else { self.with_null(lowered.node) };
            properties.push(Member::new(key, node));
            plan.keys.push(key.to_owned());
            plan.plans.push(lowered.plan);
        }
        let has_rest =
            !matches!(items, Some(Node::Bool(false))) && !max_items_within(members, positions.len());
        if has_rest {
            let here = place.key("items");
            let rest = self.lower(items.unwrap_or(EMPTY), if items.is_some() { &here } else { place })?;
            let list = [Member::new("type", Node::Text("array")), Member::new("items", rest.node)];
            properties.push(Member::new("rest", self.context.object(&list)));
            plan.rest = Some(("rest".to_owned(), rest.plan));
        }
        let exact = min_items >= positions.len() && !has_rest;
        let effect = if exact { Effect::Rewritten } else { Effect::Widened };
        let detail = "prefixItems converted to an object with one key per position";
        self.record(place, "prefixItems", effect, detail);
        if !exact {
            let detail = "null in the last positions is read as a missing item";
            self.record(place, "prefixItems", Effect::Narrowed, detail);
        }
        self.finish_closed(&mut output, &properties);
        let rules: Vec<Member<'a>> = members
            .iter()
            .filter(|member| {
                !is_annotation(member.key)
                    && !matches!(member.key, "type" | "items" | "prefixItems" | "minItems" | "maxItems")
            })
            .copied()
            .collect();
        self.describe_rules(&mut output, &rules, place);
        self.describe_rules(&mut output, leftover, place);
        Ok(Lowered { node: self.typed(output.members()), plan: Plan::Positions(Box::new(plan)) })
    }

    /// Finishes an object that has exactly `properties`, all of them required.
    pub(super) fn finish_closed(&self, output: &mut ObjectEdit<'a>, properties: &[Member<'a>]) {
        let names: Vec<Node<'a>> = properties.iter().map(|property| Node::Text(property.key)).collect();
        output.put("properties", self.context.object(properties));
        output.put("required", self.context.list(&names));
        if self.grammar.closed || self.grammar.maps {
            output.put("additionalProperties", Node::Bool(false));
        }
    }
}

fn min_items(members: Object<'_>) -> usize {
    match get(members, "minItems") {
        Some(Node::Number(digits)) => digits.parse().unwrap_or(usize::MAX),
        _ => 0,
    }
}

/// Whether `maxItems` is at most `count`.
fn max_items_within(members: Object<'_>, count: usize) -> bool {
    match get(members, "maxItems") {
        Some(Node::Number(digits)) => Decimal::of(digits) <= Decimal::of(&count.to_string()),
        _ => false,
    }
}
