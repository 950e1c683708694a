//! The content of a form.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::shape::{Field, Kind, Shape};
use crate::pointer::child;

/// The maximum number of items that a form draws. A longer list is a field with JSON.
const MAX_ITEMS: usize = 100;

/// The content of a field, as a person typed it.
#[derive(Clone, Debug, PartialEq)]
pub enum Filling {
    /// The property is not sent.
    Omitted,
    Null,
    Text(String),
    Number(String),
    Boolean(bool),
    /// The position in the list of choices.
    Choice(usize),
    Object {
        fields: Vec<Filling>,
        /// The properties that have no field, as the text of a JSON object.
        others: String,
    },
    List(Vec<Filling>),
    /// The text of any JSON value.
    Json(String),
}

/// A field whose text is not a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The JSON pointer of the field.
    pub pointer: String,
    pub message: String,
}

/// The names and values of a submitted form.
///
/// A name is a letter and a JSON pointer: `s` is the state of a field (`left-out`, `set`, `null`), `v` its
/// value, `j` its JSON, `n` the number of items of a list, `o` other properties of an object.
#[derive(Clone, Debug, Default)]
pub struct Fields(HashMap<String, String>);

/// A change of a list, which a button of the form requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Adds an item to the list with this pointer.
    Add(String),
    /// Removes the item with this pointer.
    Remove(String),
}

impl Fields {
    pub fn new(fields: impl IntoIterator<Item = (String, String)>) -> Fields {
        // Browsers send line breaks as CR LF.
        Fields(fields.into_iter().map(|(name, value)| (name, value.replace("\r\n", "\n"))).collect())
    }

    /// Returns the change that a button of the form requests.
    pub fn action(&self) -> Option<Action> {
        let (name, pointer) = self.0.get("act")?.split_once(':')?;
        match name {
            "add" => Some(Action::Add(pointer.to_owned())),
            "remove" => Some(Action::Remove(pointer.to_owned())),
            _ => None,
        }
    }

    fn get(&self, letter: char, pointer: &str) -> Option<&str> {
        self.0.get(&format!("{letter}{pointer}")).map(String::as_str)
    }
}

impl Filling {
    /// Returns the content for a value. Without a value, required properties are empty and others are
    /// omitted.
    pub fn new(shape: &Shape, value: Option<&Value>) -> Filling {
        let Some(value) = value else { return Filling::empty(shape) };
        let json = || Filling::Json(pretty(value));
        match (&shape.kind, value) {
            (_, Value::Null) if shape.is_nullable => Filling::Null,
            (Kind::Text, Value::String(text)) if fits_a_text_field(text) => Filling::Text(text.clone()),
            (Kind::Number, Value::Number(number)) => Filling::Number(number.to_string()),
            (Kind::Boolean, Value::Bool(value)) => Filling::Boolean(*value),
            (Kind::Choice(choices), value) => {
                choices.iter().position(|choice| choice == value).map_or_else(json, Filling::Choice)
            }
            (Kind::Object { fields, .. }, Value::Object(object)) => Filling::object(fields, object),
            (Kind::List(item), Value::Array(items)) if items.len() <= MAX_ITEMS => {
                Filling::List(items.iter().map(|value| Filling::new(item, Some(value))).collect())
            }
            _ => json(),
        }
    }

    /// Returns the content of a new form: the defaults of the schema. Properties without a default are empty
    /// if they are required, and omitted otherwise.
    pub fn with_defaults(shape: &Shape) -> Filling {
        let mut filling = Filling::empty(shape);
        if let (Filling::Object { fields: fillings, .. }, Kind::Object { fields, .. }) =
            (&mut filling, &shape.kind)
        {
            for (filling, field) in fillings.iter_mut().zip(fields) {
                if field.default.is_some() {
                    *filling = Filling::new(&field.shape, field.default.as_ref());
                }
            }
        }
        filling
    }

