//! Alternatives at the root, where an API takes none: spread over the properties and told in the description.

use std::collections::{HashMap, HashSet};

use crate::json::{EMPTY, Member, Node, Object, Place, get};
use crate::schema::brief::brief;
use crate::schema::context::Context;
use crate::schema::draft::Draft;
use crate::schema::refs::Document;
use crate::schema::root::clashed;
use crate::schema::types::TypeSet;
use crate::{Effect, Refusal};

/// How many alternatives for one property of the root are told apart.
const MOST: usize = 256;

impl<'a> Context<'a, '_> {
    /// `anyOf` or `oneOf` at the root, spread out: every property of every branch, required where all of them require it.
    pub(super) fn spread_root(
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
        let own = get(base_members, "properties").and_then(Node::object).unwrap_or_default();
        let mut draft = Draft::of(base_members);
        self.spread_properties(&mut draft, &shown, open);
        let offered = draft.get("properties").and_then(Node::object).unwrap_or_default();
        let rule = Member::new(keyword, Node::List(branches));
        let named = crate::names::property_keys_in(rule, self.arena);
        let silent = |branch: &Object<'a>, name: &str| {
            let properties = get(branch, "properties").and_then(Node::object).unwrap_or_default();
            let closed = matches!(get(branch, "additionalProperties"), Some(Node::Bool(false)));
            !closed && get(properties, name).is_none()
        };
        let few = shown.len() * named.len() < MOST * MOST;
        if named.iter().any(|name| get(offered, name).is_none())
            || !few
            || named
                .iter()
                .filter(|name| get(own, name).is_none())
                .any(|name| shown.iter().any(|branch| silent(branch, name)))
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

    pub(super) fn spread_properties(&mut self, draft: &mut Draft<'a>, branches: &[Object<'a>], open: bool) {
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
    pub(super) fn any_of(&self, schemas: &[Node<'a>]) -> Node<'a> {
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
    pub(super) fn in_words(&self, branch: Object<'a>) -> String {
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
