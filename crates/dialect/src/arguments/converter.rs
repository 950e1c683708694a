//! Converts arguments according to a plan.

use std::cell::{Cell, RefCell};

use serde_json::{Map, Value};

use super::plan::{Branch, ObjectPlan, Plan, PositionsPlan, Rest};
use super::quick_match::{MatchBudget, Strictness, is_same, quick_match};

/// The maximum nesting of plans, so that a cycle of shared plans ends.
const MAX_PLAN_DEPTH: usize = 256;

/// The maximum number of alternatives that are tried for one set of arguments; after that, the first match is
/// used.
const MAX_TRIES: usize = 10_000;

/// The maximum number of texts that may be used as they are if their JSON values do not fit.
const MAX_JSON_TEXTS: usize = 64;

/// Converts one set of arguments.
pub(crate) struct Converter<'c> {
    shared: &'c [Plan],
    /// The schema in the definition, for references on the wire side.
    wire_schema: &'c Value,
    /// The tool's own schema, for references on the tool side.
    tool_schema: &'c Value,
    /// The number of alternatives that were tried.
    tries: Cell<usize>,
    match_budget: MatchBudget,
    /// Set by `encode`: an additional key that has the wire name of another one.
    pub(crate) name_collision: RefCell<Option<String>>,
    /// Set by `decode`: a key that occurs twice in a list of entries.
    pub(crate) duplicate_key: RefCell<Option<String>>,
    /// Set by `decode`: the texts that were read as JSON. Some may have been meant as they are.
    pub(crate) json_texts: RefCell<Vec<String>>,
}

