//! Turns the root of a schema into an object with properties and without composition.

use super::TOO_COMPLEX;
use super::context::Context;
use super::edit::ObjectEdit;
use super::excerpt::excerpt;
use super::keywords::object_at;
use super::merge::MergeError;
use super::node_id::{NodeSet, node_id};
use super::refs::Document;
use super::types::TypeSet;
use crate::json::{EMPTY, JsonReader, Member, Node, Object, Place, get};
use crate::{Effect, Refusal};

/// Maximum depth of nested `allOf` and references at the root.
const MAX_DEPTH: usize = 64;

fn refuse(code: &'static str, message: impl Into<String>) -> Refusal {
    Refusal { code, pointer: String::new(), message: message.into() }
}

/// Returns the refusal of a tool whose schema no arguments satisfy.
pub(super) fn unsatisfiable() -> Refusal {
    refuse("unsatisfiable", "no arguments can satisfy the schema")
}

impl From<MergeError> for Refusal {
    fn from(error: MergeError) -> Refusal {
        match error {
            MergeError::Unsatisfiable => unsatisfiable(),
            MergeError::BudgetExceeded => refuse(TOO_COMPLEX, "the schema is too complex to merge its allOf"),
        }
    }
}

/// State of merging the parts of one schema at the root.
pub(super) struct RootParts<'d, 'a> {
    document: Option<&'d Document<'a>>,
    /// Rules that could not be merged.
    pub(super) leftover: Vec<Member<'a>>,
    /// Definitions that were merged: each is merged for its first reference only.
    merged: NodeSet,
}

impl<'d, 'a> RootParts<'d, 'a> {
    pub(super) fn new(document: Option<&'d Document<'a>>) -> Self {
        RootParts { document, leftover: Vec::new(), merged: NodeSet::default() }
    }
}

