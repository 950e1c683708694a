//! Extracts the arguments of a tool from a question.

use serde_json::{Map, Number, Value};

use super::properties::{allowed_strings, resolve, type_of};
use super::tokens::{Token, TokenKind, is_stop_word, operation, stem, stems};

/// The extracted arguments, and the positions of the tokens they came from.
pub(super) struct ExtractedArguments {
    pub(super) arguments: Map<String, Value>,
    pub(super) used: Vec<usize>,
    /// Required arguments that the question does not contain.
    pub(super) missing: Vec<String>,
}

/// Words that precede a name: `in Paris`, `for Anna`.
const PREPOSITIONS: [&str; 15] = [
    "in", "for", "at", "of", "near", "to", "from", "about", "on", "by", "with", "called", "named", "around",
    "into",
];

/// Properties that accept any text.
const FREE_TEXT_PROPERTIES: [&str; 14] = [
    "query", "q", "search", "text", "prompt", "message", "question", "input", "topic", "keyword", "term",
    "content", "title", "thought",
];

/// The maximum number of texts in an array argument.
const MAX_ARRAY_ITEMS: usize = 16;

/// Extracts arguments for `schema` from those `tokens` that are not `used` yet.
pub(super) fn extract_arguments<'a>(
    schema: &'a Value,
    tokens: &'a [Token],
    used: &[bool],
) -> ExtractedArguments {
    let mut extraction = Extraction { root: schema, tokens, used: used.to_vec(), used_now: Vec::new() };
    let mut arguments = Map::new();
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let is_required = |name: &str| required.contains(&name);
    // The most reliable method comes first: `limit: 5`, then enum values, then numbers, then names.
    type Method<'a> = fn(&mut Extraction<'a>, &str, &Value) -> Option<Value>;
    let methods: [(Method<'a>, bool); 5] = [
        (Extraction::named_value, true),
        (Extraction::enum_value, true),
        (Extraction::number, false),
        (Extraction::texts, false),
        (Extraction::default_value, false),
    ];
    for (method, fills_optional) in methods {
        for (name, property) in properties {
            if arguments.contains_key(name) || !(fills_optional || is_required(name)) {
                continue;
            }
            let property = resolve(schema, property);
            if let Some(value) = method(&mut extraction, name, &property) {
                arguments.insert(name.clone(), value);
            }
        }
    }
    let missing = required
        .iter()
        .filter(|name| !arguments.contains_key(**name))
        .map(|name| (*name).to_owned())
        .collect();
    ExtractedArguments { arguments, used: extraction.used_now, missing }
}

struct Extraction<'a> {
    root: &'a Value,
    tokens: &'a [Token],
    used: Vec<bool>,
    used_now: Vec<usize>,
}

