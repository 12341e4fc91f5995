//! Which features made a decision what it is.

use cohort::{Contexts, Score};
use cohort_features::{Contribution, Offer as JsonOffer};

use super::request::Offer;
use crate::state::App;

/// Features that are told of each candidate.
const PARTS: usize = 8;

/// What rewards are where features say nothing: the constant, and the level that the policy has learned.
pub const LEVEL: &str = "level";
/// The item itself, beyond its features: for everybody, for the user's cohort, for the user.
pub const ITEM: &str = "item";
/// All features that are not told one by one.
pub const OTHERS: &str = "other features";

impl App {
    /// What is expected of candidates for a user, taken apart: the features with the largest parts, then the level, the item
    /// itself and all other features. They add up to what the scores expect. `told` are the numbers of the candidates
    /// in the offer, with their vectors and scores. Nothing of a candidate that is a vector; `None` in an
    /// app of vectors, and while nothing was learned.
    pub fn parts<'a>(
        &mut self,
        user: &str,
        offer: &Offer,
        told: impl Iterator<Item = (usize, &'a [f64], Score)>,
    ) -> Option<Vec<Vec<Contribution>>> {
        self.encoder()?;
        let told: Vec<_> = told.collect();
        let rows: Vec<f64> = told.iter().flat_map(|(_, row, _)| *row).copied().collect();
        let contexts = Contexts::new(&rows, self.settings().dim).ok()?;
        let mut by_features = vec![Score::default(); told.len()];
        self.score(user, &contexts, &mut by_features);
        let number = self.users().find(user);
        let own = number.and_then(|number| self.coefficients(Some(number), None));
        let theta = own.or_else(|| self.coefficients(None, None))?;
        let encoder = self.encoder()?;
        let around = JsonOffer {
            items: Vec::new(),
            context: offer.context.as_deref(),
            user: offer.user.as_deref(),
        };
        let parts_of = |at: usize, of_policy: f64, expected: f64| {
            let is_vector = offer.features.get(at).is_some_and(Option::is_some);
            let registered = || self.described().get(offer.ids[at].as_str());
            let features = offer.described(at).or_else(registered).filter(|_| !is_vector)?;
            let mut parts = encoder.explain(&around, features, &theta);
            let sum = |parts: &[Contribution]| parts.iter().map(|one| one.part).sum::<f64>();
            let of_features = sum(&parts);
            let constant = parts.iter().position(|one| one.name == Contribution::CONSTANT);
            let constant = constant.map_or(0.0, |at| parts.remove(at).part);
            let others = sum(&parts[parts.len().min(PARTS)..]);
            parts.truncate(PARTS);
            let mut add = |name: &str, part: f64| {
                if part.abs() > 1e-12 {
                    parts.push(Contribution { name: name.to_owned(), value: 1.0, part });
                }
            };
            add(LEVEL, constant + of_policy - of_features);
            add(ITEM, expected - of_policy);
            add(OTHERS, others);
            Some(parts)
        };
        let parts = told.iter().zip(&by_features).map(|((at, _, score), by_features)| {
            parts_of(*at, by_features.expected, score.expected).unwrap_or_default()
        });
        Some(parts.collect())
    }
}
