//! Which features made a decision what it is.

use cohort_features::{Contribution, Offer as JsonOffer};

use super::request::Offer;
use crate::state::App;

/// Parts that are told of each candidate.
const PARTS: usize = 8;

impl App {
    /// The largest parts of what is expected of every candidate for a user, by the names of features; none of a
    /// candidate that is a vector. `None` in an app of vectors, and while nothing was learned.
    pub fn parts(&mut self, user: &str, offer: &Offer) -> Option<Vec<Vec<Contribution>>> {
        self.encoder()?;
        let number = self.users().find(user);
        let own = number.and_then(|number| self.coefficients(Some(number), None));
        let theta = own.or_else(|| self.coefficients(None, None))?;
        let encoder = self.encoder()?;
        let around = JsonOffer {
            items: Vec::new(),
            context: offer.context.as_deref(),
            user: offer.user.as_deref(),
        };
        let parts_of = |at: usize| {
            let is_vector = offer.features.get(at).is_some_and(Option::is_some);
            let registered = || self.described().get(offer.ids[at].as_str());
            let features = offer.described(at).or_else(registered).filter(|_| !is_vector)?;
            let mut parts = encoder.explain(&around, features, &theta);
            parts.truncate(PARTS);
            Some(parts)
        };
        Some((0..offer.ids.len()).map(|at| parts_of(at).unwrap_or_default()).collect())
    }
}
