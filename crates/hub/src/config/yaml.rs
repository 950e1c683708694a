//! YAML, as goose and Continue write it, converted to JSON. The position of each value is kept.

use std::collections::HashMap;
use std::ops::Range;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::formats::PositionMap;
use super::json::number;

/// The depth of mappings and sequences. The configurations of hosts have about 5 levels.
const MAX_DEPTH: usize = 64;
/// The size of the JSON text: aliases can multiply the size of a file.
const MAX_JSON_BYTES: usize = 4 << 20;

pub(super) struct ConvertedYaml {
    pub(super) json: String,
    pub(super) positions: PositionMap,
}

pub(super) struct YamlError {
    pub(super) message: String,
    pub(super) line_and_column: (usize, usize),
}

/// Converts the only document of a YAML text. Numbers that JSON cannot express become strings.
pub(super) fn yaml_to_json(text: &str) -> Result<ConvertedYaml, YamlError> {
    let mut writer = JsonWriter::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| yaml_error(error.marker(), error.info()))?;
        writer.event(event, &span.start)?;
    }
    match writer.json.is_empty() {
        true => Err(yaml_error(&Marker::new(0, 1, 0), "the file is empty")),
        false => Ok(ConvertedYaml { json: writer.json, positions: PositionMap(writer.positions) }),
    }
}

fn yaml_error(at: &Marker, message: &str) -> YamlError {
    YamlError { message: message.to_owned(), line_and_column: line_and_column(at) }
}

fn line_and_column(at: &Marker) -> (usize, usize) {
    (at.line(), at.col() + 1)
}

#[derive(Default)]
struct JsonWriter {
    json: String,
    positions: Vec<(usize, (usize, usize))>,
    open: Vec<Container>,
    /// The complete values with an anchor, by the anchor's id.
    anchors: HashMap<usize, Range<usize>>,
}

/// A mapping or a sequence that is not complete.
struct Container {
    start: usize,
    anchor: usize,
    /// The number of values so far; a mapping counts keys too.
    count: usize,
    is_mapping: bool,
}

