//! Carries out a plan.

use serde_json::{Map, Value};

use super::fits::{Fit, Patience, fits};
use super::plan::{Branch, ObjectPlan, Plan, PositionsPlan, Rest};

/// How many plans may be followed without going deeper into the value, so that a circle of plans ends.
const FAR: usize = 256;

/// How many alternatives are tried for one set of arguments; beyond, the first that fits is taken.
const MOST_TRIES: usize = 10_000;

/// What plans refer to.
pub(crate) struct World<'w> {
    pub(crate) shared: &'w [Plan],
    /// The definition's schema, for references on the wire.
    pub(crate) wire: &'w Value,
    /// The tool's schema, for its own references.
    pub(crate) own: &'w Value,
    /// How often an alternative was tried.
    pub(crate) tries: std::cell::Cell<usize>,
    pub(crate) patience: Patience,
    /// A key that came beside the one that is called so on the wire.
    pub(crate) clash: std::cell::RefCell<Option<String>>,
    /// A key that came twice in a list of entries.
    pub(crate) repeated: std::cell::RefCell<Option<String>>,
}

impl World<'_> {
    /// From the wire to the tool's own.
    pub(crate) fn decode(&self, plan: &Plan, value: Value) -> Value {
        self.decode_within(plan, value, FAR)
    }

    fn decode_within(&self, plan: &Plan, value: Value, far: usize) -> Value {
        let Some(far) = far.checked_sub(1) else { return value };
        match (plan, value) {
            (Plan::Same, value) => value,
            (Plan::Shared(index), value) => match self.shared.get(*index) {
                Some(plan) => self.decode_within(plan, value, far),
                None => value,
            },
            (Plan::Union(branches), value) => self.decode_union(branches, value, far),
            (Plan::Object(plan), Value::Object(map)) => Value::Object(self.decode_object(plan, map, far)),
            (Plan::Items(plan), Value::Array(items)) => {
                Value::Array(items.into_iter().map(|item| self.decode_within(plan, item, far)).collect())
            }
            (Plan::Tuple { positions, rest }, Value::Array(items)) => Value::Array(
                items
                    .into_iter()
                    .enumerate()
                    .map(|(index, item)| self.decode_within(positions.get(index).unwrap_or(rest), item, far))
                    .collect(),
            ),
            (Plan::JsonText, Value::String(text)) => {
                serde_json::from_str(&text).unwrap_or(Value::String(text))
            }
            (Plan::Entries(plan), Value::Array(entries)) => self.decode_entries(plan, entries, far),
            (Plan::Positions(plan), Value::Object(map)) => self.decode_positions(plan, map, far),
            (Plan::Values(values), Value::String(text)) => {
                match values.iter().find(|(wire, _)| *wire == text) {
                    Some((_, value)) => value.clone(),
                    None => Value::String(text),
                }
            }
            (_, value) => value,
        }
    }

    /// By the branch that the value fits; if it fits several, by one that gives what that branch's tool side takes.
    fn decode_union(&self, branches: &[Branch], value: Value, far: usize) -> Value {
        let fitting = |fit| {
            branches
                .iter()
                .filter(|branch| fits(&branch.wire, &value, self.wire, fit, &self.patience))
                .collect::<Vec<_>>()
        };
        let candidates = [Fit::Closed, Fit::Letter, Fit::Loose]
            .into_iter()
            .map(fitting)
            .find(|candidates| !candidates.is_empty())
            .unwrap_or_default();
        let [first, more @ ..] = candidates.as_slice() else { return value };
        if !more.is_empty() && self.tries.get() < MOST_TRIES {
            // What has to be turned back goes first: text that holds an object is likelier meant as one.
            let turned = candidates.iter().filter(|branch| !branch.plan.is_same());
            for branch in turned.chain(candidates.iter().filter(|branch| branch.plan.is_same())) {
                self.tries.set(self.tries.get() + 1);
                let decoded = self.decode_within(&branch.plan, value.clone(), far);
                if fits(&branch.own, &decoded, self.own, Fit::Closed, &self.patience) {
                    return decoded;
                }
            }
        }
        self.decode_within(&first.plan, value, far)
    }

    fn decode_object(&self, plan: &ObjectPlan, map: Map<String, Value>, far: usize) -> Map<String, Value> {
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
                    drop(decoded.insert(field.own.clone(), self.decode_within(&field.plan, value, far)));
                }
                None => {
                    let value = match &plan.rest {
                        Rest::Plan(rest) => self.decode_within(rest, value, far),
                        _ => value,
                    };
                    // A key that was renamed and came under both names counts as it is called on the wire.
                    decoded.entry(key).or_insert(value);
                }
            }
        }
        match entries {
            Some((plan, Value::Array(list))) => {
                if let Value::Object(more) = self.decode_entries(plan, list, far) {
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

    fn decode_entries(&self, plan: &Plan, entries: Vec<Value>, far: usize) -> Value {
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
                    *self.repeated.borrow_mut() = Some(key.clone());
                }
                map.insert(key, self.decode_within(plan, value, far));
            }
        }
        Value::Object(map)
    }

    fn decode_positions(&self, plan: &PositionsPlan, mut map: Map<String, Value>, far: usize) -> Value {
        let rest = plan.rest.as_ref().and_then(|(key, plan)| Some((map.remove(key)?, plan)));
        let mut items: Vec<Value> = plan
            .keys
            .iter()
            .zip(&plan.plans)
            .map(|(key, plan)| {
                map.remove(key).map_or(Value::Null, |value| self.decode_within(plan, value, far))
            })
            .collect();
        match rest {
            Some((Value::Array(more), plan)) if !more.is_empty() => {
                items.extend(more.into_iter().map(|item| self.decode_within(plan, item, far)));
            }
            _ => {
                while items.last().is_some_and(Value::is_null) {
                    items.pop();
                }
            }
        }
        Value::Array(items)
    }

    /// From the tool's own to the wire.
    pub(crate) fn encode(&self, plan: &Plan, value: Value) -> Value {
        self.encode_within(plan, value, FAR)
    }

    fn encode_within(&self, plan: &Plan, value: Value, far: usize) -> Value {
        let Some(far) = far.checked_sub(1) else { return value };
        match (plan, value) {
            (Plan::Same, value) => value,
            (Plan::Shared(index), value) => match self.shared.get(*index) {
                Some(plan) => self.encode_within(plan, value, far),
                None => value,
            },
            (Plan::Union(branches), value) => {
                match self.pick(branches, &value, |branch| &branch.own, self.own) {
                    Some(branch) => self.encode_within(&branch.plan, value, far),
                    None => value,
                }
            }
            (Plan::Object(plan), Value::Object(map)) => Value::Object(self.encode_object(plan, map, far)),
            (Plan::Items(plan), Value::Array(items)) => {
                Value::Array(items.into_iter().map(|item| self.encode_within(plan, item, far)).collect())
            }
            (Plan::Tuple { positions, rest }, Value::Array(items)) => Value::Array(
                items
                    .into_iter()
                    .enumerate()
                    .map(|(index, item)| self.encode_within(positions.get(index).unwrap_or(rest), item, far))
                    .collect(),
            ),
            (Plan::JsonText, value) => Value::String(value.to_string()),
            (Plan::Entries(plan), Value::Object(map)) => self.encode_entries(plan, map, far),
            (Plan::Positions(plan), Value::Array(items)) => self.encode_positions(plan, items, far),
            (Plan::Values(values), value) => match values.iter().find(|(_, own)| same(own, &value)) {
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
        far: usize,
    ) -> Map<String, Value> {
        let mut encoded = Map::with_capacity(map.len().max(plan.fields.len()));
        for field in &plan.fields {
            match map.shift_remove(&field.own) {
                Some(value) => {
                    drop(encoded.insert(field.wire.clone(), self.encode_within(&field.plan, value, far)))
                }
                None if plan.fill => drop(encoded.insert(field.wire.clone(), Value::Null)),
                None => {}
            }
        }
        if !matches!(plan.rest, Rest::Entries { .. })
            && let Some(field) = plan.fields.iter().find(|field| map.contains_key(&field.wire))
        {
            *self.clash.borrow_mut() = Some(field.wire.clone());
        }
        match &plan.rest {
            Rest::Same => encoded.extend(map),
            Rest::Plan(rest) => {
                encoded
                    .extend(map.into_iter().map(|(key, value)| (key, self.encode_within(rest, value, far))));
            }
            Rest::Entries { wire, plan } => {
                drop(encoded.insert(wire.clone(), self.encode_entries(plan, map, far)))
            }
        }
        encoded
    }

    fn encode_entries(&self, plan: &Plan, map: Map<String, Value>, far: usize) -> Value {
        let entry = |(key, value): (String, Value)| {
            let mut entry = Map::with_capacity(2);
            entry.insert("key".to_owned(), Value::String(key));
            entry.insert("value".to_owned(), self.encode_within(plan, value, far));
            Value::Object(entry)
        };
        Value::Array(map.into_iter().map(entry).collect())
    }

    fn encode_positions(&self, plan: &PositionsPlan, items: Vec<Value>, far: usize) -> Value {
        let mut encoded = Map::with_capacity(plan.keys.len() + 1);
        let mut items = items.into_iter();
        for (key, plan) in plan.keys.iter().zip(&plan.plans) {
            let value = items.next().map_or(Value::Null, |item| self.encode_within(plan, item, far));
            encoded.insert(key.clone(), value);
        }
        if let Some((key, plan)) = &plan.rest {
            let more = items.map(|item| self.encode_within(plan, item, far)).collect();
            encoded.insert(key.clone(), Value::Array(more));
        }
        Value::Object(encoded)
    }

    /// The branch a value belongs to: one whose keys it keeps to, else one that it fits by the letter.
    fn pick<'b>(
        &self,
        branches: &'b [Branch],
        value: &Value,
        schema: impl Fn(&Branch) -> &Value,
        root: &Value,
    ) -> Option<&'b Branch> {
        [Fit::Closed, Fit::Letter, Fit::Loose].into_iter().find_map(|fit| {
            branches.iter().find(|branch| fits(schema(branch), value, root, fit, &self.patience))
        })
    }
}

/// Equality of values: numbers by what they say.
fn same(a: &Value, b: &Value) -> bool {
    let arena = bumpalo::Bump::new();
    crate::json::from_value(a, &arena).same(crate::json::from_value(b, &arena))
}
