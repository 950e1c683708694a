//! The types that a schema allows.

use super::{LowerResult, Lowered, Lowering, MergedSchema, has_rules};
use crate::Effect;
use crate::arguments::Plan;
use crate::json::{Member, Node, Object, Place, get};
use crate::schema::edit::ObjectEdit;
use crate::schema::is_annotation;
use crate::schema::nullable::make_nullable;
use crate::schema::types::{NULLABLE_DETAIL, TypeSet};

impl<'a> Lowering<'_, 'a, '_> {
    /// Returns the types that a schema allows, and whether they are only implied by its keywords.
    pub(super) fn types(&mut self, members: Object<'a>, place: &Place<'_>) -> (TypeSet, bool) {
        if get(members, "type").is_some() {
            return (self.declared_types(members, place), false);
        }
        let Some(name) = members.iter().find_map(|member| implied_type(member.key)) else {
            return (TypeSet::of(members), false);
        };
        let detail = format!("type is missing; its keywords imply {name}");
        self.record(place, "type", Effect::Narrowed, detail);
        (TypeSet::named(name), true)
    }

    /// Returns the types in `type`, and `null` where OpenAPI's `nullable` adds it.
    pub(super) fn declared_types(&mut self, members: Object<'a>, place: &Place<'_>) -> TypeSet {
        let types = TypeSet::of(members);
        if !matches!(get(members, "nullable"), Some(Node::Bool(true))) || types.has(TypeSet::NULL) {
            return types;
        }
        self.record(place, "nullable", Effect::Widened, NULLABLE_DETAIL);
        types.or(TypeSet::NULL)
    }

    pub(super) fn one_type(&mut self, name: &'static str, schema: MergedSchema<'_, 'a>) -> LowerResult<'a> {
        match name {
            "object" => self.object(schema, false),
            "array" => self.array(schema),
            scalar => self.scalar(scalar, schema),
        }
    }

    pub(super) fn several_types(
        &mut self,
        names: &[&'static str],
        schema: MergedSchema<'_, 'a>,
    ) -> LowerResult<'a> {
        let MergedSchema { members, leftover, place } = schema;
        let plain = names.iter().all(|name| !matches!(*name, "array" | "object")) && !has_rules(members);
        if plain && !self.grammar.openapi_types {
            let mut output = self.start_output(members, place);
            // The order of the original, if it lists the same types.
            let list = match get(members, "type") {
                Some(node @ Node::List(own)) if own.len() == names.len() => node,
                _ => self.context.list(&names.iter().map(|name| Node::Text(name)).collect::<Vec<_>>()),
            };
            output.put_first("type", list);
            self.describe_rules(&mut output, leftover, place);
            return Ok(Lowered { node: self.context.object(output.members()), plan: Plan::Same });
        }
        // Rules such as `not` apply to every type.
        let mut leftover = leftover.to_vec();
        leftover.extend(members.iter().filter(|member| {
            member.key != "type" && !is_annotation(member.key) && implied_type(member.key).is_none()
        }));
        // One branch per type, each with the keywords that apply to it.
        let branches: Vec<Node<'a>> = names
            .iter()
            .map(|name| {
                let mut branch = vec![Member::new("type", Node::Text(name))];
                branch.extend(
                    members
                        .iter()
                        .filter(|member| !is_annotation(member.key) && applies_to(member.key, name)),
                );
                self.context.object(&branch)
            })
            .collect();
        self.union(MergedSchema { leftover: &leftover, ..schema }, &branches, "type", false)
    }

    /// Returns the lowered schema with `null` added.
    pub(super) fn with_null(&self, node: Node<'a>) -> Node<'a> {
        if self.grammar.openapi_types { self.with_nullable(node) } else { make_nullable(node, self.context) }
    }

    /// Adds `nullable`: to every branch of an `anyOf`, which must be the only keyword of its schema.
    fn with_nullable(&self, node: Node<'a>) -> Node<'a> {
        let Some(members) = node.object() else { return node };
        let mut edit = ObjectEdit::of(members);
        match get(members, "anyOf").and_then(Node::list) {
            Some(branches) => {
                let branches: Vec<Node<'a>> =
                    branches.iter().map(|branch| self.with_nullable(*branch)).collect();
                edit.put("anyOf", self.context.list(&branches));
            }
            None => edit.put("nullable", Node::Bool(true)),
        }
        self.context.object(edit.members())
    }

    /// Whether a lowered schema is the type `NULL`, which OpenAPI allows only as a marker for `nullable`.
    pub(super) fn is_openapi_null(&self, node: Node<'a>) -> bool {
        self.grammar.openapi_types && matches!(node.member("type"), Some(Node::Text("NULL")))
    }
}

/// Whether a keyword constrains values of type `name`.
pub(super) fn applies_to(keyword: &str, name: &str) -> bool {
    let of = implied_type(keyword);
    of == Some(name) || of == Some("number") && name == "integer"
}

/// Returns the type that a keyword constrains.
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
