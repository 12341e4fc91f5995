//! A log of decisions: what was offered, what was chosen, with what probability, and what came of
//! it. Decisions whose reward is not known are not in it.

use std::collections::HashMap;
use std::sync::Arc;

/// Decisions and their rewards, in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The decisions.
    pub rows: Vec<Row>,
    /// The ids of all items that were ever offered.
    pub items: Names,
    /// The ids of all users.
    pub users: Names,
    /// How many features a candidate has; 0 where the log has none.
    pub dim: usize,
    /// How many features of its own a row has (say, of its user): the reward model looks at them.
    pub context_dim: usize,
    /// Whether the reward model tells items apart by name, even where they have features.
    pub known_by_name: bool,
    /// Decisions that were left out because no reward is known of them.
    pub unrewarded: usize,
}

/// One decision.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Where it stands in its file; the header is line 1.
    pub line: usize,
    /// The user's number.
    pub user: usize,
    /// What was offered: numbers of items.
    pub candidates: Arc<[u32]>,
    /// Which of the candidates was chosen.
    pub chosen: usize,
    /// With what probability, if that is known.
    pub propensity: Option<f64>,
    /// What came of it.
    pub reward: f64,
    /// Rows of different strata get reward models of their own (positions on a page).
    pub stratum: usize,
    /// Features of the candidates, one after the other; empty where the log has none.
    pub features: Box<[f64]>,
    /// Features of the row itself.
    pub context: Box<[f64]>,
}

impl Log {
    /// Whether the reward model tells items apart by their features.
    pub(super) fn items_have_features(&self) -> bool {
        self.dim > 0 && !self.known_by_name
    }
}

impl Row {
    /// The number of the item that was chosen.
    pub fn item(&self) -> u32 {
        self.candidates[self.chosen]
    }

    /// The features of a candidate.
    pub fn candidate(&self, which: usize, dim: usize) -> &[f64] {
        &self.features[which * dim..][..dim]
    }
}

/// Words numbered in the order in which they came.
#[derive(Clone, Debug, Default)]
pub struct Names {
    words: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Names {
    /// The number of a word, a new one if it was never seen.
    pub fn number(&mut self, word: &str) -> usize {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        self.words.push(word.to_owned());
        self.numbers.insert(word.to_owned(), self.words.len() - 1);
        self.words.len() - 1
    }

    /// The number of a word that was seen.
    pub fn find(&self, word: &str) -> Option<usize> {
        self.numbers.get(word).copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(String::as_str)
    }
}
