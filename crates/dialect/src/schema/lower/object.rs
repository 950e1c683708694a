//! Lowers objects with named properties.

use std::collections::{HashMap, HashSet};

use super::{LowerError, LowerResult, Lowered, Lowering, MergedSchema};
use crate::Effect;
use crate::arguments::{Field, ObjectPlan, Plan, Rest};
use crate::json::{EMPTY, Member, Node, Object, Place, get};
use crate::names;
use crate::schema::edit::ObjectEdit;
use crate::schema::is_annotation;
use crate::schema::keywords::{list_at, object_at, required_keys};
use crate::schema::nested_keys::KeyCollector;
use crate::schema::nullable::accepts_null;
use crate::schema::optional_nulls::MADE_NULLABLE;
use crate::schema::profile::RestrictedKeys;

/// The keys that an object allows besides its named properties.
#[derive(Clone, Copy)]
pub(super) enum OtherKeys<'a> {
    /// No other keys. An object with named properties that does not mention other keys counts as this.
    Forbidden,
    /// Any other key, with a value that matches the schema.
    Allowed(Node<'a>),
}

/// The properties of a lowered object, with the plan for each in `fields`.
#[derive(Default)]
pub(super) struct LoweredProperties<'a> {
    pub(super) properties: Vec<Member<'a>>,
    pub(super) required: Vec<Node<'a>>,
    pub(super) fields: Vec<Field>,
}

impl<'a> Lowering<'_, 'a, '_> {
    /// Lowers the root, which is always an object; without properties the tool takes no arguments.
    pub(super) fn root_object(&mut self, root: Node<'a>) -> LowerResult<'a> {
        let members = root.object().unwrap_or_default();
        let (members, leftover) = self.merge_all_of(members, &Place::ROOT)?;
        self.object(MergedSchema { members, leftover: &leftover, place: &Place::ROOT }, true)
    }

    pub(super) fn object(&mut self, schema: MergedSchema<'_, 'a>, root: bool) -> LowerResult<'a> {
        let MergedSchema { members, leftover, place } = schema;
        let members = self.hoist_conditional_properties(members, place);
        let schema = MergedSchema { members, ..schema };
        let others = self.other_keys(members, place, root);
        let names_no_key =
            object_at(members, "properties").is_empty() && list_at(members, "required").is_empty();
        const EMPTY_OBJECT: &str = "object without properties";
        if names_no_key && !root {
            match others {
                OtherKeys::Allowed(values) => return self.map(schema, values),
                OtherKeys::Forbidden if self.grammar.openapi_types => {
                    return self.fall_back_to_json_text(members, place, "properties", EMPTY_OBJECT);
                }
                OtherKeys::Forbidden => {}
            }
        }
        let mut output = self.start_output(members, place);
        output.put_first("type", Node::Text("object"));
        self.describe_patterns(&mut output, members);
        let mut lowered = self.named_properties(members, others, place)?;
        if lowered.properties.is_empty() && !root && self.grammar.openapi_types {
            return self.fall_back_to_json_text(members, place, "properties", EMPTY_OBJECT);
        }
        let (rest, others) = match self.rest(&mut output, &mut lowered, others, place)? {
            Some(rest) => (rest, others),
            None => (Rest::Same, OtherKeys::Forbidden),
        };
        let additional = output.remove("additionalProperties");
        output.put("properties", self.context.object(&lowered.properties));
        self.put_required(&mut output, members, &lowered.required, place);
        if let Some(additional) = additional {
            output.put("additionalProperties", additional);
        }
        self.put_additional_properties(&mut output, members, others, &rest, place);
        self.object_rules(&mut output, members, place);
        self.describe_rules(&mut output, leftover, place);
        if matches!(others, OtherKeys::Forbidden) {
            self.record_unnamed_keys(schema);
        }
        let plan = ObjectPlan { fields: lowered.fields, rest, fill: self.grammar.all_required }.into_plan();
        Ok(Lowered { node: self.typed(output.members()), plan })
    }

