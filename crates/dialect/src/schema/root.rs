//! The root of a tool's schema: an object with properties, without composition, whatever the server sent.

use std::collections::{HashMap, HashSet};

use super::brief::brief;
use super::context::Context;
use super::draft::Draft;
use super::merge::Clash;
use super::refs::Document;
use super::types::TypeSet;
use crate::json::{EMPTY, Member, Node, Object, Place, Reader, get};
use crate::{Effect, Refusal};

/// How many alternatives for one property of the root are told apart.
const MOST: usize = 256;

/// Why a root could not be made one.
pub(crate) fn refuse(code: &'static str, message: impl Into<String>) -> Refusal {
    Refusal { code, pointer: String::new(), message: message.into() }
}

fn clashed(clash: Clash) -> Refusal {
    match clash {
        Clash::Never => super::lower::Stop::unsatisfiable(),
        Clash::TooLarge => refuse("too_large", "the schema grows too large when its parts are merged"),
    }
}

impl<'a> Context<'a, '_> {
    /// What the server sent as `inputSchema`, as an object at least.
    pub(crate) fn read_root(&mut self, sent: Option<Node<'a>>) -> Result<Node<'a>, Refusal> {
        let place = Place::ROOT;
        match sent {
            Some(Node::Object(_)) => return Ok(sent.unwrap_or(EMPTY)),
            None => self.note(
                &place,
                "inputSchema",
                Effect::Rewritten,
                "there is none, so the tool takes no arguments",
            ),
            Some(Node::Bool(false)) => {
                return Err(refuse("unsatisfiable", "`inputSchema` is `false`: no arguments can satisfy it"));
            }
            Some(Node::Null | Node::Bool(true) | Node::List([])) => {
                self.note(
                    &place,
                    "inputSchema",
                    Effect::Rewritten,
                    "no schema, so the tool takes no arguments",
                );
            }
            Some(node) if node.is_string() => {
                let text = node.text(self.arena).unwrap_or_default();
                let mut reader = Reader::new(text, self.arena);
                return match reader.value().and_then(|value| reader.end().map(|()| value)) {
                    Ok(value @ Node::Object(_)) => {
                        self.note(
                            &place,
                            "inputSchema",
                            Effect::Rewritten,
                            "a schema as JSON text, read once",
                        );
                        Ok(value)
                    }
                    _ => Err(refuse("not_a_schema", "`inputSchema` is a string that holds no JSON object")),
                };
            }
            Some(other) => {
                return Err(refuse(
                    "not_a_schema",
                    format!("`inputSchema` is {}, not a schema", other.kind()),
                ));
            }
        }
        Ok(self.object(&[Member::new("type", Node::Text("object"))]))
    }

    /// Makes the root an object with properties that says nothing the profile refuses there.
    pub(crate) fn fix_root(
        &mut self,
        root: Node<'a>,
        document: Option<&Document<'a>>,
    ) -> Result<Node<'a>, Refusal> {
        let place = Place::ROOT;
        let mut members = root.object().unwrap_or_default();
        if let Some(document) = document {
            members = self.inline_root(members, document)?;
        }
        if self.profile.refused_at_root.contains(&"allOf") && get(members, "allOf").is_some() {
            members = self.merge_root(members, document)?;
        }
        members = self.type_root(members)?;
        for keyword in ["oneOf", "anyOf"] {
            if self.profile.refused_at_root.contains(&keyword)
                && let Some(branches) = get(members, keyword).and_then(Node::list)
            {
                members = self.spread_root(members, keyword, branches, document)?;
            }
        }
        let mut draft = Draft::of(members);
        for keyword in ["enum", "const", "not"] {
            if self.profile.refused_at_root.contains(&keyword)
                && let Some(value) = draft.remove(keyword)
            {
                self.describe(&mut draft, &format!("{keyword}: {}", brief(value)));
                self.note(
                    &place,
                    keyword,
                    Effect::Widened,
                    "the API refuses it at the root; it is in the description",
                );
            }
        }
        if self.profile.needs_properties && draft.get("properties").is_none() {
            draft.put("properties", EMPTY);
            self.note(&place, "properties", Effect::Rewritten, "missing: the API wants it, if empty");
        }
        Ok(if draft.is_edited() { self.object(draft.members()) } else { Node::Object(members) })
    }

    fn type_root(&mut self, members: Object<'a>) -> Result<Object<'a>, Refusal> {
        let place = Place::ROOT;
        let mut draft = Draft::of(members);
        match get(members, "type") {
            Some(Node::Text("object")) => return Ok(members),
            None => {
                draft.put_first("type", Node::Text("object"));
                self.note(&place, "type", Effect::Rewritten, "missing: arguments are always an object");
            }
            Some(_) if TypeSet::of(members).has(TypeSet::OBJECT) => {
                draft.put("type", Node::Text("object"));
                self.note(&place, "type", Effect::Rewritten, "arguments are always an object");
            }
            Some(other) => {
                let message =
                    format!("the root has type {}, and arguments are always an object", brief(other));
                return Err(refuse("not_an_object", message));
            }
        }
        Ok(self.members(draft.members()))
    }

    /// The root by what its `$ref` points to, however many references that takes.
    fn inline_root(
        &mut self,
        mut members: Object<'a>,
        document: &Document<'a>,
    ) -> Result<Object<'a>, Refusal> {
        // The document was checked: references that only point to references end.
        while let Some(reference) = get(members, "$ref").and_then(|node| node.text(self.arena)) {
            let Some(target) = document.resolve("", reference) else { break };
            let Some(shown) = target.node.object() else {
                return Err(refuse("not_an_object", "the root points to a schema that is no object"));
            };
            let mut rest = Draft::of(members);
            rest.remove("$ref");
            let rest = self.members(rest.members());
            let detail = format!("what `{reference}` points to stands at the root");
            self.note(&Place::ROOT, "$ref", Effect::Rewritten, detail);
            let mut leftover = Vec::new();
            let merged = self.merge(shown, rest, &mut leftover).map_err(clashed)?;
            let mut draft = Draft::of(merged);
            for member in members.iter().filter(|member| matches!(member.key, "$defs" | "definitions")) {
                draft.put(member.key, member.value);
            }
            self.tell_leftover(&mut draft, leftover);
            members = self.members(draft.members());
        }
        Ok(members)
    }

    /// Rules that could not be merged, in words.
    fn tell_leftover(&mut self, draft: &mut Draft<'a>, leftover: Vec<Member<'a>>) {
        for rule in leftover {
            if super::lower::speaks_of_keys(rule.key) {
                self.note(&Place::ROOT, rule.key, Effect::Narrowed, "keys that it allows cannot be offered");
            }
            self.describe(draft, &format!("{}: {}", rule.key, brief(rule.value)));
            self.note(
                &Place::ROOT,
                rule.key,
                Effect::Widened,
                "it could not be merged; it is in the description",
            );
        }
    }

    /// `allOf` at the root, merged.
    fn merge_root(
        &mut self,
        members: Object<'a>,
        document: Option<&Document<'a>>,
    ) -> Result<Object<'a>, Refusal> {
        let mut base = Draft::of(members);
        let parts = base.remove("allOf").and_then(Node::list).unwrap_or_default();
        let mut merged = self.members(base.members());
        let mut leftover = Vec::new();
        for part in parts {
            let Some(part) = self.whole(*part, document, &mut leftover, 0)? else { continue };
            merged = self.merge(merged, part, &mut leftover).map_err(clashed)?;
        }
        let mut draft = Draft::of(merged);
        let evaluating = ["anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "patternProperties"];
        if let Some(rest) = get(merged, "unevaluatedProperties")
            && !evaluating.iter().any(|keyword| get(merged, keyword).is_some())
        {
            draft.remove("unevaluatedProperties");
            if get(merged, "additionalProperties").is_none() {
                draft.put("additionalProperties", rest);
            }
        }
        self.drop_never(&mut draft);
        self.note(&Place::ROOT, "allOf", Effect::Rewritten, "merged into the root");
        self.tell_leftover(&mut draft, leftover);
        Ok(self.members(draft.members()))
    }

    /// Takes out optional properties that no value can fit once schemas were merged.
    fn drop_never(&mut self, draft: &mut Draft<'a>) {
        let properties = draft.get("properties").and_then(Node::object).unwrap_or_default();
        if properties.iter().any(|property| matches!(property.value, Node::Bool(false))) {
            let kept: Vec<Member<'a>> = properties
                .iter()
                .filter(|property| !matches!(property.value, Node::Bool(false)))
                .copied()
                .collect();
            draft.put("properties", self.object(&kept));
        }
    }

    /// A part of the root by all it says: references followed, its own `allOf` merged. `None` if it says nothing.
    fn whole(
        &mut self,
        part: Node<'a>,
        document: Option<&Document<'a>>,
        leftover: &mut Vec<Member<'a>>,
        depth: usize,
    ) -> Result<Option<Object<'a>>, Refusal> {
        let Some(mut members) = part.object() else {
            return if matches!(part, Node::Bool(false)) {
                Err(super::lower::Stop::unsatisfiable())
            } else {
                Ok(None)
            };
        };
        if depth > 64 {
            return Err(refuse("too_deep", "`allOf` at the root is nested too deep"));
        }
        if let (Some(reference), Some(document)) =
            (get(members, "$ref").and_then(|node| node.text(self.arena)), document)
            && let Some(target) = document.resolve("", reference)
        {
            let mut rest = Draft::of(members);
            rest.remove("$ref");
            let rest = self.members(rest.members());
            members = match self.whole(target.node, Some(document), leftover, depth + 1)? {
                None => rest,
                Some(shown) => self.merge(rest, shown, leftover).map_err(clashed)?,
            };
        }
        if let Some(parts) = get(members, "allOf").and_then(Node::list) {
            let mut base = Draft::of(members);
            base.remove("allOf");
            members = self.members(base.members());
            for part in parts {
                if let Some(part) = self.whole(*part, document, leftover, depth + 1)? {
                    members = self.merge(members, part, leftover).map_err(clashed)?;
                }
            }
        }
        Ok(Some(members))
    }

    /// `anyOf` or `oneOf` at the root, spread out: every property of every branch, required where all of them require it.
    fn spread_root(
        &mut self,
        members: Object<'a>,
        keyword: &'static str,
        branches: &'a [Node<'a>],
        document: Option<&Document<'a>>,
    ) -> Result<Object<'a>, Refusal> {
        let place = Place::ROOT;
        let mut base = Draft::of(members);
        base.remove(keyword);
        let mut leftover = Vec::new();
        let mut shown: Vec<Object<'a>> = Vec::new();
        let mut open = false;
        for branch in branches {
            match branch {
                Node::Bool(false) => continue,
                Node::Object(_) => {}
                _ => {
                    open = true;
                    continue;
                }
            }
            let Some(branch) = self.whole(*branch, document, &mut leftover, 0)? else { continue };
            if TypeSet::of(branch).has(TypeSet::OBJECT) {
                shown.push(branch);
            }
        }
        if shown.is_empty() && !open {
            return Err(super::lower::Stop::unsatisfiable());
        }
        let base_members = self.members(base.members());
        if let ([only], false) = (shown.as_slice(), open) {
            self.note(&place, keyword, Effect::Rewritten, "one alternative is left: merged into the root");
            let merged = self.merge(base_members, only, &mut leftover).map_err(clashed)?;
            let mut draft = Draft::of(merged);
            self.drop_never(&mut draft);
            self.tell_leftover(&mut draft, leftover);
            return Ok(self.members(draft.members()));
        }
        let mut draft = Draft::of(base_members);
        self.spread_properties(&mut draft, &shown, open);
        let offered = draft.get("properties").and_then(Node::object).unwrap_or_default();
        let rule = Member::new(keyword, Node::List(branches));
        let named = crate::names::named_in(rule, self.arena);
        let silent = |branch: &Object<'a>, name: &str| {
            let properties = get(branch, "properties").and_then(Node::object).unwrap_or_default();
            let closed = matches!(get(branch, "additionalProperties"), Some(Node::Bool(false)));
            !closed && get(properties, name).is_none()
        };
        let few = shown.len() * named.len() < MOST * MOST;
        if named.iter().any(|name| get(offered, name).is_none())
            || !few
            || named.iter().any(|name| shown.iter().any(|branch| silent(branch, name)))
        {
            let detail = "a key is offered only as the alternatives that describe it say";
            self.note(&place, keyword, Effect::Narrowed, detail);
        }
        let lines: Vec<String> = shown.iter().map(|branch| self.in_words(branch)).collect();
        let word = if keyword == "oneOf" { "Exactly one of these" } else { "At least one of these" };
        self.describe(&mut draft, &format!("{word}: {}", lines.join("; or ")));
        self.note(
            &place,
            keyword,
            Effect::Widened,
            "the API refuses it at the root: its alternatives are spread out and told in the description",
        );
        Ok(self.members(draft.members()))
    }

    fn spread_properties(&mut self, draft: &mut Draft<'a>, branches: &[Object<'a>], open: bool) {
        let own = draft.get("properties").and_then(Node::object).unwrap_or_default();
        let closed = matches!(draft.get("additionalProperties"), Some(Node::Bool(false)));
        let mut properties = own.to_vec();
        let mut offers: Vec<(&'a str, Vec<Node<'a>>, usize)> = Vec::new();
        let mut known: HashMap<&'a str, usize> = HashMap::new();
        for branch in branches {
            for property in get(branch, "properties").and_then(Node::object).unwrap_or_default() {
                let index = *known.entry(property.key).or_insert(offers.len());
                if index == offers.len() {
                    offers.push((property.key, Vec::new(), 0));
                }
                let (_, schemas, count) = &mut offers[index];
                *count += 1;
                if schemas.len() < MOST && !schemas.iter().any(|schema| schema.same(property.value)) {
                    schemas.push(property.value);
                }
            }
        }
        let own_places: HashMap<&'a str, usize> =
            own.iter().enumerate().map(|(index, property)| (property.key, index)).collect();
        for (key, schemas, count) in offers {
            let everywhere = count == branches.len() && !open;
            // Of too many alternatives nothing is said but that the key may come.
            let schema = if schemas.len() < MOST { self.any_of(&schemas) } else { EMPTY };
            match own_places.get(key).map(|index| &mut properties[*index]) {
                Some(property) if everywhere => property.value = self.both(property.value, schema),
                Some(_) => {}
                // A closed root never lets a branch's own keys through.
                None if closed => {}
                None => properties.push(Member::new(key, schema)),
            }
        }
        properties.retain(|property| !matches!(property.value, Node::Bool(false)));
        draft.put("properties", self.object(&properties));
        let mut required = draft.get("required").and_then(Node::list).unwrap_or_default().to_vec();
        if !open && let Some((first, others)) = branches.split_first() {
            let names = |branch: &Object<'a>| -> HashSet<&'a str> {
                let list = get(branch, "required").and_then(Node::list).unwrap_or_default();
                list.iter().filter_map(|name| name.text(self.arena)).collect()
            };
            let common = others.iter().fold(names(first), |common, branch| &common & &names(branch));
            let known: HashSet<&str> = required.iter().filter_map(|name| name.text(self.arena)).collect();
            let new = get(first, "required").and_then(Node::list).unwrap_or_default().iter();
            let new = new.filter(|name| {
                name.text(self.arena).is_some_and(|name| common.contains(name) && !known.contains(name))
            });
            required.extend(new);
        }
        if !required.is_empty() {
            draft.put("required", self.list(&required));
        }
        if draft.get("additionalProperties").is_none() && !branches.is_empty() {
            let rest = |branch: &Object<'a>| get(branch, "additionalProperties");
            if !open && branches.iter().all(|branch| matches!(rest(branch), Some(Node::Bool(false)))) {
                draft.put("additionalProperties", Node::Bool(false));
            } else if branches
                .iter()
                .any(|branch| rest(branch).is_some_and(|rest| !matches!(rest, Node::Bool(false))))
            {
                draft.put("additionalProperties", Node::Bool(true));
            }
        }
    }

    /// One schema for several: constants become one `enum`.
    fn any_of(&self, schemas: &[Node<'a>]) -> Node<'a> {
        if let [one] = schemas {
            return *one;
        }
        let constants: Option<Vec<Node<'a>>> = schemas
            .iter()
            .map(|schema| {
                let members = schema.object()?;
                let plain = members
                    .iter()
                    .all(|member| matches!(member.key, "const" | "type" | "description" | "title"));
                get(members, "const").filter(|_| plain)
            })
            .collect();
        match constants {
            Some(values) => {
                let mut members = Vec::new();
                if values.iter().all(|value| value.is_string()) {
                    members.push(Member::new("type", Node::Text("string")));
                }
                members.push(Member::new("enum", self.list(&values)));
                self.object(&members)
            }
            None => self.object(&[Member::new("anyOf", self.list(schemas))]),
        }
    }

    /// An alternative of the root as a person would say it.
    fn in_words(&self, branch: Object<'a>) -> String {
        let properties = get(branch, "properties").and_then(Node::object).unwrap_or_default();
        let required = get(branch, "required").and_then(Node::list).unwrap_or_default();
        let mut words = Vec::new();
        for name in required {
            let name = name.text(self.arena).unwrap_or_default();
            let constant = get(properties, name).and_then(|schema| schema.member("const"));
            words.push(match constant {
                Some(value) => format!("{name}={}", brief(value)),
                None => name.to_owned(),
            });
        }
        if words.is_empty() {
            words.extend(properties.iter().map(|property| format!("{} (optional)", property.key)));
        }
        if words.is_empty() { "nothing in particular".to_owned() } else { words.join(" with ") }
    }
}
