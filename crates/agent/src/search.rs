//! Finds tools by what they do: BM25F over the fields of their definitions, and the kind of action.
//!
//! The terms of a query say which things a tool works with. Most tools of a server work with the same things,
//! so the action decides among them: a question looks for a tool that reads, "get rid of" for one that
//! deletes.

mod actions;
mod document;
mod related;
mod synonyms;
mod terms;
mod vectors;

use std::collections::HashMap;
use std::sync::Arc;

use toolwire_contract::Tool;
use toolwire_contract::toolbox::ToolServer;

pub use crate::event::EmbeddingFailure;
use actions::{ActionWeights, Actions};
use document::{FIELD_COUNT, FIELDS, fields};
pub(crate) use document::{embedding_texts, first_sentence};
use related::RelatedTerms;
use terms::{is_comparable, is_stop_word, query_words, stem, words};
pub(crate) use vectors::dot;
pub use vectors::{Similarities, VectorIndex};

/// BM25's `k1`: the smaller it is, the less the repetition of a term counts.
const SATURATION: f32 = 1.0;

/// The weight of a synonym of a query term, and of a known term that a query term ends with (`socket` in
/// `websocket`); the term itself has the weight 1.
const RELATED_TERM_WEIGHT: f32 = 0.4;
const MIN_PART_CHARS: usize = 4;

/// The weight of a suitable action; the best match of the terms has the weight 1.
const ACTION_WEIGHT: f32 = 0.25;

/// The weight of the most similar text, if embeddings are known; the best match of the terms has the
/// weight 1.
const SIMILARITY_WEIGHT: f32 = 1.2;

/// A word is compared by meaning only if at least this many tools have it. Other words are often names.
const MIN_TOOLS_OF_WORD: usize = 2;

/// A query term that no tool has also matches the known terms that differ in one letter, if it has at least
/// this many characters.
const MIN_MISSPELLED_CHARS: usize = 5;

/// A search index of tools. It maps terms to tools, so a search only visits tools that have a term of the
/// query.
pub struct ToolIndex {
    tools: Arc<[Tool]>,
    /// The server of each tool, if it is known.
    servers: Vec<Option<ToolServer>>,
    /// The actions of each tool.
    actions: Vec<Actions>,
    postings: Postings,
    /// For each term that several tools have, one of its words.
    words: Vec<String>,
    synonyms: HashMap<String, Vec<String>>,
}

/// For each term, the indexes of the tools that have it and its weight there.
type Postings = HashMap<String, Vec<(u32, f32)>>;

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
        let actions = tools.iter().map(Actions::of_tool).collect();
        let (postings, words) = postings(&tools, &servers);
        ToolIndex { tools, servers, actions, postings, words, synonyms: synonyms::by_term() }
    }

    /// Returns the text of each tool for an embedding; see [`ToolIndex::search_similar`].
    pub fn texts(&self) -> Vec<String> {
        embedding_texts(&self.tools, &self.servers)
    }

    /// Returns words of the tools for embeddings; see [`ToolIndex::search_similar`].
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns the best matches, the best first; of two with the same score, the one that is listed first. A
    /// tool that has no term of the query is not found.
    pub fn search(&self, query: &str, limit: usize) -> Vec<ToolHit<'_>> {
        self.best_hits(self.scores(query, &HashMap::new()), limit)
    }

    /// Like [`ToolIndex::search`], with the similarities of the query to [`ToolIndex::texts`] and
    /// [`ToolIndex::words`], see [`VectorIndex`]. It also finds tools that have no term of the query.
    pub fn search_similar(&self, query: &str, similarities: &Similarities, limit: usize) -> Vec<ToolHit<'_>> {
        let mut scores = self.scores(query, &similarities.related);
        let similarities = &similarities.texts;
        // Models differ in how similar unrelated texts are, so the average is 0 and the best is 1.
        let average = similarities.iter().sum::<f32>() / similarities.len().max(1) as f32;
        let max = similarities.iter().copied().fold(f32::MIN, f32::max);
        let range = (max - average).max(f32::MIN_POSITIVE);
        for (score, similarity) in scores.iter_mut().zip(similarities) {
            *score += SIMILARITY_WEIGHT * ((similarity - average) / range).max(0.0);
        }
        self.best_hits(scores, limit)
    }

    /// Returns the score of each tool: of its terms, and of its actions if it has a term of the query.
    fn scores(&self, query: &str, related: &HashMap<String, RelatedTerms>) -> Vec<f32> {
        let mut scores = vec![0.0_f32; self.tools.len()];
        // The information of the query terms that a tool has, and of all query terms.
        let mut covered = scores.clone();
        let mut total = 0.0;
        let mut best = scores.clone();
        for word in query_words(query) {
            let term = stem(&word);
            let information = self.information(&term);
            total += information;
            let mut visited = Vec::new();
            let related = related.get(&term).into_iter().flatten().cloned();
            for (term, weight) in self.variants(&word, term).into_iter().chain(related) {
                let Some(tools) = self.postings.get(&term) else { continue };
                let weight = weight * information.min(self.information(&term));
                for (tool, value) in tools {
                    let best = &mut best[*tool as usize];
                    if *best == 0.0 {
                        visited.push(*tool as usize);
                    }
                    *best = best.max(weight * value);
                }
            }
            for tool in visited {
                scores[tool] += std::mem::take(&mut best[tool]);
                covered[tool] += information;
            }
        }
        for (score, covered) in scores.iter_mut().zip(covered) {
            *score *= (covered / total.max(f32::MIN_POSITIVE)).sqrt();
        }
        let max = scores.iter().copied().fold(0.0, f32::max);
        let wanted = ActionWeights::of_query(query);
        for (score, actions) in scores.iter_mut().zip(&self.actions).filter(|(score, _)| **score > 0.0) {
            *score = *score / max + ACTION_WEIGHT * wanted.best(*actions);
        }
        scores
    }

    fn best_hits(&self, scores: Vec<f32>, limit: usize) -> Vec<ToolHit<'_>> {
        let mut hits: Vec<(usize, f32)> =
            scores.into_iter().enumerate().filter(|(_, score)| *score > 0.0).collect();
        let best_first =
            |one: &(usize, f32), other: &(usize, f32)| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0));
        if limit < hits.len() {
            hits.select_nth_unstable_by(limit, best_first);
            hits.truncate(limit);
        }
        hits.sort_by(best_first);
        let hit = |(index, score): (usize, f32)| {
            let server = self.servers[index].as_ref();
            ToolHit { tool: &self.tools[index], server, score }
        };
        hits.into_iter().map(hit).collect()
    }

    /// BM25's inverse document frequency of a term.
    fn information(&self, term: &str) -> f32 {
        let count = self.postings.get(term).map_or(0, Vec::len) as f32;
        let all = self.tools.len() as f32;
        (1.0 + (all - count + 0.5) / (count + 0.5)).ln()
    }

    /// Returns the terms that match a word of a query, with their weights.
    fn variants(&self, word: &str, term: String) -> Vec<(String, f32)> {
        let mut related: Vec<String> = self.synonyms.get(&term).cloned().unwrap_or_default();
        let chars = word.chars().count();
        let parts = word.char_indices().skip(2).take((chars + 1).saturating_sub(2 + MIN_PART_CHARS));
        related.extend(parts.map(|(start, _)| stem(&word[start..])));
        if !self.postings.contains_key(&term) && chars >= MIN_MISSPELLED_CHARS {
            related.extend(self.postings.keys().filter(|known| differ_in_one_letter(known, &term)).cloned());
        }
        related.retain(|other| *other != term);
        let related = related.into_iter().map(|term| (term, RELATED_TERM_WEIGHT));
        std::iter::once((term, 1.0)).chain(related).collect()
    }
}

