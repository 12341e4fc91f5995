//! The population model: a mixture of Gaussians over users.

use crate::linear::{Symmetric, dot};

/// One kind of user: (θ, level) ~ N(mean, Δ), the mean itself known up to `doubt`. Coordinates are
/// those of the population's basis; the last one is the level.
#[derive(Clone, Debug)]
pub struct Component {
    /// π, the share of users.
    pub weight: f64,
    /// μ, where its users are: θ in the population's basis, then the level.
    pub mean: Vec<f64>,
    /// The posterior covariance of μ.
    pub doubt: Symmetric,
}

/// `θ_i ~ Σ_c π_c N(μ_c, S_c)`, rewards `y = α_i + ⟨x, θ_i⟩ + ε` with a level α_i of their own and
/// noise of variance σ²/w_i.
///
/// Component 0 is the population at large: users of no cohort. The centres of all other components,
/// the cohorts, are drawn from it: μ_c ~ N(μ_0, S_0). Cohorts share one smaller covariance. So each
/// level of the hierarchy is the prior of the next: a cohort is the prior of its users, the
/// population that of its cohorts, and the population's θ is drawn around zero. The population's
/// level has a flat prior: rewards may have any origin.
///
/// Both covariances are diagonal in one basis: the first `directions` coordinates have variances
/// of their own, all others one in common, and the level its own.
#[derive(Clone, Debug)]
pub struct Population {
    /// The population at large, then the cohorts.
    pub components: Vec<Component>,
    /// The coordinates in which users differ independently; `None` where they are those of the features.
    pub basis: Option<Basis>,
    /// The number of coordinates with a variance of their own.
    pub directions: usize,
    /// Variances of the population at large and of cohorts, coordinate by coordinate.
    pub variances: [Vec<f64>; 2],
    /// σ², the variance of the noise on one reward, of a median user.
    pub noise: f64,
    /// How alike users are in their noise: degrees of freedom of its law; infinite where all have the same.
    pub noise_dof: f64,
    /// What the ledger counts rewards from.
    pub origin: f64,
    /// ν², the prior variance of each coordinate of the centre of the population at large.
    pub mean_prior_variance: f64,
    /// Σ_i ln Σ_c π_c E p(y_i | c): how well this explains what was seen of the users it was fitted to.
    pub evidence: f64,
    /// The probability of a user's likeliest component, on average over users.
    pub certainty: f64,
    /// The rewards of the sample when a whole mixture was last proposed.
    pub tried: f64,
    /// The rewards of the sample at the last structure search.
    pub searched: f64,
    /// The rewards of the sample at the last search for directions.
    pub directions_tried: f64,
    /// The rewards of the sample when users' noise was last compared.
    pub noise_tried: f64,
    /// Features that any reward of the sample had; 0 where that is not known.
    pub used: f64,
}

/// An orthonormal basis of the features.
#[derive(Clone, Debug, PartialEq)]
pub struct Basis {
    rows: Vec<f64>,
    dim: usize,
}

impl Basis {
    /// From its vectors, row by row.
    pub fn new(rows: Vec<f64>, dim: usize) -> Self {
        debug_assert_eq!(rows.len(), dim * dim);
        Self { rows, dim }
    }

    /// Its vectors, row by row.
    pub fn rows(&self) -> &[f64] {
        &self.rows
    }

    /// Its vectors, row by row, for good.
    pub fn into_rows(self) -> Vec<f64> {
        self.rows
    }

    /// The coordinates of a vector of features in this basis. What follows the features stays.
    pub fn to(&self, x: &[f64]) -> Vec<f64> {
        let (features, rest) = x.split_at(self.dim);
        let coordinates = self.rows.chunks_exact(self.dim).map(|row| dot(row, features));
        coordinates.chain(rest.iter().copied()).collect()
    }

    /// The features of coordinates in this basis. What follows the coordinates stays.
    pub fn from(&self, z: &[f64]) -> Vec<f64> {
        let (coordinates, rest) = z.split_at(self.dim);
        let mut x = vec![0.0; self.dim];
        for (row, z) in self.rows.chunks_exact(self.dim).zip(coordinates) {
            for (x, u) in x.iter_mut().zip(row) {
                *x += z * u;
            }
        }
        x.extend_from_slice(rest);
        x
    }

