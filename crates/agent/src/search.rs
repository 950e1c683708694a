//! Finds tools by what they do: BM25 over names, descriptions and parameters.

mod synonyms;
mod terms;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bm25::{Embedder, EmbedderBuilder, TokenEmbedder, Tokenizer};
use serde_json::Value;
use toolwire_contract::{Tool, ToolServer, truncate};

use terms::terms;

/// The weights of each term of the name, of the title and of the server's name; all other terms have the
/// weight 1.
const NAME_WEIGHT: usize = 3;
const TITLE_WEIGHT: usize = 2;
const SERVER_WEIGHT: usize = 2;

/// The weight of a synonym or completion of a query term; the term itself has the weight 1.
const RELATED_TERM_WEIGHT: f32 = 0.3;

/// A query term with at least this many characters also matches longer terms that start with it.
const MIN_PREFIX_CHARS: usize = 4;
const MAX_COMPLETIONS: usize = 8;

/// Some descriptions have forty thousand characters, but the start says what the tool does.
const MAX_DESCRIPTION_CHARS: usize = 500;
const MAX_PARAMETER_CHARS: usize = 100;
const MAX_SENTENCE_CHARS: usize = 200;

/// A search index of tools.
///
/// `bm25` computes the weight of each term in each tool. The index maps terms to tools, so a search only
/// visits tools that have a term of the query.
pub struct ToolIndex {
    tools: Arc<[Tool]>,
    /// The server of each tool, if it is known.
    servers: Vec<Option<ToolServer>>,
    /// For each term, the indexes of the tools that have it and its weight there.
    postings: HashMap<u32, Vec<(usize, f32)>>,
    /// All terms, sorted.
    vocabulary: Vec<String>,
    synonyms: HashMap<String, Vec<String>>,
}

/// A tool that a search found.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ToolHit<'a> {
    pub tool: &'a Tool,
    pub server: Option<&'a ToolServer>,
    /// Comparable within one search.
    pub score: f32,
}

impl ToolIndex {
    /// Creates an index of tools whose servers are unknown.
    pub fn new(tools: Arc<[Tool]>) -> ToolIndex {
        ToolIndex::with_servers(tools, &[])
    }

    /// Creates an index of tools and their servers, in the same order.
    pub fn with_servers(tools: Arc<[Tool]>, servers: &[Option<ToolServer>]) -> ToolIndex {
        let mut servers = servers.to_vec();
        servers.resize(tools.len(), None);
        let documents: Vec<Vec<String>> =
            tools.iter().zip(&servers).map(|(tool, server)| document(tool, server.as_ref())).collect();
        let total: usize = documents.iter().map(Vec::len).sum();
        let average = total as f32 / documents.len().max(1) as f32;
        let embedder: Embedder<u32, SpaceTokenizer> = EmbedderBuilder::with_avgdl(average).build();
        let mut postings: HashMap<u32, Vec<(usize, f32)>> = HashMap::new();
        for (index, terms) in documents.iter().enumerate() {
            for term in embedder.embed(&terms.join(" ")).0 {
                let tools = postings.entry(term.index).or_default();
                // A repeated term is returned repeatedly, each time with the same weight.
                if tools.last().is_none_or(|(last, _)| *last != index) {
                    tools.push((index, term.value));
                }
            }
        }
        let vocabulary: BTreeSet<String> = documents.into_iter().flatten().collect();
        ToolIndex {
            tools,
            servers,
            postings,
            vocabulary: vocabulary.into_iter().collect(),
            synonyms: synonyms::by_term(),
        }
    }

    /// Returns the best matches, the best first; of two with the same score, the one that is listed first. A
    /// tool that has no term of the query is not found.
    pub fn search(&self, query: &str, limit: usize) -> Vec<ToolHit<'_>> {
        let mut query_terms: Vec<String> = terms(query).filter(|term| !is_number(term)).collect();
        if query_terms.is_empty() {
            query_terms = terms(query).collect();
        }
        let related = self.related_terms(&query_terms);
        let mut scores: HashMap<usize, f32> = HashMap::new();
        for (terms, weight) in [(&query_terms, 1.0), (&related, RELATED_TERM_WEIGHT)] {
            for term in terms {
                let Some(tools) = self.postings.get(&u32::embed(term)) else { continue };
                let term_weight = self.inverse_document_frequency(tools.len()) * weight;
                for (index, value) in tools {
                    *scores.entry(*index).or_default() += term_weight * value;
                }
            }
        }
        let mut hits: Vec<(usize, f32)> = scores.into_iter().collect();
        hits.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        hits.truncate(limit);
        let hit = |(index, score): (usize, f32)| {
            let server = self.servers[index].as_ref();
            ToolHit { tool: &self.tools[index], server, score }
        };
        hits.into_iter().map(hit).collect()
    }

    /// BM25's inverse document frequency of a term that this many tools have.
    fn inverse_document_frequency(&self, count: usize) -> f32 {
        let (all, count) = (self.tools.len() as f32, count as f32);
        (1.0 + (all - count + 0.5) / (count + 0.5)).ln()
    }

    /// Returns the synonyms and completions of the terms of a query.
    fn related_terms(&self, query_terms: &[String]) -> Vec<String> {
        let mut related: Vec<String> = Vec::new();
        for term in query_terms {
            related.extend(self.synonyms.get(term).into_iter().flatten().cloned());
            if term.chars().count() >= MIN_PREFIX_CHARS {
                let first = self.vocabulary.partition_point(|known| known < term);
                let completions =
                    self.vocabulary[first..].iter().take_while(|known| known.starts_with(term.as_str()));
                related.extend(completions.take(MAX_COMPLETIONS).cloned());
            }
        }
        related.sort_unstable();
        related.dedup();
        related.retain(|term| !query_terms.contains(term));
        related
    }
}

fn is_number(term: &str) -> bool {
    term.chars().all(char::is_numeric)
}

/// Returns the terms of a tool, each as often as it counts.
fn document(tool: &Tool, server: Option<&ToolServer>) -> Vec<String> {
    let mut document = Vec::new();
    let mut add = |text: &str, weight: usize| {
        for term in terms(text) {
            document.extend(std::iter::repeat_n(term, weight));
        }
    };
    add(&tool.name, NAME_WEIGHT);
    add(tool.title.as_deref().unwrap_or_default(), TITLE_WEIGHT);
    if let Some(server) = server {
        add(&server.name, SERVER_WEIGHT);
        add(server.title.as_deref().unwrap_or_default(), SERVER_WEIGHT);
    }
    add(&truncate(tool.description.as_deref().unwrap_or_default(), MAX_DESCRIPTION_CHARS), 1);
    let properties =
        tool.input_schema.as_ref().and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten() {
        add(name, 1);
        let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        add(&truncate(description, MAX_PARAMETER_CHARS), 1);
    }
    document
}

/// Returns the first sentence of a tool's description, for the model.
pub(crate) fn first_sentence(tool: &Tool) -> String {
    let text = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default().trim();
    let end = text.find(". ").map_or(text.len(), |end| end + 1);
    let end = end.min(text.find('\n').unwrap_or(text.len()));
    truncate(&text[..end], MAX_SENTENCE_CHARS).into_owned()
}

/// Splits at spaces, because documents are terms already.
#[derive(Default)]
struct SpaceTokenizer;

impl Tokenizer for SpaceTokenizer {
    fn tokenize(&self, text: &str) -> Vec<String> {
        text.split(' ').filter(|term| !term.is_empty()).map(str::to_owned).collect()
    }
}
