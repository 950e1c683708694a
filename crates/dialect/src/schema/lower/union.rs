//! Alternatives: `anyOf`, `oneOf` and lists of types.

use super::{Lower, Lowered, Lowering, Stop};
use crate::Effect;
use crate::arguments::{Branch, Plan};
use crate::json::{Member, Node, Object, Place, get, to_value};
use crate::schema::disjoint::disjoint;
use crate::schema::draft::Draft;
use crate::schema::is_annotation;
use crate::schema::profile::Types;

/// More pairs of alternatives than this are not compared with each other.
const MOST_PAIRS: usize = 4096;

/// Among more alternatives than this none is looked for that says the same as another.
const FEW: usize = 64;

impl<'a> Lowering<'_, 'a, '_> {
    /// Lowers a schema with `anyOf` or `oneOf`; `None` if it has neither.
    pub(super) fn alternatives(
        &mut self,
        members: Object<'a>,
        leftover: &[Member<'a>],
        place: &Place<'_>,
    ) -> Result<Option<Lowered<'a>>, Stop> {
        let any = get(members, "anyOf").and_then(Node::list);
        let one = get(members, "oneOf").and_then(Node::list);
        let (keyword, branches) = match (any, one) {
            (None, None) => return Ok(None),
            (Some(branches), None) => ("anyOf", branches),
            (None, Some(branches)) => ("oneOf", branches),
            (Some(other), Some(branches)) => {
                if self.grammar.strict && !self.context.options.reshape {
                    return Err(self.unsayable(place, "anyOf", "`anyOf` and `oneOf` hold at once"));
                }
                let mut rest = Draft::of(members);
                rest.remove("anyOf");
                let mut leftover = leftover.to_vec();
                leftover.push(Member::new("anyOf", Node::List(other)));
                if let Some(rule) = rest.remove("unevaluatedProperties") {
                    leftover.push(Member::new("unevaluatedProperties", rule));
                }
                let rest = self.context.members(rest.members());
                return self.union(rest, branches, "oneOf", true, &leftover, place).map(Some);
            }
        };
        if branches.iter().all(|branch| only_requires(*branch)) {
            // "One of these keys at least": the object stands, the rule is told.
            let mut rest = Draft::of(members);
            let rule = rest.remove(keyword).map(|value| Member::new(keyword, value));
            let rest = self.context.members(rest.members());
            let leftover: Vec<Member<'a>> = leftover.iter().copied().chain(rule).collect();
            return self.flattened(rest, leftover, place).map(Some);
        }
        self.union(members, branches, keyword, keyword == "oneOf", leftover, place).map(Some)
    }

