//! Posterior inference: beliefs about eight users at once, given a population.

use super::constants;
use super::e_step::EStep;
use super::lane_beliefs::LaneBeliefs;
use super::lanes::{F64x8, LANES, ZERO, each};
use super::message::{MessagePrior, Whitened};
use super::model::{Basis, Population};
use super::moments::{Moments, rotate, turn_lanes};
use super::noise;
use super::posterior::Belief;
use crate::algebra::lanes;
use crate::algebra::packed_len;
use crate::simd::{self, Kernel, Simd};

/// Which parts of the mixture posterior decisions use, for ablations.
#[derive(Clone, Copy, Debug)]
pub struct ScoringMode {
    /// Whether assignments are soft; else a user belongs to its most probable component alone.
    pub soft: bool,
    /// Whether the uncertainty of centres is included.
    pub doubt: bool,
}

impl Default for ScoringMode {
    fn default() -> Self {
        Self { soft: true, doubt: true }
    }
}

/// The beliefs about eight users.
pub(crate) enum EightBeliefs {
    /// Each has one probable component.
    CertainBeliefs(CertainBeliefs),
    /// Some may belong to several.
    Mixed(Box<LaneBeliefs>),
}

/// Eight users that have one probable component each.
pub(crate) struct CertainBeliefs {
    /// The component of each.
    pub components: [usize; LANES],
    /// E (θ, level).
    pub mean: Vec<F64x8>,
    /// Cov (θ, level), packed.
    pub covariance: Vec<F64x8>,
    /// σ_i².
    pub noise: F64x8,
}

/// The statistics of eight users in the population's basis, and their responsibilities.
struct UserShares {
    users: Moments,
    responsibilities: Vec<F64x8>,
    noise: F64x8,
}

/// Posterior inference in a population.
pub struct Inference<'a> {
    population: &'a Population,
    e_step: EStep<'a>,
    scoring_mode: ScoringMode,
    /// Whether a component's centre is so uncertain that its users' posteriors depend on it.
    doubtful: Vec<bool>,
    /// The features in the coordinates of the population's basis, row by row.
    back: Option<Vec<f64>>,
}

impl<'a> Inference<'a> {
    /// For a population.
    pub fn new(population: &'a Population, scoring_mode: ScoringMode) -> Self {
        let doubtful = (population.components.iter().enumerate())
            .map(|(c, component)| {
                let variances = population.variances_of(c).iter().enumerate();
                let mut known = variances
                    .map(|(j, v)| component.doubt.at(j, j) <= constants::known_centre() * v);
                !known.all(|known| known)
            })
            .collect();
        let d = population.features();
        let transposed = |basis: &Basis| -> Vec<f64> {
            (0..d * d).map(|at| basis.rows()[at % d * d + at / d]).collect()
        };
        let back = population.basis.as_ref().map(transposed);
        Self { population, e_step: EStep::new(population), scoring_mode, doubtful, back }
    }

    /// The beliefs about the first `count` of eight users, from their statistics.
    pub(crate) fn infer_eight(&self, users: Moments, count: usize) -> EightBeliefs {
        let seen = self.see(users);
        match self.certain(&seen, count) {
            Some(certain) => EightBeliefs::CertainBeliefs(certain),
            None => EightBeliefs::Mixed(Box::new(self.mixed(seen))),
        }
    }

    /// The beliefs about eight users, from their statistics.
    pub fn infer(&self, users: Moments) -> [Belief; LANES] {
        let lanes = self.infer_lanes(users);
        std::array::from_fn(|lane| lanes.belief(lane))
    }

    /// The same, side by side.
    pub(crate) fn infer_lanes(&self, users: Moments) -> LaneBeliefs {
        self.mixed(self.see(users))
    }

    /// Statistics in the population's basis, and the responsibilities of its components.
    fn see(&self, mut users: Moments) -> UserShares {
        if let Some(basis) = &self.population.basis {
            users.rotate(basis);
        }
        let weights = noise::weights(&self.e_step, &users);
        if let Some(weights) = &weights {
            users.weigh(weights);
        }
        let mut responsibilities = vec![ZERO; self.population.components.len()];
        let mut messages = self.e_step.room();
        self.e_step.write(&users, &mut messages);
        self.e_step.responsibilities(&messages, &mut responsibilities);
        let noise = each(|lane| {
            self.population.noise / weights.as_ref().map_or(1.0, |weights| weights[lane])
        });
        UserShares { users, responsibilities, noise }
    }

