//! `allOf` merged away, so that what a schema says stands in one place.

use super::{DEEPEST, Lowering, Stop};
use crate::json::{EMPTY, Member, Node, Object, Place, get};
use crate::schema::draft::Draft;
use crate::schema::identity::{ByIdentity, identity};
use crate::schema::merge::Clash;
use crate::schema::walk::each_child;

impl<'a> Lowering<'_, 'a, '_> {
    /// The schema without `allOf`, and the rules that could not be merged into it.
    pub(super) fn flatten(
        &mut self,
        members: Object<'a>,
        place: &Place<'_>,
    ) -> Result<(Object<'a>, Vec<Member<'a>>), Stop> {
        let mut leftover = Vec::new();
        let mut merged = members;
        if let Some(parts) = get(members, "allOf").and_then(Node::list) {
            self.moved();
            let mut base = Draft::of(members);
            base.remove("allOf");
            merged = self.context.members(base.members());
            for part in parts {
                merged = self.merge_part(merged, *part, &mut leftover, place)?;
            }
        }
        Ok((self.close_evaluated(merged), leftover))
    }

    fn merge_part(
        &mut self,
        base: Object<'a>,
        part: Node<'a>,
        leftover: &mut Vec<Member<'a>>,
        place: &Place<'_>,
    ) -> Result<Object<'a>, Stop> {
        let members = match part {
            Node::Bool(false) => return Err(Stop::Never),
            Node::Object(members) => members,
            _ => return Ok(base),
        };
        if self.impossible.contains(&identity(part)) {
            return Err(Stop::Never);
        }
        let members = match get(members, "$ref").and_then(|reference| reference.text(self.context.arena)) {
            None => members,
            Some(reference) => {
                let target = self.target(reference, place);
                let id = identity(target.node);
                if self.open.len() > DEEPEST || self.open.iter().any(|(open, _)| *open == id) {
                    leftover.push(Member::new("allOf", self.context.list(&[part])));
                    return Ok(base);
                }
                let mut siblings = Draft::of(members);
                siblings.remove("$ref");
                // Said twice is said once: a definition is merged in for its first reference alone.
                let merged = if self.inlined.insert(id) || id == 0 {
                    self.open.push((id, false));
                    let merged = self.merge_part(base, target.node, leftover, place);
                    self.open.pop();
                    merged?
                } else {
                    base
                };
                if self.lone_refs {
                    return Ok(merged);
                }
                let siblings = self.context.members(siblings.members());
                return self.merge_part(merged, Node::Object(siblings), leftover, place);
            }
        };
        let (members, more) = self.flatten(members, place)?;
        leftover.extend(more);
        self.context.merge(base, members, leftover).map_err(|clash| match clash {
            Clash::Never => Stop::Never,
            Clash::TooLarge => self.unsayable(place, "allOf", "it grows too large when its parts are merged"),
        })
    }

    /// `unevaluatedProperties: false` as `additionalProperties: false`, now that nothing else can evaluate a key.
    fn close_evaluated(&mut self, members: Object<'a>) -> Object<'a> {
        let Some(rest) = get(members, "unevaluatedProperties") else { return members };
        const MAY_EVALUATE: [&str; 7] =
            ["anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "patternProperties"];
        if MAY_EVALUATE.iter().any(|keyword| get(members, keyword).is_some()) {
            return members;
        }
        let mut draft = Draft::of(members);
        draft.remove("unevaluatedProperties");
        if get(members, "additionalProperties").is_none() {
            draft.put("additionalProperties", rest);
        }
        self.context.members(draft.members())
    }

    /// From now on schemas may stand elsewhere than in the original: remember where they came from.
    pub(super) fn moved(&mut self) {
        if self.origins.is_some() {
            return;
        }
        let arena = self.context.arena;
        let mut origins = ByIdentity::default();
        let mut stack: Vec<(Node<'a>, &'a Place<'a>)> = vec![(self.mended, &Place::ROOT)];
        while let Some((node, place)) = stack.pop() {
            if let Some(members) = node.object() {
                each_child(members, |path, child| stack.push((child, path.below(place, arena))));
                origins.insert(identity(node), place);
            }
        }
        origins.remove(&identity(EMPTY));
        self.origins = Some(origins);
    }
}
