//! Arrays and tuples.

use super::{Lower, Lowered, Lowering, Stop};
use crate::Effect;
use crate::arguments::{Plan, PositionsPlan};
use crate::json::{Decimal, EMPTY, Member, Node, Object, Place, get};
use crate::schema::draft::Draft;
use crate::schema::is_annotation;

impl<'a> Lowering<'_, 'a, '_> {
    pub(super) fn array(
        &mut self,
        members: Object<'a>,
        leftover: &[Member<'a>],
        place: &Place<'_>,
    ) -> Lower<'a> {
        let positions = get(members, "prefixItems").and_then(Node::list).unwrap_or_default();
        let items = get(members, "items");
        if !positions.is_empty() && !self.grammar.prefix_items {
            return self.tuple(members, positions, items, leftover, place);
        }
        let mut draft = self.begin(members, place);
        draft.put_first("type", Node::Text("array"));
        let mut plans = Vec::new();
        if !positions.is_empty() {
            let inside = place.key("prefixItems");
            let mut lowered = Vec::with_capacity(positions.len());
            for (index, position) in positions.iter().enumerate() {
                let one = self.lower(*position, &inside.index(index))?;
                lowered.push(one.node);
                plans.push(one.plan);
            }
            draft.put("prefixItems", self.context.list(&lowered));
        }
        let rest = match items {
            Some(Node::Bool(false)) => {
                self.cap_told(&mut draft, members, positions.len(), place);
                if !self.grammar.bare_arrays {
                    // There is none, so any type will do.
                    draft.put("items", self.typed(&[Member::new("type", Node::Text("string"))]));
                }
                Plan::Same
            }
            None if self.grammar.bare_arrays => Plan::Same,
            schema => {
                let here = place.key("items");
                let lowered =
                    self.lower_item(schema.unwrap_or(EMPTY), if schema.is_some() { &here } else { place });
                match lowered {
                    Ok(lowered) => {
                        draft.put("items", lowered.node);
                        lowered.plan
                    }
                    Err(Stop::Never) if least(members) > positions.len() => return Err(Stop::Never),
                    Err(Stop::Never) => {
                        // Nothing fits an item, so there can be none.
                        self.cap_told(&mut draft, members, positions.len(), place);
                        let anything = Node::Text("string");
                        draft.put("items", self.typed(&[Member::new("type", anything)]));
                        Plan::Same
                    }
                    Err(stop) => return Err(stop),
                }
            }
        };
        self.array_bounds(&mut draft, members, place);
        self.tell(&mut draft, leftover, place);
        let plan = if plans.iter().all(Plan::is_same) {
            Plan::items(rest)
        } else {
            Plan::Tuple { positions: plans, rest: Box::new(rest) }
        };
        Ok(Lowered { node: self.typed(draft.members()), plan })
    }

    fn array_bounds(&mut self, draft: &mut Draft<'a>, members: Object<'a>, place: &Place<'_>) {
        for member in members {
            let structural = matches!(member.key, "type" | "items" | "prefixItems");
            let capped = member.key == "maxItems" && draft.get("maxItems").is_some();
            if !structural && !capped && !is_annotation(member.key) {
                if matches!((member.key, member.value), ("uniqueItems", Node::Bool(false))) {
                    continue;
                }
                self.bound("array", draft, *member, place);
            }
        }
    }

    /// No item beyond the first `count`: by `maxItems`, or in words where the grammar has none.
    fn cap_told(&mut self, draft: &mut Draft<'a>, members: Object<'a>, count: usize, place: &Place<'_>) {
        self.cap(draft, members, count);
        if draft.get("maxItems").is_some() {
            return self.note(place, "items", Effect::Rewritten, "no further items: said by `maxItems`");
        }
        self.context.describe(draft, &format!("maxItems: {count}"));
        self.note(place, "items", Effect::Widened, "no further items, now only in the description");
    }

    /// No more than `count` items, or fewer if the schema says so.
    fn cap(&self, draft: &mut Draft<'a>, members: Object<'a>, count: usize) {
        let cap = match get(members, "maxItems") {
            Some(Node::Number(digits)) if Decimal::of(digits) < Decimal::of(&count.to_string()) => {
                Node::Number(digits)
            }
            _ => self.context.number(count),
        };
        if self.grammar.bounds.contains(&"maxItems") {
            draft.put("maxItems", cap);
        }
    }