    /// Beliefs if every user has one probable component, all of one class.
    fn certain(&self, seen: &UserShares, count: usize) -> Option<CertainBeliefs> {
        let mut components = [0; LANES];
        for (lane, component) in components.iter_mut().enumerate().take(count) {
            let mut probable = seen
                .responsibilities
                .iter()
                .enumerate()
                .filter(|(_, s)| s[lane] > constants::likely_component());
            *component = probable.next()?.0;
            if probable.next().is_some() {
                return None;
            }
        }
        let rest = components[0];
        components[count..].fill(rest);
        let class = components[0].min(1);
        if components.iter().any(|c| c.min(&1) != &class) {
            return None;
        }
        let known = &self.population.components;
        let posterior = Posterior::new(&seen.users, self.e_step.prepared(class));
        let doubt =
            (self.scoring_mode.doubt && components.iter().any(|c| self.doubtful[*c])).then(|| {
                let doubts = components.map(|c| known[c].doubt.packed());
                let packed = packed_len(seen.users.dim());
                (0..packed).map(|at| each(|lane| doubts[lane][at])).collect::<Vec<F64x8>>()
            });
        let centre: Vec<F64x8> =
            (0..seen.users.dim()).map(|j| each(|lane| known[components[lane]].mean[j])).collect();
        let mut mean = posterior.mean(&centre);
        let mut covariance = posterior.covariance(doubt.as_deref());
        if let Some(back) = &self.back {
            let d = self.population.features();
            // The mean as one more row after those of the covariance is turned with them.
            covariance.extend_from_slice(&mean);
            rotate(&mut covariance, back, d);
            let own = covariance.split_off(packed_len(d + 1));
            mean.copy_from_slice(&own);
        }
        Some(CertainBeliefs { components, mean, covariance, noise: seen.noise })
    }

    fn mixed(&self, seen: UserShares) -> LaneBeliefs {
        let UserShares { users, responsibilities, noise } = seen;
        let mut beliefs = LaneBeliefs::new(users.dim(), noise);
        let likely: [Vec<(usize, f64)>; LANES] = std::array::from_fn(|lane| {
            likely(responsibilities.iter().map(|share| share[lane]), self.scoring_mode.soft)
        });
        for class in 0..2 {
            let of_class = likely.each_ref().map(|all| {
                all.iter().filter(|(c, _)| c.min(&1) == &class).copied().collect::<Vec<_>>()
            });
            if of_class.iter().any(|some| !some.is_empty()) {
                self.add_class(&users, class, &of_class, &mut beliefs);
            }
        }
        beliefs
    }

    /// Adds the probable components of one class.
    fn add_class(
        &self,
        users: &Moments,
        class: usize,
        likely: &[Vec<(usize, f64)>; LANES],
        beliefs: &mut LaneBeliefs,
    ) {
        let components = &self.population.components;
        let dim = users.dim();
        let posterior = Posterior::new(users, self.e_step.prepared(class));
        let doubt = self.doubt(likely, dim);
        let mut covariance = posterior.covariance(doubt.as_deref());
        if let Some(back) = &self.back {
            rotate(&mut covariance, back, dim - 1);
        }
        beliefs.add_class(covariance);
        let mut centre = vec![ZERO; dim];
        for at in 0..likely.iter().map(Vec::len).max().unwrap_or(0) {
            let (mut which, mut responsibilities) = ([0; LANES], ZERO);
            for lane in 0..LANES {
                let Some((component, share)) = likely[lane].get(at) else { continue };
                (which[lane], responsibilities[lane]) = (*component, *share);
                for (to, from) in centre.iter_mut().zip(&components[*component].mean) {
                    to[lane] = *from;
                }
            }
            let mut mean = posterior.mean(&centre);
            if let Some(back) = &self.back {
                turn_lanes(back, dim - 1, &mut mean);
            }
            beliefs.add_guess(which, responsibilities, mean);
        }
    }
}

impl Inference<'_> {
    /// The posterior covariance of the centres of eight users' components; `None` where it is
    /// negligible beside the spread of users.
    fn doubt(&self, likely: &[Vec<(usize, f64)>; LANES], dim: usize) -> Option<Vec<F64x8>> {
        if !self.scoring_mode.doubt || !likely.iter().flatten().any(|(c, _)| self.doubtful[*c]) {
            return None;
        }
        let mut doubt = vec![ZERO; packed_len(dim)];
        for lane in 0..LANES {
            let total: f64 = likely[lane].iter().map(|(_, share)| share).sum();
            for (c, share) in &likely[lane] {
                let part = share / total;
                let packed = self.population.components[*c].doubt.packed();
                for (to, from) in doubt.iter_mut().zip(packed) {
                    to[lane] += part * from;
                }
            }
        }
        Some(doubt)
    }
}

