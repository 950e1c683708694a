//! Finds tools by what they do: BM25 over names, descriptions and parameters.

mod words;

use std::sync::Arc;

use bm25::{Embedder, EmbedderBuilder, Scorer, Tokenizer};
use serde_json::Value;
use toolwire_contract::Tool;

use words::words;

/// How often the words of a place count.
const NAME: usize = 3;
const TITLE: usize = 2;

/// Descriptions run to forty thousand characters; what a tool does is said in the beginning.
const DESCRIPTION: usize = 1_000;

/// All tools, ready to be searched.
pub struct ToolIndex {
    tools: Arc<[Tool]>,
    embedder: Embedder<u32, Ready>,
    scorer: Scorer<usize>,
}

/// A tool that was found.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'a> {
    pub tool: &'a Tool,
    /// Comparable within one search.
    pub score: f32,
}

impl ToolIndex {
    pub fn new(tools: Arc<[Tool]>) -> ToolIndex {
        let texts: Vec<String> = tools.iter().map(|tool| document(tool).join(" ")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let embedder = EmbedderBuilder::with_tokenizer_and_fit_to_corpus(Ready, &texts).build();
        let mut scorer = Scorer::new();
        for (place, text) in texts.iter().enumerate() {
            scorer.upsert(&place, embedder.embed(text));
        }
        ToolIndex { tools, embedder, scorer }
    }

    /// The tools that fit best, the best first; of two that fit alike, the one that is listed first. Tools that share no
    /// word with the query are not found.
    pub fn search(&self, query: &str, limit: usize) -> Vec<Hit<'_>> {
        let query: Vec<String> = words(query).collect();
        let mut found = self.scorer.matches(&self.embedder.embed(&query.join(" ")));
        found.sort_by(|one, other| other.score.total_cmp(&one.score).then(one.id.cmp(&other.id)));
        found.truncate(limit);
        found.into_iter().map(|found| Hit { tool: &self.tools[found.id], score: found.score }).collect()
    }
}

/// The words a tool is found by, each as often as it counts.
fn document(tool: &Tool) -> Vec<String> {
    let mut document = Vec::new();
    let mut add = |text: &str, weight: usize| {
        for word in words(text) {
            document.extend(std::iter::repeat_n(word, weight));
        }
    };
    add(&tool.name, NAME);
    add(tool.title.as_deref().unwrap_or_default(), TITLE);
    add(beginning(tool.description.as_deref().unwrap_or_default(), DESCRIPTION), 1);
    let properties =
        tool.input_schema.as_ref().and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten() {
        add(name, 1);
        let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        add(beginning(description, 100), 1);
    }
    document
}

/// What a tool does, in one line for the model.
pub(crate) fn first_sentence(tool: &Tool) -> String {
    let text = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default().trim();
    let end = text.find(". ").map_or(text.len(), |end| end + 1);
    let end = end.min(text.find('\n').unwrap_or(text.len()));
    let sentence = &text[..end];
    let short = beginning(sentence, 200);
    if short.len() < sentence.len() { format!("{short}…") } else { short.to_owned() }
}

/// The first so many characters.
fn beginning(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or(text, |(end, _)| &text[..end])
}

/// The words are made before: what counts often is repeated as it is.
struct Ready;

impl Tokenizer for Ready {
    fn tokenize(&self, text: &str) -> Vec<String> {
        text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }
}
