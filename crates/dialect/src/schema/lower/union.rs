//! Lowers alternatives: `anyOf`, `oneOf` and lists of types.

use super::{LowerError, LowerResult, Lowered, Lowering, MergedSchema};
use crate::Effect;
use crate::arguments::{Branch, Plan};
use crate::json::{Member, Node, Place, get, to_value};
use crate::schema::budget::data_steps;
use crate::schema::disjoint::Disjointness;
use crate::schema::edit::ObjectEdit;
use crate::schema::is_annotation;

/// Maximum number of pairs of alternatives that are checked for overlap.
const MAX_COMPARED_PAIRS: usize = 4096;

/// Maximum number of alternatives that are checked for duplicates.
const MAX_DEDUPLICATED: usize = 64;

impl<'a> Lowering<'_, 'a, '_> {
    /// Lowers a schema with `anyOf` or `oneOf`; returns `None` if it has neither.
    pub(super) fn alternatives(
        &mut self,
        schema: MergedSchema<'_, 'a>,
    ) -> Result<Option<Lowered<'a>>, LowerError> {
        let MergedSchema { members, leftover, place } = schema;
        let any = get(members, "anyOf").and_then(Node::list);
        let one = get(members, "oneOf").and_then(Node::list);
        let (keyword, branches) = match (any, one) {
            (None, None) => return Ok(None),
            (Some(branches), None) => ("anyOf", branches),
            (None, Some(branches)) => ("oneOf", branches),
            (Some(other), Some(branches)) => {
                if self.must_be_exact() {
                    return Err(self.inexpressible(place, "anyOf and oneOf apply to the same value"));
                }
                let mut edit = ObjectEdit::of(members);
                edit.remove("anyOf");
                let mut leftover = leftover.to_vec();
                leftover.push(Member::new("anyOf", Node::List(other)));
                if let Some(rule) = edit.remove("unevaluatedProperties") {
                    leftover.push(Member::new("unevaluatedProperties", rule));
                }
                let members = self.context.finish(edit);
                return self
                    .union(MergedSchema { members, leftover: &leftover, place }, branches, "oneOf", true)
                    .map(Some);
            }
        };
        if branches.iter().all(|branch| only_requires(*branch)) {
            // The alternatives only differ in required keys: keep the object and describe the rule.
            let mut leftover = leftover.to_vec();
            leftover.push(Member::new(keyword, Node::List(branches)));
            let members = self.context.without(members, keyword);
            return self.lower_merged(MergedSchema { members, leftover: &leftover, place }).map(Some);
        }
        self.union(schema, branches, keyword, keyword == "oneOf").map(Some)
    }

    /// Lowers alternatives, each together with the keywords of `members` next to them.
    pub(super) fn union(
        &mut self,
        schema: MergedSchema<'_, 'a>,
        branches: &[Node<'a>],
        keyword: &'static str,
        exclusive: bool,
    ) -> LowerResult<'a> {
        let MergedSchema { members, leftover, place } = schema;
        let base: Vec<Member<'a>> = members
            .iter()
            .filter(|member| keyword != "type" && member.key != keyword && !is_annotation(member.key))
            .copied()
            .collect();
        let base = self.context.object(&base);
        let inside = place.key(keyword);
        let mut lowered: Vec<Lowered<'a>> = Vec::new();
        let mut originals: Vec<Node<'a>> = Vec::new();
        let mut null = false;
        for (index, branch) in branches.iter().enumerate() {
            let here = inside.index(index);
            let here = if keyword == "type" { place } else { &here };
            let schema = if get(base.object().unwrap_or_default(), "unevaluatedProperties").is_some() {
                // It depends on what the alternative evaluates, so the alternative must be inside.
                let members = base.object().unwrap_or_default();
                self.context.with(members, "allOf", self.context.list(&[*branch]))
            } else {
                self.with_type(base, *branch).unwrap_or_else(|| self.context.both(base, *branch))
            };
            let one = match self.lower(schema, here) {
                Ok(one) => one,
                Err(LowerError::Unsatisfiable) => {
                    let detail = "alternative removed; no value satisfies it";
                    self.record(here, keyword, Effect::Rewritten, detail);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if self.is_openapi_null(one.node) {
                null = true;
                continue;
            }
            let duplicate = lowered.len() < MAX_DEDUPLICATED
                && one.plan.is_same()
                && lowered.iter().any(|other| other.plan.is_same() && other.node.same(one.node));
            if duplicate && !exclusive {
                continue;
            }
            lowered.push(one);
            originals.push(schema);
        }
        let overlap = self.overlapping(&originals);
        if exclusive && overlap {
            let detail = "oneOf replaced by anyOf; a value may match several alternatives";
            self.record(place, "oneOf", Effect::Widened, detail);
        }
        if lowered.iter().any(|one| !one.plan.is_same()) {
            let wires: Vec<Node<'a>> =
                lowered.iter().map(|one| self.with_json_schema_type(one.node)).collect();
            if overlap || self.overlapping(&wires) {
                let detail = "a value that matches several alternatives may be decoded as the wrong one";
                self.record(place, keyword, Effect::Narrowed, detail);
            }
        }
        let mut annotations = self.start_output(members, place);
        self.describe_rules(&mut annotations, leftover, place);
        if lowered.is_empty() && null {
            annotations.put_first("type", Node::Text("null"));
            return Ok(Lowered { node: self.typed(annotations.members()), plan: Plan::Same });
        }
        let lowered = self.any_of(&annotations, lowered, originals, place)?;
        Ok(if null { Lowered { node: self.with_null(lowered.node), plan: lowered.plan } } else { lowered })
    }

    /// Returns an alternative with the `type` next to the alternatives, if that is the only keyword there. As
    /// one schema instead of an `allOf`, it shows which properties the alternative has.
    fn with_type(&self, base: Node<'a>, branch: Node<'a>) -> Option<Node<'a>> {
        let (Node::Object([base @ Member { key: "type", .. }]), Node::Object(members)) = (base, branch)
        else {
            return None;
        };
        if ["$ref", "allOf"].iter().any(|keyword| get(members, keyword).is_some()) {
            return None;
        }
        if let Some(own) = get(members, "type") {
            return own.same(base.value).then_some(branch);
        }
        let mut all = vec![*base];
        all.extend(members);
        Some(self.context.object(&all))
    }

    /// Returns an `anyOf` of the alternatives, or the only one, with `annotations`.
    fn any_of(
        &mut self,
        annotations: &ObjectEdit<'a>,
        mut lowered: Vec<Lowered<'a>>,
        originals: Vec<Node<'a>>,
        place: &Place<'_>,
    ) -> LowerResult<'a> {
        if lowered.len() < 2 {
            let Lowered { node, plan } = lowered.pop().ok_or(LowerError::Unsatisfiable)?;
            return Ok(Lowered { node: self.annotated(node, annotations), plan });
        }
        let nodes: Vec<Node<'a>> = lowered.iter().map(|one| one.node).collect();
        let union = self.annotated(self.context.composed("anyOf", &nodes), annotations);
        let plan = if lowered.iter().all(|one| one.plan.is_same()) {
            Plan::Same
        } else {
            let arena = self.context.arena;
            let mut branches = Vec::with_capacity(lowered.len());
            for (one, original) in lowered.into_iter().zip(originals) {
                // Unions inside of unions are copied again.
                let size = |node| node_count(node) + data_steps(node);
                self.context
                    .budget
                    .take(size(one.node) + size(original))
                    .map_err(|_| self.too_complex(place))?;
                let (wire, own) = (to_value(one.node, arena), to_value(original, arena));
                branches.push(Branch { wire, own, plan: one.plan });
            }
            Plan::Union(branches)
        };
        Ok(Lowered { node: union, plan })
    }

    /// Returns `node` with `annotations`, which replace its own.
    pub(super) fn annotated(&self, node: Node<'a>, annotations: &ObjectEdit<'a>) -> Node<'a> {
        if annotations.members().is_empty() {
            return node;
        }
        let members = node.object().unwrap_or_default();
        if get(members, "$ref").is_some() {
            let mut wrapper = vec![Member::new("anyOf", self.context.list(&[node]))];
            wrapper.extend(annotations.members());
            return self.context.object(&wrapper);
        }
        let mut annotated = ObjectEdit::of(members);
        match (self.grammar.openapi_types, get(members, "anyOf").and_then(Node::list)) {
            // `anyOf` must be the only keyword of its schema, so the annotations move into the first
            // alternative.
            (true, Some([first, rest @ ..])) => {
                let inner = first.member("description").and_then(|node| node.text(self.context.arena));
                let mut outer = ObjectEdit::of(self.context.members(annotations.members()));
                if let Some(inner) = inner {
                    self.context.describe(&mut outer, inner);
                }
                let mut branches = vec![self.annotated(*first, &outer)];
                branches.extend(rest);
                annotated.put("anyOf", self.context.list(&branches));
            }
            _ => {
                for member in annotations.members() {
                    annotated.put(member.key, member.value);
                }
            }
        }
        self.context.object(annotated.members())
    }

    /// Returns the schema with its type as JSON Schema spells it, for comparison.
    fn with_json_schema_type(&self, node: Node<'a>) -> Node<'a> {
        match node {
            Node::Object(members) if self.grammar.openapi_types => match get(members, "type") {
                Some(Node::Text(name)) => {
                    self.context.with(members, "type", self.context.text(&name.to_ascii_lowercase()))
                }
                _ => node,
            },
            _ => node,
        }
    }

    fn overlapping(&self, schemas: &[Node<'a>]) -> bool {
        if schemas.len() * schemas.len() > MAX_COMPARED_PAIRS {
            return true;
        }
        let disjointness = Disjointness { document: self.document, budget: self.context.budget };
        schemas
            .iter()
            .enumerate()
            .any(|(index, one)| schemas[index + 1..].iter().any(|other| !disjointness.holds(*one, *other)))
    }
}

fn node_count(node: Node<'_>) -> usize {
    match node {
        Node::Object(members) => 1 + members.iter().map(|member| node_count(member.value)).sum::<usize>(),
        Node::List(nodes) => 1 + nodes.iter().map(|node| node_count(*node)).sum::<usize>(),
        _ => 1,
    }
}

/// Whether `required` is the only rule of a schema.
fn only_requires(node: Node<'_>) -> bool {
    node.object().is_some_and(|members| {
        get(members, "required").is_some()
            && members
                .iter()
                .all(|member| matches!(member.key, "required" | "type") || is_annotation(member.key))
    })
}
