//! Item vectors from words: tf-idf, then principal components.
//!
//! tf is how often a word was given to an item, idf is ln(items / items with the word). What the
//! paper leaves open is a choice here, with a default.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::components::{Sparse, principal};
use super::{Dataset, RawDataset};
use crate::Error;

/// The choices between a table of words and the contexts that policies see.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choices {
    /// d, the number of principal components.
    pub dim: usize,
    /// How items without words are treated.
    pub untagged: Untagged,
    /// Whether the mean is subtracted.
    pub centring: Centring,
    /// How item vectors are scaled.
    pub rows: Rows,
}

/// How items without words are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untagged {
    /// They stay, all with the vector of no words. All of the paper's 17,632 artists.
    Keep,
    /// They are dropped, and users' likes of them too.
    Drop,
}

/// Whether the mean item is subtracted before components are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Centring {
    /// Yes: principal components as they are defined.
    Centred,
    /// No: the leading singular directions.
    Raw,
}

/// How item vectors are scaled. Either way none is longer than 1, as the theory asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Each of length 1.
    Unit,
    /// As they come, all divided by the longest.
    AsIs,
}

impl Default for Choices {
    fn default() -> Self {
        Self { dim: 25, untagged: Untagged::Keep, centring: Centring::Centred, rows: Rows::Unit }
    }
}

/// The seed of the subspace iteration: always the same.
const SEED: u64 = 2011;

impl RawDataset {
    /// Computes item vectors.
    pub fn catalogue(&self, choices: Choices) -> Result<Dataset, Error> {
        let RawDataset { liked, words, friends, .. } = self.selected(choices.untagged);
        let most = words.len().min(self.vocabulary);
        if choices.dim == 0 || choices.dim > most {
            let expected = format!("1 to {most}, as many as items and words allow");
            return Err(Error::unexpected("dim", choices.dim.to_string(), expected));
        }
        if liked.is_empty() {
            return Err(Error::unexpected("users", "none that likes an item", "at least one"));
        }
        let matrix = Sparse { rows: tf_idf(&words, self.vocabulary), columns: self.vocabulary };
        let centred = choices.centring == Centring::Centred;
        let mut rng = ChaCha8Rng::seed_from_u64(SEED);
        let mut items = principal(&matrix, choices.dim, centred, &mut rng);
        scale(&mut items, choices.dim, choices.rows);
        Ok(Dataset { dim: choices.dim, items, liked, friends })
    }

    fn selected(&self, untagged: Untagged) -> RawDataset {
        let keep = |words: &[(u32, f64)]| untagged == Untagged::Keep || !words.is_empty();
        let mut next = 0;
        let renumbered: Vec<Option<u32>> = (self.words.iter())
            .map(|words| {
                keep(words).then(|| {
                    next += 1;
                    next - 1
                })
            })
            .collect();
        let mut liked: Vec<Vec<u32>> = (self.liked.iter())
            .map(|items| items.iter().filter_map(|item| renumbered[*item as usize]).collect())
            .collect();
        // Users who like no remaining item are dropped, and so are their friendships.
        let mut next = 0;
        let places: Vec<Option<usize>> = (liked.iter())
            .map(|items| {
                (!items.is_empty()).then(|| {
                    next += 1;
                    next - 1
                })
            })
            .collect();
        liked.retain(|items| !items.is_empty());
        let place = |user: usize| places.get(user).copied().flatten();
        let friends =
            (self.friends.iter()).filter_map(|(a, b)| Some((place(*a)?, place(*b)?))).collect();
        let words = self.words.iter().filter(|words| keep(words)).cloned().collect();
        RawDataset { liked, words, vocabulary: self.vocabulary, friends }
    }
}

/// tf·idf, every row of length 1 (so that an item with many words has no longer vector).
fn tf_idf(words: &[Vec<(u32, f64)>], vocabulary: usize) -> Vec<Vec<(u32, f64)>> {
    let mut items_with = vec![0.0; vocabulary];
    for (word, _) in words.iter().flatten() {
        items_with[*word as usize] += 1.0;
    }
    let idf = |word: u32| (words.len() as f64 / items_with[word as usize]).ln();
    (words.iter())
        .map(|row| {
            let mut row: Vec<_> = row.iter().map(|&(word, tf)| (word, tf * idf(word))).collect();
            let length = row.iter().map(|(_, value)| value * value).sum::<f64>().sqrt();
            if length > 0.0 {
                row.iter_mut().for_each(|(_, value)| *value /= length);
            }
            row
        })
        .collect()
}

fn scale(items: &mut [f64], dim: usize, rows: Rows) {
    let length = |row: &[f64]| row.iter().map(|v| v * v).sum::<f64>().sqrt();
    let longest = items.chunks_exact(dim).map(length).fold(0.0, f64::max);
    for row in items.chunks_exact_mut(dim) {
        let by = if rows == Rows::Unit { length(row) } else { longest };
        if by > 0.0 {
            row.iter_mut().for_each(|value| *value /= by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> RawDataset {
        RawDataset {
            liked: vec![vec![0, 2], vec![1], vec![3]],
            words: vec![vec![(0, 1.0), (1, 2.0)], vec![(1, 1.0)], vec![(0, 3.0), (2, 1.0)], vec![]],
            vocabulary: 3,
            friends: Vec::new(),
        }
    }

    #[test]
    fn tf_idf_follows_its_definition() {
        let rows = tf_idf(&tables().words, 3);
        // Words 0 and 1 are in two of four items: idf ln 2 each, so only tf differs.
        let length = 5f64.sqrt();
        assert!((rows[0][0].1 - 1.0 / length).abs() < 1e-12);
        assert!((rows[0][1].1 - 2.0 / length).abs() < 1e-12);
        assert!(rows[3].is_empty());
    }

    #[test]
    fn choices_change_what_they_say() {
        let with = |untagged, rows| {
            let choices = Choices { dim: 2, untagged, centring: Centring::Centred, rows };
            tables().catalogue(choices).unwrap()
        };
        let lengths = |catalogue: &Dataset| -> Vec<f64> {
            let rows = catalogue.items.chunks_exact(2);
            rows.map(|row| row.iter().map(|v| v * v).sum::<f64>().sqrt()).collect()
        };
        let kept = with(Untagged::Keep, Rows::Unit);
        assert_eq!((kept.len(), kept.liked.len()), (4, 3));
        assert!(lengths(&kept).iter().all(|length| (length - 1.0).abs() < 1e-9));
        let dropped = with(Untagged::Drop, Rows::AsIs);
        assert_eq!((dropped.len(), dropped.liked.len()), (3, 2));
        let longest = lengths(&dropped).into_iter().fold(0.0, f64::max);
        assert!((longest - 1.0).abs() < 1e-9);
        assert!(lengths(&dropped).iter().any(|length| *length < 0.99));
    }

    #[test]
    fn more_components_than_words_are_refused() {
        let choices = Choices { dim: 4, ..Choices::default() };
        let error = tables().catalogue(choices).unwrap_err().to_string();
        assert_eq!(error, "dim: found 4, expected 1 to 3, as many as items and words allow");
    }
}
