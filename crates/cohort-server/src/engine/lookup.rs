//! Candidates as vectors: as sent, as registered, or made of JSON.

use std::borrow::Cow;

use cohort_features as json;

use super::request::Offer;
use super::{Engine, Refusal, check_features};
use crate::event::What;
use crate::journal::Group;
use crate::settings::MAX_FEATURE;

impl Engine {
    /// The features of all candidates, row by row. What JSON brings that was not seen before is an event of
    /// its own, before the decision: whoever reads the journal encodes the same.
    pub(super) fn look_up(
        &mut self,
        at_ms: u64,
        app: &str,
        offer: &Offer,
        rows: &mut Vec<f64>,
        group: &mut Group,
    ) -> Result<(), Refusal> {
        let known = self.app(app)?;
        let dim = known.settings().dim;
        if known.encoder().is_none() {
            check_has_no_json(offer)?;
        }
        rows.clear();
        let mut described = Vec::new();
        for (at, (id, sent)) in offer.ids.iter().zip(&offer.features).enumerate() {
            let vector = match sent {
                Some(features) => Some(&features[..]),
                None if offer.described(at).is_some() => None,
                None => known.items().get(id.as_str()).map(|features| &**features),
            };
            if let Some(features) = vector {
                check_features(id, features, dim)?;
                rows.extend_from_slice(features);
                continue;
            }
            let kept = || known.described().get(id.as_str()).cloned().map(Cow::Owned);
            let features = offer.described(at).map(Cow::Borrowed).or_else(kept);
            let features = features.ok_or_else(|| Refusal::ItemUnknown { item: id.clone() })?;
            rows.resize(rows.len() + dim, 0.0);
            described.push((at, features));
        }
        if described.is_empty() {
            return Ok(());
        }
        let of_items = json::Offer {
            items: described.iter().map(|(_, features)| &***features).collect(),
            context: offer.context.as_deref(),
            user: offer.user.as_deref(),
        };
        let encoded = self.encode(at_ms, app, &of_items, group)?;
        for ((at, _), row) in described.iter().zip(encoded.chunks(dim)) {
            let to = &mut rows[at * dim..][..dim];
            to.iter_mut().zip(row).for_each(|(to, x)| *to = x.clamp(-MAX_FEATURE, MAX_FEATURE));
        }
        Ok(())
    }

    /// The vectors of JSON; what is new of it is written down first.
    pub(super) fn encode(
        &mut self,
        at_ms: u64,
        app: &str,
        offer: &json::Offer,
        group: &mut Group,
    ) -> Result<Vec<f64>, Refusal> {
        let mut rows = Vec::new();
        let encoder = self.app_mut(app)?.encoder_mut().ok_or(Refusal::NotJson)?;
        let has_new_pairs = match encoder.encode_known(offer, &mut rows)? {
            json::Known::Encoded { has_new_pairs } => has_new_pairs,
            json::Known::First(seen) => {
                self.record_seen(at_ms, app, seen, group)?;
                let encoder = self.app(app)?.encoder().ok_or(Refusal::NotJson)?;
                encoder.encode(offer, &mut rows)
            }
        };
        if has_new_pairs {
            let encoder = self.app(app)?.encoder().ok_or(Refusal::NotJson)?;
            let seen = encoder.look_at_pairs(offer);
            self.record_seen(at_ms, app, seen, group)?;
            if let Some(encoder) = self.app(app)?.encoder() {
                encoder.encode(offer, &mut rows);
            }
        }
        Ok(rows)
    }

    pub(super) fn record_seen(
        &mut self,
        at_ms: u64,
        app: &str,
        seen: json::Seen,
        group: &mut Group,
    ) -> Result<(), Refusal> {
        match seen.is_empty() {
            true => Ok(()),
            false => self.record(group, app, at_ms, What::FeaturesSeen(seen)),
        }
    }
}

fn check_has_no_json(offer: &Offer) -> Result<(), Refusal> {
    let has_json = offer.context.is_some() || offer.user.is_some() || !offer.described.is_empty();
    if has_json { Err(Refusal::NotJson) } else { Ok(()) }
}
