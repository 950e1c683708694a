//! The pinned definition of one tool: a hash of each part, and the text.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};
use toolwire_contract::Tool;

/// If a server has more pins, only those of its current tools are retained.
const MAX_TOOLS_PER_SERVER: usize = 10_000;
/// The maximum length of a stored definition. Longer ones have only hashes.
pub(super) const MAX_TEXT_BYTES: usize = 64 << 10;
/// The maximum length of the stored definitions of a server together.
pub(super) const MAX_TEXT_BYTES_PER_SERVER: usize = 2 << 20;

/// The pins of one server by the tool's name.
pub(super) type ToolPins = BTreeMap<String, ToolPin>;

/// The pinned definition of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToolPin {
    /// A SHA-256 in hexadecimal for each part of the definition; empty if the part is missing.
    pub(super) hashes: [String; 5],
    /// The parts as one JSON object, to show what changed. `None` if they are too long, or if an older
    /// version of Toolwire wrote the pin.
    pub(super) text: Option<Arc<str>>,
    /// Whether the user decided not to offer the tool while its definition differs.
    pub(super) is_blocked_by_person: bool,
}

/// A part of a tool's definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DefinitionPart {
    Title,
    Description,
    InputSchema,
    OutputSchema,
    Annotations,
}

pub(super) const PARTS: [(DefinitionPart, &str); 5] = [
    (DefinitionPart::Title, "title"),
    (DefinitionPart::Description, "description"),
    (DefinitionPart::InputSchema, "inputSchema"),
    (DefinitionPart::OutputSchema, "outputSchema"),
    (DefinitionPart::Annotations, "annotations"),
];

impl DefinitionPart {
    /// Returns the key of the part in MCP, such as `inputSchema`.
    pub fn key(self) -> &'static str {
        PARTS[self as usize].1
    }

    /// Returns the name for messages, such as `input schema`.
    pub const fn name(self) -> &'static str {
        match self {
            DefinitionPart::Title => "title",
            DefinitionPart::Description => "description",
            DefinitionPart::InputSchema => "input schema",
            DefinitionPart::OutputSchema => "output schema",
            DefinitionPart::Annotations => "annotations",
        }
    }
}

impl ToolPin {
    fn of(tool: &Tool) -> ToolPin {
        let parts = parts_of(tool);
        let hashes = parts.each_ref().map(|part| part.as_ref().map(hash).unwrap_or_default());
        let existing =
            PARTS.iter().zip(parts).filter_map(|((_, key), part)| Some(((*key).to_owned(), part?)));
        let text = Value::Object(existing.collect()).to_string();
        let text = Some(text).filter(|text| text.len() <= MAX_TEXT_BYTES).map(Arc::from);
        ToolPin { hashes, text, is_blocked_by_person: false }
    }

    /// Returns the parts of the definition; `None` if only their hashes are known.
    pub(super) fn parts(&self) -> Option<[Option<Value>; 5]> {
        let mut text: Value = serde_json::from_str(self.text.as_ref()?).ok()?;
        let parts = PARTS.map(|(_, key)| text.get_mut(key).map(Value::take));
        // The file may have been edited, or written by a version that does not know the texts.
        let is_same = |(part, expected): (&Option<Value>, &String)| {
            part.as_ref().map(hash).unwrap_or_default() == *expected
        };
        parts.iter().zip(&self.hashes).all(is_same).then_some(parts)
    }

    pub(super) fn changed_parts(&self, earlier: &ToolPin) -> Vec<DefinitionPart> {
        let parts = PARTS.iter().zip(self.hashes.iter().zip(&earlier.hashes));
        parts.filter(|(_, (now, before))| now != before).map(|((part, _), _)| *part).collect()
    }
}

/// Adds missing pins, and the missing texts of pins that have not changed; returns whether there were any.
pub(super) fn add_missing(known: &mut ToolPins, now: &ToolPins) -> bool {
    let before = known.len();
    let text_bytes = text_bytes(known);
    for (tool, pin) in now {
        let known = known.entry(tool.clone()).or_insert_with(|| pin.clone());
        if known.text.is_none() && known.hashes == pin.hashes {
            known.text.clone_from(&pin.text);
        }
    }
    let has_new = known.len() > before;
    if known.len() > MAX_TOOLS_PER_SERVER {
        known.retain(|tool, _| now.contains_key(tool));
    }
    limit_texts(known);
    has_new || self::text_bytes(known) > text_bytes
}

/// Removes the texts of the last pins if they are too long together.
pub(super) fn limit_texts(pins: &mut ToolPins) {
    let mut remaining = MAX_TEXT_BYTES_PER_SERVER;
    for pin in pins.values_mut() {
        let length = pin.text.as_ref().map_or(0, |text| text.len());
        match remaining.checked_sub(length) {
            Some(rest) => remaining = rest,
            None => pin.text = None,
        }
    }
}

fn text_bytes(pins: &ToolPins) -> usize {
    pins.values().filter_map(|pin| pin.text.as_ref()).map(|text| text.len()).sum()
}

/// Returns the parts of a definition that are pinned, in the order of [`PARTS`].
pub(super) fn parts_of(tool: &Tool) -> [Option<Value>; 5] {
    let text = |text: &Option<String>| text.as_ref().map(|text| Value::from(text.as_str()));
    // A field of the wrong type is in `extra`; its changes count too.
    let extra = |key: &str| tool.extra.get(key).cloned();
    let annotations = tool.annotations.clone().map(Value::Object);
    [
        text(&tool.title).or_else(|| extra("title")),
        text(&tool.description).or_else(|| extra("description")),
        tool.input_schema.clone(),
        tool.output_schema.clone(),
        annotations.or_else(|| extra("annotations")),
    ]
}

pub(super) fn pin_all(tools: &[Tool]) -> ToolPins {
    let mut pins = ToolPins::new();
    for tool in tools {
        pins.entry(tool.name.clone()).or_insert_with(|| ToolPin::of(tool));
    }
    pins
}

/// Returns the SHA-256 of a value's canonical JSON: no white space, keys in byte order, numbers as written.
pub(super) fn hash(value: &Value) -> String {
    let mut hash = Sha256::new();
    write_canonical(value, &mut |bytes| hash.update(bytes));
    format!("{:x}", hash.finalize())
}

pub(super) fn write_canonical(value: &Value, write: &mut dyn FnMut(&[u8])) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            write(b"{");
            for (index, (key, value)) in fields.into_iter().enumerate() {
                write(if index == 0 { b"" } else { b"," });
                write(Value::from(key.as_str()).to_string().as_bytes());
                write(b":");
                write_canonical(value, write);
            }
            write(b"}");
        }
        Value::Array(items) => {
            write(b"[");
            for (index, item) in items.iter().enumerate() {
                write(if index == 0 { b"" } else { b"," });
                write_canonical(item, write);
            }
            write(b"]");
        }
        scalar => write(scalar.to_string().as_bytes()),
    }
}