    fn empty(shape: &Shape) -> Filling {
        match &shape.kind {
            Kind::Text => Filling::Text(String::new()),
            Kind::Number => Filling::Number(String::new()),
            Kind::Boolean => Filling::Boolean(false),
            Kind::Choice(_) => Filling::Choice(0),
            Kind::Object { fields, .. } => {
                let field = |field: &Field| match field.is_required {
                    true => Filling::new(&field.shape, field.default.as_ref()),
                    false => Filling::Omitted,
                };
                Filling::Object { fields: fields.iter().map(field).collect(), others: String::new() }
            }
            Kind::List(_) => Filling::List(Vec::new()),
            Kind::Json => Filling::Json(String::new()),
        }
    }

    fn object(fields: &[Field], object: &Map<String, Value>) -> Filling {
        let mut others = object.clone();
        let mut fill = |field: &Field| match others.shift_remove(&field.key) {
            Some(value) => Filling::new(&field.shape, Some(&value)),
            None => Filling::Omitted,
        };
        let fields = fields.iter().map(&mut fill).collect();
        let others = if others.is_empty() { String::new() } else { pretty(&Value::Object(others)) };
        Filling::Object { fields, others }
    }

    /// Reads a submitted form.
    pub fn read(shape: &Shape, form: &Fields) -> Filling {
        Filling::read_at(shape, form, "", true)
    }

    fn read_at(shape: &Shape, form: &Fields, pointer: &str, is_required: bool) -> Filling {
        match form.get('s', pointer) {
            Some("null") => return Filling::Null,
            Some("set") => {}
            Some(_) => return Filling::Omitted,
            None if !is_required && !form.contains(pointer) => return Filling::Omitted,
            None => {}
        }
        if let Some(text) = form.get('j', pointer) {
            return Filling::Json(text.to_owned());
        }
        let value = form.get('v', pointer);
        match &shape.kind {
            Kind::Text => Filling::Text(value.unwrap_or_default().to_owned()),
            Kind::Number => Filling::Number(value.unwrap_or_default().trim().to_owned()),
            Kind::Boolean => Filling::Boolean(value == Some("true")),
            Kind::Choice(choices) => {
                let position = value.and_then(|text| text.parse().ok()).unwrap_or(0);
                Filling::Choice(position.min(choices.len().saturating_sub(1)))
            }
            Kind::Object { fields, .. } => {
                let read = |field: &Field| {
                    Filling::read_at(&field.shape, form, &child(pointer, &field.key), field.is_required)
                };
                let others = form.get('o', pointer).unwrap_or_default().trim().to_owned();
                Filling::Object { fields: fields.iter().map(read).collect(), others }
            }
            Kind::List(item) => {
                let count: usize = form.get('n', pointer).and_then(|text| text.parse().ok()).unwrap_or(0);
                let read = |position: usize| {
                    Filling::read_at(item, form, &child(pointer, &position.to_string()), true)
                };
                Filling::List((0..count.min(MAX_ITEMS)).map(read).collect())
            }
            Kind::Json => Filling::Json(value.unwrap_or_default().to_owned()),
        }
    }

    /// Changes a list.
    pub fn apply(&mut self, shape: &Shape, action: &Action) {
        let (pointer, position) = match action {
            Action::Add(pointer) => (pointer.as_str(), None),
            Action::Remove(pointer) => {
                let Some((list, last)) = pointer.rsplit_once('/') else { return };
                (list, last.parse::<usize>().ok())
            }
        };
        let Some((filling, shape)) = self.find(shape, "", pointer) else { return };
        let Kind::List(item) = &shape.kind else { return };
        if !matches!(filling, Filling::List(_)) {
            *filling = Filling::List(Vec::new());
        }
        let Filling::List(items) = filling else { return };
        match (action, position) {
            (Action::Add(_), _) if items.len() < MAX_ITEMS => items.push(Filling::empty(item)),
            (Action::Remove(_), Some(position)) if position < items.len() => {
                items.remove(position);
            }
            _ => {}
        }
    }