    fn put_required(
        &mut self,
        output: &mut ObjectEdit<'a>,
        members: Object<'a>,
        required: &[Node<'a>],
        place: &Place<'_>,
    ) {
        let original = get(members, "required");
        if original.is_none() && required.is_empty() {
            if !self.grammar.all_required {
                return;
            }
            self.record(place, "required", Effect::Rewritten, "added required: [], which this API requires");
        }
        // The order of the original, if it names the same keys.
        let own = original.and_then(Node::list).unwrap_or_default();
        let same = own.len() == required.len()
            && own.len() < 64
            && required.iter().all(|name| own.iter().any(|other| other.same(*name)));
        output.put("required", if same { Node::List(own) } else { self.context.list(required) });
    }

    fn other_keys(&mut self, members: Object<'a>, place: &Place<'_>, root: bool) -> OtherKeys<'a> {
        let patterns = object_at(members, "patternProperties");
        let rest = get(members, "additionalProperties");
        if !patterns.is_empty() {
            // No grammar has patterns: any key is allowed, with a value that matches one of the schemas.
            let mut values: Vec<Node<'a>> = patterns.iter().map(|entry| entry.value).collect();
            match rest {
                Some(Node::Bool(false)) => {}
                Some(schema) => values.push(schema),
                None => values.push(EMPTY),
            }
            if !self.must_be_exact() {
                let detail = "patternProperties removed; any key is allowed";
                self.record(place, "patternProperties", Effect::Widened, detail);
            }
            if values.len() == 1 {
                return OtherKeys::Allowed(values[0]);
            }
            self.track_origins();
            return OtherKeys::Allowed(self.context.composed("anyOf", &values));
        }
        match rest {
            Some(Node::Bool(false)) => OtherKeys::Forbidden,
            Some(schema) => OtherKeys::Allowed(schema),
            None => {
                let named = !object_at(members, "properties").is_empty();
                if named || root { OtherKeys::Forbidden } else { OtherKeys::Allowed(EMPTY) }
            }
        }
    }

