//! Objects: named properties, maps, and what is promised about keys without a name.

use super::{Lower, Lowered, Lowering, Stop};
use crate::Effect;
use crate::arguments::{Field, ObjectPlan, Plan, Rest};
use crate::json::{EMPTY, Member, Node, Object, Place, get};
use crate::names;
use crate::schema::draft::Draft;
use crate::schema::is_annotation;
use crate::schema::keep::base_of;
use crate::schema::nulls;
use crate::schema::profile::{Keys, Types};

/// What an object says about keys that it does not name.
#[derive(Clone, Copy)]
pub(super) enum Others<'a> {
    /// None may come; or it is silent beside named properties, which counts as the same.
    None,
    /// Any key, with a value that fits.
    Open(Node<'a>),
}

/// What came of the properties.
#[derive(Default)]
pub(super) struct Named<'a> {
    pub(super) properties: Vec<Member<'a>>,
    pub(super) required: Vec<Node<'a>>,
    pub(super) fields: Vec<Field>,
}

impl<'a> Lowering<'_, 'a, '_> {
    /// The root: always an object, and without properties a tool that takes no arguments.
    pub(super) fn root_object(&mut self, root: Node<'a>) -> Lower<'a> {
        let members = root.object().unwrap_or_default();
        let (members, leftover) = self.flatten(members, &Place::ROOT)?;
        self.object(members, &leftover, &Place::ROOT, true)
    }

    pub(super) fn object(
        &mut self,
        members: Object<'a>,
        leftover: &[Member<'a>],
        place: &Place<'_>,
        root: bool,
    ) -> Lower<'a> {
        let members = self.hoisted(members, place);
        let others = self.others(members, place, root);
        let bare = get(members, "properties").and_then(Node::object).unwrap_or_default().is_empty()
            && get(members, "required").and_then(Node::list).unwrap_or_default().is_empty();
        if bare && !root {
            match others {
                Others::Open(values) => return self.map(members, values, leftover, place),
                Others::None if self.grammar.types == Types::OpenApi => {
                    return self.unsayable_or_text(
                        members,
                        place,
                        "properties",
                        "an object without properties",
                    );
                }
                Others::None => {}
            }
        }
        let mut draft = self.begin(members, place);
        draft.put_first("type", Node::Text("object"));
        self.tell_patterns(&mut draft, members);
        let mut named = self.named(members, others, place)?;
        if named.properties.is_empty() && !root && self.grammar.types == Types::OpenApi {
            return self.unsayable_or_text(members, place, "properties", "an object without properties");
        }
        let (rest, others) = match self.rest(&mut draft, &mut named, others, place)? {
            Some(rest) => (rest, others),
            // No value fits, so there can be no other key.
            None => (Rest::Same, Others::None),
        };
        let open = draft.remove("additionalProperties");
        if !named.properties.is_empty() || self.grammar.types != Types::OpenApi || root {
            draft.put("properties", self.context.object(&named.properties));
        }
        let silent = get(members, "required").is_none();
        if silent && named.required.is_empty() && self.grammar.all_required {
            self.note(place, "required", Effect::Rewritten, "the API wants it, if empty");
        }
        if !named.required.is_empty() || self.grammar.all_required || !silent {
            // The original's own order, where it names the same.
            let own = get(members, "required").and_then(Node::list).unwrap_or_default();
            let mut unnamed =
                named.required.iter().filter(|name| !own.iter().any(|other| other.same(**name)));
            let same = own.len() == named.required.len() && own.len() < 64 && unnamed.next().is_none();
            draft.put("required", if same { Node::List(own) } else { self.context.list(&named.required) });
        }
        if let Some(open) = open {
            draft.put("additionalProperties", open);
        }
        self.say_others(&mut draft, members, others, &rest, place);
        self.object_rules(&mut draft, members, place);
        self.tell(&mut draft, leftover, place);
        if matches!(others, Others::None) {
            self.rules_about_others(members, leftover, place);
        }
        let plan = ObjectPlan { fields: named.fields, rest, fill: self.grammar.all_required }.into_plan();
        Ok(Lowered { node: self.typed(draft.members()), plan })
    }

    fn others(&mut self, members: Object<'a>, place: &Place<'_>, root: bool) -> Others<'a> {
        let patterns = get(members, "patternProperties").and_then(Node::object).unwrap_or_default();
        let rest = get(members, "additionalProperties");
        if !patterns.is_empty() {
            // Which keys match cannot be said: any key, with a value that one of the patterns allows.
            let mut values: Vec<Node<'a>> = patterns.iter().map(|entry| entry.value).collect();
            match rest {
                Some(Node::Bool(false)) => {}
                Some(schema) => values.push(schema),
                None => values.push(EMPTY),
            }
            if !self.grammar.strict || self.context.options.reshape {
                self.note(place, "patternProperties", Effect::Widened, "any key is allowed now");
            }
            if values.len() == 1 {
                return Others::Open(values[0]);
            }
            self.moved();
            return Others::Open(self.context.object(&[Member::new("anyOf", self.context.list(&values))]));
        }
        match rest {
            Some(Node::Bool(false)) => Others::None,
            Some(schema) => Others::Open(schema),
            None => {
                let named = !get(members, "properties").and_then(Node::object).unwrap_or_default().is_empty();
                if named || root { Others::None } else { Others::Open(EMPTY) }
            }
        }
    }

