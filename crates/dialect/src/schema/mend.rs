//! Mends what is no schema, puts old drafts in today's words, and takes out what no model should see.
//!
//! One walk, by schema position, for every dialect. It returns the same node wherever nothing is wrong, which is nearly
//! everywhere; each mend is in the report. What the profile adds here is what an API refuses at any depth (`default`,
//! arrays without `items`, patterns its checker cannot compile); everything structural is left to lowering.

use super::brief::brief;
use super::context::Context;
use super::draft::{Draft, Sifted};
use super::{Slot, slot};
use crate::json::{Decimal, EMPTY, Member, Node, Object, Place, get};
use crate::{Defaults, Effect};

impl<'a> Context<'a, '_> {
    /// A mended schema. `node` must be an object or a boolean.
    pub(crate) fn mend(&mut self, node: Node<'a>, place: &Place<'_>) -> Node<'a> {
        match node {
            Node::Object(members) => match self.mend_object(members, place) {
                None => node,
                Some(mended) => mended,
            },
            Node::Bool(false) => {
                self.doubtful = true;
                node
            }
            _ => node,
        }
    }

    fn mend_object(&mut self, members: Object<'a>, place: &Place<'_>) -> Option<Node<'a>> {
        let mut draft = Draft::of(members);
        let mut array = false;
        let mut has_items = false;
        let mut list_items = false;
        for member in members {
            let Member { key, value } = *member;
            match slot(key) {
                Slot::Type => {
                    if let Some(mended) = self.mend_type(value, place) {
                        match mended {
                            Some(node) => draft.put(key, node),
                            None => drop(draft.remove(key)),
                        }
                    }
                    array = draft.get(key).is_some_and(allows_array);
                }
                Slot::Properties => self.mend_properties(&mut draft, value, place),
                Slot::Required => self.mend_required(&mut draft, value, place),
                Slot::Default => self.mend_default(&mut draft, value, place),
                Slot::Schema => self.mend_child(&mut draft, key, value, place),
                Slot::SchemaMap => self.mend_map(&mut draft, key, value, place),
                Slot::SchemaList => self.mend_list(&mut draft, key, value, place),
                Slot::Items => {
                    has_items = true;
                    match value {
                        Node::List(_) => list_items = true,
                        Node::Bool(_) if self.profile.needs_items => {
                            self.mend_boolean_items(&mut draft, value, place)
                        }
                        _ => self.mend_child(&mut draft, key, value, place),
                    }
                }
                Slot::AdditionalItems => {
                    // Without a list of items it says nothing, in any draft.
                    if !members.iter().any(|member| member.key == "items" && member.value.list().is_some()) {
                        draft.remove(key);
                        self.note(place, key, Effect::Dropped, "it has no meaning without a list of `items`");
                    }
                }
                Slot::Dependencies => self.mend_dependencies(&mut draft, value, place),
                Slot::NameLists => {
                    if value.object().is_none() {
                        self.drop_invalid(&mut draft, key, value, place, "an object");
                    }
                }
                Slot::Ref => match value {
                    _ if value.is_string() => {
                        self.refs = true;
                        self.doubtful = true;
                    }
                    _ => self.drop_invalid(&mut draft, key, value, place, "a string"),
                },
                Slot::Number => self.mend_number(&mut draft, key, value, place),
                Slot::Exclusive => self.mend_exclusive(&mut draft, key, value, place),
                Slot::Count => self.mend_count(&mut draft, key, value, place),
                Slot::Flag => {
                    if !matches!(value, Node::Bool(_)) {
                        self.drop_invalid(&mut draft, key, value, place, "a boolean");
                    }
                }
                Slot::Text => {
                    if !value.is_string() {
                        self.drop_invalid(&mut draft, key, value, place, "a string");
                    }
                }
                Slot::Pattern => self.mend_pattern(&mut draft, value, place),
                Slot::Enum => match value {
                    Node::List([]) => self.doubtful = true,
                    Node::List(_) => {}
                    _ => self.drop_invalid(&mut draft, key, value, place, "an array"),
                },
                Slot::Examples => {
                    if value.list().is_none() {
                        let wrapped = self.list(&[value]);
                        draft.put(key, wrapped);
                        self.note(place, key, Effect::Rewritten, "a lone example, now in an array");
                    }
                }
                Slot::McpHeader => {
                    draft.remove(key);
                    self.note(place, key, Effect::Dropped, "it is for the transport, not for the model");
                }
                Slot::Other => {}
            }
        }
        if list_items {
            self.mend_list_items(&mut draft, place);
        }
        if array && !has_items && self.profile.needs_items {
            draft.put("items", EMPTY);
            self.note(place, "items", Effect::Rewritten, "an array must say `items`; `{}` allows the same");
        }
        draft.is_edited().then(|| self.object(draft.members()))
    }

    fn mend_child(&mut self, draft: &mut Draft<'a>, key: &'a str, value: Node<'a>, place: &Place<'_>) {
        if !value.is_schema() {
            return self.drop_invalid(draft, key, value, place, "a schema");
        }
        let inside = place.key(key);
        let turns = usize::from(matches!(key, "not" | "if"));
        self.turned += turns;
        let mended = self.mend(value, &inside);
        self.turned -= turns;
        if changed(value, mended) {
            draft.put(key, mended);
        }
    }

    fn mend_properties(&mut self, draft: &mut Draft<'a>, value: Node<'a>, place: &Place<'_>) {
        let Some(properties) = value.object() else {
            draft.put("properties", EMPTY);
            return self.note(
                place,
                "properties",
                Effect::Rewritten,
                format!("{} instead of an object", value.kind()),
            );
        };
        let inside = place.key("properties");
        let mut mended = Sifted::of(properties);
        let mut promoted = Vec::new();
        for property in properties {
            let here = inside.key(property.key);
            match property.value {
                Node::Object(members) => {
                    if let Some(Node::Bool(required)) = get(members, "required") {
                        self.note(
                            &here,
                            "required",
                            Effect::Rewritten,
                            "it belongs into the object's own `required`",
                        );
                        if required {
                            promoted.push(property.key);
                        }
                    }
                    let node = self.mend(property.value, &here);
                    if changed(property.value, node) { mended.replace(node) } else { mended.keep() }
                }
                Node::Bool(_) => {
                    self.mend(property.value, &here);
                    mended.keep();
                }
                other => {
                    let required = draft.get("required").and_then(Node::list).unwrap_or_default();
                    let wanted = required.iter().any(|name| name.text(self.arena) == Some(property.key));
                    let what = if wanted { "anything goes" } else { "left out" };
                    if wanted {
                        mended.replace(EMPTY)
                    } else {
                        mended.skip()
                    }
                    self.note(
                        &here,
                        "properties",
                        Effect::Rewritten,
                        format!("{} is no schema: {what}", other.kind()),
                    );
                }
            }
        }
        if let Some(edited) = mended.edited() {
            draft.put("properties", self.object(&edited));
        }
        if !promoted.is_empty() {
            let mut names = draft.get("required").and_then(Node::list).unwrap_or_default().to_vec();
            for name in promoted {
                if !names.iter().any(|other| other.text(self.arena) == Some(name)) {
                    names.push(Node::Text(name));
                }
            }
            draft.put("required", self.list(&names));
        }
    }

    fn mend_required(&mut self, draft: &mut Draft<'a>, value: Node<'a>, place: &Place<'_>) {
        let Some(names) = value.list() else {
            // A boolean was a draft-03 habit; the parent has taken note of it.
            if !matches!(value, Node::Bool(_)) {
                self.note(
                    place,
                    "required",
                    Effect::Rewritten,
                    format!("{} instead of a list of names", value.kind()),
                );
            }
            // What the properties promoted meanwhile stays.
            if draft.get("required").and_then(Node::list).is_none() {
                draft.remove("required");
            }
            return;
        };
        let mut kept: Vec<Node<'a>> = Vec::new();
        let mut seen = Seen::new(names.len());
        for name in names {
            if name.text(self.arena).is_some_and(|text| seen.insert(text)) {
                kept.push(*name);
            }
        }
        if kept.len() == names.len() {
            return;
        }
        // Names promoted from the properties may have been added by now.
        for name in draft.get("required").and_then(Node::list).unwrap_or_default() {
            if name.text(self.arena).is_some_and(|text| seen.insert(text)) {
                kept.push(*name);
            }
        }
        draft.put("required", self.list(&kept));
        self.note(place, "required", Effect::Rewritten, "names must be strings, each once");
    }

    fn mend_default(&mut self, draft: &mut Draft<'a>, value: Node<'a>, place: &Place<'_>) {
        let choice = self.defaults();
        if choice == Defaults::Keep && self.profile.takes_defaults {
            return;
        }
        draft.remove("default");
        if choice == Defaults::Describe {
            self.describe(draft, &format!("Default: {}", brief(value)));
            return self.note(
                place,
                "default",
                Effect::Dropped,
                format!("default {}, now in the description", brief(value)),
            );
        }
        self.note(place, "default", Effect::Dropped, format!("default {}", brief(value)));
    }

    fn mend_map(&mut self, draft: &mut Draft<'a>, key: &'a str, value: Node<'a>, place: &Place<'_>) {
        let Some(schemas) = value.object() else {
            return self.drop_invalid(draft, key, value, place, "an object");
        };
        let inside = place.key(key);
        let mut mended = Sifted::of(schemas);
        let mut opened = false;
        for entry in schemas {
            let here = inside.key(entry.key);
            if !entry.value.is_schema() {
                mended.skip();
                self.note(
                    &here,
                    key,
                    Effect::Rewritten,
                    format!("{} is no schema: left out", entry.value.kind()),
                );
                continue;
            }
            if key == "patternProperties"
                && self.profile.python_patterns
                && !super::pattern::compiles_in_python(entry.key)
            {
                mended.skip();
                if self.turned > 0 {
                    self.note(&here, key, Effect::Narrowed, "without it the rule around it refuses more");
                }
                opened = true;
                let detail = "the API's checker cannot compile this pattern: the object is open now";
                self.note(&here, key, Effect::Widened, detail);
                continue;
            }
            let node = self.mend(entry.value, &here);
            if changed(entry.value, node) { mended.replace(node) } else { mended.keep() }
        }
        if let Some(edited) = mended.edited() {
            draft.put(key, self.object(&edited));
        }
        if opened {
            draft.put("additionalProperties", Node::Bool(true));
        }
    }

    fn mend_list(&mut self, draft: &mut Draft<'a>, key: &'a str, value: Node<'a>, place: &Place<'_>) {
        let schemas = match value {
            Node::List(schemas) => schemas,
            _ => return self.drop_invalid(draft, key, value, place, "a list of schemas"),
        };
        if key == "allOf" {
            self.doubtful = true;
        }
        if schemas.is_empty() {
            draft.remove(key);
            return self.note(place, key, Effect::Rewritten, "an empty list says nothing");
        }
        let inside = place.key(key);
        let mut mended: Option<Vec<Node<'a>>> = None;
        self.turned += usize::from(key == "oneOf");
        for (index, schema) in schemas.iter().enumerate() {
            let here = inside.index(index);
            if !schema.is_schema() {
                mended.get_or_insert_with(|| schemas[..index].to_vec());
                self.note(&here, key, Effect::Rewritten, format!("{} is no schema: left out", schema.kind()));
                continue;
            }
            let node = self.mend(*schema, &here);
            if changed(*schema, node) && mended.is_none() {
                mended = Some(schemas[..index].to_vec());
            }
            if let Some(mended) = &mut mended {
                mended.push(node);
            }
        }
        self.turned -= usize::from(key == "oneOf");
        match mended {
            None => {}
            Some(nodes) if nodes.is_empty() => drop(draft.remove(key)),
            Some(nodes) => draft.put(key, self.list(&nodes)),
        }
    }

    /// `items: true` and `items: false` in words that every checker takes.
    fn mend_boolean_items(&mut self, draft: &mut Draft<'a>, value: Node<'a>, place: &Place<'_>) {
        draft.put("items", EMPTY);
        if matches!(value, Node::Bool(false)) {
            self.cap_items(draft);
        }
        self.note(
            place,
            "items",
            Effect::Rewritten,
            format!("`items` must be an object here, not {}", brief(value)),
        );
    }

    /// No item beyond the positions that `prefixItems` names.
    fn cap_items(&self, draft: &mut Draft<'a>) {
        let length = draft.get("prefixItems").and_then(Node::list).map_or(0, <[Node<'_>]>::len);
        let cap = self.number(length);
        match draft.get("maxItems") {
            Some(Node::Number(existing)) if Decimal::of(existing) <= Decimal::of(&length.to_string()) => {}
            _ => draft.put("maxItems", cap),
        }
    }

    /// A list under `items`, as drafts before 2020-12 wrote tuples.
    fn mend_list_items(&mut self, draft: &mut Draft<'a>, place: &Place<'_>) {
        let positions = draft.get("items").and_then(Node::list).unwrap_or_default();
        let rest = draft.remove("additionalItems");
        let inside = place.key("items");
        let schemas: Vec<Node<'a>> = positions
            .iter()
            .enumerate()
            .map(|(index, schema)| {
                let here = inside.index(index);
                if schema.is_schema() { self.mend(*schema, &here) } else { EMPTY }
            })
            .collect();
        let schemas = self.list(&schemas);
        draft.rename("items", "prefixItems");
        draft.put("prefixItems", schemas);
        match rest {
            Some(Node::Bool(false)) if self.profile.needs_items => {
                draft.put("items", EMPTY);
                self.cap_items(draft);
            }
            Some(Node::Bool(true)) | None if self.profile.needs_items => draft.put("items", EMPTY),
            Some(schema) if schema.is_schema() => {
                let here = place.key("additionalItems");
                let schema = self.mend(schema, &here);
                draft.put("items", schema);
            }
            _ => {}
        }
        self.upgraded = true;
        self.note(place, "items", Effect::Rewritten, "a list of `items` is `prefixItems` today");
    }

    fn mend_dependencies(&mut self, draft: &mut Draft<'a>, value: Node<'a>, place: &Place<'_>) {
        let Some(entries) = value.object() else {
            return self.drop_invalid(draft, "dependencies", value, place, "an object");
        };
        let inside = place.key("dependencies");
        let mut mended = Sifted::of(entries);
        for entry in entries {
            let here = inside.key(entry.key);
            if entry.value.is_schema() {
                let node = self.mend(entry.value, &here);
                if changed(entry.value, node) { mended.replace(node) } else { mended.keep() }
            } else if entry.value.list().is_some() {
                mended.keep();
            } else {
                mended.skip();
                let detail = format!("{} is no schema: left out", entry.value.kind());
                self.note(&here, "dependencies", Effect::Rewritten, detail);
            }
        }
        if let Some(edited) = mended.edited() {
            draft.put("dependencies", self.object(&edited));
        }
    }

    fn mend_number(&mut self, draft: &mut Draft<'a>, key: &'a str, value: Node<'a>, place: &Place<'_>) {
        if matches!(value, Node::Number(_)) {
            return;
        }
        match value.text(self.arena).and_then(numeric) {
            Some(digits) => {
                draft.put(key, Node::Number(digits));
                self.note(place, key, Effect::Rewritten, "a number in quotes");
            }
            None => self.drop_invalid(draft, key, value, place, "a number"),
        }
    }

    fn mend_count(&mut self, draft: &mut Draft<'a>, key: &'a str, value: Node<'a>, place: &Place<'_>) {
        let whole = |digits: &str| {
            let number = Decimal::of(digits);
            number.is_integer() && !number.is_negative()
        };
        match value {
            Node::Number(digits) if whole(digits) => {}
            _ => match value.text(self.arena).and_then(numeric).filter(|digits| whole(digits)) {
                Some(digits) => {
                    draft.put(key, Node::Number(digits));
                    self.note(place, key, Effect::Rewritten, "a number in quotes");
                }
                None => self.drop_invalid(draft, key, value, place, "a count"),
            },
        }
    }

    fn mend_exclusive(&mut self, draft: &mut Draft<'a>, key: &'a str, value: Node<'a>, place: &Place<'_>) {
        let Node::Bool(exclusive) = value else {
            return self.mend_number(draft, key, value, place);
        };
        let bound = if key == "exclusiveMinimum" { "minimum" } else { "maximum" };
        draft.remove(key);
        self.upgraded = true;
        if exclusive
            && let Some(limit) = draft.get(bound)
            && let Some(digits) = match limit {
                Node::Number(digits) => Some(digits),
                other => other.text(self.arena).and_then(numeric),
            }
        {
            draft.put(bound, Node::Number(digits));
            draft.rename(bound, key);
        }
        self.note(place, key, Effect::Rewritten, "a boolean in draft-04, a number today");
    }

    fn mend_pattern(&mut self, draft: &mut Draft<'a>, value: Node<'a>, place: &Place<'_>) {
        let Some(pattern) = value.text(self.arena) else {
            return self.drop_invalid(draft, "pattern", value, place, "a string");
        };
        if self.profile.python_patterns && !super::pattern::compiles_in_python(pattern) {
            draft.remove("pattern");
            if self.turned > 0 {
                self.note(place, "pattern", Effect::Narrowed, "without it the rule around it refuses more");
            }
            self.describe(draft, &format!("Pattern: {pattern}"));
            self.note(
                place,
                "pattern",
                Effect::Widened,
                "the API's checker cannot compile it; it is in the description",
            );
        }
    }

    /// What a `type` should say instead; the inner `None` is no type at all.
    fn mend_type(&mut self, value: Node<'a>, place: &Place<'_>) -> Option<Option<Node<'a>>> {
        let mended = match value {
            Node::List([]) => None,
            Node::List(names) => {
                let mut kept: Vec<Node<'a>> = Vec::with_capacity(names.len());
                let mut open = false;
                let mut same = true;
                for name in names {
                    match name.text(self.arena).map(type_name) {
                        Some(TypeName::Known(known)) => {
                            same &= matches!(name, Node::Text(text) if *text == known);
                            if kept.iter().any(|other| other.same(Node::Text(known))) {
                                same = false;
                            } else {
                                kept.push(Node::Text(known));
                            }
                        }
                        _ => open = true,
                    }
                }
                if same && !open {
                    return None;
                }
                if open { None } else { Some(self.list(&kept)) }
            }
            _ => match value.text(self.arena).map(type_name) {
                Some(TypeName::Known(known)) => {
                    if matches!(value, Node::Text(text) if text == known) {
                        return None;
                    }
                    Some(Node::Text(known))
                }
                _ => None,
            },
        };
        let effect = if mended.is_some() { Effect::Rewritten } else { Effect::Widened };
        // A type that JSON Schema does not know allows nothing by the letter; nobody means that.
        let effect = match value.text(self.arena).map(type_name) {
            Some(TypeName::Any) => Effect::Rewritten,
            _ => effect,
        };
        self.note(place, "type", effect, format!("{} is no type of JSON Schema", brief(value)));
        Some(mended)
    }

    fn drop_invalid(
        &mut self,
        draft: &mut Draft<'a>,
        key: &'a str,
        value: Node<'a>,
        place: &Place<'_>,
        due: &str,
    ) {
        draft.remove(key);
        self.note(place, key, Effect::Rewritten, format!("{} where {due} is due: left out", value.kind()));
    }

    /// Adds a sentence to the description.
    pub(crate) fn describe(&self, draft: &mut Draft<'a>, sentence: &str) {
        let text = match draft.get("description").and_then(|node| node.text(self.arena)) {
            Some(text) if !text.trim().is_empty() => format!("{}\n{sentence}", text.trim_end()),
            _ => sentence.to_owned(),
        };
        draft.put("description", self.text(&text));
    }
}