/// The probable components of a user, most probable first; only the first if assignments are hard.
pub(super) fn likely(responsibilities: impl Iterator<Item = f64>, soft: bool) -> Vec<(usize, f64)> {
    let mut likely: Vec<(usize, f64)> = responsibilities.enumerate().collect();
    likely.retain(|(_, share)| *share > constants::likely_component());
    likely.sort_by(|a, b| b.1.total_cmp(&a.1));
    if !soft {
        likely.truncate(1);
    }
    // If overflow has left no probable component, the user is assigned to component 0.
    if likely.is_empty() {
        return vec![(0, 1.0)];
    }
    let kept: f64 = likely.iter().map(|(_, share)| share).sum();
    likely.iter().map(|(c, share)| (*c, share / kept)).collect()
}

/// (θ, level) of eight users given their components and their own rewards. With R = Δ½/σ, G = I +
/// RVR and A = RG⁻¹R⁻¹ the mean is Aμ + RG⁻¹Rb and the covariance σ²RG⁻¹R + A C Aᵀ, where C is the
/// posterior covariance of the centre.
pub(super) struct Posterior {
    dim: usize,
    noise: f64,
    root: Vec<F64x8>,
    /// G⁻¹, packed.
    inverse: Vec<F64x8>,
    /// RG⁻¹Rb.
    own: Vec<F64x8>,
}

impl Posterior {
    pub fn new(users: &Moments, prepared: &MessagePrior) -> Self {
        let dim = users.dim();
        let mut posterior = Self {
            dim,
            noise: prepared.noise(),
            root: vec![ZERO; dim],
            inverse: vec![ZERO; packed_len(dim)],
            own: vec![ZERO; dim],
        };
        prepared.roots(users.gram(), &mut posterior.root);
        let root = &posterior.root;
        simd::run(Inverse { users, root, out: &mut posterior.inverse });
        let scaled: Vec<F64x8> = (root.iter().zip(users.moment()))
            .map(|(root, b)| each(|lane| root[lane] * b[lane]))
            .collect();
        lanes::times(&posterior.inverse, &scaled, &mut posterior.own);
        for (own, root) in posterior.own.iter_mut().zip(root) {
            *own = each(|lane| own[lane] * root[lane]);
        }
        posterior
    }

    /// The means around these centres.
    pub fn mean(&self, centre: &[F64x8]) -> Vec<F64x8> {
        let scaled: Vec<F64x8> = (self.root.iter().zip(centre))
            .map(|(root, m)| each(|lane| m[lane] / root[lane]))
            .collect();
        let mut out = vec![ZERO; self.dim];
        lanes::times(&self.inverse, &scaled, &mut out);
        for ((out, root), own) in out.iter_mut().zip(&self.root).zip(&self.own) {
            *out = each(|lane| out[lane] * root[lane] + own[lane]);
        }
        out
    }

    /// The covariances given the uncertainty of the centres; `None` where centres count as known.
    pub fn covariance(&self, doubt: Option<&[F64x8]>) -> Vec<F64x8> {
        let mut out = self.inverse.clone();
        let Some(doubt) = doubt else {
            self.whiten_back(&mut out, self.noise);
            return out;
        };
        // σ²G⁻¹ + G⁻¹(R⁻¹CR⁻¹)G⁻¹, then R on either side.
        let mut scaled = doubt.to_vec();
        let inverse: Vec<F64x8> =
            self.root.iter().map(|root| each(|lane| 1.0 / root[lane])).collect();
        simd::run(ScaleBothSides { matrix: &mut scaled, scales: &inverse, by: 1.0 });
        lanes::sandwich(&self.inverse, &scaled, self.dim, &mut out);
        simd::run(AddScaled { a: &mut out, b: &self.inverse, by: self.noise });
        self.whiten_back(&mut out, 1.0);
        out
    }

    fn whiten_back(&self, matrix: &mut [F64x8], by: f64) {
        simd::run(ScaleBothSides { matrix, scales: &self.root, by });
    }
}

/// (I + RVR)⁻¹ of eight users.
struct Inverse<'a> {
    users: &'a Moments,
    root: &'a [F64x8],
    out: &'a mut [F64x8],
}

