//! Assigns each difference of a comparison to the entry of the report that explains it.

use serde_json::Value;
use toolwire_dialect::{Change, Effect};

use super::align::{Line, Row};
use super::origins::Origins;

/// Keywords whose change rewrites the schemas below, too.
const STRUCTURAL: [&str; 27] = [
    "$ref",
    "$defs",
    "definitions",
    "$dynamicRef",
    "$schema",
    "$id",
    "id",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "properties",
    "patternProperties",
    "additionalProperties",
    "dependentSchemas",
    "items",
    "prefixItems",
    "additionalItems",
    "type",
    "enum",
    "const",
    "inputSchema",
    "nullable",
    // A property that becomes required becomes an alternative to null.
    "required",
];

/// The keyword of the entry that says that the schema is rewritten as a whole.
const NOTATION: &str = "inputSchema";

/// Keywords with schemas inside.
const SCHEMAS: [&str; 22] = [
    "$defs",
    "definitions",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "dependentSchemas",
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "contentSchema",
    "dependencies",
];

/// How well an entry explains a difference; less is better.
type Distance = usize;

/// The indexes of the entries that explain the sides of a row. `None` for a side that has no difference, or that no
/// entry explains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Explained {
    pub(super) left: Option<usize>,
    pub(super) right: Option<usize>,
}

impl Explained {
    pub(super) fn is_by(self, index: usize) -> bool {
        self.left == Some(index) || self.right == Some(index)
    }
}

/// An entry of a report with its places on both sides, as JSON pointers to schemas.
pub(super) struct PlacedEntry<'a> {
    pub(super) change: &'a Change,
    pub(super) left: Vec<String>,
    pub(super) right: Vec<String>,
    /// Whether the reports of both sides have it.
    pub(super) is_shared: bool,
}

/// Returns for each row the entries that explain its difference.
pub(super) fn assign(rows: &[Row], changes: &[PlacedEntry<'_>]) -> Vec<Explained> {
    let entries: Vec<Entry<'_>> = changes.iter().map(Entry::of).collect();
    let mut uses = vec![0_usize; entries.len()];
    let mut assigned = Vec::with_capacity(rows.len());
    for row in rows {
        let explained = explain(row, &entries, &uses);
        for index in [explained.left, explained.right].into_iter().flatten() {
            uses[index] += 1;
        }
        assigned.push(explained);
    }
    assigned
}

fn explain(row: &Row, entries: &[Entry<'_>], uses: &[usize]) -> Explained {
    let (left, right) = (changed(row.left.as_ref()), changed(row.right.as_ref()));
    if row.is_one {
        let index = best_entry(left, right, entries, uses);
        return Explained { left: left.and(index), right: right.and(index) };
    }
    Explained {
        left: left.and_then(|_| best_entry(left, None, entries, uses)),
        right: right.and_then(|_| best_entry(None, right, entries, uses)),
    }
}

fn changed(line: Option<&Line>) -> Option<&Line> {
    line.filter(|line| line.is_changed)
}

struct Entry<'a> {
    keyword: &'a str,
    left: Vec<Vec<&'a str>>,
    right: Vec<Vec<&'a str>>,
    is_structural: bool,
    /// Whether an annotation was removed.
    is_dropped: bool,
}

impl<'a> Entry<'a> {
    fn of(placed: &'a PlacedEntry<'a>) -> Entry<'a> {
        let places = |pointers: &'a [String]| pointers.iter().map(|pointer| segments(pointer)).collect();
        Entry {
            keyword: &placed.change.keyword,
            left: places(&placed.left),
            right: places(&placed.right),
            is_structural: STRUCTURAL.contains(&placed.change.keyword.as_str()),
            is_dropped: placed.change.effect == Effect::Dropped,
        }
    }

    /// Whether it is about the schema at all, and not about the name or the mode.
    fn is_about_schema(&self) -> bool {
        !matches!(self.keyword, "name" | "strict")
    }
}

fn segments(pointer: &str) -> Vec<&str> {
    pointer.split('/').skip(1).collect()
}

/// Whether an entry says that the schema is rewritten as a whole, so that it does not explain a single difference.
pub(super) fn is_notation(change: &Change) -> bool {
    change.pointer.is_empty() && change.keyword == NOTATION
}

