//! Lowers references: kept, replaced by their targets, or cut where they would never end.

use super::{Definition, LowerResult, Lowered, Lowering};
use crate::arguments::Plan;
use crate::json::{EMPTY, Member, Node, Object, Place, get};
use crate::schema::edit::ObjectEdit;
use crate::schema::is_annotation;
use crate::schema::node_id::node_id;
use crate::schema::profile::RefSupport;
use crate::schema::refs::{MAX_INLINE_DEPTH, MAX_INLINED_SCHEMAS, Target};

impl<'a> Lowering<'_, 'a, '_> {
    pub(super) fn target(&self, reference: &str) -> Target<'a> {
        let document = self.document.expect("a schema with references has a document");
        // Every reference in use was resolved before.
        document.resolve(reference).unwrap_or(Target { node: EMPTY, pointer: String::new() })
    }

    /// Lowers a schema with a `$ref`.
    pub(super) fn reference(&mut self, members: Object<'a>, place: &Place<'_>) -> LowerResult<'a> {
        let reference =
            get(members, "$ref").and_then(|node| node.text(self.context.arena)).unwrap_or_default();
        let target = self.target(reference);
        let siblings: Vec<Member<'a>> =
            members.iter().filter(|member| member.key != "$ref").copied().collect();
        let constrained = siblings.iter().any(|member| !is_annotation(member.key));
        let described = siblings.iter().any(|member| matches!(member.key, "description" | "title"));
        let id = node_id(target.node);
        let cyclic = self.document.is_some_and(|document| document.is_cyclic(target.node));
        let is_open = self.open.iter().any(|(open, _)| *open == id && id != 0);
        let too_large = self.lowered_schemas > MAX_INLINED_SCHEMAS;
        let keep = match self.grammar.refs {
            RefSupport::Kept => !constrained && (!described || cyclic || too_large),
            RefSupport::Cycles => !constrained && (cyclic || too_large) && self.may_point_to(id),
            RefSupport::Never => false,
        };
        if keep {
            return Ok(self.kept_reference(target, &siblings, place));
        }
        if is_open
            || cyclic && self.grammar.refs == RefSupport::Cycles
            || too_large
            || self.open.len() > MAX_INLINE_DEPTH
        {
            let mut edit = ObjectEdit::of(self.context.members(&siblings));
            for member in target.node.object().unwrap_or_default() {
                if !is_annotation(member.key) {
                    edit.put(member.key, member.value);
                }
            }
            let reason = if is_open || cyclic {
                "$ref is recursive"
            } else {
                "$ref expands to a schema that is too large"
            };
            let members = self.context.finish(edit);
            return self.fall_back_to_json_text(members, place, "$ref", reason);
        }
        let pointer: &'a str = self.context.arena.alloc_str(&target.pointer);
        let target_place = Place::at(pointer);
        self.open.push((id, false));
        let lowered = if siblings.is_empty() {
            self.lower(target.node, &target_place)
        } else {
            self.track_origins();
            self.with_siblings(target.node, &siblings, constrained, &target_place)
        };
        self.open.pop();
        lowered
    }

    /// Lowers the target of a `$ref` together with the keywords next to the `$ref`, whose annotations win.
    fn with_siblings(
        &mut self,
        target: Node<'a>,
        siblings: &[Member<'a>],
        constrained: bool,
        place: &Place<'_>,
    ) -> LowerResult<'a> {
        let node = match target {
            _ if constrained => self.context.composed("allOf", &[self.context.object(siblings), target]),
            Node::Bool(false) => target,
            Node::Object(members) => {
                let mut edit = ObjectEdit::of(members);
                for sibling in siblings {
                    if is_annotation(sibling.key) && !matches!(sibling.key, "$defs" | "definitions" | "$id") {
                        edit.put(sibling.key, sibling.value);
                    }
                }
                self.context.object(edit.members())
            }
            _ => self.context.object(siblings),
        };
        self.lower(node, place)
    }

    /// Returns a reference to a definition, inside an `anyOf` if it needs a description.
    fn kept_reference(
        &mut self,
        target: Target<'a>,
        siblings: &[Member<'a>],
        place: &Place<'_>,
    ) -> Lowered<'a> {
        let id = node_id(target.node);
        let (pointer, plan) = if id == node_id(self.root) && self.grammar.refs == RefSupport::Kept {
            ("#".to_owned(), Plan::Shared(0))
        } else {
            let known = self.definition_indexes.get(&id).copied().filter(|_| id != 0);
            let index = known.unwrap_or_else(|| {
                let Target { node, pointer } = target;
                let name = self.definition_name(&pointer);
                self.definitions.push(Definition { target: node, pointer, name, lowered: None });
                self.definition_indexes.insert(id, self.definitions.len() - 1);
                self.definitions.len() - 1
            });
            (format!("#/$defs/{}", self.definitions[index].name), Plan::Shared(index + 1))
        };
        let reference = self.context.object(&[Member::new("$ref", self.context.text(&pointer))]);
        let output = self.start_output(self.context.members(siblings), place);
        let node = match output.get("description") {
            Some(description) if self.grammar.refs == RefSupport::Kept => self.context.object(&[
                Member::new("anyOf", self.context.list(&[reference])),
                Member::new("description", description),
            ]),
            _ => reference,
        };
        Lowered { node, plan }
    }

    /// Returns a unique name for a definition: the last segment of its pointer, in ASCII letters, digits and
    /// `_`.
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

    /// Whether a reference to a definition is allowed here: a cycle must pass an optional property.
    fn may_point_to(&mut self, target: usize) -> bool {
        if self.open.iter().any(|(_, optional)| *optional) {
            return true;
        }
        let from = self.open.first().map_or(0, |(from, _)| *from);
        if self.requires_transitively(target, from) {
            return false;
        }
        self.requires.entry(from).or_default().push(target);
        true
    }

    /// Whether the definition `from` contains `to`, directly or through others.
    fn requires_transitively(&self, from: usize, to: usize) -> bool {
        let mut seen = std::collections::HashSet::new();
        let mut stack = vec![from];
        while let Some(at) = stack.pop() {
            if at == to {
                return true;
            }
            if seen.insert(at) {
                stack.extend(self.requires.get(&at).into_iter().flatten());
            }
        }
        false
    }

    /// Marks that a property is being lowered; undone by [`Lowering::leave_property`].
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
