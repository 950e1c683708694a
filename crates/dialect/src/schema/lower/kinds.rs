//! Which types a schema allows.

use super::{Lower, Lowered, Lowering, has_rules};
use crate::Effect;
use crate::arguments::Plan;
use crate::json::{Member, Node, Object, Place, get};
use crate::schema::is_annotation;
use crate::schema::profile::Types;
use crate::schema::types::{NULLABLE, TypeSet};

impl<'a> Lowering<'_, 'a, '_> {
    /// The types a schema allows; second, whether they were only implied by its keywords.
    pub(super) fn types(&mut self, members: Object<'a>, place: &Place<'_>) -> (TypeSet, bool) {
        if get(members, "type").is_some() {
            return (self.types_with_null(members, place), false);
        }
        let types = TypeSet::of(members);
        let implied = members.iter().find_map(|member| implied_type(member.key));
        match implied {
            None => (types, false),
            Some(name) => {
                self.note(
                    place,
                    "type",
                    Effect::Narrowed,
                    format!("its keywords speak of type `{name}`, so only that is offered"),
                );
                (TypeSet::named(name), true)
            }
        }
    }

    /// The types a schema says, and `null` where OpenAPI's `nullable` means it.
    pub(super) fn types_with_null(&mut self, members: Object<'a>, place: &Place<'_>) -> TypeSet {
        let types = TypeSet::of(members);
        if !matches!(get(members, "nullable"), Some(Node::Bool(true))) || types.has(TypeSet::NULL) {
            return types;
        }
        self.note(place, "nullable", Effect::Widened, NULLABLE);
        types.or(TypeSet::NULL)
    }

    pub(super) fn one_type(
        &mut self,
        name: &'static str,
        members: Object<'a>,
        leftover: &[Member<'a>],
        place: &Place<'_>,
    ) -> Lower<'a> {
        match name {
            "object" => self.object(members, leftover, place, false),
            "array" => self.array(members, leftover, place),
            scalar => self.scalar(scalar, members, leftover, place),
        }
    }

    pub(super) fn several_types(
        &mut self,
        names: &[&'static str],
        members: Object<'a>,
        leftover: &[Member<'a>],
        place: &Place<'_>,
    ) -> Lower<'a> {
        let plain = names.iter().all(|name| !matches!(*name, "array" | "object")) && !has_rules(members);
        if plain && self.grammar.types == Types::Lists {
            let mut draft = self.begin(members, place);
            // The original's own order, if it has one.
            let list = match get(members, "type") {
                Some(node @ Node::List(own)) if own.len() == names.len() => node,
                _ => self.context.list(&names.iter().map(|name| Node::Text(name)).collect::<Vec<_>>()),
            };
            draft.put_first("type", list);
            self.tell(&mut draft, leftover, place);
            return Ok(Lowered { node: self.context.object(draft.members()), plan: Plan::Same });
        }
        // One branch a type, each with the keywords that speak of it.
        let branches: Vec<Node<'a>> = names
            .iter()
            .map(|name| {
                let mut branch = vec![Member::new("type", Node::Text(name))];
                branch.extend(members.iter().filter(|member| {
                    !is_annotation(member.key)
                        && implied_type(member.key)
                            .is_some_and(|of| of == *name || of == "number" && *name == "integer")
                }));
                self.context.object(&branch)
            })
            .collect();
        self.union(members, &branches, "type", false, leftover, place)
    }
}

/// The type that a keyword speaks of.
pub(super) fn implied_type(keyword: &str) -> Option<&'static str> {
    Some(match keyword {
        "properties"
        | "required"
        | "additionalProperties"
        | "patternProperties"
        | "propertyNames"
        | "minProperties"
        | "maxProperties"
        | "dependentRequired"
        | "dependentSchemas"
        | "dependencies"
        | "unevaluatedProperties" => "object",
        "items" | "prefixItems" | "minItems" | "maxItems" | "uniqueItems" | "contains" | "minContains"
        | "maxContains" | "unevaluatedItems" => "array",
        "minLength" | "maxLength" | "pattern" | "format" => "string",
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => "number",
        _ => return None,
    })
}
