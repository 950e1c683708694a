//! The similarity of texts, by the vectors of their embeddings.

use std::sync::Arc;

const NEIGHBORS: usize = 10;
/// The weight of a vector's crowding. Cross-domain similarity local scaling (CSLS) uses 0.5.
const CROWDING_WEIGHT: f32 = 0.6;

/// The vectors of texts.
///
/// A text that is similar to many others is also similar to most queries. Such texts would be among the hits of
/// queries that are about something else, so their similarity counts less.
#[derive(Default)]
pub struct VectorIndex {
    vectors: Vec<Arc<[f32]>>,
    /// The average similarity of each vector to its nearest neighbors.
    crowding: Vec<f32>,
}

impl VectorIndex {
    /// Creates an index of vectors of the length 1. It compares each with all others.
    pub fn new(vectors: Vec<Arc<[f32]>>) -> VectorIndex {
        let crowding = (0..vectors.len()).map(|index| crowding(&vectors, index)).collect();
        VectorIndex { vectors, crowding }
    }

    /// Returns the similarity of each text to a query, whose vector has the length 1 as well. The results are comparable
    /// with each other.
    pub fn similarities(&self, query: &[f32]) -> Vec<f32> {
        let texts = self.vectors.iter().zip(&self.crowding);
        texts.map(|(vector, crowding)| dot(vector, query) - CROWDING_WEIGHT * crowding).collect()
    }

    /// Returns the number of components of the vectors.
    pub(crate) fn dimensions(&self) -> usize {
        self.vectors.first().map_or(0, |vector| vector.len())
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
        let similarities = VectorIndex::new(vectors).similarities(&[0.8, 0.6]);
        assert_eq!(similarities[NEIGHBORS], 0.8 - CROWDING_WEIGHT);
        assert_eq!(similarities[NEIGHBORS + 1], 0.6);
    }

    #[test]
    fn few_and_odd_vectors_are_compared() {
        let index =
            |vectors: &[&[f32]]| VectorIndex::new(vectors.iter().map(|vector| Arc::from(*vector)).collect());
        assert_eq!(index(&[]).similarities(&[1.0]), [0.0; 0]);
        assert_eq!(index(&[&[1.0]]).similarities(&[1.0]), [1.0]);
        let odd = index(&[&[], &[f32::NAN], &[1.0, 2.0]]);
        assert_eq!(odd.similarities(&[1.0]).len(), 3);
    }

    #[test]
    fn long_vectors_are_multiplied() {
        let numbers: Vec<f32> = (1_u8..=20).map(f32::from).collect();
        assert_eq!(dot(&numbers, &numbers), 2_870.0);
    }
}