impl Kernel for Inverse<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (gram, dim) = (self.users.gram(), self.users.dim());
        lanes::factor_from(simd, self.out, dim, Whitened { gram, roots: self.root });
        lanes::invert_lower(simd, self.out, dim);
        lanes::square_into(simd, self.out, dim, lanes::InPlace);
    }
}

/// by·S A S for a diagonal S, A packed, in place.
struct ScaleBothSides<'a> {
    matrix: &'a mut [F64x8],
    scales: &'a [F64x8],
    by: f64,
}

impl Kernel for ScaleBothSides<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let mut rest = self.matrix;
        for (i, own) in self.scales.iter().enumerate() {
            let own = simd.mul(simd.splat(self.by), simd.load(own));
            let (row, below) = rest.split_at_mut(i + 1);
            rest = below;
            for (entry, other) in row.iter_mut().zip(self.scales) {
                let scaled = simd.mul(simd.load(entry), own);
                simd.store(simd.mul(scaled, simd.load(other)), entry);
            }
        }
    }
}

/// a += by·b.
struct AddScaled<'a> {
    a: &'a mut [F64x8],
    b: &'a [F64x8],
    by: f64,
}

impl Kernel for AddScaled<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let by = simd.splat(self.by);
        for (a, b) in self.a.iter_mut().zip(self.b) {
            simd.store(simd.mul_add(by, simd.load(b), simd.load(a)), a);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Component;
    use super::*;
    use crate::linear::Symmetric;
    use crate::population::Ledger;

    /// Two cohorts far apart, in a basis that is not that of the features.
    fn population(d: usize) -> Population {
        let turn = |i: usize, j: usize| {
            // A rotation of the first two features.
            let (c, s) = (0.6, 0.8);
            match (i, j) {
                (0, 0) | (1, 1) => c,
                (0, 1) => -s,
                (1, 0) => s,
                _ => f64::from(i == j),
            }
        };
        let rows = (0..d * d).map(|at| turn(at / d, at % d)).collect();
        let component = |weight: f64, at: f64| Component {
            weight,
            mean: (0..=d).map(|j| at * (1.0 + j as f64)).collect(),
            doubt: Symmetric::identity(d + 1, 0.01),
        };
        Population {
            components: vec![component(0.01, 0.0), component(0.5, 1.0), component(0.49, -1.0)],
            basis: Some(Basis::new(rows, d)),
            directions: 1,
            variances: [vec![1.0; d + 1], (0..=d).map(|j| 0.02 / (1.0 + j as f64)).collect()],
            noise: 0.1,
            noise_dof: f64::INFINITY,
            origin: 0.0,
            mean_prior_variance: 1.0,
            evidence: 0.0,
            certainty: 1.0,
            tried: 0.0,
            searched: 0.0,
            directions_tried: 0.0,
            noise_tried: 0.0,
            used: 0.0,
        }
    }

    #[test]
    fn certain_users_together_are_what_they_are_one_by_one() {
        for d in [2, 3, 7] {
            let population = population(d);
            let mut ledger = Ledger::new(d, 1.0);
            for user in 0..5 {
                let sign = if user % 2 == 0 { 1.0 } else { -1.0 };
                let theta = population.centre(1);
                for k in 0..12 {
                    let x: Vec<f64> = (0..d).map(|j| ((3 * k + j + user) as f64).sin()).collect();
                    let level = population.level(1);
                    let y =
                        sign * (crate::linear::dot(&x, &theta) + level) + 0.1 * (k as f64).cos();
                    ledger.learn_one(user, &x, y);
                }
            }
            let population = Population { origin: ledger.origin(), ..population };
            let inference = Inference::new(&population, ScoringMode::default());
            let slots = [0, 1, 2, 3, 4];
            let one_by_one = inference.infer(ledger.moments(&slots));
            let EightBeliefs::CertainBeliefs(certain) =
                inference.infer_eight(ledger.moments(&slots), slots.len())
            else {
                panic!("users that belong to one cohort each");
            };
            for (lane, belief) in one_by_one.iter().enumerate().take(slots.len()) {
                let (only, covariance) = belief.only().unwrap();
                assert_eq!(only.component, certain.components[lane]);
                for (a, b) in only.mean.iter().zip(&certain.mean) {
                    assert!((a - b[lane]).abs() < 1e-9, "{a} against {}", b[lane]);
                }
                for (a, b) in covariance.packed().iter().zip(&certain.covariance) {
                    assert!((a - b[lane]).abs() < 1e-9, "{a} against {}", b[lane]);
                }
            }
        }
    }
}
