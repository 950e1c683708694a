//! Tools with schemas of a given size, in the shapes that could make an engine slow.

use std::fmt::Write;

/// The sizes in bytes, from 1 KB to 10 MB.
pub const SIZES: [usize; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// The structure of a growing schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One object with more and more properties, half of them required.
    Wide,
    /// More and more objects, each nested eight levels deep.
    Nested,
    /// More and more definitions, each referenced by a property, half of them also by another definition.
    Refs,
    /// One enum with more and more values.
    Enum,
    /// More and more alternatives, distinguished by a constant.
    Union,
}

impl Shape {
    pub const ALL: [Shape; 5] = [Shape::Wide, Shape::Nested, Shape::Refs, Shape::Enum, Shape::Union];

    pub const fn name(self) -> &'static str {
        match self {
            Shape::Wide => "wide",
            Shape::Nested => "nested",
            Shape::Refs => "refs",
            Shape::Enum => "enum",
            Shape::Union => "union",
        }
    }

    /// Returns a tool as JSON text of about `bytes` bytes.
    pub fn tool(self, bytes: usize) -> String {
        format!(
            r#"[{{"name":"sized","description":"A tool of some size","inputSchema":{}}}]"#,
            self.schema(bytes)
        )
    }

    fn schema(self, bytes: usize) -> String {
        match self {
            Shape::Wide => {
                let properties = repeat(bytes * 24 / 25, property);
                let count = properties.len() / 110;
                let required = repeat_times(count / 2, |index| format!(r#""property_{}""#, index * 2));
                object(&properties, &required)
            }
            Shape::Nested => object(&repeat(bytes, |index| nested(index, 8)), r#""tree_0""#),
            Shape::Refs => {
                let properties = repeat(bytes / 5, |index| {
                    format!(r##""part_{index}":{{"$ref":"#/$defs/Part{index}"}}"##)
                });
                let count = properties.matches("$ref").count();
                let definitions = repeat_times(count, |index| {
                    // A tree rather than a chain, as real definitions do not form chains of thousands.
                    let link = match 2 * index + 1 {
                        below if below < count => {
                            format!(r##","next":{{"$ref":"#/$defs/Part{below}"}}"##)
                        }
                        _ => String::new(),
                    };
                    format!(
                        r#""Part{index}":{{"type":"object","properties":{{"id":{{"type":"string","description":"Which one it is"}}{link}}},"required":["id"]}}"#
                    )
                });
                format!(r#"{{"type":"object","properties":{{{properties}}},"$defs":{{{definitions}}}}}"#)
            }
            Shape::Enum => {
                let values = repeat(bytes, |index| format!(r#""value-{index}""#));
                object(&format!(r#""choice":{{"type":"string","enum":[{values}]}}"#), r#""choice""#)
            }
            Shape::Union => {
                let branches = repeat(bytes, |index| {
                    format!(
                        r#"{{"type":"object","properties":{{"kind":{{"const":"kind_{index}"}},"value":{{"type":"integer","minimum":{index}}}}},"required":["kind"]}}"#
                    )
                });
                object(&format!(r#""action":{{"anyOf":[{branches}]}}"#), r#""action""#)
            }
        }
    }
}

fn property(index: usize) -> String {
    match index % 3 {
        0 => format!(
            r#""property_{index}":{{"type":"string","description":"The property number {index}, as text","default":"none"}}"#
        ),
        1 => format!(
            r#""property_{index}":{{"type":"integer","description":"The property number {index}, counted","minimum":0}}"#
        ),
        _ => format!(
            r#""property_{index}":{{"type":"array","description":"The property number {index}","items":{{"type":"string"}}}}"#
        ),
    }
}

fn nested(index: usize, levels: usize) -> String {
    let inner = match levels {
        0 => format!(r#""leaf_{index}":{{"type":"string","enum":["a","b"],"default":"a"}}"#),
        _ => nested(index, levels - 1),
    };
    format!(r#""tree_{index}":{}"#, object(&inner, ""))
}

fn object(properties: &str, required: &str) -> String {
    format!(
        r#"{{"type":"object","properties":{{{properties}}},"required":[{required}],"additionalProperties":false}}"#
    )
}

fn repeat(bytes: usize, part: impl Fn(usize) -> String) -> String {
    let mut text = part(0);
    let mut index = 1;
    while text.len() < bytes {
        write!(text, ",{}", part(index)).expect("writing to a string cannot fail");
        index += 1;
    }
    text
}

fn repeat_times(count: usize, part: impl Fn(usize) -> String) -> String {
    (0..count).map(part).collect::<Vec<_>>().join(",")
}
