//! A log of decisions: offer, choice, propensity and reward. Decisions without a reward are not in
//! it.

use std::collections::HashMap;
use std::sync::Arc;

/// Decisions and their rewards, in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The decisions.
    pub rows: Vec<Row>,
    /// The ids of all items that were ever offered.
    pub items: Interner,
    /// The ids of all users.
    pub users: Interner,
    /// The number of features of a candidate; 0 where the log has none.
    pub dim: usize,
    /// The number of features of a row itself (say, of its user), which the reward model uses.
    pub context_dim: usize,
    /// Whether the reward model tells items apart by name, even where they have features.
    pub known_by_name: bool,
    /// The number of decisions left out for lack of a reward.
    pub unrewarded: usize,
    /// The number of decisions left out because it is not known among how many items they were made.
    pub unknown_choices: usize,
}

/// One decision.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Its line in the file; the header is line 1.
    pub line: usize,
    /// The user's number.
    pub user: usize,
    /// The offer, as numbers of items.
    pub candidates: Arc<[u32]>,
    /// The items that could have been chosen, where they are more than the candidates: of a decision from a catalogue only the
    /// best are in the log.
    pub among: Option<usize>,
    /// The index of the chosen candidate.
    pub chosen: usize,
    /// Its propensity, where known.
    pub propensity: Option<f64>,
    /// Its reward.
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
    /// How many items could have been chosen.
    pub fn choices(&self) -> usize {
        self.among.unwrap_or(0).max(self.candidates.len())
    }

    /// Whether some that could have been chosen are not in the log.
    pub fn is_cut(&self) -> bool {
        self.choices() > self.candidates.len()
    }

    /// The number of the chosen item.
    pub fn item(&self) -> u32 {
        self.candidates[self.chosen]
    }

    /// The features of a candidate.
    pub fn candidate(&self, which: usize, dim: usize) -> &[f64] {
        &self.features[which * dim..][..dim]
    }
}

/// An interner: words numbered by first appearance.
#[derive(Clone, Debug, Default)]
pub struct Interner {
    words: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Interner {
    /// The number of a word, which is added if new.
    pub fn number(&mut self, word: &str) -> usize {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        self.words.push(word.to_owned());
        self.numbers.insert(word.to_owned(), self.words.len() - 1);
        self.words.len() - 1
    }

    /// The number of a known word.
    pub fn find(&self, word: &str) -> Option<usize> {
        self.numbers.get(word).copied()
    }

    /// The number of words.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// All words, by number.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(String::as_str)
    }
}