fn changed(before: Node<'_>, after: Node<'_>) -> bool {
    match (before, after) {
        (Node::Object(before), Node::Object(after)) => !std::ptr::eq(before, after),
        (Node::Bool(before), Node::Bool(after)) => before != after,
        _ => true,
    }
}

fn allows_array(node: Node<'_>) -> bool {
    match node {
        Node::Text(name) => name == "array",
        Node::List(names) => names.iter().any(|name| matches!(name, Node::Text("array"))),
        _ => false,
    }
}

/// Digits in quotes, if they are a JSON number.
fn numeric(text: &str) -> Option<&str> {
    let text = text.trim();
    let starts = text.bytes().next().is_some_and(|byte| byte == b'-' || byte.is_ascii_digit());
    (starts && serde_json::from_str::<serde_json::Number>(text).is_ok()).then_some(text)
}

enum TypeName {
    Known(&'static str),
    Any,
    Unknown,
}

/// The JSON Schema type that a word stands for, in whatever language the server's author thinks.
fn type_name(word: &str) -> TypeName {
    const LONGEST: usize = 16;
    if let "string" | "object" | "number" | "integer" | "boolean" | "array" | "null" = word {
        return TypeName::Known(match word {
            "string" => "string",
            "object" => "object",
            "number" => "number",
            "integer" => "integer",
            "boolean" => "boolean",
            "array" => "array",
            _ => "null",
        });
    }
    if word.len() > LONGEST {
        return TypeName::Unknown;
    }
    TypeName::Known(match word.trim().to_ascii_lowercase().as_str() {
        "string" | "str" | "text" => "string",
        "object" | "dict" | "map" | "struct" => "object",
        "number" | "float" | "double" | "decimal" => "number",
        "integer" | "int" | "long" => "integer",
        "boolean" | "bool" => "boolean",
        "array" | "list" | "tuple" | "set" => "array",
        "null" | "none" | "nil" => "null",
        "any" | "unknown" | "" | "mixed" => return TypeName::Any,
        _ => return TypeName::Unknown,
    })
}

/// Names seen so far; a table only where there are many.
struct Seen<'a> {
    few: Vec<&'a str>,
    many: Option<std::collections::HashSet<&'a str>>,
}

impl<'a> Seen<'a> {
    fn new(expected: usize) -> Seen<'a> {
        let many = (expected > 32).then(|| std::collections::HashSet::with_capacity(expected));
        Seen { few: Vec::new(), many }
    }

    /// False if it was there already.
    fn insert(&mut self, name: &'a str) -> bool {
        match &mut self.many {
            Some(many) => many.insert(name),
            None if self.few.contains(&name) => false,
            None => {
                self.few.push(name);
                true
            }
        }
    }
}
