//! The root of a tool's schema: an object with properties, without composition, whatever the server sent.

use super::brief::brief;
use super::context::Context;
use super::draft::Draft;
use super::merge::Clash;
use super::refs::Document;
use super::types::TypeSet;
use crate::json::{EMPTY, JsonReader, Member, Node, Object, Place, get};
use crate::{Effect, Refusal};

/// Why a root could not be made one.
pub(crate) fn refuse(code: &'static str, message: impl Into<String>) -> Refusal {
    Refusal { code, pointer: String::new(), message: message.into() }
}

pub(super) fn clashed(clash: Clash) -> Refusal {
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
                let mut reader = JsonReader::new(text, self.arena);
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
                let offered = draft.get("properties").and_then(Node::object).unwrap_or_default();
                let listed = if keyword == "enum" { value.list().unwrap_or_default() } else { &[value] };
                let mut keys = listed.iter().filter_map(|value| value.object()).flatten();
                if keyword != "not" && keys.any(|member| get(offered, member.key).is_none()) {
                    self.note(&place, keyword, Effect::Narrowed, "keys that only it names cannot be offered");
                }
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
            if self.profile.keys != super::Keys::All {
                self.note(&place, "properties", Effect::Rewritten, "missing: the API wants it, if empty");
            }
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
    pub(super) fn tell_leftover(&mut self, draft: &mut Draft<'a>, leftover: Vec<Member<'a>>) {
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
    pub(super) fn drop_never(&mut self, draft: &mut Draft<'a>) {
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
    pub(super) fn whole(
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
}
