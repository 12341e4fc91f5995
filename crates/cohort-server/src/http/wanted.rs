//! What may be shown: candidates that are listed, or items of the catalogue.

use std::sync::Arc;

use hashbrown::HashSet;

use super::Service;
use super::body::check_count;
use super::decide::Candidate;
use super::error::ApiError;
use super::filter::filter_of;
use super::strict::Strict;
use crate::engine::request::{Excluded, Offer, Pick};

/// What may be shown, as it is sent.
pub(super) struct Wanted {
    pub items: Option<Vec<Candidate>>,
    pub filter: Option<Strict>,
    pub exclude: Excluded,
    pub k: Option<usize>,
}

/// Items of the catalogue that are told where nothing else is said.
const BEST: usize = 10;

impl Wanted {
    /// The same in one place of several. What is left out everywhere is not in these `items` any more.
    pub fn of_slot(
        &self,
        items: Option<Vec<Candidate>>,
        filter: Option<Strict>,
        exclude: Vec<String>,
    ) -> Result<Self, ApiError> {
        let is_listed = items.is_some();
        let filter = match (self.filter.clone().filter(|_| !is_listed), filter) {
            (Some(one), Some(other)) => {
                Some(Strict(serde_json::json!({"all_of": [one.0, other.0]})))
            }
            (one, other) => one.or(other),
        };
        let items = items.or_else(|| self.items.clone());
        let exclude = match &items {
            Some(_) => exclude.into(),
            None => self.exclude.and(exclude),
        };
        Ok(Self { items, filter, exclude, k: self.k })
    }
}

/// Takes from candidates what is excluded; at least one must be left.
pub(super) fn leave_out(
    items: &mut Vec<Candidate>,
    excluded: &HashSet<&str>,
) -> Result<(), ApiError> {
    let before = items.len();
    items.retain(|item| !excluded.contains(item.id.as_str()));
    if items.is_empty() && before > 0 {
        let sentence = "all items are excluded: there is nothing to show";
        return Err(ApiError::new(422, "nothing_matches", sentence));
    }
    Ok(())
}

impl Service {
    /// Candidates that are listed, or to be found in the catalogue.
    pub(super) fn wanted(&self, wanted: Wanted) -> Result<Offer, ApiError> {
        let Wanted { items, filter, exclude, k } = wanted;
        let most = self.config.max_candidates;
        self.check_excluded(exclude.len())?;
        let Some(mut items) = items else {
            check_count("best items (k)", k.unwrap_or(BEST), most)?;
            let filter = filter.as_ref().map(filter_of).transpose()?;
            let pick = Pick { filter, exclude, best: k.unwrap_or(BEST) };
            return Ok(Offer { pick: Some(Arc::new(pick)), ..Offer::default() });
        };
        if filter.is_some() || k.is_some() {
            let sentence =
                "`filter` and `k` are for choosing from the catalogue: leave `items` out";
            return Err(ApiError::new(422, "items_and_filter", sentence));
        }
        check_count("items", items.len(), most)?;
        if !exclude.is_empty() {
            leave_out(&mut items, &exclude.iter().collect())?;
        }
        self.offer(items)
    }

    /// As many ids as the catalogue or a list can have may be left out.
    pub(super) fn check_excluded(&self, count: usize) -> Result<(), ApiError> {
        match count > self.config.max_items.max(self.config.max_candidates) {
            true => {
                let sentence = "exclude: more than the catalogue can have";
                Err(ApiError::new(422, "bad_count", sentence))
            }
            false => Ok(()),
        }
    }
}
