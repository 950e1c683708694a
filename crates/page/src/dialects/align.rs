//! Aligns a tool with its definition: two columns of JSON lines, with equal keys on one row.
//!
//! The rows are in the order of the tool. A key that only the definition has is below the key that precedes
//! it in the definition.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::origins::{Column, Origins};
use crate::pointer::child;

/// The longest value that is written on one line, in characters.
const MAX_INLINE: usize = 72;

/// A row of the comparison. At least one side has a line.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub(super) left: Option<Line>,
    pub(super) right: Option<Line>,
    /// Whether the sides are one value before and after the conversion. Otherwise, they are two unrelated
    /// values, which share a row only to save space.
    pub(super) is_one: bool,
}

/// A line of JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) depth: usize,
    pub(super) text: String,
    /// Whether the other side does not have it.
    pub(super) is_changed: bool,
    /// The JSON pointer of the value that starts on this line, ends on it, or contains it.
    pub(super) pointer: String,
}

impl Row {
    /// Whether a value of the left side starts here, ends here or contains this row.
    pub(super) fn is_at(&self, pointer: &str) -> bool {
        self.left.as_ref().is_some_and(|line| line.pointer == pointer)
    }

    pub(super) fn is_changed(&self) -> bool {
        [&self.left, &self.right].into_iter().flatten().any(|line| line.is_changed)
    }
}

/// Returns the rows of two schemas.
pub(super) fn align(left: &Value, right: &Value, origins: &Origins) -> Vec<Row> {
    let mut alignment = Alignment { origins, rows: Vec::new() };
    let left = Part { key: None, value: left, pointer: String::new(), is_last: true };
    let right = Part { key: None, value: right, pointer: String::new(), is_last: true };
    alignment.both(&left, &right, 0);
    alignment.rows
}

/// Returns the rows of a value that has no counterpart, as unchanged lines on the left.
pub(super) fn alone(value: &Value) -> Vec<Row> {
    let part = Part { key: None, value, pointer: String::new(), is_last: true };
    let lines = lines(&part, 0, false);
    lines.into_iter().map(|line| Row { left: Some(line), ..Row::default() }).collect()
}

/// Returns the lines of a value with one line for each member and item.
pub(super) fn spread(value: &Value) -> Vec<Line> {
    let part = Part { key: None, value, pointer: String::new(), is_last: true };
    let mut written = Vec::new();
    write_lines(&part, 0, false, 0, &mut written);
    written
}

/// A value with its key, in its column.
struct Part<'a> {
    key: Option<&'a str>,
    value: &'a Value,
    pointer: String,
    is_last: bool,
}

impl Part<'_> {
    fn text(&self, value: &str) -> String {
        let key = self.key.map(|key| format!("{}: ", Value::from(key))).unwrap_or_default();
        format!("{key}{value}")
    }

    fn comma(&self) -> &'static str {
        if self.is_last { "" } else { "," }
    }
}

struct Alignment<'a> {
    origins: &'a Origins,
    rows: Vec<Row>,
}

