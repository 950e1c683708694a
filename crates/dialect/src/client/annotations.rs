//! Citations of a text, in the format of OpenAI's APIs. Their positions are counted in characters.

use serde_json::{Value, json};
use toolwire_contract::model::Citation;

use crate::Family;

/// The citations of one message so far.
#[derive(Debug, Default)]
pub(crate) struct Annotations {
    /// In the format of the Responses API.
    entries: Vec<Value>,
    /// The number of entries whose end is known.
    complete: usize,
    /// The number of characters of the text so far, before the current round, and before the current part.
    characters: usize,
    round_start: usize,
    part_start: usize,
}

impl Annotations {
    pub(crate) fn add_text(&mut self, fragment: &str) {
        self.characters += fragment.chars().count();
    }

    /// Ends the part of the text that the last citations belong to.
    pub(crate) fn begin_part(&mut self) {
        for entry in &mut self.entries[self.complete..] {
            entry["end_index"] = json!(self.characters);
        }
        self.complete = self.entries.len();
        self.part_start = self.characters;
    }

    /// Starts the message of another round, which is added to the text.
    pub(crate) fn begin_round(&mut self) {
        self.begin_part();
        self.round_start = self.characters;
    }

    /// Whether these APIs can express a citation: its source must have a URL.
    pub(crate) fn can_express(citation: &Citation) -> bool {
        citation.family == Family::OpenAiResponses.meta_key() || web_source(citation).is_some()
    }

    /// Whether the source of a citation has a URL. Chat Completions has no other citations.
    pub(crate) fn has_url(citation: &Citation) -> bool {
        Annotations::can_express(citation)
            && (citation.value["type"] == "url_citation" || web_source(citation).is_some())
    }

    /// Adds a citation that these APIs can express.
    pub(crate) fn add(&mut self, citation: &Citation) {
        let Citation { family, value } = citation;
        if family == Family::OpenAiResponses.meta_key() {
            let mut entry = value.clone();
            for key in ["start_index", "end_index"] {
                if let Some(index) = entry.get(key).and_then(Value::as_u64) {
                    entry[key] = json!(index.saturating_add(self.round_start as u64));
                }
            }
            self.entries.insert(self.complete, entry);
            self.complete += 1;
        }
        let Some(url) = web_source(citation) else { return };
        let title = value["title"].as_str().unwrap_or(url);
        self.entries.push(json!({
            "type": "url_citation", "start_index": self.part_start, "end_index": self.part_start, "url": url, "title": title,
        }));
    }

    /// Ends the text, and returns all citations in the format of the Responses API.
    pub(crate) fn finish(&mut self) -> &[Value] {
        self.begin_part();
        &self.entries
    }
}

/// Returns the URL of the source of one of Anthropic's citations.
fn web_source(citation: &Citation) -> Option<&str> {
    let Citation { family, value } = citation;
    let key = match value["type"].as_str()? {
        _ if family != Family::Anthropic.meta_key() => return None,
        "web_search_result_location" => "url",
        "search_result_location" => "source",
        _ => return None,
    };
    value[key].as_str().filter(|url| url.starts_with("https://") || url.starts_with("http://"))
}