/// Computes the weight of each term in each tool: the frequencies in the fields, each relative to the length
/// of the field and multiplied by its weight, added and saturated. Also returns one word of each term that
/// several tools have.
fn postings(tools: &[Tool], servers: &[Option<ToolServer>]) -> (Postings, Vec<String>) {
    // Each word is stemmed once.
    let mut ids: HashMap<String, usize> = HashMap::new();
    let mut known: HashMap<String, Option<usize>> = HashMap::new();
    let mut first_words = Vec::new();
    let mut id = |word: String| -> Option<usize> {
        if let Some(id) = known.get(&word) {
            return *id;
        }
        let next = ids.len();
        let id = (!is_stop_word(&word)).then(|| *ids.entry(stem(&word)).or_insert(next));
        if id == Some(next) {
            first_words.push(word.clone());
        }
        known.insert(word, id);
        id
    };
    let documents: Vec<[Vec<usize>; FIELD_COUNT]> = tools
        .iter()
        .zip(servers)
        .map(|(tool, server)| {
            fields(tool, server.as_ref()).map(|text| words(&text).into_iter().filter_map(&mut id).collect())
        })
        .collect();
    let mut average = [f32::MIN_POSITIVE; FIELD_COUNT];
    for (average, field) in average.iter_mut().zip(0..) {
        let total: usize = documents.iter().map(|document| document[field].len()).sum();
        *average += total as f32 / documents.len().max(1) as f32;
    }
    let mut lists: Vec<Vec<(u32, f32)>> = vec![Vec::new(); ids.len()];
    for (index, document) in documents.iter().enumerate() {
        for ((terms, settings), average) in document.iter().zip(FIELDS).zip(average) {
            let length = 1.0 - settings.normalization + settings.normalization * terms.len() as f32 / average;
            for term in terms {
                let list = &mut lists[*term];
                let index = index as u32;
                if list.last().is_none_or(|(last, _)| *last != index) {
                    list.push((index, 0.0));
                }
                if let Some((_, weight)) = list.last_mut() {
                    *weight += settings.weight / length;
                }
            }
        }
    }
    for (_, weight) in lists.iter_mut().flatten() {
        *weight *= (1.0 + SATURATION) / (SATURATION + *weight);
    }
    let is_common =
        |(word, tools): &(String, &Vec<_>)| is_comparable(word) && tools.len() >= MIN_TOOLS_OF_WORD;
    let words = first_words.into_iter().zip(&lists).filter(is_common).map(|(word, _)| word).collect();
    (ids.into_iter().map(|(term, id)| (term, std::mem::take(&mut lists[id]))).collect(), words)
}

/// Whether one letter was replaced, inserted, removed or exchanged with its neighbour.
fn differ_in_one_letter(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let start = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let (one, other) = (&one[start..], &other[start..]);
    match (one, other) {
        ([a, b, one @ ..], [c, d, other @ ..]) if a == d && b == c && one == other => true,
        ([_, one @ ..], [_, other @ ..]) if one == other => true,
        ([_, one @ ..], other) | (other, [_, one @ ..]) if one == other => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