fn best_entry(
    left: Option<&Line>,
    right: Option<&Line>,
    entries: &[Entry<'_>],
    uses: &[usize],
) -> Option<usize> {
    let left = left.map(|line| segments(&line.pointer));
    let right = right.map(|line| segments(&line.pointer));
    let distances = entries.iter().enumerate().filter(|(_, entry)| entry.is_about_schema());
    let distances = distances.filter_map(|(index, entry)| {
        let sides = [(&left, &entry.left), (&right, &entry.right)];
        let near = sides.into_iter().flat_map(|(line, schemas)| {
            line.iter().flat_map(move |line| schemas.iter().filter_map(move |at| distance(line, at, entry)))
        });
        Some((near.min()?, uses[index], index))
    });
    distances.min().map(|(_, _, index)| index)
}

/// Returns how far an entry about the schema at `schema` is from the line of the value at `line`.
fn distance(line: &[&str], schema: &[&str], entry: &Entry<'_>) -> Option<Distance> {
    if entry.keyword == NOTATION {
        // Each other entry is more specific.
        return Some(1_000);
    }
    if let Some(rest) = line.strip_prefix(schema) {
        return match rest {
            // The keyword itself, or something inside it.
            [keyword, ..] if *keyword == entry.keyword => Some(0),
            // Text about the keyword, or another keyword of the schema.
            ["description"] => Some(1),
            // Any other entry explains it better.
            [_] | [] if entry.is_dropped => Some(20),
            [_] | [] => Some(2),
            // Values that are no schemas, such as those of an `enum`.
            [keyword, ..] if !SCHEMAS.contains(keyword) => Some(2),
            rest if entry.is_structural => Some(2 + rest.len()),
            _ => None,
        };
    }
    if let Some(below) = schema.strip_prefix(line) {
        // A part that contains the schema was written or removed as a whole.
        return Some(4 + below.len());
    }
    // `required` of an object changes for one of its properties.
    let (object, rest) = line.split_at(line.iter().rposition(|segment| *segment == "required")?);
    let is_property = schema.strip_prefix(object).is_some_and(|rest| matches!(rest, ["properties", _]));
    // A property that is renamed is renamed there, too.
    (is_property && rest.len() <= 2 && matches!(entry.keyword, "required" | "properties")).then_some(1)
}

/// Returns why a line differs that no entry explains: a notation that the report does not list, because it never
/// changes which arguments are valid.
pub(super) fn notation(
    row: &Row,
    explained: Explained,
    schema: &Value,
    origins: &Origins,
) -> Option<&'static str> {
    let left = changed(row.left.as_ref()).filter(|_| explained.left.is_none());
    let right = changed(row.right.as_ref()).filter(|_| explained.right.is_none());
    if origins.is_between_definitions() {
        return left.or(right).map(|_| OTHER_NOTATION);
    }
    let left = left.map(|line| left_notation(line, schema));
    let right = right.map(|line| right_notation(line, schema, origins));
    match (left, right) {
        // Each side of a row needs a reason; one is displayed.
        (Some(left), Some(right)) => left.and(right),
        (Some(reason), None) | (None, Some(reason)) => reason,
        (None, None) => None,
    }
}

const OTHER_NOTATION: &str = "the dialects write the same part of the tool in different ways";
const INLINED: &str =
    "references are replaced by the schemas that they refer to, or point to another copy of them";
const VERSION: &str = "the dialect has no versions, ids or comments of schemas";
const ALTERNATIVES: &str = "the alternatives exclude each other, so `oneOf` and `anyOf` are the same";
const NULL: &str = "the alternative null is written in the dialect's way";
const CONST: &str = "`const` is an `enum` with one value";
const ENUM_FORMAT: &str = "the dialect marks each `enum` with this format";
const MOVED: &str = "what is beside alternatives is moved into them";
const MERGED: &str = "the schemas of `allOf` are merged into one";
const ALL_TYPES: [&str; 6] = ["string", "number", "boolean", "object", "array", "null"];
const ENUM_TYPE: &str = "the type is that of the values of `enum`";
const NO_EFFECT: &str = "the keyword has no effect";

fn left_notation(line: &Line, schema: &Value) -> Option<&'static str> {
    match segments(&line.pointer).as_slice() {
        ["$defs" | "definitions", ..] => Some(INLINED),
        // The name of a property is no keyword.
        [.., "properties" | "patternProperties", _] => around(&line.pointer, schema),
        [.., "$ref"] => Some(INLINED),
        [.., "$schema" | "$id" | "id" | "$comment" | "$anchor"] => Some(VERSION),
        [.., "properties" | "patternProperties"] if line.text.trim_end_matches(',').ends_with("{}") => {
            Some(NO_EFFECT)
        }
        [.., "additionalProperties"] if line.text.trim_end_matches(',').ends_with("true") => Some(NO_EFFECT),
        [.., "type"] if ALL_TYPES.iter().all(|name| line.text.contains(name)) => Some(NO_EFFECT),
        [.., "const"] => Some(CONST),
        [.., "oneOf"] if !is_beside_null(&line.pointer, schema) => Some(ALTERNATIVES),
        [.., "description" | "title"] if is_annotation_of_alternatives(&line.pointer, schema) => Some(MOVED),
        _ => around(&line.pointer, schema),
    }
}

