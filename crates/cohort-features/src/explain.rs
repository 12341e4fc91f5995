//! What does each feature add to a prediction? A prediction is linear in the vector, the vector is a sum over
//! features: so both can be taken apart exactly, also where features share a coordinate.

use crate::encoder::{Active, Encoder, Offer, name_of};
use crate::features::{Features, crossed};

/// A feature's part of ⟨x, θ⟩.
#[derive(Clone, Debug, PartialEq)]
pub struct Contribution {
    /// The feature; `constant` is the constant's.
    pub name: String,
    /// Its value after standardising.
    pub value: f64,
    /// Its part.
    pub part: f64,
}

impl Contribution {
    /// What the constant is called.
    pub const CONSTANT: &str = "constant";
}

impl Encoder {
    /// ⟨x, θ⟩ of an item taken apart, the largest parts first; they add up to it.
    pub fn explain(&self, offer: &Offer, item: &Features, theta: &[f64]) -> Vec<Contribution> {
        let mut parts = Vec::new();
        if self.settings().constant {
            let name = Contribution::CONSTANT.to_owned();
            parts.push(Contribution { name, value: 1.0, part: theta[0] });
        }
        let part = |hash, value, crossed| {
            let (place, sign) = self.place_of(hash, crossed);
            Self::weight() * sign * value * theta[place]
        };
        let mut active = Vec::new();
        self.activate_all(offer, item, &mut active);
        let name = |one: &Active| name_of(offer, item, one);
        for one in &active {
            let part = part(one.hash, one.value, false);
            parts.push(Contribution { name: name(one), value: one.value, part });
        }
        self.each_pair(&active, |one, other| {
            let value = one.value * other.value;
            let part = part(crossed(one.hash, other.hash), value, true);
            let name = format!("{}^{}", name(one), name(other));
            parts.push(Contribution { name, value, part });
        });
        parts.sort_by(|a, b| b.part.abs().total_cmp(&a.part.abs()));
        parts
    }

    /// What one unit of a feature adds to ⟨x, θ⟩; a list has no coordinate of its own.
    pub fn weight_of(&self, named: &crate::Named, theta: &[f64]) -> Option<f64> {
        Some(Self::weight() * named.sign * theta.get(named.place)?)
    }

    /// What θ says of every feature that was seen, for one unit of it: the largest first.
    pub fn weights(&self, theta: &[f64]) -> Vec<Contribution> {
        let has_place = |named: &&crate::Named| named.place < theta.len();
        let mut parts: Vec<_> = self
            .names()
            .filter(has_place)
            .map(|named| Contribution {
                name: named.name.to_string(),
                value: 1.0,
                part: Self::weight() * named.sign * theta[named.place],
            })
            .collect();
        parts.sort_by(|a, b| b.part.abs().total_cmp(&a.part.abs()));
        parts
    }
}
