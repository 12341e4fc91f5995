//! What may be shown: candidates, or items of the catalogue; in one place or in several.

use std::sync::Arc;

use cohort_features::Features;

use super::excluded::Excluded;
use crate::state::Filter;

/// Candidates: ids and, row by row, features.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    /// The items' ids.
    pub ids: Vec<String>,
    /// Their features where they were sent as vectors; `None` means that they were sent as JSON, or that the catalogue has them.
    pub features: Vec<Option<Vec<f64>>>,
    /// Their features where they were sent as JSON; empty where none were.
    pub described: Vec<Option<Arc<Features>>>,
    /// The features of the situation.
    pub context: Option<Arc<Features>>,
    /// The features of the user.
    pub user: Option<Arc<Features>>,
    /// How many users the whole request is for, where this is a part of it.
    pub batch: usize,
    /// Candidates are these of the catalogue, and none are listed.
    pub pick: Option<Arc<Pick>>,
}

/// One place of several.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Its name.
    pub id: String,
    /// The id that its decision shall have.
    pub decision: String,
    /// What may be shown there.
    pub offer: Offer,
}

/// Items of the catalogue.
#[derive(Clone, Debug, Default)]
pub struct Pick {
    /// What they must be like.
    pub filter: Option<Filter>,
    /// Those that are not meant.
    pub exclude: Excluded,
    /// How many of the best are told.
    pub best: usize,
}

impl Offer {
    /// Of candidates by their ids alone, or with vectors.
    pub fn new(ids: Vec<String>, features: Vec<Option<Vec<f64>>>) -> Self {
        Self { ids, features, ..Self::default() }
    }

    /// The JSON that was sent for a candidate.
    pub fn described(&self, at: usize) -> Option<&Arc<Features>> {
        self.described.get(at)?.as_ref()
    }
}
