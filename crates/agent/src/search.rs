//! Finds tools by what they do: BM25 over names, descriptions and parameters.

mod alike;
mod words;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bm25::{Embedder, EmbedderBuilder, TokenEmbedder, Tokenizer};
use serde_json::Value;
use toolwire_contract::Tool;

use words::words;

/// How often the words of a place count.
const NAME: usize = 3;
const TITLE: usize = 2;

/// What a word counts that only means about the same as one that was asked for.
const AKIN: f32 = 0.3;

/// How many words that begin with a word stand for it.
const LONGER: usize = 8;

/// Descriptions run to forty thousand characters; what a tool does is said in the beginning.
const DESCRIPTION: usize = 500;

/// All tools, ready to be searched.
///
/// `bm25` weighs the words of each tool; which tools have a word is kept by word, so that a search looks at those alone.
pub struct ToolIndex {
    tools: Arc<[Tool]>,
    /// For each word the tools that have it, with its weight there.
    postings: HashMap<u32, Vec<(usize, f32)>>,
    /// All words there are, sorted.
    vocabulary: Vec<String>,
    alike: HashMap<String, Vec<String>>,
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
        let documents: Vec<Vec<String>> = tools.iter().map(document).collect();
        let words: usize = documents.iter().map(Vec::len).sum();
        let average = words as f32 / documents.len().max(1) as f32;
        let embedder: Embedder<u32, Ready> = EmbedderBuilder::with_avgdl(average).build();
        let mut postings: HashMap<u32, Vec<(usize, f32)>> = HashMap::new();
        for (place, words) in documents.iter().enumerate() {
            for word in embedder.embed(&words.join(" ")).0 {
                let tools = postings.entry(word.index).or_default();
                // A word comes as often as it is there, with the same weight each time.
                if tools.last().is_none_or(|(last, _)| *last != place) {
                    tools.push((place, word.value));
                }
            }
        }
        let vocabulary: BTreeSet<String> = documents.into_iter().flatten().collect();
        ToolIndex { tools, postings, vocabulary: vocabulary.into_iter().collect(), alike: alike::groups() }
    }

    /// The tools that fit best, the best first; of two that fit alike, the one that is listed first. Tools that share no
    /// word with the query are not found.
    pub fn search(&self, query: &str, limit: usize) -> Vec<Hit<'_>> {
        let mut asked: Vec<String> = words(query).filter(|word| !is_number(word)).collect();
        if asked.is_empty() {
            asked = words(query).collect();
        }
        let mut scores: HashMap<usize, f32> = HashMap::new();
        for (words, weight) in [(&asked, 1.0), (&self.akin(&asked), AKIN)] {
            for word in words {
                let Some(tools) = self.postings.get(&u32::embed(word)) else { continue };
                let rarity = self.rarity(tools.len()) * weight;
                for (place, value) in tools {
                    *scores.entry(*place).or_default() += rarity * value;
                }
            }
        }
        let mut found: Vec<(usize, f32)> = scores.into_iter().collect();
        found.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        found.truncate(limit);
        found.into_iter().map(|(place, score)| Hit { tool: &self.tools[place], score }).collect()
    }

    /// BM25's inverse document frequency.
    fn rarity(&self, having: usize) -> f32 {
        let (all, having) = (self.tools.len() as f32, having as f32);
        (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
    }

    /// Words that may stand for those of a query: they mean about the same, or begin with one.
    fn akin(&self, asked: &[String]) -> Vec<String> {
        let mut akin: Vec<String> = Vec::new();
        for word in asked {
            akin.extend(self.alike.get(word).into_iter().flatten().cloned());
            if word.chars().count() >= 4 {
                let first = self.vocabulary.partition_point(|known| known < word);
                let longer =
                    self.vocabulary[first..].iter().take_while(|known| known.starts_with(word.as_str()));
                akin.extend(longer.take(LONGER).cloned());
            }
        }
        akin.sort_unstable();
        akin.dedup();
        akin.retain(|word| !asked.contains(word));
        akin
    }
}

fn is_number(word: &str) -> bool {
    word.chars().all(char::is_numeric)
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
#[derive(Default)]
struct Ready;

impl Tokenizer for Ready {
    fn tokenize(&self, text: &str) -> Vec<String> {
        text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }
}