impl JsonWriter {
    fn event(&mut self, event: Event<'_>, at: &Marker) -> Result<(), YamlError> {
        match event {
            Event::DocumentStart(_) if !self.json.is_empty() => {
                return Err(yaml_error(at, "the file contains more than one document"));
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_key = self.is_at_key();
                let start = self.begin(at)?;
                match is_key {
                    true => self.push_string(&text),
                    false => self.push_scalar(&text, style, tag.as_deref()),
                }
                self.complete(anchor, start);
            }
            Event::SequenceStart(anchor, _) => self.open(at, anchor, false)?,
            Event::MappingStart(anchor, _) => self.open(at, anchor, true)?,
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(Container { start, anchor, is_mapping, .. }) = self.open.pop() {
                    self.json.push(if is_mapping { '}' } else { ']' });
                    self.complete(anchor, start);
                }
            }
            Event::Alias(anchor) => {
                let is_key = self.is_at_key();
                self.begin(at)?;
                let value = self.anchors.get(&anchor).map(|range| self.json[range.clone()].to_owned());
                let value = value.ok_or_else(|| yaml_error(at, "an alias of a value that contains it"))?;
                if is_key && !value.starts_with('"') {
                    return Err(yaml_error(at, "a key must be a string"));
                }
                self.json.push_str(&value);
            }
            _ => {}
        }
        match self.json.len() > MAX_JSON_BYTES {
            true => Err(yaml_error(at, "the file is too large")),
            false => Ok(()),
        }
    }

    fn is_at_key(&self) -> bool {
        self.open.last().is_some_and(|container| container.is_mapping && container.count % 2 == 0)
    }

    /// Writes what separates a value from the previous one, and returns the offset of the value.
    fn begin(&mut self, at: &Marker) -> Result<usize, YamlError> {
        if let Some(container) = self.open.last_mut() {
            let separator = match (container.count, container.is_mapping) {
                (0, _) => "",
                (count, true) if count % 2 == 1 => ":",
                _ => ",",
            };
            container.count += 1;
            self.json.push_str(separator);
        }
        self.positions.push((self.json.len(), line_and_column(at)));
        Ok(self.json.len())
    }

    fn open(&mut self, at: &Marker, anchor: usize, is_mapping: bool) -> Result<(), YamlError> {
        if self.is_at_key() {
            return Err(yaml_error(at, "a key must be a string"));
        }
        if self.open.len() == MAX_DEPTH {
            return Err(yaml_error(at, &format!("values are nested more than {MAX_DEPTH} levels deep")));
        }
        let start = self.begin(at)?;
        self.json.push(if is_mapping { '{' } else { '[' });
        self.open.push(Container { start, anchor, count: 0, is_mapping });
        Ok(())
    }

    fn complete(&mut self, anchor: usize, start: usize) {
        // 0 means that there is no anchor.
        if anchor != 0 {
            self.anchors.insert(anchor, start..self.json.len());
        }
    }

    /// Resolves a scalar by the core schema of YAML 1.2: `yes` and `on` are strings.
    fn push_scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>) {
        let is_string = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
        match text {
            _ if is_string || style != ScalarStyle::Plain => self.push_string(text),
            "" | "~" | "null" | "Null" | "NULL" => self.json.push_str("null"),
            "true" | "True" | "TRUE" => self.json.push_str("true"),
            "false" | "False" | "FALSE" => self.json.push_str("false"),
            _ if text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
                && number(text).is_some() =>
            {
                self.json.push_str(text);
            }
            _ => self.push_string(text),
        }
    }

    fn push_string(&mut self, text: &str) {
        self.json.push_str(&serde_json::Value::from(text).to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(yaml: &str, json: &str) {
        let converted = yaml_to_json(yaml).unwrap_or_else(|error| panic!("{}", error.message));
        assert_eq!(converted.json, json);
    }

    #[track_caller]
    fn check_error(yaml: &str, message: &str, line_and_column: (usize, usize)) {
        let error = yaml_to_json(yaml).err().expect("an error");
        assert_eq!((error.message.as_str(), error.line_and_column), (message, line_and_column));
    }

    #[test]
    fn scalars_have_the_types_of_the_core_schema() {
        check("[1, -2.5, 1e3, 012, 0x1F, +1, .5, '1']", r#"[1,-2.5,1e3,"012","0x1F","+1",".5","1"]"#);
        check(
            "[true, False, yes, on, ~, null, '', !!str true]",
            r#"[true,false,"yes","on",null,null,"","true"]"#,
        );
        check("a:\nb: \"x\\ty\"\n1: c\ntrue: d", r#"{"a":null,"b":"x\ty","1":"c","true":"d"}"#);
        check("a: |\n  one\n  two\nb: >-\n  one\n  two\n", r#"{"a":"one\ntwo\n","b":"one two"}"#);
        check("# only a value\n--- text", r#""text""#);
        check("{}", "{}");
    }

    #[test]
    fn aliases_are_replaced_by_their_values() {
        check(
            "a: &x {k: [1, 2]}\nb: *x\n&y c: *x\nd: *y",
            r#"{"a":{"k":[1,2]},"b":{"k":[1,2]},"c":{"k":[1,2]},"d":"c"}"#,
        );
        check_error("a: &x [*x]", "an alias of a value that contains it", (1, 8));
        check_error("a: &x [1]\n*x : b", "a key must be a string", (2, 1));
        let mut bomb = "a0: &a0 [xxxxxxxxxxxxxxxx]\n".to_owned();
        for level in 1..20 {
            let previous = format!("*a{}, ", level - 1).repeat(8);
            bomb.push_str(&format!("a{level}: &a{level} [{previous}]\n"));
        }
        assert_eq!(yaml_to_json(&bomb).err().expect("an error").message, "the file is too large");
    }

    #[test]
    fn errors_have_a_position() {
        check_error("a: 1\nb: [1\n", "while parsing a flow sequence, expected ',' or ']'", (3, 1));
        check_error("a: 1\n---\nb: 2\n", "the file contains more than one document", (2, 1));
        check_error("? [a]\n: b\n", "a key must be a string", (1, 3));
        check_error("# nothing\n", "the file is empty", (1, 1));
        let deep = "[".repeat(65) + &"]".repeat(65);
        check_error(&deep, "values are nested more than 64 levels deep", (1, 65));
        for nesting in ["[", "{", "- ", "? ", "a: {", "&a "] {
            assert!(yaml_to_json(&nesting.repeat(100_000)).is_err(), "{nesting}");
        }
    }

    #[test]
    fn each_value_has_a_position() {
        let converted = yaml_to_json("ä: ü\nlist:\n  - x\n  - {k: v}\n").ok().expect("valid");
        let position = |part: &str| {
            let offset = converted.json.find(part).expect("a part of the text");
            converted.positions.line_and_column(offset)
        };
        assert_eq!(position("{\"ä\""), Some((1, 1)));
        assert_eq!(position("\"ü\""), Some((1, 4)));
        assert_eq!(position("[\"x\""), Some((3, 3)));
        assert_eq!(position("\"x\""), Some((3, 5)));
        assert_eq!(position("\"v\""), Some((4, 9)));
    }
}
