//! Replaces references by the schemas they point to, in a schema that is otherwise unchanged.

use super::context::Context;
use super::edit::ObjectEdit;
use super::is_annotation;
use super::node_id::node_id;
use super::refs::{Document, MAX_INLINE_DEPTH, MAX_INLINED_SCHEMAS};
use crate::Effect;
use crate::json::{Node, Object, Place, get};

struct Inlining<'d, 'a> {
    document: &'d Document<'a>,
    /// Reference targets that are being inlined.
    open: Vec<usize>,
    schemas: usize,
    /// A reference was replaced.
    replaced: bool,
    /// A reference could not be replaced.
    remaining: bool,
    /// The result would be too large.
    too_large: bool,
}

impl<'a> Context<'a, '_> {
    /// Replaces all references except recursive ones.
    pub(crate) fn inline(&mut self, root: Node<'a>, document: &Document<'a>) -> Node<'a> {
        let open = vec![node_id(root)];
        let mut inlining =
            Inlining { document, open, schemas: 0, replaced: false, remaining: false, too_large: false };
        let mut node = self.inline_node(root, &mut inlining, &Place::ROOT);
        if inlining.too_large || inlining.remaining && !inlining.replaced {
            return root;
        }
        if !inlining.remaining {
            let members = self.without(node.object().unwrap_or_default(), "$defs");
            node = Node::Object(self.without(members, "definitions"));
        }
        let detail = match (inlining.replaced, inlining.remaining) {
            (false, _) => "unused definitions removed",
            (true, false) => "$ref replaced by the referenced schema",
            (true, true) => "$ref replaced by the referenced schema, except where it is recursive",
        };
        self.record(&Place::ROOT, "$ref", Effect::Rewritten, detail);
        node
    }

    fn inline_node(
        &mut self,
        node: Node<'a>,
        inlining: &mut Inlining<'_, 'a>,
        place: &Place<'_>,
    ) -> Node<'a> {
        let Some(members) = node.object() else { return node };
        inlining.schemas += 1;
        if inlining.schemas > MAX_INLINED_SCHEMAS || self.budget.take_schema(members).is_err() {
            inlining.too_large = true;
            return node;
        }
        let Some(reference) = get(members, "$ref").and_then(|node| node.text(self.arena)) else {
            return Node::Object(self.inline_children(members, inlining, place));
        };
        let Some(target) = inlining.document.resolve(reference) else { return node };
        let id = node_id(target.node);
        let constrained = members.iter().any(|member| member.key != "$ref" && !is_annotation(member.key));
        if constrained && get(members, "allOf").is_some()
            || inlining.document.is_cyclic(target.node)
            || inlining.open.len() > MAX_INLINE_DEPTH
            || inlining.open.contains(&id)
        {
            inlining.remaining = true;
            return node;
        }
        inlining.open.push(id);
        let target_place = Place::at(&target.pointer);
        let referenced = self.inline_node(target.node, inlining, &target_place);
        inlining.open.pop();
        inlining.replaced = true;
        self.trace(referenced, &target_place);
        if members.len() == 1 {
            return referenced;
        }
        if constrained {
            let mut edit = ObjectEdit::of(self.inline_children(members, inlining, place));
            edit.remove("$ref");
            edit.put("allOf", self.list(&[referenced]));
            return self.object(edit.members());
        }
        let Some(referenced) = referenced.object() else { return referenced };
        let mut edit = ObjectEdit::of(referenced);
        for annotation in members.iter().filter(|member| member.key != "$ref") {
            edit.put(annotation.key, annotation.value);
        }
        let inlined = self.object(edit.members());
        self.trace(inlined, &target_place);
        self.trace(inlined, place);
        inlined
    }

    fn inline_children(
        &mut self,
        members: Object<'a>,
        inlining: &mut Inlining<'_, 'a>,
        place: &Place<'_>,
    ) -> Object<'a> {
        let mut edit = ObjectEdit::of(members);
        for member in members {
            if matches!(member.key, "$defs" | "definitions" | "dependencies") {
                continue;
            }
            let inlined = self.map_schemas(*member, place, |context, schema, _, place| {
                Some(context.inline_node(schema, inlining, place))
            });
            if let Some(value) = inlined {
                edit.put(member.key, value);
            }
        }
        self.finish(edit)
    }
}
