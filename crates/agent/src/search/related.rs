//! Words with a similar meaning, by the vectors of their embeddings: "film" also finds tools for movies.

use std::collections::HashMap;
use std::sync::Arc;

use super::terms::stem;
use super::vectors::dot;

/// Words are related if the cosine of their vectors, relative to the average vector, is greater than this.
const MIN_COSINE: f32 = 0.4;
/// The weight of a related term, multiplied by the cosine; the term itself has the weight 1.
const WEIGHT: f32 = 0.6;
const MAX_RELATED: usize = 10;
/// A shorter distance from the average vector is a rounding error.
const MIN_DISTANCE: f32 = 0.01;

/// The related terms of a term, with their weights.
pub(super) type RelatedTerms = Vec<(String, f32)>;

/// The vectors of the words of tools.
#[derive(Default)]
pub(super) struct WordVectors {
    terms: Vec<String>,
    vectors: Vec<Arc<[f32]>>,
    /// The average of all vectors. Cosines are relative to it, because all words are somewhat similar, and
    /// how much depends on the model.
    average: Vec<f32>,
    positions: Vec<Position>,
    related: HashMap<String, RelatedTerms>,
}

/// The dot product of a vector with the average vector, and the distance between the two.
#[derive(Clone, Copy)]
struct Position {
    product: f32,
    distance: f32,
}

impl WordVectors {
    /// Compares each word with all others.
    pub(super) fn new(words: Vec<(String, Arc<[f32]>)>) -> WordVectors {
        let (terms, vectors): (Vec<String>, Vec<Arc<[f32]>>) =
            words.into_iter().map(|(word, vector)| (stem(&word), vector)).unzip();
        let mut average = vec![0.0; vectors.first().map_or(0, |vector| vector.len())];
        for vector in &vectors {
            for (sum, number) in average.iter_mut().zip(&**vector) {
                *sum += number / vectors.len() as f32;
            }
        }
        let positions = vectors.iter().map(|vector| position(vector, &average)).collect();
        let mut words = WordVectors { terms, vectors, average, positions, related: HashMap::new() };
        let related = words.terms.iter().zip(&words.vectors).zip(0..);
        words.related = related
            .map(|((term, vector), index)| (term.clone(), words.related_to(vector, Some(index))))
            .collect();
        words
    }

    /// Returns the terms that are related to a term, if its vector is known.
    pub(super) fn known(&self, term: &str) -> Option<&RelatedTerms> {
        self.related.get(term)
    }

    /// Returns the terms that are related to a word with this vector, except for the one at an index.
    pub(super) fn related_to(&self, vector: &[f32], except: Option<usize>) -> RelatedTerms {
        let from = position(vector, &self.average);
        let square = dot(&self.average, &self.average);
        let cosine = |(index, (other, to)): (usize, (&Arc<[f32]>, &Position))| {
            let product = dot(vector, other) - from.product - to.product + square;
            (index, product / (from.distance * to.distance))
        };
        let others = self.vectors.iter().zip(&self.positions).enumerate().map(cosine);
        let mut related: Vec<(usize, f32)> =
            others.filter(|(index, cosine)| *cosine > MIN_COSINE && Some(*index) != except).collect();
        related.sort_by(|one, other| other.1.total_cmp(&one.1));
        related.truncate(MAX_RELATED);
        related.into_iter().map(|(index, cosine)| (self.terms[index].clone(), WEIGHT * cosine)).collect()
    }
}

fn position(vector: &[f32], average: &[f32]) -> Position {
    let product = dot(vector, average);
    let square = dot(vector, vector) - 2.0 * product + dot(average, average);
    Position { product, distance: square.max(0.0).sqrt().max(MIN_DISTANCE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[(&str, &[f32])]) -> WordVectors {
        WordVectors::new(words.iter().map(|(word, vector)| ((*word).to_owned(), (*vector).into())).collect())
    }

    #[test]
    fn words_with_similar_vectors_are_related() {
        // The first number is large in all vectors, so their cosines differ little before the average is
        // subtracted.
        let known = words(&[
            ("movies", &[0.9, 0.4, 0.0]),
            ("trailer", &[0.9, 0.3, 0.1]),
            ("invoice", &[0.9, -0.4, 0.0]),
            ("tax", &[0.9, -0.3, -0.1]),
        ]);
        let names = |related: &RelatedTerms| related.iter().map(|(term, _)| term.clone()).collect::<Vec<_>>();
        assert_eq!(known.known("movi").map(names), Some(vec!["trailer".to_owned()]));
        assert_eq!(known.known("film"), None);
        let related = known.related_to(&[0.9, 0.4, 0.0], None);
        assert_eq!(names(&related), ["movi", "trailer"]);
        assert!((related[0].1 - WEIGHT).abs() < 0.001 && related[1].1 < related[0].1, "{related:?}");
    }

    #[test]
    fn few_and_odd_vectors_are_compared() {
        assert_eq!(words(&[]).related_to(&[1.0], None), []);
        assert_eq!(words(&[("one", &[1.0])]).related_to(&[0.5], None), []);
        let odd = words(&[("one", &[f32::NAN]), ("two", &[]), ("three", &[1.0, 2.0])]);
        assert_eq!(odd.related_to(&[1.0], None), []);
    }
}
