//! Assigns each difference of a comparison to the entry of the report that explains it.

use std::collections::{BTreeSet, HashMap};

use toolwire_dialect::{Change, Effect};

use super::align::{Line, Row};
use super::origins::{Column, prefixes};

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

/// The indexes of the entries that explain the sides of a row. `None` for a side that has no difference, or
/// that no entry explains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Explained {
    pub(super) left: Option<usize>,
    pub(super) right: Option<usize>,
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
    let mut entries = Entries::new(changes);
    let mut assigned = Vec::with_capacity(rows.len());
    for row in rows {
        let explained = explain(row, &entries);
        for index in [explained.left, explained.right].into_iter().flatten() {
            entries.count_use(index);
        }
        assigned.push(explained);
    }
    assigned
}

fn explain(row: &Row, entries: &Entries<'_>) -> Explained {
    let left = changed(row.left.as_ref()).map(|line| (Column::Left, line));
    let right = changed(row.right.as_ref()).map(|line| (Column::Right, line));
    if row.is_one {
        let index = entries.best(left.into_iter().chain(right));
        return Explained { left: left.and(index), right: right.and(index) };
    }
    Explained { left: entries.best(left), right: entries.best(right) }
}

pub(super) fn changed(line: Option<&Line>) -> Option<&Line> {
    line.filter(|line| line.is_changed)
}

pub(super) fn segments(pointer: &str) -> Vec<&str> {
    pointer.split('/').skip(1).collect()
}

/// Whether an entry says that the schema is rewritten as a whole, so that it does not explain a single
/// difference.
pub(super) fn is_notation(change: &Change) -> bool {
    change.pointer.is_empty() && change.keyword == NOTATION
}

/// The entries about schemas, by their places: a line is compared only with those that may explain it.
struct Entries<'a> {
    placed: &'a [PlacedEntry<'a>],
    /// How many differences each entry explains so far.
    uses: Vec<usize>,
    groups: HashMap<(Column, &'a str), Vec<Group<'a>>>,
}

/// Entries that explain each line equally well.
struct Group<'a> {
    relation: Relation<'a>,
    /// The uses and the index of each entry.
    entries: BTreeSet<(usize, usize)>,
}

/// How entries are related to a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation<'a> {
    /// They say that the schema is rewritten as a whole.
    Notation,
    /// They are about this keyword of the schema at the place.
    Keyword { keyword: &'a str, is_dropped: bool },
    /// They are about a schema this many segments below the place.
    Below(usize),
    /// They are about a property of the object at the place, and may change its `required`.
    Property,
}

impl<'a> Entries<'a> {
    fn new(placed: &'a [PlacedEntry<'a>]) -> Entries<'a> {
        let mut groups: HashMap<(Column, &'a str), Vec<Group<'a>>> = HashMap::new();
        for (index, entry) in placed.iter().enumerate() {
            for_each_relation(entry, |column, place, relation| {
                let groups = groups.entry((column, place)).or_default();
                let known = groups.iter().position(|group| group.relation == relation);
                let known = known.unwrap_or_else(|| {
                    groups.push(Group { relation, entries: BTreeSet::new() });
                    groups.len() - 1
                });
                groups[known].entries.insert((0, index));
            });
        }
        Entries { placed, uses: vec![0; placed.len()], groups }
    }

    /// Prefers the entries that explain few differences, so that each of several equal ones is displayed.
    fn count_use(&mut self, index: usize) {
        let before = self.uses[index];
        self.uses[index] += 1;
        for_each_relation(&self.placed[index], |column, place, relation| {
            let groups = self.groups.get_mut(&(column, place)).into_iter().flatten();
            for group in groups.filter(|group| group.relation == relation) {
                group.entries.remove(&(before, index));
                group.entries.insert((before + 1, index));
            }
        });
    }

    /// Returns the entry that explains lines best.
    fn best<'l>(&self, lines: impl IntoIterator<Item = (Column, &'l Line)>) -> Option<usize> {
        let near = lines.into_iter().filter_map(|(column, line)| self.nearest(column, &line.pointer)).min();
        near.map(|(_, _, index)| index)
    }

    fn nearest(&self, column: Column, line: &str) -> Option<(Distance, usize, usize)> {
        let groups = prefixes(line).flat_map(|place| {
            self.groups.get(&(column, place)).into_iter().flatten().map(move |group| (place, group))
        });
        let near = groups.filter_map(|(place, group)| {
            let (uses, index) = group.entries.first()?;
            Some((distance(&line[place.len()..], group.relation)?, *uses, *index))
        });
        near.min()
    }
}

/// Calls `found` with each place to which an entry is related. Entries about the name or the mode are not
/// about the schema.
fn for_each_relation<'a>(placed: &'a PlacedEntry<'a>, mut found: impl FnMut(Column, &'a str, Relation<'a>)) {
    let keyword = placed.change.keyword.as_str();
    if matches!(keyword, "name" | "strict") {
        return;
    }
    let is_dropped = placed.change.effect == Effect::Dropped;
    for (column, places) in [(Column::Left, &placed.left), (Column::Right, &placed.right)] {
        for place in places {
            if keyword == NOTATION {
                found(column, "", Relation::Notation);
                continue;
            }
            found(column, place, Relation::Keyword { keyword, is_dropped });
            let depth = place.matches('/').count();
            for (above, prefix) in prefixes(place).take(depth).enumerate() {
                found(column, prefix, Relation::Below(depth - above));
            }
            let object = place.rsplit_once('/').and_then(|(list, _)| list.strip_suffix("/properties"));
            if let Some(object) = object.filter(|_| matches!(keyword, "required" | "properties")) {
                found(column, object, Relation::Property);
            }
        }
    }
}

/// Returns how well entries explain a line; `rest` leads from their place to the line.
fn distance(rest: &str, relation: Relation<'_>) -> Option<Distance> {
    let rest = segments(rest);
    match (relation, rest.as_slice()) {
        // Each other entry is more specific.
        (Relation::Notation, _) => Some(1_000),
        // A part that contains the schema was written or removed as a whole.
        (Relation::Below(segments), []) => Some(4 + segments),
        // `required` of an object changes for one of its properties. A property that is renamed is renamed
        // there, too.
        (Relation::Property, ["required"] | ["required", _]) => Some(1),
        (Relation::Below(_) | Relation::Property, _) => None,
        (Relation::Keyword { keyword, is_dropped }, rest) => distance_inside(rest, keyword, is_dropped),
    }
}

/// Returns how well entries about a keyword of a schema explain a line of it.
fn distance_inside(rest: &[&str], keyword: &str, is_dropped: bool) -> Option<Distance> {
    match rest {
        // The keyword itself, or something inside it.
        [first, ..] if *first == keyword => Some(0),
        // Text about the keyword, or another keyword of the schema.
        ["description"] => Some(1),
        // Any other entry explains it better.
        [_] | [] if is_dropped => Some(20),
        [_] | [] => Some(2),
        // Values that are no schemas, such as those of an `enum`.
        [first, ..] if !SCHEMAS.contains(first) => Some(2),
        rest if STRUCTURAL.contains(&keyword) => Some(2 + rest.len()),
        _ => None,
    }
}