    /// UᵀAU for A in this basis: the same matrix for features.
    pub fn matrix_from(&self, a: &Symmetric) -> Symmetric {
        let all = a.dim();
        let mut half = vec![0.0; all * all];
        let mut column = vec![0.0; all];
        for i in 0..all {
            for (k, value) in column.iter_mut().enumerate() {
                *value = a.at(i, k);
            }
            half[i * all..(i + 1) * all].copy_from_slice(&self.from(&column));
        }
        let mut out = Symmetric::zero(all);
        for k in 0..all {
            for (i, value) in column.iter_mut().enumerate() {
                *value = half[i * all + k];
            }
            let row = self.from(&column);
            for (i, value) in row.iter().enumerate().skip(k) {
                out.packed_mut()[i * (i + 1) / 2 + k] = *value;
            }
        }
        out
    }
}

/// Variances below this are taken for this where one divides by them.
pub(super) const LEAST_VARIANCE: f64 = 1e-280;

impl Population {
    /// The cohorts, without the population at large.
    pub fn cohorts(&self) -> &[Component] {
        &self.components[1..]
    }

    /// d.
    pub fn features(&self) -> usize {
        self.components[0].mean.len() - 1
    }

    /// The dimension of the features that rewards had so far. A feature that is always 0 neither costs parameters nor
    /// needs rewards: what is asked of data "per dimension" counts these, so that padding vectors with zeros changes nothing.
    pub fn used_features(&self) -> usize {
        match self.used as usize {
            0 => self.features(),
            used => used.min(self.features()),
        }
    }

    /// Variances of a component's users.
    pub fn variances_of(&self, component: usize) -> &[f64] {
        &self.variances[component.min(1)]
    }

    /// Where a component's θ is, in the coordinates of the features.
    pub fn centre(&self, component: usize) -> Vec<f64> {
        let mean = &self.components[component].mean[..self.features()];
        self.basis.as_ref().map_or_else(|| mean.to_vec(), |basis| basis.from(mean))
    }

    /// The same population where rewards count from elsewhere.
    pub(crate) fn count_from(&mut self, origin: f64) {
        let (by, level) = (self.origin - origin, self.features());
        self.components.iter_mut().for_each(|component| component.mean[level] += by);
        self.origin = origin;
    }

    /// What a component's users reward where features say nothing.
    pub fn level(&self, component: usize) -> f64 {
        self.components[component].mean[self.features()] + self.origin
    }

    /// The level of all users together.
    pub fn mean_level(&self) -> f64 {
        let levels = (0..self.components.len()).map(|c| self.components[c].weight * self.level(c));
        levels.sum::<f64>() / self.components.iter().map(|one| one.weight).sum::<f64>()
    }

    /// How much the users of a component differ: the mean variance of a coordinate of θ.
    pub fn spread(&self, component: usize) -> f64 {
        let d = self.features();
        self.variances_of(component)[..d].iter().sum::<f64>() / d as f64
    }

    /// Whether all of its numbers are finite, weights and noise positive, and variances not negative.
    pub fn is_usable(&self) -> bool {
        let positive = |number: f64| number > 0.0 && number.is_finite();
        let numbers = [self.origin, self.evidence, self.mean_prior_variance, self.certainty];
        let sound = |one: &Component| {
            let numbers = one.mean.iter().chain(one.doubt.packed());
            positive(one.weight) && numbers.into_iter().all(|number| number.is_finite())
        };
        let variances = self.variances.iter().flatten();
        positive(self.noise)
            && self.noise_dof > 0.0
            && self.mean_prior_variance >= 0.0
            && numbers.iter().all(|number| number.is_finite())
            && variances.into_iter().all(|one| *one >= 0.0 && one.is_finite())
            && self.components.iter().all(sound)
    }

    /// Which coordinates have one variance in common: ends of consecutive ranges.
    pub(super) fn groups(&self) -> Groups {
        Groups::new(self.features(), self.directions)
    }
}

/// Consecutive coordinates with one variance each.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    ends: Vec<usize>,
}

impl Groups {
    /// The first `directions` coordinates alone, the rest of the features together, the level alone.
    pub fn new(features: usize, directions: usize) -> Self {
        let directions = directions.min(features);
        let mut ends: Vec<usize> = (1..=directions).collect();
        if directions < features {
            ends.push(features);
        }
        ends.push(features + 1);
        Self { ends }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The coordinates of one.
    pub fn range(&self, group: usize) -> std::ops::Range<usize> {
        let start = if group == 0 { 0 } else { self.ends[group - 1] };
        start..self.ends[group]
    }

    /// The group of every coordinate.
    pub fn of_coordinates(&self) -> Vec<usize> {
        (0..self.len()).flat_map(|group| self.range(group).map(move |_| group)).collect()
    }
}