impl<'c> Converter<'c> {
    pub(crate) fn new(shared: &'c [Plan], wire_schema: &'c Value, tool_schema: &'c Value) -> Converter<'c> {
        Converter {
            shared,
            wire_schema,
            tool_schema,
            tries: Cell::default(),
            match_budget: MatchBudget::default(),
            name_collision: RefCell::default(),
            duplicate_key: RefCell::default(),
            json_texts: RefCell::default(),
        }
    }

    /// Converts wire arguments to the tool's own.
    pub(crate) fn decode(&self, plan: &Plan, value: Value) -> Value {
        self.decode_within(plan, value, MAX_PLAN_DEPTH)
    }

    fn decode_within(&self, plan: &Plan, value: Value, depth_left: usize) -> Value {
        let Some(depth_left) = depth_left.checked_sub(1) else { return value };
        match (plan, value) {
            (Plan::Same, value) => value,
            (Plan::Shared(index), value) => match self.shared.get(*index) {
                Some(plan) => self.decode_within(plan, value, depth_left),
                None => value,
            },
            (Plan::Union(branches), value) => self.decode_union(branches, value, depth_left),
            (Plan::Object(plan), Value::Object(map)) => {
                Value::Object(self.decode_object(plan, map, depth_left))
            }
            (Plan::Items(plan), Value::Array(items)) => Value::Array(
                items.into_iter().map(|item| self.decode_within(plan, item, depth_left)).collect(),
            ),
            (Plan::Tuple { positions, rest }, Value::Array(items)) => Value::Array(
                items
                    .into_iter()
                    .enumerate()
                    .map(|(index, item)| {
                        self.decode_within(positions.get(index).unwrap_or(rest), item, depth_left)
                    })
                    .collect(),
            ),
            (Plan::JsonText, Value::String(text)) => {
                let Ok(value) = serde_json::from_str(&text) else { return Value::String(text) };
                let mut json_texts = self.json_texts.borrow_mut();
                if json_texts.len() < MAX_JSON_TEXTS {
                    json_texts.push(text);
                }
                value
            }
            (Plan::Entries(plan), Value::Array(entries)) => self.decode_entries(plan, entries, depth_left),
            (Plan::Positions(plan), Value::Object(map)) => self.decode_positions(plan, map, depth_left),
            (Plan::Values(values), Value::String(text)) => {
                match values.iter().find(|(wire, _)| *wire == text) {
                    Some((_, value)) => value.clone(),
                    None => Value::String(text),
                }
            }
            (_, value) => value,
        }
    }

    /// Decodes with the branch that the value matches. If several match, uses one whose result matches its
    /// tool side.
    fn decode_union(&self, branches: &[Branch], value: Value, depth_left: usize) -> Value {
        let matching = |strictness| {
            let matches = |branch: &&Branch| self.matches(&branch.wire, &value, self.wire_schema, strictness);
            branches.iter().filter(matches).collect::<Vec<_>>()
        };
        let candidates = Strictness::DESCENDING
            .into_iter()
            .map(matching)
            .find(|candidates| !candidates.is_empty())
            .unwrap_or_default();
        let [first, more @ ..] = candidates.as_slice() else { return value };
        if !more.is_empty() && self.tries.get() < MAX_TRIES {
            // Branches that convert go first: text that contains an object was probably meant as an object.
            let converting = candidates.iter().filter(|branch| !branch.plan.is_same());
            for branch in converting.chain(candidates.iter().filter(|branch| branch.plan.is_same())) {
                self.tries.set(self.tries.get() + 1);
                let decoded = self.decode_within(&branch.plan, value.clone(), depth_left);
                if self.matches(&branch.own, &decoded, self.tool_schema, Strictness::ClosedObjects) {
                    return decoded;
                }
            }
        }
        self.decode_within(&first.plan, value, depth_left)
    }

    fn decode_object(
        &self,
        plan: &ObjectPlan,
        map: Map<String, Value>,
        depth_left: usize,
    ) -> Map<String, Value> {
        let mut decoded = Map::with_capacity(map.len());
        let mut entries = None;
        for (key, value) in map {
            if let Rest::Entries { wire, plan } = &plan.rest
                && *wire == key
            {
                entries = Some((plan, value));
                continue;
            }
            match plan.fields.iter().find(|field| field.wire == key) {
                Some(field) if field.null_is_absent && value.is_null() => {}
                Some(field) => {
                    drop(
                        decoded.insert(field.own.clone(), self.decode_within(&field.plan, value, depth_left)),
                    );
                }
                None => {
                    let value = match &plan.rest {
                        Rest::Plan(rest) => self.decode_within(rest, value, depth_left),
                        _ => value,
                    };
                    // A renamed key that was sent under both names has the value of its wire name.
                    decoded.entry(key).or_insert(value);
                }
            }
        }
        match entries {
            Some((plan, Value::Array(list))) => {
                if let Value::Object(more) = self.decode_entries(plan, list, depth_left) {
                    for (key, value) in more {
                        decoded.entry(key).or_insert(value);
                    }
                }
            }
            Some((_, Value::Object(more))) => decoded.extend(more),
            _ => {}
        }
        decoded
    }

    fn decode_entries(&self, plan: &Plan, entries: Vec<Value>, depth_left: usize) -> Value {
        let is_entry =
            |entry: &Value| entry.get("key").is_some_and(Value::is_string) && entry.get("value").is_some();
        if !entries.iter().all(is_entry) {
            return Value::Array(entries);
        }
        let mut map = Map::with_capacity(entries.len());
        for entry in entries {
            if let Value::Object(mut entry) = entry
                && let (Some(Value::String(key)), Some(value)) = (entry.remove("key"), entry.remove("value"))
            {
                if map.contains_key(&key) {
                    *self.duplicate_key.borrow_mut() = Some(key.clone());
                }
                map.insert(key, self.decode_within(plan, value, depth_left));
            }
        }
        Value::Object(map)
    }

    fn decode_positions(
        &self,
        plan: &PositionsPlan,
        mut map: Map<String, Value>,
        depth_left: usize,
    ) -> Value {
        let rest = plan.rest.as_ref().and_then(|(key, plan)| Some((map.remove(key)?, plan)));
        let mut items: Vec<Value> = plan
            .keys
            .iter()
            .zip(&plan.plans)
            .map(|(key, plan)| {
                map.remove(key).map_or(Value::Null, |value| self.decode_within(plan, value, depth_left))
            })
            .collect();
        match rest {
            Some((Value::Array(more), plan)) if !more.is_empty() => {
                items.extend(more.into_iter().map(|item| self.decode_within(plan, item, depth_left)));
            }
            _ => {
                while items.len() > plan.min_length && items.last().is_some_and(Value::is_null) {
                    items.pop();
                }
            }
        }
        Value::Array(items)
    }

    /// Converts the tool's own arguments to wire arguments.
    pub(crate) fn encode(&self, plan: &Plan, value: Value) -> Value {
        self.encode_within(plan, value, MAX_PLAN_DEPTH)
    }

    fn encode_within(&self, plan: &Plan, value: Value, depth_left: usize) -> Value {
        let Some(depth_left) = depth_left.checked_sub(1) else { return value };
        match (plan, value) {
            (Plan::Same, value) => value,
            (Plan::Shared(index), value) => match self.shared.get(*index) {
                Some(plan) => self.encode_within(plan, value, depth_left),
                None => value,
            },
            (Plan::Union(branches), value) => match self.matching_branch(branches, &value) {
                Some(branch) => self.encode_within(&branch.plan, value, depth_left),
                None => value,
            },
            (Plan::Object(plan), Value::Object(map)) => {
                Value::Object(self.encode_object(plan, map, depth_left))
            }
            (Plan::Items(plan), Value::Array(items)) => Value::Array(
                items.into_iter().map(|item| self.encode_within(plan, item, depth_left)).collect(),
            ),
            (Plan::Tuple { positions, rest }, Value::Array(items)) => Value::Array(
                items
                    .into_iter()
                    .enumerate()
                    .map(|(index, item)| {
                        self.encode_within(positions.get(index).unwrap_or(rest), item, depth_left)
                    })
                    .collect(),
            ),
            (Plan::JsonText, value) => Value::String(value.to_string()),
            (Plan::Entries(plan), Value::Object(map)) => self.encode_entries(plan, map, depth_left),
            (Plan::Positions(plan), Value::Array(items)) => self.encode_positions(plan, items, depth_left),
            (Plan::Values(values), value) => match values.iter().find(|(_, own)| is_same(own, &value)) {
                Some((text, _)) => Value::String(text.clone()),
                None => value,
            },
            (_, value) => value,
        }
    }

    fn encode_object(
        &self,
        plan: &ObjectPlan,
        mut map: Map<String, Value>,
        depth_left: usize,
    ) -> Map<String, Value> {
        let mut encoded = Map::with_capacity(map.len().max(plan.fields.len()));
        for field in &plan.fields {
            match map.shift_remove(&field.own) {
                Some(value) => drop(
                    encoded.insert(field.wire.clone(), self.encode_within(&field.plan, value, depth_left)),
                ),
                None if plan.fill => drop(encoded.insert(field.wire.clone(), Value::Null)),
                None => {}
            }
        }
        if !matches!(plan.rest, Rest::Entries { .. })
            && let Some(field) = plan.fields.iter().find(|field| map.contains_key(&field.wire))
        {
            *self.name_collision.borrow_mut() = Some(field.wire.clone());
        }
        match &plan.rest {
            Rest::Same => encoded.extend(map),
            Rest::Plan(rest) => {
                encoded.extend(
                    map.into_iter().map(|(key, value)| (key, self.encode_within(rest, value, depth_left))),
                );
            }
            Rest::Entries { wire, plan } => {
                drop(encoded.insert(wire.clone(), self.encode_entries(plan, map, depth_left)))
            }
        }
        encoded
    }

    fn encode_entries(&self, plan: &Plan, map: Map<String, Value>, depth_left: usize) -> Value {
        let entry = |(key, value): (String, Value)| {
            let mut entry = Map::with_capacity(2);
            entry.insert("key".to_owned(), Value::String(key));
            entry.insert("value".to_owned(), self.encode_within(plan, value, depth_left));
            Value::Object(entry)
        };
        Value::Array(map.into_iter().map(entry).collect())
    }

    fn encode_positions(&self, plan: &PositionsPlan, items: Vec<Value>, depth_left: usize) -> Value {
        let mut encoded = Map::with_capacity(plan.keys.len() + 1);
        let mut items = items.into_iter();
        for (key, plan) in plan.keys.iter().zip(&plan.plans) {
            let value = items.next().map_or(Value::Null, |item| self.encode_within(plan, item, depth_left));
            encoded.insert(key.clone(), value);
        }
        if let Some((key, plan)) = &plan.rest {
            let more = items.map(|item| self.encode_within(plan, item, depth_left)).collect();
            encoded.insert(key.clone(), Value::Array(more));
        }
        Value::Object(encoded)
    }

    /// Returns the branch that one of the tool's own values matches most strictly.
    fn matching_branch<'b>(&self, branches: &'b [Branch], value: &Value) -> Option<&'b Branch> {
        Strictness::DESCENDING.into_iter().find_map(|strictness| {
            branches.iter().find(|branch| self.matches(&branch.own, value, self.tool_schema, strictness))
        })
    }

    fn matches(&self, schema: &Value, value: &Value, root: &Value, strictness: Strictness) -> bool {
        quick_match(schema, value, root, strictness, &self.match_budget)
    }
}