impl Alignment<'_> {
    fn both(&mut self, left: &Part<'_>, right: &Part<'_>, depth: usize) {
        if left.key == right.key && self.origins.is_same(left.value, right.value, left.key) {
            let right = lines(right, depth, false);
            for (left, right) in lines(left, depth, false).into_iter().zip(right) {
                self.rows.push(Row { left: Some(left), right: Some(right), is_one: true });
            }
            return;
        }
        match (left.value, right.value) {
            (Value::Object(a), Value::Object(b)) => {
                self.bracket(left, right, depth, "{");
                self.members(a, b, left, right, depth + 1);
                self.end(left, right, depth, "}");
            }
            (Value::Array(a), Value::Array(b))
                if a.iter().chain(b).any(Value::is_object)
                    || !is_short(left.value)
                    || !is_short(right.value) =>
            {
                self.bracket(left, right, depth, "[");
                self.items(a, b, left, right, depth + 1);
                self.end(left, right, depth, "]");
            }
            _ => self.replaced(left, right, depth),
        }
    }

    /// Writes the first line of an object or array on both sides.
    fn bracket(&mut self, left: &Part<'_>, right: &Part<'_>, depth: usize, bracket: &str) {
        let is_changed = left.key != right.key;
        let line = |part: &Part<'_>| {
            Some(Line { depth, text: part.text(bracket), is_changed, pointer: part.pointer.clone() })
        };
        self.rows.push(Row { left: line(left), right: line(right), is_one: true });
    }

    fn end(&mut self, left: &Part<'_>, right: &Part<'_>, depth: usize, bracket: &str) {
        let line = |part: &Part<'_>| {
            let text = format!("{bracket}{}", part.comma());
            Some(Line { depth, text, is_changed: false, pointer: part.pointer.clone() })
        };
        self.rows.push(Row { left: line(left), right: line(right), is_one: true });
    }

    /// Writes two values that have nothing in common.
    fn replaced(&mut self, left: &Part<'_>, right: &Part<'_>, depth: usize) {
        let mut left = lines(left, depth, true).into_iter();
        let mut right = lines(right, depth, true).into_iter();
        loop {
            let row = Row { left: left.next(), right: right.next(), is_one: true };
            if row.left.is_none() && row.right.is_none() {
                return;
            }
            self.rows.push(row);
        }
    }

    /// Writes a value that only the tool has, beside the lines that only the definition has before it.
    fn left_only(&mut self, part: &Part<'_>, depth: usize) {
        let start = self.free_rows(depth, |row| (&row.left, &row.right));
        for (index, line) in (start..).zip(lines(part, depth, true)) {
            match self.rows.get_mut(index) {
                Some(row) => row.left = Some(line),
                None => self.rows.push(Row { left: Some(line), ..Row::default() }),
            }
        }
    }

    /// Writes a value that only the definition has, beside the lines that only the tool has before it.
    fn right_only(&mut self, part: &Part<'_>, depth: usize) {
        let start = self.free_rows(depth, |row| (&row.right, &row.left));
        for (index, line) in (start..).zip(lines(part, depth, true)) {
            match self.rows.get_mut(index) {
                Some(row) => row.right = Some(line),
                None => self.rows.push(Row { right: Some(line), ..Row::default() }),
            }
        }
    }

    /// Returns the index of the first of the last rows whose own side is empty and whose other side was
    /// changed at the same depth.
    fn free_rows(&self, depth: usize, sides: impl Fn(&Row) -> (&Option<Line>, &Option<Line>)) -> usize {
        let is_free = |row: &&Row| {
            let (own, other) = sides(row);
            own.is_none() && other.as_ref().is_some_and(|line| line.is_changed && line.depth == depth)
        };
        self.rows.len() - self.rows.iter().rev().take_while(is_free).count()
    }

    fn members<'m>(
        &mut self,
        a: &'m Map<String, Value>,
        b: &'m Map<String, Value>,
        left: &Part<'_>,
        right: &Part<'_>,
        depth: usize,
    ) {
        let counterparts = self.counterparts(a, b, left, right);
        let mut is_matched = vec![false; b.len()];
        for &index in counterparts.iter().flatten() {
            is_matched[index] = true;
        }
        let member = |(index, (key, value)): (usize, (&'m String, &'m Value)),
                      count: usize,
                      parent: &Part<'_>| {
            Part { key: Some(key), value, pointer: child(&parent.pointer, key), is_last: index + 1 == count }
        };
        let members_b: Vec<(&String, &Value)> = b.iter().collect();
        let part_b = |index: usize| member((index, members_b[index]), b.len(), right);
        let mut is_written = vec![false; b.len()];
        // Members of `b` up to the next one that `a` has, too.
        let added = |alignment: &mut Self, from: usize, is_written: &mut Vec<bool>| {
            for index in (from..b.len()).take_while(|index| !is_matched[*index]) {
                if !std::mem::replace(&mut is_written[index], true) {
                    alignment.right_only(&part_b(index), depth);
                }
            }
        };
        added(self, 0, &mut is_written);
        for (index, (entry, counterpart)) in a.iter().zip(&counterparts).enumerate() {
            let own = member((index, entry), a.len(), left);
            match counterpart {
                Some(other) if !is_written[*other] => {
                    is_written[*other] = true;
                    self.both(&own, &part_b(*other), depth);
                    added(self, other + 1, &mut is_written);
                }
                _ => self.left_only(&own, depth),
            }
        }
        for index in (0..b.len()).filter(|index| !is_matched[*index]) {
            if !is_written[index] {
                self.right_only(&part_b(index), depth);
            }
        }
    }

    /// Returns the index in `b` of the counterpart of each member of `a`: with the same key, or made from the
    /// same schema.
    fn counterparts(
        &self,
        a: &Map<String, Value>,
        b: &Map<String, Value>,
        left: &Part<'_>,
        right: &Part<'_>,
    ) -> Vec<Option<usize>> {
        let keys: HashMap<&str, usize> =
            b.keys().enumerate().map(|(index, key)| (key.as_str(), index)).collect();
        let added: Vec<(usize, String)> = b
            .keys()
            .enumerate()
            .filter(|(_, key)| !a.contains_key(*key))
            .map(|(index, key)| (index, child(&right.pointer, key)))
            .collect();
        let by_original = by_original(self.origins, &added);
        let counterpart = |key: &String| {
            let same = keys.get(key.as_str()).copied();
            let alternatives =
                (key == "oneOf" && !a.contains_key("anyOf")).then(|| keys.get("anyOf").copied()).flatten();
            same.or(alternatives).or_else(|| {
                let pointer = child(&left.pointer, key);
                let originals = self.origins.of_schema(Column::Left, &pointer).iter();
                originals.filter_map(|original| by_original.get(original.as_str())?.first().copied()).min()
            })
        };
        a.keys().map(counterpart).collect()
    }

    fn items(&mut self, a: &[Value], b: &[Value], left: &Part<'_>, right: &Part<'_>, depth: usize) {
        let part = |items: &'_ [Value], index: usize, parent: &Part<'_>| {
            (format!("{}/{index}", parent.pointer), index + 1 == items.len())
        };
        let mut same: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, value) in b.iter().enumerate() {
            same.entry(self.origins.comparable(value)).or_default().push(index);
        }
        let places: Vec<(usize, String)> =
            (0..b.len()).map(|index| (index, part(b, index, right).0)).collect();
        let by_original = by_original(self.origins, &places);
        let first_from = |indexes: Option<&Vec<usize>>, next: usize| {
            let indexes = indexes?;
            indexes.get(indexes.partition_point(|index| *index < next)).copied()
        };
        let mut next = 0;
        for (index, value) in a.iter().enumerate() {
            let (pointer, is_last) = part(a, index, left);
            let originals = self.origins.of_schema(Column::Left, &pointer).iter();
            let from_same =
                originals.filter_map(|original| first_from(by_original.get(original.as_str()), next));
            let counterpart = first_from(same.get(&self.origins.comparable(value)), next)
                .into_iter()
                .chain(from_same)
                .min();
            // Otherwise, schemas in lists of equal length are paired by their position.
            let is_listed = a.len() == b.len() && index >= next && value.is_object() && b[index].is_object();
            let counterpart = counterpart.or(is_listed.then_some(index));
            let own = Part { key: None, value, pointer, is_last };
            let Some(other) = counterpart else {
                self.left_only(&own, depth);
                continue;
            };
            for (between, value) in b.iter().enumerate().take(other).skip(next) {
                let (pointer, is_last) = part(b, between, right);
                self.right_only(&Part { key: None, value, pointer, is_last }, depth);
            }
            let (pointer, is_last) = part(b, other, right);
            self.both(&own, &Part { key: None, value: &b[other], pointer, is_last }, depth);
            next = other + 1;
        }
        for (index, value) in b.iter().enumerate().skip(next) {
            let (pointer, is_last) = part(b, index, right);
            self.right_only(&Part { key: None, value, pointer, is_last }, depth);
        }
    }
}