    /// Every named property, with the key the wire gives it.
    fn named(
        &mut self,
        members: Object<'a>,
        others: Others<'a>,
        place: &Place<'_>,
    ) -> Result<Named<'a>, Stop> {
        let properties = get(members, "properties").and_then(Node::object).unwrap_or_default();
        let required: std::collections::HashSet<&'a str> = get(members, "required")
            .and_then(Node::list)
            .unwrap_or_default()
            .iter()
            .filter_map(|name| name.text(self.context.arena))
            .collect();
        let mut named = Named::default();
        let inside = place.key("properties");
        for property in properties {
            let here = inside.key(property.key);
            let offered = named.properties.len();
            self.property(&mut named, property.key, property.value, required.contains(property.key), &here)?;
            if named.properties.len() == offered && matches!(others, Others::Open(_)) {
                // Keys without a name may come, and this one among them.
                self.note(&here, "properties", Effect::Widened, "that this key may not come is not said");
            }
        }
        let known: std::collections::HashSet<&'a str> =
            properties.iter().map(|property| property.key).collect();
        for name in get(members, "required").and_then(Node::list).unwrap_or_default() {
            let Some(name) = name.text(self.context.arena) else { continue };
            if known.contains(name) {
                continue;
            }
            match others {
                Others::None if get(members, "additionalProperties").is_some() => {
                    self.note(
                        place,
                        "required",
                        Effect::Widened,
                        format!("`{name}` can never be there: no longer required"),
                    );
                }
                Others::None => {
                    self.note(
                        place,
                        "required",
                        Effect::Rewritten,
                        format!("`{name}` is required but not described: anything goes"),
                    );
                    self.property(&mut named, name, EMPTY, true, place)?;
                }
                Others::Open(schema) => self.property(&mut named, name, schema, true, place)?,
            }
        }
        self.rename(&mut named, matches!(others, Others::Open(_)), place);
        Ok(named)
    }

    fn property(
        &mut self,
        named: &mut Named<'a>,
        key: &'a str,
        schema: Node<'a>,
        required: bool,
        place: &Place<'_>,
    ) -> Result<(), Stop> {
        let place = self.origin(schema).unwrap_or(place);
        let before = self.enter_property(required);
        let lowered = self.lower(schema, place);
        self.leave_property(before);
        let lowered = match lowered {
            Ok(lowered) => lowered,
            Err(Stop::Never) if !required => {
                self.note(place, "properties", Effect::Rewritten, "no value can fit, so it is not offered");
                return Ok(());
            }
            Err(stop) => return Err(stop),
        };
        let mut node = lowered.node;
        let mut plan = lowered.plan;
        let mut null_is_absent = false;
        if self.grammar.types == Types::OpenApi && matches!(node.member("type"), Some(Node::Text("NULL"))) {
            if !required {
                self.note(
                    place,
                    "type",
                    Effect::Narrowed,
                    "only `null` fits, which cannot be said: not offered",
                );
                return Ok(());
            }
            let text = self.unsayable_or_text(
                schema.object().unwrap_or_default(),
                place,
                "type",
                "only `null` fits",
            )?;
            (node, plan) = (text.node, text.plan);
        }
        if required {
            named.required.push(Node::Text(key));
        } else if self.grammar.all_required {
            named.required.push(Node::Text(key));
            // JSON text is never `null` itself, so `null` is free to stand for left out.
            if nulls::allowed(schema, self.document, &base_of(self.document, place))
                && !matches!(plan, Plan::JsonText)
            {
                self.note(
                    place,
                    "required",
                    Effect::Narrowed,
                    "optional, and `null` is a value of its own: left out is sent as `null`",
                );
            } else {
                null_is_absent = true;
                self.note(place, "required", Effect::Rewritten, "optional: `null` stands for left out");
            }
            node = self.with_null(node);
        }
        named.properties.push(Member::new(key, node));
        named.fields.push(Field { wire: key.to_owned(), own: key.to_owned(), plan, null_is_absent });
        Ok(())
    }

    /// Keys in the API's letters, where it is particular.
    fn rename(&mut self, named: &mut Named<'a>, open: bool, place: &Place<'_>) {
        // An open object also takes the key as it was, with any value.
        let effect = if open && self.grammar.maps { Effect::Widened } else { Effect::Rewritten };
        let root = place.pointer().is_empty();
        let applies = match self.context.profile.keys {
            Keys::Any => false,
            Keys::Root => root,
            Keys::All => true,
        };
        if !applies {
            return;
        }
        let own: Vec<&str> = named.fields.iter().map(|field| field.own.as_str()).collect();
        let beside = open && self.grammar.maps;
        let wires = names::wire_keys(&own, self.context.profile.keys, beside);
        for (index, wire) in wires.into_iter().enumerate() {
            if wire == named.fields[index].own {
                continue;
            }
            let inside = place.key("properties");
            let here = inside.key(named.properties[index].key);
            self.context.note(
                &here,
                "properties",
                effect,
                format!("the API takes no such key: it is called `{wire}`"),
            );
            if beside {
                let detail = format!("a further key `{wire}` cannot come beside it");
                self.context.note(&here, "properties", Effect::Narrowed, detail);
            }
            let wire: &'a str = self.context.arena.alloc_str(&wire);
            for name in &mut named.required {
                if name.text(self.context.arena) == Some(&named.fields[index].own) {
                    *name = Node::Text(wire);
                }
            }
            named.properties[index].key = wire;
            named.fields[index].wire = wire.to_owned();
        }
    }

    /// The rules about an object as a whole.
    pub(super) fn object_rules(&mut self, draft: &mut Draft<'a>, members: Object<'a>, place: &Place<'_>) {
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
            if !structural && !is_annotation(member.key) {
                // A tool without arguments goes out without a schema, so nothing can be said there.
                let unsaid = self.grammar.types == Types::OpenApi
                    && draft.get("properties").is_some_and(|node| matches!(node, Node::Object([])));
                if unsaid {
                    self.tell(draft, &[*member], place);
                    continue;
                }
                self.bound("object", draft, *member, place);
            }
        }
    }

    /// Properties that only a condition brings in, offered as optional ones; the condition itself is told in words.
    fn hoisted(&mut self, members: Object<'a>, place: &Place<'_>) -> Object<'a> {
        const CONDITIONS: [&str; 4] = ["if", "then", "else", "dependentSchemas"];
        if !CONDITIONS.iter().any(|keyword| get(members, keyword).is_some()) {
            return members;
        }
        let mut found: Vec<(&'a str, Vec<Node<'a>>)> = Vec::new();
        let mut collect = |schema: Node<'a>| {
            for property in schema.member("properties").and_then(Node::object).unwrap_or_default() {
                match found.iter_mut().find(|(key, _)| *key == property.key) {
                    Some((_, schemas)) => schemas.push(property.value),
                    None => found.push((property.key, vec![property.value])),
                }
            }
        };
        for keyword in ["then", "else"] {
            get(members, keyword).map(&mut collect);
        }
        for entry in get(members, "dependentSchemas").and_then(Node::object).unwrap_or_default() {
            collect(entry.value);
        }
        let own = get(members, "properties").and_then(Node::object).unwrap_or_default();
        let asked = get(members, "if").and_then(|schema| schema.member("properties")).and_then(Node::object);
        let known = |key: &str| get(own, key).is_some() || found.iter().any(|(other, _)| *other == key);
        if asked.unwrap_or_default().iter().any(|property| !known(property.key)) {
            self.note(place, "if", Effect::Narrowed, "a key that only the condition names cannot be offered");
        }
        let mut properties = own.to_vec();
        for (key, schemas) in found.into_iter().filter(|(key, _)| get(own, key).is_none()) {
            // Without its condition a property may be what any of them says; with one alone, whatever it likes otherwise.
            let schema = match schemas.as_slice() {
                [one] => *one,
                many => self.context.object(&[Member::new("anyOf", self.context.list(many))]),
            };
            properties.push(Member::new(key, schema));
        }
        if properties.len() == own.len()
            || matches!(get(members, "additionalProperties"), Some(Node::Bool(false)))
        {
            return members;
        }
        self.moved();
        self.note(
            place,
            "if",
            Effect::Widened,
            "properties that a condition brings in are offered without it",
        );
        self.note(place, "if", Effect::Narrowed, "they are offered only as the condition describes them");
        let mut draft = Draft::of(members);
        draft.put("properties", self.context.object(&properties));
        self.context.members(draft.members())
    }
}
