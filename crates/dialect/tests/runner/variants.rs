//! The outputs of all variants in a case file: complete, as `same as …`, or as a difference.
//!
//! A difference is `{"like": "openai", "remove": [pointers], "set": {pointer: value}}`, with JSON pointers.
//! `remove` comes first. A new key goes to the end of its object, so the order of keys is restored as well.

use serde_json::{Map, Value, json};

/// The complete outputs, by the name of their variant, in the order of the file.
pub(crate) type Outputs = Vec<(String, Value)>;

const SAME_AS: &str = "same as ";

/// The outputs that differences refer to; only strict variants refer to the last two. The list is short, so
/// that the files stay easy to read.
const BASES: [&str; 3] = ["openai", "openai-strict", "openai-strict + reshape"];

/// Encodes each output in the shortest form, which may refer to an earlier output.
pub(crate) fn encode(outputs: &Outputs) -> Map<String, Value> {
    let entries = outputs.iter().enumerate().map(|(position, (name, value))| {
        let before = &outputs[..position];
        if let Some((same, _)) = before.iter().find(|(_, other)| identical(other, value)) {
            return (name.clone(), json!(format!("{SAME_AS}{same}")));
        }
        let allowed = if name.contains("-strict") { &BASES[..] } else { &BASES[..1] };
        let bases = before.iter().filter(|(base, _)| allowed.contains(&base.as_str()));
        let differences = bases.map(|(base, other)| Difference::between(other, value, "").into_entry(base));
        let shortest = differences.chain([value.clone()]).min_by_key(|entry| entry.to_string().len());
        (name.clone(), shortest.expect("the complete value"))
    });
    entries.collect()
}

/// Restores the complete outputs of a case file.
pub(crate) fn decode(entries: &Map<String, Value>) -> Result<Outputs, String> {
    let mut outputs = Outputs::new();
    for (name, entry) in entries {
        let base = |base: &str| {
            let output = outputs.iter().find(|(name, _)| name == base);
            output
                .map(|(_, value)| value.clone())
                .ok_or(format!("`{name}` refers to `{base}`, which does not precede it"))
        };
        let value = match (entry, entry.get("like")) {
            (Value::String(text), _) => {
                base(text.strip_prefix(SAME_AS).ok_or(format!("`{name}` does not start with `{SAME_AS}`"))?)?
            }
            (_, Some(like)) => {
                let like = like.as_str().ok_or(format!("`like` of `{name}` is not a string"))?;
                apply(base(like)?, entry)
                    .ok_or(format!("the difference of `{name}` does not apply to `{like}`"))?
            }
            _ => entry.clone(),
        };
        outputs.push((name.clone(), value));
    }
    Ok(outputs)
}

#[derive(Default)]
struct Difference {
    remove: Vec<String>,
    set: Vec<(String, Value)>,
}

impl Difference {
    fn between(base: &Value, target: &Value, pointer: &str) -> Difference {
        if identical(base, target) {
            return Difference::default();
        }
        let replacement =
            Difference { set: vec![(pointer.to_owned(), target.clone())], ..Difference::default() };
        let nested = match (base, target) {
            (Value::Object(base), Value::Object(target)) => Difference::of_objects(base, target, pointer),
            // A list of changes is easier to read in full.
            (Value::Array(base), Value::Array(target))
                if base.len() == target.len() && !pointer.ends_with("/changes") =>
            {
                Some(Difference::of_arrays(base, target, pointer))
            }
            _ => None,
        };
        nested.filter(|nested| nested.len() < replacement.len()).unwrap_or(replacement)
    }

    /// Returns `None` if removing and appending keys does not give the target's order of keys.
    fn of_objects(
        base: &Map<String, Value>,
        target: &Map<String, Value>,
        pointer: &str,
    ) -> Option<Difference> {
        let common = base.keys().filter(|key| target.contains_key(*key));
        let new = target.keys().filter(|key| !base.contains_key(*key));
        if !common.chain(new).eq(target.keys()) {
            return None;
        }
        let child = |key: &str| format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
        let mut difference = Difference::default();
        difference.remove.extend(base.keys().filter(|key| !target.contains_key(*key)).map(|key| child(key)));
        for (key, value) in target {
            match base.get(key) {
                Some(base) => difference.add(Difference::between(base, value, &child(key))),
                None => difference.set.push((child(key), value.clone())),
            }
        }
        Some(difference)
    }

    fn of_arrays(base: &[Value], target: &[Value], pointer: &str) -> Difference {
        let mut difference = Difference::default();
        for (index, (base, target)) in base.iter().zip(target).enumerate() {
            difference.add(Difference::between(base, target, &format!("{pointer}/{index}")));
        }
        difference
    }

    fn add(&mut self, other: Difference) {
        self.remove.extend(other.remove);
        self.set.extend(other.set);
    }

    fn into_entry(self, base: &str) -> Value {
        let mut entry = json!({ "like": base });
        if !self.remove.is_empty() {
            entry["remove"] = json!(self.remove);
        }
        if !self.set.is_empty() {
            entry["set"] = Value::Object(self.set.into_iter().collect());
        }
        entry
    }

    /// Returns the approximate length of the difference as text.
    fn len(&self) -> usize {
        const PUNCTUATION: usize = 6;
        let removed = self.remove.iter().map(|pointer| pointer.len() + PUNCTUATION);
        let set =
            self.set.iter().map(|(pointer, value)| pointer.len() + PUNCTUATION + value.to_string().len());
        removed.sum::<usize>() + set.sum::<usize>()
    }
}

fn apply(mut value: Value, difference: &Value) -> Option<Value> {
    for pointer in difference.get("remove").and_then(Value::as_array).into_iter().flatten() {
        let (parent, key) = parent_and_key(&mut value, pointer.as_str()?)?;
        parent.as_object_mut()?.shift_remove(&key)?;
    }
    for (pointer, new) in difference.get("set").and_then(Value::as_object).into_iter().flatten() {
        match parent_and_key(&mut value, pointer)? {
            (Value::Object(map), key) => drop(map.insert(key, new.clone())),
            (Value::Array(items), key) => *items.get_mut(key.parse::<usize>().ok()?)? = new.clone(),
            _ => return None,
        }
    }
    Some(value)
}

fn parent_and_key<'value>(value: &'value mut Value, pointer: &str) -> Option<(&'value mut Value, String)> {
    let (parent, key) = pointer.rsplit_once('/')?;
    Some((value.pointer_mut(parent)?, key.replace("~1", "/").replace("~0", "~")))
}

/// Whether two values are written alike: unlike `==`, this compares the order of keys.
fn identical(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let equal =
                |((key, value), (other_key, other_value))| key == other_key && identical(value, other_value);
            one.len() == other.len() && one.iter().zip(other).all(equal)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| identical(one, other))
        }
        _ => one == other,
    }
}