    /// Lowers every named property, and gives it a key that the API accepts.
    fn named_properties(
        &mut self,
        members: Object<'a>,
        others: OtherKeys<'a>,
        place: &Place<'_>,
    ) -> Result<LoweredProperties<'a>, LowerError> {
        let properties = object_at(members, "properties");
        let required: HashSet<&str> = required_keys(members, self.context.arena).collect();
        let open = matches!(others, OtherKeys::Allowed(_));
        let mut lowered = LoweredProperties::default();
        let inside = place.key("properties");
        for property in properties {
            let here = inside.key(property.key);
            let before = lowered.properties.len();
            self.property(
                &mut lowered,
                property.key,
                property.value,
                required.contains(property.key),
                &here,
            )?;
            if lowered.properties.len() == before && open {
                let detail = "forbidden key is now allowed as an additional property";
                self.record(&here, "properties", Effect::Widened, detail);
            }
        }
        let known: HashSet<&str> = properties.iter().map(|property| property.key).collect();
        for name in required_keys(members, self.context.arena).filter(|name| !known.contains(name)) {
            match others {
                OtherKeys::Forbidden if get(members, "additionalProperties").is_some() => {
                    let detail = format!("{name:?} removed from required; additionalProperties forbids it");
                    self.record(place, "required", Effect::Widened, detail);
                }
                OtherKeys::Forbidden => {
                    self.context.record_undescribed_key(place, name);
                    self.property(&mut lowered, name, EMPTY, true, place)?;
                }
                OtherKeys::Allowed(schema) => self.property(&mut lowered, name, schema, true, place)?,
            }
        }
        self.rename_keys(&mut lowered, open, place);
        Ok(lowered)
    }

    fn property(
        &mut self,
        lowered: &mut LoweredProperties<'a>,
        key: &'a str,
        schema: Node<'a>,
        required: bool,
        place: &Place<'_>,
    ) -> Result<(), LowerError> {
        let place = self.origin(schema).unwrap_or(place);
        let before = self.enter_property(required);
        let result = self.lower(schema, place);
        self.leave_property(before);
        let Lowered { mut node, mut plan } = match result {
            Err(LowerError::Unsatisfiable) if !required => {
                self.context.record_unsatisfiable_property(place);
                return Ok(());
            }
            other => other?,
        };
        let mut null_is_absent = false;
        if self.is_openapi_null(node) {
            if !required {
                let detail = "property removed; this API cannot express type null";
                self.record(place, "type", Effect::Narrowed, detail);
                return Ok(());
            }
            Lowered { node, plan } = self.null_as_json_text(schema, place)?;
        }
        if required || self.grammar.all_required {
            lowered.required.push(Node::Text(key));
        }
        if !required && self.grammar.all_required {
            // JSON text is never `null` itself.
            null_is_absent = matches!(plan, Plan::JsonText) || !accepts_null(schema, self.document);
            if null_is_absent {
                self.record(place, "required", Effect::Rewritten, MADE_NULLABLE);
            } else {
                let detail = "made required; null is a valid value, so it cannot mean omitted";
                self.record(place, "required", Effect::Narrowed, detail);
            }
            node = self.with_null(node);
        }
        self.context.trace(node, place);
        lowered.properties.push(Member::new(key, node));
        lowered.fields.push(Field { wire: key.to_owned(), own: key.to_owned(), plan, null_is_absent });
        Ok(())
    }

    /// Renames keys that the API does not accept.
    fn rename_keys(&mut self, lowered: &mut LoweredProperties<'a>, open: bool, place: &Place<'_>) {
        let rule = self.context.profile.restricted_keys;
        let applies = match rule {
            RestrictedKeys::None => false,
            RestrictedKeys::Root => place.pointer().is_empty(),
            RestrictedKeys::All => true,
        };
        if !applies {
            return;
        }
        let open = open && self.grammar.maps;
        let own: Vec<&str> = lowered.fields.iter().map(|field| field.own.as_str()).collect();
        let wires = names::wire_keys(&own, rule, open);
        let inside = place.key("properties");
        for (index, wire) in wires.into_iter().enumerate() {
            if wire == lowered.fields[index].own {
                continue;
            }
            // The original has no place for a key that only `required` names.
            self.track_origins();
            self.context.record_renamed_key(&inside.key(lowered.properties[index].key), &wire, open);
            let wire: &'a str = self.context.arena.alloc_str(&wire);
            for name in &mut lowered.required {
                if name.text(self.context.arena) == Some(&lowered.fields[index].own) {
                    *name = Node::Text(wire);
                }
            }
            lowered.properties[index].key = wire;
            lowered.fields[index].wire = wire.to_owned();
        }
    }

    /// Lowers the rules about an object that concern no single property.
    pub(super) fn object_rules(
        &mut self,
        output: &mut ObjectEdit<'a>,
        members: Object<'a>,
        place: &Place<'_>,
    ) {
        for member in members {
            let structural = matches!(
                member.key,
                "type"
                    | "properties"
                    | "required"
                    | "additionalProperties"
                    | "patternProperties"
                    | "enum"
                    | "const"
            );
            if structural || is_annotation(member.key) {
                continue;
            }
            // A tool without arguments is sent without a schema, so only its description remains.
            if self.grammar.openapi_types && matches!(output.get("properties"), Some(Node::Object([]))) {
                self.describe_rules(output, &[*member], place);
            } else {
                self.lower_keyword("object", output, *member, place);
            }
        }
    }

    /// Adds the properties that only a condition describes as optional ones; the condition moves to the
    /// description.
    fn hoist_conditional_properties(&mut self, members: Object<'a>, place: &Place<'_>) -> Object<'a> {
        const CONDITIONS: [&str; 4] = ["if", "then", "else", "dependentSchemas"];
        if !CONDITIONS.iter().any(|keyword| get(members, keyword).is_some()) {
            return members;
        }
        let mut collector = KeyCollector::new(self.document);
        let mut found: Vec<(&'a str, Vec<Node<'a>>)> = Vec::new();
        let mut indexes: HashMap<&'a str, usize> = HashMap::new();
        let dependent = object_at(members, "dependentSchemas");
        let consequences = ["then", "else"].into_iter().filter_map(|keyword| get(members, keyword));
        for schema in consequences.chain(dependent.iter().map(|entry| entry.value)) {
            let nested = collector.keys_of(schema, self.context);
            for key in nested.iter().filter(|key| !key.schemas().is_empty()) {
                let index = *indexes.entry(key.key).or_insert(found.len());
                if index == found.len() {
                    found.push((key.key, Vec::new()));
                }
                let schemas = &mut found[index].1;
                for schema in key.schemas() {
                    if !schemas.iter().any(|other| other.same(*schema)) {
                        schemas.push(*schema);
                    }
                }
            }
        }
        let own = object_at(members, "properties");
        let condition = collector.keys_of(get(members, "if").unwrap_or(EMPTY), self.context);
        let known = |key: &str| get(own, key).is_some() || indexes.contains_key(key);
        if condition.iter().any(|key| !key.schemas().is_empty() && !known(key.key)) {
            let detail = "a key named only in if cannot be sent";
            self.record(place, "if", Effect::Narrowed, detail);
        }
        let mut properties = own.to_vec();
        for (key, schemas) in found.into_iter().filter(|(key, _)| get(own, key).is_none()) {
            // Without the conditions, the property may match any of their schemas.
            let schema = match schemas.as_slice() {
                [one] => *one,
                many => self.context.composed("anyOf", many),
            };
            properties.push(Member::new(key, schema));
        }
        if properties.len() == own.len()
            || matches!(get(members, "additionalProperties"), Some(Node::Bool(false)))
        {
            return members;
        }
        self.track_origins();
        let detail = "conditional properties added without their condition";
        self.record(place, "if", Effect::Widened, detail);
        let detail = "conditional properties accept only the values that their condition describes";
        self.record(place, "if", Effect::Narrowed, detail);
        let mut edit = ObjectEdit::of(members);
        edit.put("properties", self.context.object(&properties));
        self.context.finish(edit)
    }
}
