//! The searchable texts of a tool.

use serde_json::Value;
use toolwire_contract::Tool;
use toolwire_contract::text::truncate;
use toolwire_contract::toolbox::ToolServer;

use super::terms::words;

/// Some descriptions have forty thousand characters, but the start says what the tool does.
const MAX_FIRST_SENTENCE_CHARS: usize = 300;
const MAX_DESCRIPTION_CHARS: usize = 600;
const MAX_PARAMETER_CHARS: usize = 100;
const MAX_ENUM_VALUES: usize = 12;
/// The length of a description in the result of a search, and in the text for an embedding.
const MAX_SENTENCE_CHARS: usize = 200;

/// The influence of a field on the score.
#[derive(Clone, Copy)]
pub(super) struct FieldSettings {
    pub(super) weight: f32,
    /// BM25's `b`: the share of the weight that is relative to the field's length.
    pub(super) normalization: f32,
}

const fn field(weight: f32, normalization: f32) -> FieldSettings {
    FieldSettings { weight, normalization }
}

pub(super) const FIELD_COUNT: usize = 8;

/// The settings of the texts that [`fields`] returns.
pub(super) const FIELDS: [FieldSettings; FIELD_COUNT] = [
    field(2.0, 0.3),
    field(4.0, 0.3),
    field(2.0, 0.3),
    field(1.5, 0.5),
    field(0.4, 0.6),
    field(0.3, 0.6),
    field(0.1, 0.7),
    field(0.1, 0.7),
];

/// Returns the server's name and title, the tool's name, its title, the first sentence of its description,
/// the rest of it, and the names, descriptions and listed values of the parameters.
pub(super) fn fields(tool: &Tool, server: Option<&ToolServer>) -> [String; FIELD_COUNT] {
    let server = server.map_or(String::new(), |server| {
        format!("{} {}", server.name, server.title.as_deref().unwrap_or_default())
    });
    let title = if tool.display_name() == tool.name { "" } else { tool.display_name() };
    let (sentence, rest) = split_sentence(tool.description.as_deref().unwrap_or_default().trim());
    let (mut names, mut descriptions, mut values) = (String::new(), String::new(), String::new());
    let add = |text: &mut String, part: &str| {
        text.push_str(part);
        text.push(' ');
    };
    let properties =
        tool.input_schema.as_ref().and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten() {
        add(&mut names, name);
        let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        add(&mut descriptions, &truncate(description, MAX_PARAMETER_CHARS));
        let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
        for value in listed.take(MAX_ENUM_VALUES).filter_map(Value::as_str) {
            add(&mut values, value);
        }
    }
    [
        server,
        tool.name.clone(),
        title.to_owned(),
        truncate(sentence, MAX_FIRST_SENTENCE_CHARS).into_owned(),
        truncate(rest, MAX_DESCRIPTION_CHARS).into_owned(),
        names,
        descriptions,
        values,
    ]
}

/// Returns the text of a tool for an embedding: the name of its server, its own name in words, and the first
/// sentence of its description. A longer text would cost more, and its vector would be less specific.
fn embedding_text(tool: &Tool, server: Option<&ToolServer>) -> String {
    let server = server.map_or("", |server| server.title.as_deref().unwrap_or(&server.name));
    let parts = [server, &words(&tool.name).join(" "), &first_sentence(tool)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
}

/// Returns the text of each tool for an embedding.
pub(crate) fn embedding_texts(tools: &[Tool], servers: &[Option<ToolServer>]) -> Vec<String> {
    tools.iter().zip(servers).map(|(tool, server)| embedding_text(tool, server.as_ref())).collect()
}

/// Returns the first sentence of a tool's description.
pub(crate) fn first_sentence(tool: &Tool) -> String {
    let text = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default().trim();
    truncate(split_sentence(text).0, MAX_SENTENCE_CHARS).into_owned()
}

/// Splits a text after its first sentence.
pub(super) fn split_sentence(text: &str) -> (&str, &str) {
    let end = text.find(". ").map_or(text.len(), |end| end + 1);
    text.split_at(end.min(text.find('\n').unwrap_or(text.len())))
}