/// Returns the indexes of the right side's schemas, by the schemas from which they were made.
fn by_original<'p>(origins: &'p Origins, schemas: &'p [(usize, String)]) -> HashMap<&'p str, Vec<usize>> {
    let mut found: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, pointer) in schemas {
        for original in origins.of_schema(Column::Right, pointer) {
            found.entry(original).or_default().push(*index);
        }
    }
    found
}

/// Writes a value as lines: on one line if it is short.
fn lines(part: &Part<'_>, depth: usize, is_changed: bool) -> Vec<Line> {
    let mut written = Vec::new();
    write_lines(part, depth, is_changed, MAX_INLINE, &mut written);
    written
}

fn write_lines(part: &Part<'_>, depth: usize, is_changed: bool, room: usize, written: &mut Vec<Line>) {
    let comma = part.comma();
    let line = |text: String| Line { depth, text, is_changed, pointer: part.pointer.clone() };
    let is_nested = match part.value {
        Value::Object(members) => !members.is_empty() && !fits(part.value, room),
        Value::Array(items) => !items.is_empty() && !fits(part.value, room),
        _ => false,
    };
    if !is_nested {
        written.push(line(part.text(&format!("{}{comma}", spaced(part.value)))));
        return;
    }
    match part.value {
        Value::Object(members) => {
            written.push(line(part.text("{")));
            for (index, (key, value)) in members.iter().enumerate() {
                let is_last = index + 1 == members.len();
                let inner = Part { key: Some(key), value, pointer: child(&part.pointer, key), is_last };
                write_lines(&inner, depth + 1, is_changed, room, written);
            }
            written.push(line(format!("}}{comma}")));
        }
        Value::Array(items) => {
            written.push(line(part.text("[")));
            for (index, value) in items.iter().enumerate() {
                let is_last = index + 1 == items.len();
                let inner = Part { key: None, value, pointer: format!("{}/{index}", part.pointer), is_last };
                write_lines(&inner, depth + 1, is_changed, room, written);
            }
            written.push(line(format!("]{comma}")));
        }
        _ => {}
    }
}

