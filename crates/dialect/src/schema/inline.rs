//! Replaces references by what they point to, in a schema that is otherwise kept word for word.

use super::context::Context;
use super::draft::Draft;
use super::refs::{Document, identity};
use super::{Slot, is_annotation, slot};
use crate::Effect;
use crate::json::{Member, Node, Object, Place, get};

/// How many schemas may come of it; beyond, references stay.
const BUDGET: usize = 10_000;

/// How many references may be replaced inside each other.
const DEEPEST: usize = 64;

struct Inlining<'d, 'a> {
    document: &'d Document<'a>,
    open: Vec<usize>,
    spent: usize,
    /// A reference was replaced.
    replaced: bool,
    /// A reference had to stay.
    stayed: bool,
}

impl<'a> Context<'a, '_> {
    /// The schema without references, but for circles.
    pub(crate) fn inline(&mut self, root: Node<'a>, document: &Document<'a>) -> Node<'a> {
        let open = vec![identity(root)];
        let mut inlining = Inlining { document, open, spent: 0, replaced: false, stayed: false };
        let mut node = self.inline_node(root, &mut inlining, &Place::ROOT);
        if inlining.spent > BUDGET || inlining.stayed && !inlining.replaced {
            return root;
        }
        if !inlining.stayed {
            let mut draft = Draft::of(node.object().unwrap_or_default());
            draft.remove("$defs");
            draft.remove("definitions");
            node = self.object(draft.members());
        }
        let detail = if !inlining.replaced {
            "definitions that nothing points at are left out"
        } else if inlining.stayed {
            "references are replaced by what they point to, but for those that lead back to themselves"
        } else {
            "references are replaced by what they point to"
        };
        self.note(&Place::ROOT, "$ref", Effect::Rewritten, detail);
        node
    }

    fn inline_node(
        &mut self,
        node: Node<'a>,
        inlining: &mut Inlining<'_, 'a>,
        place: &Place<'_>,
    ) -> Node<'a> {
        let Some(members) = node.object() else { return node };
        inlining.spent += 1;
        if inlining.spent > BUDGET {
            return node;
        }
        inlining.stayed |= get(members, "$dynamicRef").is_some();
        let Some(reference) = get(members, "$ref").and_then(|node| node.text(self.arena)) else {
            return self.inline_children(members, inlining, place);
        };
        let base = inlining.document.base_at(place);
        let Some(target) = inlining.document.resolve(&base, reference) else { return node };
        let id = identity(target.node);
        let constrained = members.iter().any(|member| member.key != "$ref" && !is_annotation(member.key));
        if constrained && get(members, "allOf").is_some()
            || inlining.document.is_cyclic(target.node)
            || inlining.open.len() > DEEPEST
            || inlining.open.contains(&id)
        {
            inlining.stayed = true;
            return node;
        }
        inlining.open.push(id);
        let shown = self.inline_node(target.node, inlining, &Place::at(&target.pointer));
        inlining.open.pop();
        inlining.replaced = true;
        if members.len() == 1 {
            return shown;
        }
        if constrained {
            let mut draft =
                Draft::of(self.inline_children(members, inlining, place).object().unwrap_or_default());
            draft.remove("$ref");
            draft.put("allOf", self.list(&[shown]));
            return self.object(draft.members());
        }
        let Some(shown) = shown.object() else { return shown };
        let mut draft = Draft::of(shown);
        for member in members.iter().filter(|member| member.key != "$ref") {
            draft.put(member.key, member.value);
        }
        self.object(draft.members())
    }

    fn inline_children(
        &mut self,
        members: Object<'a>,
        inlining: &mut Inlining<'_, 'a>,
        place: &Place<'_>,
    ) -> Node<'a> {
        let mut draft = Draft::of(members);
        for member in members {
            let inside = place.key(member.key);
            let value = match (slot(member.key), member.value) {
                (Slot::Schema | Slot::Items, Node::Object(_)) => {
                    self.inline_node(member.value, inlining, &inside)
                }
                (Slot::SchemaList, Node::List(schemas)) => {
                    let schemas: Vec<Node<'a>> = schemas
                        .iter()
                        .enumerate()
                        .map(|(index, schema)| self.inline_node(*schema, inlining, &inside.index(index)))
                        .collect();
                    self.list(&schemas)
                }
                (Slot::Properties | Slot::SchemaMap, Node::Object(schemas))
                    if !matches!(member.key, "$defs" | "definitions") =>
                {
                    let schemas: Vec<Member<'a>> = schemas
                        .iter()
                        .map(|entry| {
                            let here = inside.key(entry.key);
                            Member::new(entry.key, self.inline_node(entry.value, inlining, &here))
                        })
                        .collect();
                    self.object(&schemas)
                }
                _ => continue,
            };
            draft.put(member.key, value);
        }
        self.object(draft.members())
    }
}