impl<'a> Context<'a, '_> {
    /// Returns the `inputSchema` that the server sent as an object.
    pub(crate) fn read_root(&mut self, sent: Option<Node<'a>>) -> Result<Node<'a>, Refusal> {
        let place = Place::ROOT;
        match sent {
            Some(Node::Object(_)) => return Ok(sent.unwrap_or(EMPTY)),
            None => {
                let detail = "inputSchema is missing; the tool takes no arguments";
                self.record(&place, "inputSchema", Effect::Rewritten, detail);
            }
            Some(Node::Bool(false)) => {
                let message = "inputSchema is false, so no arguments can satisfy it";
                return Err(refuse("unsatisfiable", message));
            }
            Some(node @ (Node::Null | Node::Bool(true) | Node::List([]))) => {
                let detail = format!("inputSchema is {}; the tool takes no arguments", excerpt(node));
                self.record(&place, "inputSchema", Effect::Rewritten, detail);
            }
            Some(node) if node.is_string() => {
                let text = node.text(self.arena).unwrap_or_default();
                let mut reader = JsonReader::new(text, self.arena);
                return match reader.value().and_then(|value| reader.end().map(|()| value)) {
                    Ok(value @ Node::Object(_)) => {
                        let detail = "inputSchema decoded from a JSON string";
                        self.record(&place, "inputSchema", Effect::Rewritten, detail);
                        Ok(value)
                    }
                    _ => Err(refuse("not_a_schema", "inputSchema is a string without a JSON object in it")),
                };
            }
            Some(other) => {
                let message = format!("inputSchema is {}, not a schema", other.kind());
                return Err(refuse("not_a_schema", message));
            }
        }
        Ok(self.object(&[Member::new("type", Node::Text("object"))]))
    }

    /// Makes the root an object with properties, without the keywords that the profile rejects there.
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
        if self.profile.rejected_at_root.contains(&"allOf") && get(members, "allOf").is_some() {
            members = self.merge_root(members, document)?;
        }
        members = self.type_root(members)?;
        let mut flattened = 0;
        // The last alternative that is left is merged into the root with its own alternatives.
        while let Some((keyword, branches)) = self.root_alternatives(members) {
            flattened += 1;
            if flattened > MAX_DEPTH {
                return Err(refuse("too_deep", "alternatives at the root are nested too deeply"));
            }
            members = self.flatten_root_alternatives(members, keyword, branches, document)?;
        }
        if flattened > 0 {
            members = self.close_evaluated(members);
        }
        let mut edit = ObjectEdit::of(members);
        for keyword in ["enum", "const", "not"] {
            if self.profile.rejected_at_root.contains(&keyword)
                && let Some(value) = edit.remove(keyword)
            {
                self.describe_rule(&mut edit, Member::new(keyword, value));
                let described = object_at(edit.members(), "properties");
                let listed = if keyword == "enum" { value.list().unwrap_or_default() } else { &[value] };
                let mut keys = listed.iter().filter_map(|value| value.object()).flatten();
                if keyword != "not" && keys.any(|member| get(described, member.key).is_none()) {
                    let detail = format!("keys named only in {keyword} cannot be sent");
                    self.record(&place, keyword, Effect::Narrowed, detail);
                }
                let detail = format!("{keyword} moved to the description; this API rejects it at the root");
                self.record(&place, keyword, Effect::Widened, detail);
            }
        }
        if self.profile.requires_properties && edit.get("properties").is_none() {
            edit.put("properties", EMPTY);
            let detail = "added properties: {}, which this API requires";
            self.record(&place, "properties", Effect::Rewritten, detail);
        }
        Ok(Node::Object(self.finish(edit)))
    }

    /// Returns alternatives at the root that the profile rejects there.
    fn root_alternatives(&self, members: Object<'a>) -> Option<(&'static str, &'a [Node<'a>])> {
        ["oneOf", "anyOf"]
            .into_iter()
            .filter(|keyword| self.profile.rejected_at_root.contains(keyword))
            .find_map(|keyword| Some((keyword, get(members, keyword)?.list()?)))
    }

    fn type_root(&mut self, members: Object<'a>) -> Result<Object<'a>, Refusal> {
        let place = Place::ROOT;
        let mut edit = ObjectEdit::of(members);
        match get(members, "type") {
            Some(Node::Text("object")) => return Ok(members),
            None => {
                edit.put_first("type", Node::Text("object"));
                self.record(&place, "type", Effect::Rewritten, "added type: object");
            }
            Some(other) if TypeSet::of(members).has(TypeSet::OBJECT) => {
                edit.put("type", Node::Text("object"));
                let detail = format!("type {} replaced by object", excerpt(other));
                self.record(&place, "type", Effect::Rewritten, detail);
            }
            Some(other) => {
                let message =
                    format!("the root has type {}, but arguments must be an object", excerpt(other));
                return Err(refuse("not_an_object", message));
            }
        }
        Ok(self.members(edit.members()))
    }

    /// Merges the target of the root's `$ref` into the root, repeatedly.
    fn inline_root(
        &mut self,
        mut members: Object<'a>,
        document: &Document<'a>,
    ) -> Result<Object<'a>, Refusal> {
        // This ends: the document has no loop of references.
        while let Some(reference) = get(members, "$ref").and_then(|node| node.text(self.arena)) {
            let Some(target) = document.resolve(reference) else { break };
            let Some(referenced) = target.node.object() else {
                return Err(refuse(
                    "not_an_object",
                    "$ref at the root points to a schema that is not an object",
                ));
            };
            let rest = self.without(members, "$ref");
            let detail = format!("$ref {reference} replaced by the referenced schema");
            self.record(&Place::ROOT, "$ref", Effect::Rewritten, detail);
            let mut leftover = Vec::new();
            let mut edit = ObjectEdit::of(self.merge(referenced, rest, &mut leftover)?);
            for member in members.iter().filter(|member| matches!(member.key, "$defs" | "definitions")) {
                edit.put(member.key, member.value);
            }
            self.describe_leftover(&mut edit, leftover);
            members = self.members(edit.members());
        }
        Ok(members)
    }

    /// Moves rules that could not be merged to the description.
    pub(super) fn describe_leftover(&mut self, edit: &mut ObjectEdit<'a>, leftover: Vec<Member<'a>>) {
        for rule in leftover {
            if super::lower::may_allow_keys(rule.key) {
                self.record_lost_keys(&Place::ROOT, rule.key);
            }
            self.describe_rule(edit, rule);
            let detail = format!("{} moved to the description; it could not be merged", rule.key);
            self.record(&Place::ROOT, rule.key, Effect::Widened, detail);
        }
    }

    /// Merges `allOf` into the root.
    fn merge_root(
        &mut self,
        members: Object<'a>,
        document: Option<&Document<'a>>,
    ) -> Result<Object<'a>, Refusal> {
        let mut parts = RootParts::new(document);
        let merged = self.merge_parts(members, &mut parts, 0)?;
        let mut edit = ObjectEdit::of(self.close_evaluated(merged));
        self.remove_false_properties(&mut edit);
        self.record(&Place::ROOT, "allOf", Effect::Rewritten, "allOf merged into the root");
        self.describe_leftover(&mut edit, parts.leftover);
        Ok(self.members(edit.members()))
    }

    /// Removes properties whose schema became `false` when schemas were merged.
    pub(super) fn remove_false_properties(&self, edit: &mut ObjectEdit<'a>) {
        let properties = object_at(edit.members(), "properties");
        if properties.iter().any(|property| matches!(property.value, Node::Bool(false))) {
            let remaining: Vec<Member<'a>> = properties
                .iter()
                .filter(|property| !matches!(property.value, Node::Bool(false)))
                .copied()
                .collect();
            edit.put("properties", self.object(&remaining));
        }
    }

    /// Resolves the references and merges the `allOf` of a part of the root; returns `None` if it has no
    /// rules.
    pub(super) fn merge_part(
        &mut self,
        part: Node<'a>,
        parts: &mut RootParts<'_, 'a>,
        depth: usize,
    ) -> Result<Option<Object<'a>>, Refusal> {
        let Some(mut members) = part.object() else {
            return if matches!(part, Node::Bool(false)) { Err(unsatisfiable()) } else { Ok(None) };
        };
        if depth > MAX_DEPTH {
            return Err(refuse("too_deep", "allOf at the root is nested too deeply"));
        }
        if let (Some(reference), Some(document)) =
            (get(members, "$ref").and_then(|node| node.text(self.arena)), parts.document)
            && let Some(target) = document.resolve(reference)
        {
            let rest = self.without(members, "$ref");
            let id = node_id(target.node);
            members = if parts.merged.insert(id) || id == 0 {
                match self.merge_part(target.node, parts, depth + 1)? {
                    None => rest,
                    Some(referenced) => self.merge(rest, referenced, &mut parts.leftover)?,
                }
            } else {
                rest
            };
        }
        self.merge_parts(members, parts, depth + 1).map(Some)
    }

    /// Merges the parts of an `allOf` into the schema that has it.
    fn merge_parts(
        &mut self,
        members: Object<'a>,
        parts: &mut RootParts<'_, 'a>,
        depth: usize,
    ) -> Result<Object<'a>, Refusal> {
        let Some(all) = get(members, "allOf").and_then(Node::list) else { return Ok(members) };
        let mut merged = self.without(members, "allOf");
        for part in all {
            if let Some(part) = self.merge_part(*part, parts, depth)? {
                merged = self.merge(merged, part, &mut parts.leftover)?;
            }
        }
        Ok(merged)
    }
}
