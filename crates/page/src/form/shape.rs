//! The parts of a schema that a form can draw.

use serde_json::{Map, Value};

use crate::json_schema::required;

/// Deeper parts of a schema are fields with JSON.
const MAX_DEPTH: usize = 4;
/// The maximum number of fields of one form.
const MAX_FIELDS: usize = 300;
/// The maximum number of references between a schema and its definition.
const MAX_REFERENCES: usize = 16;

/// A value that a form can draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    pub kind: Kind,
    /// Whether the value may be `null`.
    pub is_nullable: bool,
    /// A short text such as `string, format: date`.
    pub hint: String,
    /// The texts of the choices. A choice without one is displayed as its value.
    pub titles: Vec<String>,
}

/// The kinds of fields.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Text,
    Number,
    Boolean,
    /// One of these values.
    Choice(Vec<Value>),
    Object {
        fields: Vec<Field>,
        /// Whether other properties are allowed.
        is_open: bool,
    },
    List(Box<Shape>),
    /// Anything else.
    Json,
}

/// A property of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub key: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub is_required: bool,
    pub default: Option<Value>,
    pub shape: Shape,
}

impl Shape {
    /// Returns the shape of the arguments of a tool with this schema.
    pub fn of(schema: &Value) -> Shape {
        Builder { root: schema, fields: 0 }.shape(schema, 0)
    }

    fn json(hint: &str) -> Shape {
        Shape { kind: Kind::Json, is_nullable: false, hint: hint.to_owned(), titles: Vec::new() }
    }
}

struct Builder<'s> {
    root: &'s Value,
    fields: usize,
}

impl<'s> Builder<'s> {
    fn shape(&mut self, schema: &'s Value, depth: usize) -> Shape {
        let Some((schema, is_nullable)) = self.resolve(schema) else { return Shape::json("JSON") };
        let shape = self.plain_shape(schema, depth);
        Shape { is_nullable: shape.is_nullable || is_nullable, ..shape }
    }

    fn plain_shape(&mut self, schema: &'s Map<String, Value>, depth: usize) -> Shape {
        if let Some(choices) = choices(schema) {
            let count = choices.len();
            let (values, titles): (Vec<Value>, Vec<String>) =
                choices.into_iter().filter(|(value, _)| !value.is_null()).unzip();
            let is_nullable = values.len() < count;
            let hint = if values.len() == 1 { "one value" } else { "choice" }.to_owned();
            return Shape { kind: Kind::Choice(values), is_nullable, hint, titles };
        }
        let has_alternatives =
            ["anyOf", "oneOf", "allOf", "if", "not"].iter().any(|key| schema.contains_key(*key));
        let (name, is_nullable) = type_name(schema);
        let kind = match name {
            Some("string") => Kind::Text,
            Some("number" | "integer") => Kind::Number,
            Some("boolean") => Kind::Boolean,
            Some("object") if depth <= MAX_DEPTH && (!has_alternatives || depth == 0) => {
                self.object(schema, depth)
            }
            Some("array") if depth < MAX_DEPTH && !has_alternatives => self.list(schema, depth),
            _ => Kind::Json,
        };
        Shape { kind, is_nullable, hint: hint(schema, name), titles: Vec::new() }
    }

    fn object(&mut self, schema: &'s Map<String, Value>, depth: usize) -> Kind {
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        let count = properties.map_or(0, Map::len);
        if self.fields + count > MAX_FIELDS || schema.contains_key("patternProperties") {
            return Kind::Json;
        }
        self.fields += count;
        let required: Vec<&str> = required(schema).collect();
        let mut fields = Vec::with_capacity(count);
        for (key, property) in properties.into_iter().flatten() {
            let own = property.as_object().unwrap_or(&empty);
            let text = |name: &str| own.get(name).and_then(Value::as_str).map(str::to_owned);
            fields.push(Field {
                key: key.clone(),
                title: text("title"),
                description: text("description"),
                is_required: required.contains(&key.as_str()),
                default: own.get("default").cloned(),
                shape: self.shape(property, depth + 1),
            });
        }
        // Required properties come first; otherwise the order is that of the schema.
        fields.sort_by_key(|field| !field.is_required);
        Kind::Object { fields, is_open: schema.get("additionalProperties") != Some(&Value::Bool(false)) }
    }

