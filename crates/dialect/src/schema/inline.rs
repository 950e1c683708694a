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
    /// A reference had to stay.
    stayed: bool,
}

impl<'a> Context<'a, '_> {
    /// The schema without references, but for circles.
    pub(crate) fn inline(&mut self, root: Node<'a>, document: &Document<'a>) -> Node<'a> {
        let mut inlining = Inlining { document, open: vec![identity(root)], spent: 0, stayed: false };
        let mut node = self.inline_node(root, &mut inlining);
        if inlining.spent > BUDGET {
            return root;
        }
        if !inlining.stayed {
            let mut draft = Draft::of(node.object().unwrap_or_default());
            draft.remove("$defs");
            draft.remove("definitions");
            node = self.object(draft.members());
        }
        self.note(&Place::ROOT, "$ref", Effect::Rewritten, "references are replaced by what they point to");
        node
    }

    fn inline_node(&mut self, node: Node<'a>, inlining: &mut Inlining<'_, 'a>) -> Node<'a> {
        let Some(members) = node.object() else { return node };
        inlining.spent += 1;
        if inlining.spent > BUDGET {
            return node;
        }
        let Some(reference) = get(members, "$ref").and_then(|node| node.text(self.arena)) else {
            return self.inline_children(members, inlining);
        };
        let Some(target) = inlining.document.resolve("", reference) else { return node };
        let id = identity(target.node);
        let constrained = members.iter().any(|member| member.key != "$ref" && !is_annotation(member.key));
        if inlining.document.nested
            || constrained
            || inlining.document.is_cyclic(target.node)
            || inlining.open.len() > DEEPEST
            || inlining.open.contains(&id)
        {
            inlining.stayed = true;
            return node;
        }
        inlining.open.push(id);
        let shown = self.inline_node(target.node, inlining);
        inlining.open.pop();
        if members.len() == 1 {
            return shown;
        }
        let Some(shown) = shown.object() else { return shown };
        let mut draft = Draft::of(shown);
        for member in members.iter().filter(|member| member.key != "$ref") {
            draft.put(member.key, member.value);
        }
        self.object(draft.members())
    }

    fn inline_children(&mut self, members: Object<'a>, inlining: &mut Inlining<'_, 'a>) -> Node<'a> {
        let mut draft = Draft::of(members);
        for member in members {
            let value = match (slot(member.key), member.value) {
                (Slot::Schema | Slot::Items, Node::Object(_)) => self.inline_node(member.value, inlining),
                (Slot::SchemaList, Node::List(schemas)) => {
                    let schemas: Vec<Node<'a>> =
                        schemas.iter().map(|schema| self.inline_node(*schema, inlining)).collect();
                    self.list(&schemas)
                }
                (Slot::Properties | Slot::SchemaMap, Node::Object(schemas))
                    if !matches!(member.key, "$defs" | "definitions") =>
                {
                    let schemas: Vec<Member<'a>> = schemas
                        .iter()
                        .map(|entry| Member::new(entry.key, self.inline_node(entry.value, inlining)))
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