    fn find<'f, 's>(
        &'f mut self,
        shape: &'s Shape,
        at: &str,
        wanted: &str,
    ) -> Option<(&'f mut Filling, &'s Shape)> {
        if at == wanted {
            return Some((self, shape));
        }
        match (self, &shape.kind) {
            (Filling::Object { fields: fillings, .. }, Kind::Object { fields, .. }) => {
                fillings.iter_mut().zip(fields).find_map(|(filling, field)| {
                    let at = child(at, &field.key);
                    let is_on_path = wanted == at || wanted.starts_with(&format!("{at}/"));
                    if is_on_path { filling.find(&field.shape, &at, wanted) } else { None }
                })
            }
            (Filling::List(items), Kind::List(item)) => {
                items.iter_mut().enumerate().find_map(|(position, filling)| {
                    let at = child(at, &position.to_string());
                    let is_on_path = wanted == at || wanted.starts_with(&format!("{at}/"));
                    if is_on_path { filling.find(item, &at, wanted) } else { None }
                })
            }
            _ => None,
        }
    }

    /// Returns the value, or what is wrong with each field.
    ///
    /// # Errors
    ///
    /// If the text of a field is not a value of its kind.
    pub fn value(&self, shape: &Shape) -> Result<Value, Vec<Problem>> {
        let mut problems = Vec::new();
        let value = self.value_at(shape, "", &mut problems);
        match problems.is_empty() {
            true => Ok(value.unwrap_or_else(|| Value::Object(Map::new()))),
            false => Err(problems),
        }
    }

    fn value_at(&self, shape: &Shape, pointer: &str, problems: &mut Vec<Problem>) -> Option<Value> {
        let mut problem = |message: String| {
            problems.push(Problem { pointer: pointer.to_owned(), message });
            None
        };
        match self {
            Filling::Omitted => None,
            Filling::Null => Some(Value::Null),
            Filling::Text(text) => Some(Value::String(text.clone())),
            Filling::Boolean(value) => Some(Value::Bool(*value)),
            Filling::Number(text) => match serde_json::from_str::<serde_json::Number>(text) {
                Ok(number) => Some(Value::Number(number)),
                Err(_) if text.is_empty() => problem("a number is required".to_owned()),
                Err(_) => problem(format!("`{text}` is not a number such as `12` or `0.5`")),
            },
            Filling::Json(text) => match serde_json::from_str(text) {
                Ok(value) => Some(value),
                Err(_) if text.trim().is_empty() => problem("a JSON value is required".to_owned()),
                Err(error) => problem(format!("not valid JSON: {error}")),
            },
            Filling::Choice(position) => match &shape.kind {
                Kind::Choice(choices) => choices.get(*position).cloned(),
                _ => None,
            },
            Filling::Object { fields: fillings, others } => {
                let mut object = Map::new();
                if let Kind::Object { fields, .. } = &shape.kind {
                    for (field, filling) in fields.iter().zip(fillings) {
                        let pointer = child(pointer, &field.key);
                        if let Some(value) = filling.value_at(&field.shape, &pointer, problems) {
                            object.insert(field.key.clone(), value);
                        }
                    }
                }
                if !others.is_empty() {
                    match serde_json::from_str::<Map<String, Value>>(others) {
                        Ok(others) => object.extend(others),
                        Err(error) => problems.push(Problem {
                            pointer: pointer.to_owned(),
                            message: format!("the other properties are not a JSON object: {error}"),
                        }),
                    }
                }
                Some(Value::Object(object))
            }
            Filling::List(fillings) => {
                let Kind::List(item) = &shape.kind else { return None };
                let mut items = Vec::with_capacity(fillings.len());
                for (position, filling) in fillings.iter().enumerate() {
                    let pointer = child(pointer, &position.to_string());
                    items.push(filling.value_at(item, &pointer, problems).unwrap_or(Value::Null));
                }
                Some(Value::Array(items))
            }
        }
    }
}

impl Fields {
    /// Whether the form has any field for a value. A checkbox that is off has none.
    fn contains(&self, pointer: &str) -> bool {
        ['v', 'j', 'n', 'o'].iter().any(|letter| self.get(*letter, pointer).is_some())
    }
}

/// Whether a field of a browser returns a text unchanged: browsers change line breaks, and remove some
/// control characters.
fn fits_a_text_field(text: &str) -> bool {
    text.chars().all(|character| !character.is_control() || character == '\n' || character == '\t')
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