    fn list(&mut self, schema: &'s Map<String, Value>, depth: usize) -> Kind {
        match schema.get("items") {
            Some(items) if items.is_object() && !schema.contains_key("prefixItems") => {
                Kind::List(Box::new(self.shape(items, depth + 1)))
            }
            _ => Kind::Json,
        }
    }

    /// Follows references, and removes the alternative `null`. Returns the schema and whether it was
    /// nullable.
    fn resolve(&self, schema: &'s Value) -> Option<(&'s Map<String, Value>, bool)> {
        let mut current = schema.as_object()?;
        let mut is_nullable = false;
        for _ in 0..MAX_REFERENCES {
            if let Some(reference) = current.get("$ref").and_then(Value::as_str) {
                current = self.root.pointer(reference.strip_prefix('#')?)?.as_object()?;
                continue;
            }
            let alternatives = ["anyOf", "oneOf"].iter().find_map(|key| current.get(*key)?.as_array());
            let Some(alternatives) = alternatives else { return Some((current, is_nullable)) };
            let is_null = |schema: &&Value| schema.get("type").and_then(Value::as_str) == Some("null");
            let mut others = alternatives.iter().filter(|schema| !is_null(schema));
            let (Some(only), None) = (others.next(), others.next()) else {
                return Some((current, is_nullable));
            };
            is_nullable |= alternatives.len() > 1;
            current = only.as_object()?;
        }
        None
    }
}

/// Returns the values that a schema lists, each with its title, which may be empty.
fn choices(schema: &Map<String, Value>) -> Option<Vec<(Value, String)>> {
    if let Some(value) = schema.get("const") {
        return Some(vec![(value.clone(), title(schema))]);
    }
    let is_simple = |value: &Value| !value.is_object() && !value.is_array();
    let values: Vec<(Value, String)> = match schema.get("enum").and_then(Value::as_array) {
        Some(values) => {
            let names = schema.get("enumNames").and_then(Value::as_array);
            let name = |index: usize| names?.get(index)?.as_str();
            let titled = values.iter().enumerate();
            titled.map(|(index, value)| (value.clone(), name(index).unwrap_or_default().to_owned())).collect()
        }
        None => {
            let alternatives = ["oneOf", "anyOf"].iter().find_map(|key| schema.get(*key)?.as_array())?;
            let choice = |alternative: &Value| {
                let alternative = alternative.as_object()?;
                // Any other keyword could exclude the value.
                let is_plain = alternative
                    .keys()
                    .all(|key| ["const", "title", "description", "type"].contains(&key.as_str()));
                is_plain.then_some((alternative.get("const")?.clone(), title(alternative)))
            };
            alternatives.iter().map(choice).collect::<Option<_>>()?
        }
    };
    (!values.is_empty() && values.iter().all(|(value, _)| is_simple(value))).then_some(values)
}

fn title(schema: &Map<String, Value>) -> String {
    schema.get("title").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the type of a schema, and whether `null` is allowed too.
fn type_name(schema: &Map<String, Value>) -> (Option<&str>, bool) {
    let is_nullable = schema.get("nullable") == Some(&Value::Bool(true));
    match schema.get("type") {
        Some(Value::String(name)) => (Some(name), is_nullable),
        Some(Value::Array(names)) => {
            let mut others = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            let name = others.next().filter(|_| others.next().is_none());
            (name, is_nullable || names.iter().any(|name| name == "null"))
        }
        // A schema with `properties` describes an object even without `type`.
        None if schema.contains_key("properties") => (Some("object"), is_nullable),
        _ => (None, is_nullable),
    }
}

fn hint(schema: &Map<String, Value>, name: Option<&str>) -> String {
    let mut hint = name.unwrap_or("JSON").to_owned();
    for key in ["format", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"] {
        match schema.get(key) {
            Some(Value::String(text)) => hint.push_str(&format!(", {key}: {text}")),
            Some(Value::Number(number)) => hint.push_str(&format!(", {key}: {number}")),
            _ => {}
        }
    }
    hint
}