    /// A tuple where the grammar has none: one schema for all positions if that is exact, an object if asked for, else
    /// what the grammar's users do.
    fn tuple(
        &mut self,
        members: Object<'a>,
        positions: &'a [Node<'a>],
        items: Option<Node<'a>>,
        leftover: &[Member<'a>],
        place: &Place<'_>,
    ) -> Lower<'a> {
        let ended = matches!(items, Some(Node::Bool(false)));
        let capped = match get(members, "maxItems") {
            Some(Node::Number(digits)) => Decimal::of(digits) <= Decimal::of(&positions.len().to_string()),
            _ => false,
        };
        let alike = positions.iter().all(|position| position.same(positions[0]));
        let bounded = self.grammar.bounds.contains(&"maxItems");
        let rest_alike = items.is_some_and(|items| items.same(positions[0]));
        if alike && (((ended || capped) && bounded) || rest_alike) {
            let mut draft = Draft::of(members);
            draft.remove("prefixItems");
            draft.put("items", positions[0]);
            if ended || capped {
                let cap = match get(members, "maxItems") {
                    Some(Node::Number(digits)) if capped => Node::Number(digits),
                    _ => self.context.number(positions.len()),
                };
                draft.put("maxItems", cap);
            }
            self.note(
                place,
                "prefixItems",
                Effect::Rewritten,
                "all positions are alike: one `items` says the same",
            );
            let members = self.context.members(draft.members());
            return self.array(members, leftover, place);
        }
        if self.grammar.strict {
            if !self.context.options.reshape {
                return Err(self.unsayable(
                    place,
                    "prefixItems",
                    "a tuple, each position with a schema of its own",
                ));
            }
            return self.positions(members, positions, items, leftover, place);
        }
        // Any position may hold what one of them allows.
        let mut branches = positions.to_vec();
        match items {
            Some(Node::Bool(false)) => {}
            Some(schema) => branches.push(schema),
            None if capped => {}
            None => branches.push(EMPTY),
        }
        let mut draft = Draft::of(members);
        draft.remove("prefixItems");
        self.moved();
        draft.put("items", self.context.object(&[Member::new("anyOf", self.context.list(&branches))]));
        if ended {
            self.cap(&mut draft, members, positions.len());
        }
        let inside: Vec<String> =
            positions.iter().map(|position| crate::schema::brief::brief(*position)).collect();
        self.context.describe(&mut draft, &format!("Positions: {}", inside.join(", ")));
        self.note(place, "prefixItems", Effect::Widened, "the positions are only in the description");
        let members = self.context.members(draft.members());
        self.array(members, leftover, place)
    }

    /// A tuple as an object with a key for each position.
    fn positions(
        &mut self,
        members: Object<'a>,
        positions: &'a [Node<'a>],
        items: Option<Node<'a>>,
        leftover: &[Member<'a>],
        place: &Place<'_>,
    ) -> Lower<'a> {
        let least = least(members);
        let mut draft = self.begin(members, place);
        draft.put_first("type", Node::Text("object"));
        self.context.describe(&mut draft, "An array of fixed positions, one key each");
        let inside = place.key("prefixItems");
        let mut properties = Vec::new();
        let mut plan = PositionsPlan { keys: Vec::new(), plans: Vec::new(), rest: None };
        for (index, position) in positions.iter().enumerate() {
            let here = inside.index(index);
            let lowered = self.lower(*position, &here)?;
            let key: &'a str = self.context.arena.alloc_str(&index.to_string());
            let node = if index < least { lowered.node } else { self.with_null(lowered.node) };
            properties.push(Member::new(key, node));
            plan.keys.push(key.to_owned());
            plan.plans.push(lowered.plan);
        }
        let more = match (items, get(members, "maxItems")) {
            (Some(Node::Bool(false)), _) => false,
            (_, Some(Node::Number(digits))) => {
                Decimal::of(digits) > Decimal::of(&positions.len().to_string())
            }
            _ => true,
        };
        if more {
            let here = place.key("items");
            let rest = self.lower(items.unwrap_or(EMPTY), if items.is_some() { &here } else { place })?;
            let list = [Member::new("type", Node::Text("array")), Member::new("items", rest.node)];
            properties.push(Member::new("rest", self.context.object(&list)));
            plan.rest = Some(("rest".to_owned(), rest.plan));
        }
        let exact = least >= positions.len() && !more;
        let effect = if exact { Effect::Rewritten } else { Effect::Widened };
        self.note(
            place,
            "prefixItems",
            effect,
            "a tuple, asked for as an object with a key for each position",
        );
        if !exact {
            self.note(
                place,
                "prefixItems",
                Effect::Narrowed,
                "a `null` at the end cannot be told from a missing position",
            );
        }
        self.finish_closed(&mut draft, &properties);
        let rules: Vec<Member<'a>> = members
            .iter()
            .filter(|member| {
                !is_annotation(member.key)
                    && !matches!(member.key, "type" | "items" | "prefixItems" | "minItems" | "maxItems")
            })
            .copied()
            .collect();
        self.tell(&mut draft, &rules, place);
        self.tell(&mut draft, leftover, place);
        Ok(Lowered { node: self.typed(draft.members()), plan: Plan::Positions(Box::new(plan)) })
    }

    /// Ends an object of the grammar whose keys are all required and all there are.
    pub(super) fn finish_closed(&self, draft: &mut Draft<'a>, properties: &[Member<'a>]) {
        let names: Vec<Node<'a>> = properties.iter().map(|property| Node::Text(property.key)).collect();
        draft.put("properties", self.context.object(properties));
        draft.put("required", self.context.list(&names));
        if self.grammar.closed || self.grammar.maps {
            draft.put("additionalProperties", Node::Bool(false));
        }
    }
}

/// How many items there must be.
fn least(members: Object<'_>) -> usize {
    match get(members, "minItems") {
        Some(Node::Number(digits)) => digits.parse().unwrap_or(usize::MAX),
        _ => 0,
    }
}