impl Extraction<'_> {
    fn unused(&self) -> impl Iterator<Item = (usize, &Token)> {
        self.tokens.iter().enumerate().filter(|(index, _)| !self.used[*index])
    }

    fn mark_used(&mut self, indices: impl IntoIterator<Item = usize>) {
        for index in indices {
            self.used[index] = true;
            self.used_now.push(index);
        }
    }

    /// Finds a value after the name of the property: `limit: 5`, `limit=5`, `limit is 5`.
    fn named_value(&mut self, name: &str, property: &Value) -> Option<Value> {
        let at = self.unused().find_map(|(index, token)| {
            let is_name = token.kind == TokenKind::Word && token.is(name);
            let joined = self
                .tokens
                .get(index + 1)
                .is_some_and(|next| [":", "=", "is"].iter().any(|word| next.is(word)));
            (is_name && joined && index + 2 < self.tokens.len()).then_some(index)
        });
        if let Some(at) = at {
            let value = convert_token(property, &self.tokens[at + 2])?;
            self.mark_used([at, at + 1, at + 2]);
            return Some(value);
        }
        // `limit=5` is one token, as a URL is.
        let (index, value) = self.unused().find_map(|(index, token)| {
            let (key, value) = token.text.split_once(['=', ':'])?;
            let kind = if value.parse::<f64>().is_ok() { TokenKind::Number } else { TokenKind::Word };
            let value = Token { text: value.to_owned(), kind };
            (key.eq_ignore_ascii_case(name) && !value.text.is_empty())
                .then_some((index, convert_token(property, &value)?))
        })?;
        self.mark_used([index]);
        Some(value)
    }

    /// Finds an enum value or a synonym of it. A flag that is named becomes `true`.
    fn enum_value(&mut self, name: &str, property: &Value) -> Option<Value> {
        if let Some(constant) = property.get("const") {
            return Some(constant.clone());
        }
        if type_of(property) == Some("boolean") {
            let wanted = stems(name);
            let index = self.unused().find_map(|(index, token)| {
                token.stem().is_some_and(|stem| wanted.contains(&stem)).then_some(index)
            })?;
            let before = index.checked_sub(1).map(|before| &self.tokens[before]);
            let is_negated =
                before.is_some_and(|before| ["no", "not", "without"].iter().any(|word| before.is(word)));
            self.mark_used([index]);
            return Some(Value::Bool(!is_negated));
        }
        let values = allowed_strings(self.root, property);
        let (index, value) = self.unused().find_map(|(index, token)| {
            let operation = operation(self.tokens, index);
            let matches = |value: &&String| {
                token.is(value)
                    || operation.is_some_and(|operation| operation.eq_ignore_ascii_case(value))
                    || (token.kind == TokenKind::Word && value.len() > 3 && stem(&token.text) == stem(value))
            };
            Some((index, values.iter().find(matches)?.clone()))
        })?;
        self.mark_used([index]);
        Some(Value::String(value))
    }

    fn number(&mut self, _: &str, property: &Value) -> Option<Value> {
        let wanted = type_of(property)?;
        if wanted == "array" {
            let items = resolve(self.root, property.get("items")?);
            let item_type = type_of(&items)?;
            if !matches!(item_type, "number" | "integer") {
                return None;
            }
            let found: Vec<(usize, Value)> =
                self.unused().filter_map(|(index, token)| Some((index, number(token, item_type)?))).collect();
            self.mark_used(found.iter().map(|(index, _)| *index));
            let values: Vec<Value> = found.into_iter().map(|(_, value)| value).collect();
            return (!values.is_empty()).then_some(Value::Array(values));
        }
        let (index, value) =
            self.unused().find_map(|(index, token)| Some((index, number(token, wanted)?)))?;
        self.mark_used([index]);
        Some(value)
    }

    fn texts(&mut self, name: &str, property: &Value) -> Option<Value> {
        if !allowed_strings(self.root, property).is_empty() {
            return None;
        }
        match type_of(property)? {
            "string" => self.text(name, property).map(Value::String),
            "array" => {
                let items = resolve(self.root, property.get("items")?);
                if type_of(&items) != Some("string") || !allowed_strings(self.root, &items).is_empty() {
                    return None;
                }
                let mut values = Vec::new();
                while values.len() < MAX_ARRAY_ITEMS
                    && let Some(text) = self.text(name, &items)
                {
                    values.push(Value::String(text));
                }
                (!values.is_empty()).then_some(Value::Array(values))
            }
            _ => None,
        }
    }

    fn text(&mut self, name: &str, property: &Value) -> Option<String> {
        let quoted = self.unused().find(|(_, token)| token.kind == TokenKind::Quoted).map(|(index, _)| index);
        let found = quoted
            .map(|index| vec![index])
            .or_else(|| self.formatted_value(name, property))
            .or_else(|| self.proper_noun())
            .or_else(|| self.after_preposition())
            .or_else(|| {
                stems(name)
                    .iter()
                    .any(|word| FREE_TEXT_PROPERTIES.contains(&word.as_str()))
                    .then(|| self.remaining_text())?
            })?;
        let words: Vec<&str> = found.iter().map(|index| self.tokens[*index].text.as_str()).collect();
        let text = words.join(" ");
        self.mark_used(found);
        Some(text)
    }

    /// Finds a path, a URL, an email address or a date by its format, if the property expects one.
    fn formatted_value(&self, name: &str, property: &Value) -> Option<Vec<usize>> {
        let format = property.get("format").and_then(Value::as_str).unwrap_or_default();
        let name_terms = stems(&format!("{name} {format}"));
        let expects = |terms: &[&str]| terms.iter().any(|term| name_terms.contains(&stem(term)));
        let has_format: fn(&str) -> bool = if expects(&["url", "uri", "link"]) {
            |text| text.contains("://")
        } else if expects(&["email", "mail", "recipient"]) {
            |text| text.contains('@')
        } else if expects(&["date", "day", "time"]) {
            |text| {
                text.len() >= 8
                    && text.starts_with(|letter: char| letter.is_ascii_digit())
                    && text.contains(['-', ':'])
            }
        } else if expects(&["path", "file", "filename", "folder", "directory", "source", "destination"]) {
            |text| (text.contains('/') || text.contains('.')) && !text.contains("://") && !text.contains('@')
        } else {
            return None;
        };
        let found = self.unused().find(|(_, token)| token.kind == TokenKind::Word && has_format(&token.text));
        found.map(|(index, _)| vec![index])
    }

    /// Finds capitalized words. The first word of the question does not count unless a preposition precedes
    /// it.
    fn proper_noun(&self) -> Option<Vec<usize>> {
        let is_name = |index: usize| {
            let token = &self.tokens[index];
            !self.used[index] && token.is_capitalized() && !is_stop_word(&token.text)
        };
        let is_after = |index: usize| {
            let before = index.checked_sub(1).map(|before| &self.tokens[before]);
            before.is_some_and(|before| PREPOSITIONS.iter().any(|word| before.is(word)))
        };
        let starts: Vec<usize> = (0..self.tokens.len()).filter(|index| is_name(*index)).collect();
        let start = starts
            .iter()
            .find(|index| is_after(**index))
            .or_else(|| starts.iter().find(|index| **index > 0))
            .copied()?;
        Some((start..self.tokens.len()).take_while(|index| is_name(*index)).collect())
    }

    /// Finds the words after the last preposition, as in `weather in paris`.
    fn after_preposition(&self) -> Option<Vec<usize>> {
        let last = (0..self.tokens.len()).rev().find(|index| {
            let next = index + 1;
            PREPOSITIONS.iter().any(|word| self.tokens[*index].is(word))
                && self
                    .tokens
                    .get(next)
                    .is_some_and(|token| token.kind == TokenKind::Word && !is_stop_word(&token.text))
                && !self.used[next]
        })?;
        let is_part = |index: &usize| {
            let token = &self.tokens[*index];
            !self.used[*index] && token.kind == TokenKind::Word && !is_stop_word(&token.text)
        };
        Some((last + 1..self.tokens.len()).take_while(is_part).collect())
    }

    /// Returns all unused tokens, from the first that is not a stop word.
    fn remaining_text(&self) -> Option<Vec<usize>> {
        let is_significant =
            |(_, token): &(usize, &Token)| token.kind != TokenKind::Punctuation && !is_stop_word(&token.text);
        let (first, _) = self.unused().find(is_significant)?;
        Some(self.unused().map(|(index, _)| index).filter(|index| *index >= first).collect())
    }

    fn default_value(&mut self, _: &str, property: &Value) -> Option<Value> {
        property.get("default").cloned()
    }
}