/// Whether a value fits on one line.
fn is_short(value: &Value) -> bool {
    fits(value, MAX_INLINE)
}

/// Whether a value on one line has at most this many characters.
fn fits(value: &Value, room: usize) -> bool {
    fn length(value: &Value, room: usize) -> Option<usize> {
        let used = match value {
            Value::Object(members) => members.iter().try_fold(2, |used, (key, value)| {
                let used = used + key.chars().count() + 6;
                Some(used + length(value, room.checked_sub(used)?)?)
            })?,
            Value::Array(items) => items
                .iter()
                .try_fold(2, |used, value| Some(used + 2 + length(value, room.checked_sub(used)?)?))?,
            Value::String(text) => text.chars().take(room + 1).count() + 2,
            Value::Number(number) => number.as_str().len(),
            Value::Null | Value::Bool(_) => 5,
        };
        (used <= room).then_some(used)
    }
    length(value, room).is_some()
}

/// Writes a value on one line, with spaces.
fn spaced(value: &Value) -> String {
    match value {
        Value::Object(members) if !members.is_empty() => {
            let members: Vec<String> = members
                .iter()
                .map(|(key, value)| format!("{}: {}", Value::from(key.as_str()), spaced(value)))
                .collect();
            format!("{{ {} }}", members.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(spaced).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}
