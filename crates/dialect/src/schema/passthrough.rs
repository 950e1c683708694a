//! Final steps for a schema that a dialect accepts as it is.

use super::context::Context;
use super::edit::ObjectEdit;
use super::node_id::is_same_node;
use super::profile::RestrictedKeys;
use super::refs::Document;
use super::{Converted, SchemaSize, is_annotation};
use crate::Effect;
use crate::arguments::Plan;
use crate::json::{Node, Place, get};

impl<'a> Context<'a, '_> {
    /// Converts `root`, whose `normalized` form was turned into an object without composition in `fixed`.
    pub(crate) fn pass_through(
        &mut self,
        root: Node<'a>,
        fixed: Node<'a>,
        normalized: Node<'a>,
        document: Option<&Document<'a>>,
    ) -> Converted<'a> {
        let mut schema = fixed;
        let mut plan = Plan::Same;
        if let Some(document) = document
            && self.has_refs
            && self.profile.inlines_refs
        {
            schema = self.inline(schema, document);
        }
        // A reference into a property would break if the property moved into an `anyOf`.
        if self.profile.nullable_optionals && !document.is_some_and(Document::points_inside) {
            (schema, plan) = self.make_optionals_nullable(schema, document, &Place::ROOT);
        }
        if self.profile.restricted_keys == RestrictedKeys::Root {
            (schema, plan) = self.rename_root_keys(schema);
        }
        let mut root_description = None;
        if self.profile.minimal_root {
            (schema, root_description) = self.minimize_root(schema);
        }
        let changes = self.take_changes(root, !is_same_node(fixed, normalized));
        let (shared, size) = (Vec::new(), SchemaSize::default());
        Converted { schema, normalized, plan, shared, strict: None, size, changes, root_description }
    }

    /// Reduces the root to `type`, `properties` and `required`, and what cannot be expressed elsewhere. Also
    /// returns the text that belongs in the tool's description.
    fn minimize_root(&mut self, root: Node<'a>) -> (Node<'a>, Option<Node<'a>>) {
        let members = root.object().unwrap_or_default();
        let mut edit = ObjectEdit::of(members);
        let mut text = ObjectEdit::of(&[]);
        for member in members {
            match member.key {
                "type" | "properties" | "required" => {}
                "$defs" | "definitions" if has_ref(root) => {}
                "additionalProperties"
                    if !matches!(member.value, Node::Bool(false))
                        || get(members, "patternProperties").is_some() => {}
                "additionalProperties" => {
                    edit.remove(member.key);
                    self.record_implied_closed(&Place::ROOT);
                }
                "description" => {
                    edit.remove(member.key);
                    let rules = text.remove("description").and_then(|node| node.text(self.arena));
                    text.put("description", member.value);
                    if let Some(rules) = rules {
                        self.describe(&mut text, rules);
                    }
                }
                key if is_annotation(key) => {
                    edit.remove(key);
                    self.record_dropped(&Place::ROOT, *member);
                }
                key => {
                    edit.remove(key);
                    if key == "patternProperties" {
                        edit.put("additionalProperties", Node::Bool(true));
                    }
                    self.describe_rule(&mut text, *member);
                    let detail = format!("{key} moved to the description; some models reject it at the root");
                    self.record(&Place::ROOT, key, Effect::Widened, detail);
                }
            }
        }
        (Node::Object(self.finish(edit)), text.get("description"))
    }
}

/// Whether a schema has a reference outside of its definitions.
fn has_ref(node: Node<'_>) -> bool {
    let mut stack = vec![node];
    while let Some(node) = stack.pop() {
        let Some(members) = node.object() else { continue };
        if get(members, "$ref").is_some_and(Node::is_string) {
            return true;
        }
        super::walk::each_child(members, |path, child| {
            if !path.is_definition() {
                stack.push(child);
            }
        });
    }
    false
}