/// Returns why a part of the tool differs because of what is around it.
fn around(pointer: &str, schema: &Value) -> Option<&'static str> {
    if pointer.contains("/allOf") {
        return Some(MERGED);
    }
    if is_beside_null(pointer, schema) {
        return Some(NULL);
    }
    is_beside_alternatives(pointer, schema).then_some(MOVED)
}

fn right_notation(line: &Line, schema: &Value, origins: &Origins) -> Option<&'static str> {
    let pointer = line.pointer.as_str();
    if pointer.ends_with("/nullable") {
        return Some(NULL);
    }
    if pointer.ends_with("/format") && line.text.starts_with("\"format\": \"enum\"") {
        return Some(ENUM_FORMAT);
    }
    if let [.., "anyOf", _, "description" | "title"] = segments(pointer).as_slice() {
        return Some(MOVED);
    }
    if pointer.starts_with("/$defs") || prefixes(pointer).any(|prefix| has_key(schema, prefix, &["$ref"])) {
        return Some(INLINED);
    }
    let mut from = origins.of_value(pointer).iter();
    let is_const =
        |origin: &String| schema.pointer(origin).is_some_and(|schema| schema.get("const").is_some());
    if (pointer.ends_with("/enum") || pointer.ends_with("/type")) && from.clone().any(is_const) {
        return Some(CONST);
    }
    if from.clone().any(|origin| origin.starts_with("/$defs/") || origin.starts_with("/definitions/")) {
        return Some(INLINED);
    }
    let is_type = pointer.ends_with("/type");
    let is_enum = |origin: &String| has_key(schema, origin, &["enum"]) && !has_key(schema, origin, &["type"]);
    if is_type && from.clone().any(is_enum) {
        return Some(ENUM_TYPE);
    }
    let has_null = |origin: &String| {
        let lists = ["anyOf", "oneOf"].map(|key| format!("{origin}/{key}"));
        is_type && lists.iter().any(|list| is_beside_null(list, schema))
    };
    if from.any(|origin| is_beside_null(origin, schema) || has_null(origin)) {
        return Some(NULL);
    }
    if prefixes(pointer).any(|prefix| has_key(schema, prefix, &["allOf"])) {
        return Some(MERGED);
    }
    if pointer.ends_with("/anyOf") {
        return Some(ALTERNATIVES);
    }
    is_moved_to_alternative(pointer, schema).then_some(MOVED)
}

/// Returns a pointer and the ones above it.
fn prefixes(pointer: &str) -> impl Iterator<Item = &str> {
    let ends = pointer.match_indices('/').map(|(index, _)| index).chain([pointer.len()]);
    ends.map(move |end| &pointer[..end])
}

fn has_key(schema: &Value, pointer: &str, keys: &[&str]) -> bool {
    schema.pointer(pointer).is_some_and(|schema| keys.iter().any(|key| schema.get(key).is_some()))
}

fn is_annotation_of_alternatives(pointer: &str, schema: &Value) -> bool {
    let parent = pointer.rsplit_once('/').and_then(|(parent, _)| schema.pointer(parent));
    parent.is_some_and(|parent| {
        ["anyOf", "oneOf"].iter().any(|key| parent.get(key).is_some())
            // Alternatives have the texts of all of them.
            || pointer.contains("/anyOf/")
            || pointer.contains("/oneOf/")
    })
}

/// Whether a value is a keyword beside alternatives, or inside such a keyword.
fn is_beside_alternatives(pointer: &str, schema: &Value) -> bool {
    prefixes(pointer).any(|prefix| {
        let below = pointer[prefix.len()..].split('/').nth(1).unwrap_or_default();
        !below.is_empty()
            && !["anyOf", "oneOf"].contains(&below)
            && has_key(schema, prefix, &["anyOf", "oneOf"])
    })
}

/// Whether a value of a definition is a keyword in an alternative, which the tool has beside its
/// alternatives.
fn is_moved_to_alternative(pointer: &str, schema: &Value) -> bool {
    prefixes(pointer).any(|prefix| {
        let mut below = pointer[prefix.len()..].split('/').skip(1);
        let is_list = below.next() == Some("anyOf") && below.next().is_some();
        is_list && below.next().is_some_and(|key| has_key(schema, prefix, &[key]))
    })
}

/// Whether a value is in a list of alternatives of which one is null, or is that list.
fn is_beside_null(pointer: &str, schema: &Value) -> bool {
    let is_null = |alternative: &Value| alternative.get("type").and_then(Value::as_str) == Some("null");
    prefixes(pointer)
        .filter(|prefix| prefix.ends_with("/anyOf") || prefix.ends_with("/oneOf"))
        .filter_map(|prefix| schema.pointer(prefix)?.as_array())
        .any(|alternatives| alternatives.iter().any(is_null))
}
