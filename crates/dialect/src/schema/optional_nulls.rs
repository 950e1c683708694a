//! Optional properties that also accept `null`, which decoding removes again.

use std::collections::HashSet;

use super::context::Context;
use super::edit::EntryEdits;
use super::keywords::{object_at, required_keys};
use super::nullable::{accepts_null, make_nullable};
use super::refs::Document;
use crate::Effect;
use crate::arguments::{Field, ObjectPlan, Plan, Rest};
use crate::json::{Node, Object, Place, get};

/// Report detail for an optional property that became nullable.
pub(super) const MADE_NULLABLE: &str = "made nullable; null means omitted";

impl<'a> Context<'a, '_> {
    /// Makes the optional properties of objects nullable, also in the items of arrays.
    pub(super) fn make_optionals_nullable(
        &mut self,
        node: Node<'a>,
        document: Option<&Document<'a>>,
        place: &Place<'_>,
    ) -> (Node<'a>, Plan) {
        let Some(members) = node.object() else { return (node, Plan::Same) };
        // Keywords that count or compare keys treat `null` and an omitted key differently.
        const DISTINGUISHING: [&str; 16] = [
            "$ref",
            "anyOf",
            "oneOf",
            "allOf",
            "not",
            "if",
            "enum",
            "const",
            "unevaluatedProperties",
            "minProperties",
            "maxProperties",
            "dependentRequired",
            "dependentSchemas",
            "dependencies",
            "patternProperties",
            "propertyNames",
        ];
        if DISTINGUISHING.iter().any(|keyword| get(members, keyword).is_some()) {
            return (node, Plan::Same);
        }
        match (get(members, "type"), get(members, "items")) {
            (Some(Node::Text("object")), _) => self.make_properties_nullable(members, document, place),
            (Some(Node::Text("array")), Some(items @ Node::Object(_)))
                if get(members, "prefixItems").is_none() =>
            {
                let (items, plan) = self.make_optionals_nullable(items, document, &place.key("items"));
                if plan.is_same() {
                    return (node, plan);
                }
                (self.with(members, "items", items), Plan::items(plan))
            }
            _ => (node, Plan::Same),
        }
    }

    fn make_properties_nullable(
        &mut self,
        members: Object<'a>,
        document: Option<&Document<'a>>,
        place: &Place<'_>,
    ) -> (Node<'a>, Plan) {
        let properties = object_at(members, "properties");
        let required: HashSet<&str> = required_keys(members, self.arena).collect();
        let inside = place.key("properties");
        let mut entries = EntryEdits::of(properties);
        let mut fields = Vec::new();
        for property in properties {
            let here = inside.key(property.key);
            let (mut schema, plan) = self.make_optionals_nullable(property.value, document, &here);
            let null_is_absent = !required.contains(property.key) && !accepts_null(property.value, document);
            if null_is_absent {
                schema = make_nullable(schema, self);
                self.record(&here, "required", Effect::Rewritten, MADE_NULLABLE);
            }
            if !null_is_absent && plan.is_same() {
                entries.retain();
            } else {
                entries.replace(schema);
                let key = property.key.to_owned();
                fields.push(Field { wire: key.clone(), own: key, plan, null_is_absent });
            }
        }
        let Some(properties) = entries.finish() else { return (Node::Object(members), Plan::Same) };
        let plan = ObjectPlan { fields, rest: Rest::Same, fill: false }.into_plan();
        (self.with(members, "properties", self.object(&properties)), plan)
    }
}