    /// One of `branches`, each together with what `members` says beside them.
    pub(super) fn union(
        &mut self,
        members: Object<'a>,
        branches: &[Node<'a>],
        keyword: &'static str,
        exclusive: bool,
        leftover: &[Member<'a>],
        place: &Place<'_>,
    ) -> Lower<'a> {
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
                // It must see what the alternative evaluates, so the alternative goes inside.
                let mut host = Draft::of(base.object().unwrap_or_default());
                host.put("allOf", self.context.list(&[*branch]));
                self.context.object(host.members())
            } else {
                self.context.both(base, *branch)
            };
            let one = match self.lower(schema, here) {
                Ok(one) => one,
                Err(Stop::Never) => {
                    self.note(
                        here,
                        keyword,
                        Effect::Rewritten,
                        "no value can fit this alternative: left out",
                    );
                    continue;
                }
                Err(stop) => return Err(stop),
            };
            if self.grammar.types == Types::OpenApi
                && matches!(one.node.member("type"), Some(Node::Text("NULL")))
            {
                null = true;
                continue;
            }
            let twin = lowered.len() < FEW
                && one.plan.is_same()
                && lowered.iter().any(|other| other.plan.is_same() && other.node.same(one.node));
            if twin && !exclusive {
                continue;
            }
            lowered.push(one);
            originals.push(schema);
        }
        let overlap = self.overlapping(&originals);
        if exclusive && overlap {
            self.note(place, "oneOf", Effect::Widened, "a value may fit several of the alternatives now");
        }
        if lowered.iter().any(|one| !one.plan.is_same()) {
            let wires: Vec<Node<'a>> = lowered.iter().map(|one| self.plainly_typed(one.node)).collect();
            if overlap || self.overlapping(&wires) {
                let detail = "a value that fits several alternatives may come back as another of them";
                self.note(place, keyword, Effect::Narrowed, detail);
            }
        }
        let mut draft = self.begin(members, place);
        self.tell(&mut draft, leftover, place);
        if lowered.is_empty() && null {
            draft.put_first("type", Node::Text("null"));
            return Ok(Lowered { node: self.typed(draft.members()), plan: Plan::Same });
        }
        let lowered = self.joined(draft, lowered, originals)?;
        Ok(if null { Lowered { node: self.with_null(lowered.node), plan: lowered.plan } } else { lowered })
    }

    /// The alternatives under one roof, with the annotations of `draft`.
    fn joined(
        &mut self,
        draft: Draft<'a>,
        mut lowered: Vec<Lowered<'a>>,
        originals: Vec<Node<'a>>,
    ) -> Lower<'a> {
        match lowered.len() {
            0 => return Err(Stop::Never),
            1 => {
                let one = lowered.remove(0);
                let node = self.annotated(one.node, &draft);
                return Ok(Lowered { node, plan: one.plan });
            }
            _ => {}
        }
        let same = lowered.iter().all(|one| one.plan.is_same());
        let nodes: Vec<Node<'a>> = lowered.iter().map(|one| one.node).collect();
        let union = self.context.object(&[Member::new("anyOf", self.context.list(&nodes))]);
        let union = self.annotated(union, &draft);
        let plan = if same {
            Plan::Same
        } else {
            let arena = self.context.arena;
            let branch = |(one, original): (Lowered<'a>, Node<'a>)| Branch {
                wire: to_value(one.node, arena),
                own: to_value(original, arena),
                plan: one.plan,
            };
            Plan::Union(lowered.into_iter().zip(originals).map(branch).collect())
        };
        Ok(Lowered { node: union, plan })
    }

    /// `node` with the annotations of `draft`, the outer ones winning.
    pub(super) fn annotated(&self, node: Node<'a>, draft: &Draft<'a>) -> Node<'a> {
        if draft.members().is_empty() {
            return node;
        }
        let members = node.object().unwrap_or_default();
        if get(members, "$ref").is_some() {
            let mut wrapper = vec![Member::new("anyOf", self.context.list(&[node]))];
            wrapper.extend(draft.members());
            return self.context.object(&wrapper);
        }
        let mut annotated = Draft::of(members);
        match (self.grammar.types, get(members, "anyOf").and_then(Node::list)) {
            // `anyOf` must be the only key of its node, so the words move into the first alternative.
            (Types::OpenApi, Some([first, rest @ ..])) => {
                let inner = first.member("description").and_then(|node| node.text(self.context.arena));
                let mut outer = Draft::of(self.context.members(draft.members()));
                if let Some(inner) = inner {
                    self.context.describe(&mut outer, inner);
                }
                let mut branches = vec![self.annotated(*first, &outer)];
                branches.extend(rest);
                annotated.put("anyOf", self.context.list(&branches));
            }
            _ => {
                for member in draft.members() {
                    annotated.put(member.key, member.value);
                }
            }
        }
        self.context.object(annotated.members())
    }

    /// The type in JSON Schema's spelling, for comparing.
    fn plainly_typed(&self, node: Node<'a>) -> Node<'a> {
        match node.member("type") {
            Some(Node::Text(name)) if self.grammar.types == Types::OpenApi => {
                let mut draft = Draft::of(node.object().unwrap_or_default());
                draft.put("type", self.context.text(&name.to_ascii_lowercase()));
                self.context.object(draft.members())
            }
            _ => node,
        }
    }

    fn overlapping(&self, schemas: &[Node<'a>]) -> bool {
        if schemas.len() * schemas.len() > MOST_PAIRS {
            return true;
        }
        schemas.iter().enumerate().any(|(index, one)| {
            schemas[index + 1..].iter().any(|other| !disjoint(*one, *other, self.document))
        })
    }
}

/// Whether a schema only names required keys.
fn only_requires(node: Node<'_>) -> bool {
    node.object().is_some_and(|members| {
        get(members, "required").is_some()
            && members
                .iter()
                .all(|member| matches!(member.key, "required" | "type") || is_annotation(member.key))
    })
}
