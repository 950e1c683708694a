//! The similarity of texts, by the vectors of their embeddings.

use std::collections::HashMap;
use std::sync::Arc;

use super::related::{RelatedTerms, WordVectors};
use super::terms::{is_comparable, query_words, stem};

/// The maximum number of unknown words of a query. Each of them is compared with all words of the tools.
const MAX_UNKNOWN_WORDS: usize = 8;

const NEIGHBORS: usize = 10;
/// The weight of a vector's crowding. Cross-domain similarity local scaling (CSLS) uses 0.5.
const CROWDING_WEIGHT: f32 = 0.6;

/// The vectors of the texts and words of tools.
///
/// A text that is similar to many others is also similar to most queries. Such texts would be among the hits
/// of queries that are about something else, so their similarity counts less.
#[derive(Default)]
pub struct VectorIndex {
    texts: Vec<Arc<[f32]>>,
    /// The average similarity of each text to its nearest neighbours.
    crowding: Vec<f32>,
    words: WordVectors,
}

/// The similarities of the tools to a query, by meaning.
#[derive(Clone, Debug, Default)]
pub struct Similarities {
    /// The similarity of each tool's text to the query. The values are comparable with each other.
    pub(super) texts: Vec<f32>,
    /// For terms of the query, the related terms of the tools.
    pub(super) related: HashMap<String, RelatedTerms>,
}

impl VectorIndex {
    /// Creates an index of the vectors of [`ToolIndex::texts`](crate::search::ToolIndex::texts) and of
    /// [`ToolIndex::words`](crate::search::ToolIndex::words), which have the length 1. This compares each
    /// text with all other texts, and each word with all other words.
    pub fn new(texts: Vec<Arc<[f32]>>, words: Vec<(String, Arc<[f32]>)>) -> VectorIndex {
        let crowding = (0..texts.len()).map(|index| crowding(&texts, index)).collect();
        VectorIndex { texts, crowding, words: WordVectors::new(words) }
    }

    /// Returns the words of a query whose vectors are needed to compare it.
    pub fn unknown_words(&self, query: &str) -> Vec<String> {
        let mut words = query_words(query);
        words.retain(|word| is_comparable(word) && self.words.known(&stem(word)).is_none());
        words.truncate(MAX_UNKNOWN_WORDS);
        words
    }

    /// Compares a query with the tools, by its vector and those of its [unknown
    /// words](VectorIndex::unknown_words). They have the length 1 as well.
    pub fn similarities(
        &self,
        query: &str,
        vector: &[f32],
        unknown_words: &[(String, Arc<[f32]>)],
    ) -> Similarities {
        let texts = self.texts.iter().zip(&self.crowding);
        let texts = texts.map(|(text, crowding)| dot(text, vector) - CROWDING_WEIGHT * crowding).collect();
        let terms = query_words(query).into_iter().map(|word| stem(&word));
        let known = terms.filter_map(|term| self.words.known(&term).map(|related| (term, related.clone())));
        let unknown =
            unknown_words.iter().map(|(word, vector)| (stem(word), self.words.related_to(vector, None)));
        Similarities { texts, related: known.chain(unknown).collect() }
    }

    /// Returns the number of components of the vectors.
    pub(crate) fn dimensions(&self) -> usize {
        self.texts.first().map_or(0, |vector| vector.len())
    }
}

fn crowding(vectors: &[Arc<[f32]>], index: usize) -> f32 {
    let others = vectors[..index].iter().chain(&vectors[index + 1..]);
    let mut similarities: Vec<f32> = others.map(|other| dot(&vectors[index], other)).collect();
    let count = NEIGHBORS.min(similarities.len());
    if count == 0 {
        return 0.0;
    }
    similarities.select_nth_unstable_by(count - 1, |one, other| other.total_cmp(one));
    similarities[..count].iter().sum::<f32>() / count as f32
}

/// Returns the product of two vectors, which is the cosine of their angle if they have the length 1.
pub(crate) fn dot(one: &[f32], other: &[f32]) -> f32 {
    // Independent sums, which processors compute at the same time.
    let mut sums = [0.0_f32; 8];
    let (one, one_rest) = one.as_chunks::<8>();
    let (other, other_rest) = other.as_chunks::<8>();
    for (one, other) in one.iter().zip(other) {
        sums = std::array::from_fn(|lane| sums[lane] + one[lane] * other[lane]);
    }
    let rest: f32 = one_rest.iter().zip(other_rest).map(|(one, other)| one * other).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_similar_to_many_others_is_less_similar_to_a_query() {
        let mut vectors: Vec<Arc<[f32]>> = vec![[1.0, 0.0].into(); NEIGHBORS + 1];
        vectors.push([0.0, 1.0].into());
        let similarities = VectorIndex::new(vectors, Vec::new()).similarities("", &[0.8, 0.6], &[]);
        assert_eq!(similarities.texts[NEIGHBORS], 0.8 - CROWDING_WEIGHT);
        assert_eq!(similarities.texts[NEIGHBORS + 1], 0.6);
    }

    #[test]
    fn few_and_odd_vectors_are_compared() {
        let similarities = |vectors: &[&[f32]]| {
            let vectors = vectors.iter().map(|vector| Arc::from(*vector)).collect();
            VectorIndex::new(vectors, Vec::new()).similarities("", &[1.0], &[]).texts
        };
        assert_eq!(similarities(&[]), [0.0; 0]);
        assert_eq!(similarities(&[&[1.0]]), [1.0]);
        assert_eq!(similarities(&[&[], &[f32::NAN], &[1.0, 2.0]]).len(), 3);
    }

    #[test]
    fn words_without_a_vector_are_unknown() {
        let words = ["movie", "invoice"].map(|word| (word.to_owned(), Arc::from([1.0])));
        let index = VectorIndex::new(Vec::new(), words.into());
        assert_eq!(index.unknown_words("Which films of 1984 are in my movies? No TV"), ["films"]);
        let long: String = ('a'..='z').map(|letter| format!("{letter}word{letter} ")).collect();
        assert_eq!(index.unknown_words(&long).len(), MAX_UNKNOWN_WORDS);
    }

    #[test]
    fn long_vectors_are_multiplied() {
        let numbers: Vec<f32> = (1_u8..=20).map(f32::from).collect();
        assert_eq!(dot(&numbers, &numbers), 2_870.0);
    }
}