/// Converts a token to the type of the property.
fn convert_token(property: &Value, token: &Token) -> Option<Value> {
    match type_of(property) {
        Some(wanted @ ("number" | "integer")) => number(token, wanted),
        Some("boolean") => token.text.to_lowercase().parse().ok().map(Value::Bool),
        Some("array" | "object") => None,
        _ => Some(Value::String(token.text.clone())),
    }
}

fn number(token: &Token, wanted: &str) -> Option<Value> {
    if token.kind != TokenKind::Number {
        return None;
    }
    match wanted {
        "integer" => token.text.parse::<i64>().ok().map(Value::from),
        "number" => token.text.parse::<Number>().ok().map(Value::Number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tokens::tokens;
    use super::*;

    #[track_caller]
    fn check(properties: Value, required: &[&str], question: &str, expected: Value, missing: &[&str]) {
        let schema = json!({"type": "object", "properties": properties, "required": required,
            "$defs": {"Units": {"type": "string", "enum": ["celsius", "fahrenheit"]}}});
        let tokens = tokens(question);
        let extracted = extract_arguments(&schema, &tokens, &vec![false; tokens.len()]);
        assert_eq!(
            (Value::Object(extracted.arguments), extracted.missing),
            (expected, missing.iter().map(|name| (*name).to_owned()).collect())
        );
    }

    #[test]
    fn numbers_are_assigned_in_order_and_by_type() {
        let two = json!({"a": {"type": "number"}, "b": {"type": "integer"}});
        check(two.clone(), &["a", "b"], "add 2.5 to 17", json!({"a": 2.5, "b": 17}), &[]);
        check(two, &["a", "b"], "add 2.5", json!({"a": 2.5}), &["b"]);
        let list = json!({"values": {"type": "array", "items": {"type": "number"}}});
        check(list, &["values"], "the mean of 1, 2 and 3", json!({"values": [1, 2, 3]}), &[]);
    }

    #[test]
    fn enum_values_and_their_synonyms_are_found() {
        let units = json!({"units": {"$ref": "#/$defs/Units", "default": "celsius"}});
        check(units.clone(), &[], "in Fahrenheit", json!({"units": "fahrenheit"}), &[]);
        check(units, &[], "in Paris", json!({}), &[]);
        let operator = json!({"operator": {"oneOf": [{"const": "add"}, {"const": "multiply"}]}});
        check(operator.clone(), &["operator"], "6 x 7", json!({"operator": "multiply"}), &[]);
        check(operator, &["operator"], "6 - 7", json!({}), &["operator"]);
    }

    #[test]
    fn names_are_found_by_capitals_and_prepositions() {
        let place = json!({"location": {"type": "string"}});
        for (question, location) in [
            ("What is it like in New York", "New York"),
            ("what is it like in new york now", "new york"),
            ("say it for \"rue de Rivoli\" in Paris", "rue de Rivoli"),
        ] {
            check(place.clone(), &["location"], question, json!({"location": location}), &[]);
        }
        check(place, &["location"], "Paris or what", json!({}), &["location"]);
    }

    #[test]
    fn paths_and_urls_are_found_by_their_format() {
        let both = json!({"path": {"type": "string"}, "url": {"type": "string"}});
        check(
            both,
            &["path", "url"],
            "save https://a.example/x to ./notes/today.md",
            json!({"path": "./notes/today.md", "url": "https://a.example/x"}),
            &[],
        );
        check(
            json!({"file_path": {"type": "string"}}),
            &["file_path"],
            "read README.md",
            json!({"file_path": "README.md"}),
            &[],
        );
    }

    #[test]
    fn named_values_are_found() {
        let many =
            json!({"query": {"type": "string"}, "limit": {"type": "integer"}, "deep": {"type": "boolean"}});
        check(
            many.clone(),
            &["query"],
            "rust crates limit=5 deep",
            json!({"limit": 5, "deep": true, "query": "rust crates"}),
            &[],
        );
        check(many, &["query"], "limit: 5 not deep", json!({"limit": 5, "deep": false}), &["query"]);
    }

    #[test]
    fn the_default_is_used_for_a_missing_argument() {
        check(json!({"n": {"type": "object", "default": {}}}), &["n"], "go", json!({"n": {}}), &[]);
    }
}
