//! References: kept, replaced by what they point to, or cut where they would never end.

use super::{BUDGET, DEEPEST, Definition, Lower, Lowered, Lowering};
use crate::arguments::Plan;
use crate::json::{EMPTY, Member, Node, Object, Place, get};
use crate::schema::draft::Draft;
use crate::schema::is_annotation;
use crate::schema::profile::Refs;
use crate::schema::refs::{Target, identity};

impl<'a> Lowering<'_, 'a, '_> {
    pub(super) fn target(&self, reference: &str, place: &Place<'_>) -> Target<'a> {
        let document = self.document.expect("a schema with references has a document");
        let base = if document.nested { document.base_of(&place.pointer()) } else { String::new() };
        // Every reference in use was followed before lowering began; anything goes for one that was merged in.
        document.resolve(&base, reference).unwrap_or(Target { node: EMPTY, pointer: String::new() })
    }

    /// Lowers a schema with a `$ref`.
    pub(super) fn reference(&mut self, members: Object<'a>, place: &Place<'_>) -> Lower<'a> {
        let reference =
            get(members, "$ref").and_then(|node| node.text(self.context.arena)).unwrap_or_default();
        let target = self.target(reference, place);
        let siblings: Vec<Member<'a>> =
            members.iter().filter(|member| member.key != "$ref").copied().collect();
        let constrained = !self.lone_refs && siblings.iter().any(|member| !is_annotation(member.key));
        let described = siblings.iter().any(|member| matches!(member.key, "description" | "title"));
        let id = identity(target.node);
        let cyclic = self.document.is_some_and(|document| document.is_cyclic(target.node));
        let open = self.open.iter().rposition(|(open, _)| *open == id && id != 0);
        let keep = match self.grammar.refs {
            Refs::Kept => !constrained && (!described || cyclic || self.spent > BUDGET),
            Refs::Cycles => !constrained && (cyclic || self.spent > BUDGET) && self.may_point(id),
            Refs::Never => false,
        };
        if keep {
            return Ok(self.pointed(target, &siblings, place));
        }
        if open.is_some()
            || cyclic && self.grammar.refs == Refs::Cycles
            || self.spent > BUDGET
            || self.open.len() > DEEPEST
        {
            let shown = target.node.object().unwrap_or_default();
            let mut draft = Draft::of(self.context.members(&siblings));
            for member in shown.iter().filter(|member| !is_annotation(member.key)) {
                draft.put(member.key, member.value);
            }
            let why = if open.is_some() || cyclic { "it is recursive" } else { "it grows too large" };
            let members = self.context.members(draft.members());
            return self.unsayable_or_text(members, place, "$ref", why);
        }
        let pointer: &'a str = self.context.arena.alloc_str(&target.pointer);
        let at = Place::at(pointer);
        self.open.push((id, false));
        let lowered = if siblings.is_empty() {
            self.lower(target.node, &at)
        } else {
            self.moved();
            self.with_siblings(target.node, &siblings, constrained, &at)
        };
        self.open.pop();
        lowered
    }

    /// What is pointed at, with what stands beside the `$ref`: the nearer description wins.
    fn with_siblings(
        &mut self,
        target: Node<'a>,
        siblings: &[Member<'a>],
        constrained: bool,
        place: &Place<'_>,
    ) -> Lower<'a> {
        if constrained {
            let both = [self.context.object(siblings), target];
            let node = self.context.object(&[Member::new("allOf", self.context.list(&both))]);
            return self.lower(node, place);
        }
        let Some(members) = target.object() else {
            let node =
                if matches!(target, Node::Bool(false)) { target } else { self.context.object(siblings) };
            return self.lower(node, place);
        };
        let mut draft = Draft::of(members);
        for sibling in siblings {
            if is_annotation(sibling.key) && !matches!(sibling.key, "$defs" | "definitions" | "$id") {
                draft.put(sibling.key, sibling.value);
            }
        }
        let node = self.context.object(draft.members());
        self.lower(node, place)
    }

    /// A bare reference to a definition; a description needs a wrapper.
    fn pointed(&mut self, target: Target<'a>, siblings: &[Member<'a>], place: &Place<'_>) -> Lowered<'a> {
        let id = identity(target.node);
        let root = id == identity(self.root) && self.grammar.refs == Refs::Kept;
        let (pointer, plan) = if root {
            ("#".to_owned(), Plan::Shared(0))
        } else {
            let known = self.by_target.get(&id).copied().filter(|_| id != 0);
            let index = known.unwrap_or_else(|| {
                let name = self.definition_name(&target.pointer);
                self.definitions.push(Definition {
                    target: target.node,
                    pointer: target.pointer,
                    name,
                    lowered: None,
                });
                self.by_target.insert(id, self.definitions.len() - 1);
                self.definitions.len() - 1
            });
            (format!("#/$defs/{}", self.definitions[index].name), Plan::Shared(index + 1))
        };
        let bare = self.context.object(&[Member::new("$ref", self.context.text(&pointer))]);
        let draft = self.begin(self.context.members(siblings), place);
        let described = draft.get("description").is_some() && self.grammar.refs == Refs::Kept;
        let node = if described {
            let mut wrapper = vec![Member::new("anyOf", self.context.list(&[bare]))];
            wrapper.extend(draft.members().iter().filter(|member| member.key == "description"));
            self.context.object(&wrapper)
        } else {
            bare
        };
        Lowered { node, plan }
    }

    /// A name for a definition: the last step of its pointer in plain letters, unlike all others.
    fn definition_name(&mut self, pointer: &str) -> String {
        let last = pointer.rsplit('/').next().filter(|last| !last.is_empty()).unwrap_or("Root");
        let plain: String = last
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '_' })
            .collect();
        let mut number = self.definition_names.get(&plain).copied().unwrap_or(1);
        let mut name = plain.clone();
        while self.definition_names.contains_key(&name) {
            number += 1;
            name = format!("{plain}_{number}");
        }
        self.definition_names.insert(plain, number);
        self.definition_names.entry(name.clone()).or_insert(1);
        name
    }

    /// Whether a reference to a definition may stand here: a circle may only run through optional properties.
    fn may_point(&mut self, target: usize) -> bool {
        if self.open.iter().any(|(_, optional)| *optional) {
            return true;
        }
        let from = self.open.first().map_or(0, |(from, _)| *from);
        if self.leads(target, from) {
            return false;
        }
        self.needs.entry(from).or_default().push(target);
        true
    }

    /// Whether `from` needs `to` in the end.
    fn leads(&self, from: usize, to: usize) -> bool {
        let mut seen = std::collections::HashSet::new();
        let mut stack = vec![from];
        while let Some(at) = stack.pop() {
            if at == to {
                return true;
            }
            if seen.insert(at) {
                stack.extend(self.needs.get(&at).into_iter().flatten());
            }
        }
        false
    }

    /// Marks that a property is being entered; undone by [`Lowering::leave_property`].
    pub(super) fn enter_property(&mut self, required: bool) -> bool {
        let Some((_, optional)) = self.open.last_mut() else { return false };
        let before = *optional;
        *optional |= !required;
        before
    }

    pub(super) fn leave_property(&mut self, before: bool) {
        if let Some((_, optional)) = self.open.last_mut() {
            *optional = before;
        }
    }
}
