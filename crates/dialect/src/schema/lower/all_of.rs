//! Merges `allOf` into one schema.

use super::{LowerError, Lowering};
use crate::json::{EMPTY, Member, Node, Object, Place, get};
use crate::schema::merge::MergeError;
use crate::schema::node_id::{NodeMap, node_id};
use crate::schema::refs::MAX_INLINE_DEPTH;
use crate::schema::walk::each_child;

impl<'a> Lowering<'_, 'a, '_> {
    /// Returns the schema without `allOf`, and the rules that could not be merged into it.
    pub(super) fn merge_all_of(
        &mut self,
        members: Object<'a>,
        place: &Place<'_>,
    ) -> Result<(Object<'a>, Vec<Member<'a>>), LowerError> {
        let mut leftover = Vec::new();
        let mut merged = members;
        if let Some(parts) = get(members, "allOf").and_then(Node::list) {
            self.track_origins();
            merged = self.context.without(members, "allOf");
            for part in parts {
                merged = self.merge_part(merged, *part, &mut leftover, place)?;
            }
        }
        Ok((self.context.close_evaluated(merged), leftover))
    }

    fn merge_part(
        &mut self,
        base: Object<'a>,
        part: Node<'a>,
        leftover: &mut Vec<Member<'a>>,
        place: &Place<'_>,
    ) -> Result<Object<'a>, LowerError> {
        let members = match part {
            Node::Bool(false) => return Err(LowerError::Unsatisfiable),
            Node::Object(members) => members,
            _ => return Ok(base),
        };
        if self.unsatisfiable.contains(&node_id(part)) {
            return Err(LowerError::Unsatisfiable);
        }
        if let Some(reference) = get(members, "$ref").and_then(|node| node.text(self.context.arena)) {
            let target = self.target(reference);
            let id = node_id(target.node);
            if self.open.len() > MAX_INLINE_DEPTH || self.open.iter().any(|(open, _)| *open == id) {
                leftover.push(Member::new("allOf", self.context.list(&[part])));
                return Ok(base);
            }
            // A definition is merged in for its first reference only.
            let merged = if self.merged_targets.insert(id) || id == 0 {
                self.open.push((id, false));
                let merged = self.merge_part(base, target.node, leftover, place);
                self.open.pop();
                merged?
            } else {
                base
            };
            let siblings = self.context.without(members, "$ref");
            return self.merge_part(merged, Node::Object(siblings), leftover, place);
        }
        let (members, more) = self.merge_all_of(members, place)?;
        leftover.extend(more);
        self.context.merge(base, members, leftover).map_err(|error| match error {
            MergeError::Unsatisfiable => LowerError::Unsatisfiable,
            MergeError::BudgetExceeded => self.too_complex(place),
        })
    }

    /// Remembers the original places of all schemas, because schemas move from now on.
    pub(super) fn track_origins(&mut self) {
        if self.origins.is_some() {
            return;
        }
        let arena = self.context.arena;
        let mut origins = NodeMap::default();
        let mut stack: Vec<(Node<'a>, &'a Place<'a>)> = vec![(self.normalized, &Place::ROOT)];
        while let Some((node, place)) = stack.pop() {
            if let Some(members) = node.object() {
                each_child(members, |path, child| stack.push((child, path.below(place, arena))));
                origins.insert(node_id(node), place);
            }
        }
        origins.remove(&node_id(EMPTY));
        self.origins = Some(origins);
    }
}
