//! Maximisation: centres, weights, variances and noise from the sums of a pass.

use super::constants;
use super::fisher_scoring::FisherScore;
use super::fit::DataScales;
use super::lanes::{F64x8, LANES, ZERO};
use super::message::{MessagePrior, message_len, write};
use super::model::{Component, LEAST_VARIANCE, Population};
use super::moments::{Moments, all};
use super::sums::{ClassSums, PassSums, Sums};
use crate::algebra::lanes;
use crate::algebra::packed_len;
use crate::linear::Symmetric;

/// Variances are not below this part of what the sizes of rewards and features suggest.
const LEAST_PART: f64 = 1e-9;
/// Variances of which rewards say nothing are this many times as large as the sizes of rewards and features suggest: features
/// of which few matter have larger ones than all would have together.
const LARGEST_PART: f64 = 4.0;

/// What a maximisation leaves as it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FixedParameters {
    /// σ².
    pub noise: bool,
    /// The variances of the population at large.
    pub at_large: bool,
}

impl Population {
    /// The M step: all parameters from sums over users, except those that are fixed.
    pub(super) fn maximise(
        &mut self,
        sums: &PassSums,
        scales: &DataScales,
        fixed: FixedParameters,
    ) {
        self.evidence = sums.evidence;
        self.certainty = sums.certain / sums.users.max(1.0);
        let count = self.components.len() as f64;
        let users: f64 = sums.components.iter().map(|sums| sums.users).sum();
        for (component, sums) in self.components.iter_mut().zip(&sums.components) {
            component.weight = (sums.users + 0.5) / (users + 0.5 * count);
        }
        let before = self.clone();
        // Cohorts: their centres are drawn from the population at large …
        let prior = CentrePrior::of_cohorts(&before);
        let refs: Vec<&Sums> = sums.components[1..].iter().collect();
        settle_all(&mut self.components[1..], &refs, &prior);
        // … and each centre is a draw from component 0, observed through its users.
        let mut at_large = sums.components[0].clone();
        let mut centres = ClassSums::default_like(&sums.classes[0]);
        for sums in &sums.components[1..] {
            before.add_centre(sums, &mut at_large, &mut centres);
        }
        let origin = CentrePrior::of_population(&before);
        settle_all(&mut self.components[..1], &[&at_large], &origin);
        if !fixed.at_large {
            self.mean_prior_variance = next_mean_prior_variance(&before, &at_large, scales);
        }
        self.fisher_step(&before, sums, &centres, scales, fixed);
    }

    /// A cohort's centre as one user of the population at large, whose rewards are its users'.
    fn add_centre(&self, sums: &Sums, to: &mut Sums, class: &mut ClassSums) {
        let dim = self.features() + 1;
        let users = as_user(sums);
        let mut message = vec![ZERO; message_len(dim)];
        write(&users, &MessagePrior::new(&self.variances[0], 1.0), &mut message);
        to.users += 1.0;
        for (sum, message) in to.message[..packed_len(dim) + dim].iter_mut().zip(&message) {
            *sum += message[0];
        }
        let mean: Vec<F64x8> = self.components[0].mean.iter().map(|m| all(*m)).collect();
        let mut product = vec![ZERO; dim];
        lanes::times(&message[..packed_len(dim)], &mean, &mut product);
        let groups = self.groups().of_coordinates();
        for i in 0..dim {
            let g = message[packed_len(dim) + i][0] - product[i][0];
            class.outer[packed_len(i) + i] += g * g;
            class.trace[i] += message[packed_len(i) + i][0];
            for j in 0..i {
                let other = message[packed_len(dim) + j][0] - product[j][0];
                class.outer[packed_len(i) + j] += g * other;
            }
            for j in 0..=i {
                let (p, q, entry) = (groups[i], groups[j], message[packed_len(i) + j][0]);
                let times = if p == q && i != j { 2.0 } else { 1.0 };
                class.pairs[packed_len(p) + q] += times * entry * entry;
            }
        }
    }

    /// Variances and noise by one step of scoring.
    fn fisher_step(
        &mut self,
        before: &Population,
        sums: &PassSums,
        centres: &ClassSums,
        scales: &DataScales,
        fixed: FixedParameters,
    ) {
        let groups = before.groups();
        let per_class = groups.len();
        let classes = if before.components.len() > 1 { 2 } else { 1 };
        let noise = before.noise;
        let mut score = FisherScore::new(1 + classes * per_class);
        let mut now = vec![noise];
        let mut limits = vec![noise];
        let (mut square, mut rewards) = (0.0, 0.0);
        // What lies along the prior's coordinates, for the noise.
        let (mut quadratic, mut trace, mut trace_squares) = (0.0, 0.0, 0.0);
        let priors = [CentrePrior::of_population(before), CentrePrior::of_cohorts(before)];
        for class in 0..classes {
            let members = if class == 0 { 0..1 } else { 1..before.components.len() };
            let mut information = vec![0.0; packed_len(per_class)];
            let mut outer = vec![0.0; per_class];
            let coordinate = groups.of_coordinates();
            for c in members.clone() {
                let (component, sums) = (&before.components[c], &sums.components[c]);
                rewards += sums.rewards;
                square += residual_square(component, sums, &priors[class]);
                for (j, &p) in coordinate.iter().enumerate() {
                    information[packed_len(p) + p] += sums.information()[packed_len(j) + j];
                    outer[p] += vague(component, sums, &priors[class], j);
                }
            }
            let told_pairs = &sums.classes[class].pairs;
            for (j, &p) in coordinate.iter().enumerate() {
                outer[p] += sums.classes[class].outer[packed_len(j) + j];
            }
            let value = |p: usize| before.variances[class][groups.range(p).start];
            let pair = |p: usize, q: usize| told_pairs[packed_len(p.max(q)) + p.min(q)];
            for p in 0..per_class {
                let at = 1 + class * per_class + p;
                let (h, o) = (information[packed_len(p) + p], outer[p]);
                quadratic += value(p) * o;
                trace += value(p) * h;
                let along: f64 = (0..per_class).map(|q| value(q) * pair(p, q)).sum();
                trace_squares += value(p) * along;
                score.bend(0, at, 0.5 * (h - along).max(0.0) / noise);
                // Cohorts' centres are users of the population, but have no noise.
                let (mut centre_h, mut centre_o) = (0.0, 0.0);
                if class == 0 {
                    for j in groups.range(p) {
                        centre_o += centres.outer[packed_len(j) + j];
                        centre_h += centres.trace[j];
                    }
                }
                score.slope[at] += 0.5 * (o + centre_o - h - centre_h);
                for q in 0..=p {
                    let more = if class == 0 { centres.pairs[packed_len(p) + q] } else { 0.0 };
                    score.bend(at, 1 + class * per_class + q, 0.5 * (pair(p, q) + more));
                }
                let is_level = p + 1 == per_class;
                if class == 0 && !is_level {
                    score.keep_from_zero(at, value(p), LARGEST_PART * scales.spread());
                }
                now.push(value(p));
                limits.push(if is_level { scales.noise() } else { scales.spread() });
            }
        }
        score.slope[0] = 0.5 * ((square - quadratic) - (rewards - trace)) / noise;
        // One imagined reward of that size, half of it noise.
        score.slope[0] += 0.5 * (scales.noise() / noise - 1.0) / noise;
        score.bend(
            0,
            0,
            0.5 * ((rewards - 2.0 * trace + trace_squares).max(0.0) + 1.0) / (noise * noise),
        );
        let mut free = vec![true; now.len()];
        free[0] = !fixed.noise;
        if fixed.at_large {
            free[1..=per_class].fill(false);
        }
        let next = score.step(&now, &limits, &free);
        if !fixed.noise {
            self.noise = next[0].max(scales.least_noise());
        }
        for class in usize::from(fixed.at_large)..classes {
            for p in 0..per_class {
                let mut value = next[1 + class * per_class + p];
                let is_level = p + 1 == per_class;
                if class == 1 && !is_level {
                    value = value
                        .min(constants::cohort_tight() * self.variances[0][groups.range(p).start]);
                }
                // What users say of a centre is at most one over its variances. Beside more than this, rounding would
                // say more than the prior does where features never went, and centres would run away.
                let size = if is_level { scales.noise() } else { scales.spread() };
                value = value.max(LEAST_PART * size);
                self.variances[class][groups.range(p)].fill(value);
            }
        }
    }
}

impl ClassSums {
    fn default_like(other: &Self) -> Self {
        Self {
            outer: vec![0.0; other.outer.len()],
            pairs: vec![0.0; other.pairs.len()],
            trace: vec![0.0; other.trace.len()],
        }
    }
}

/// Sums as the statistics of one user with noise 1: information as its Gram matrix.
fn as_user(sums: &Sums) -> Moments {
    let dim = sums.information_vector().len();
    let mut numbers: Vec<F64x8> = sums.information().iter().map(|v| all(*v)).collect();
    numbers.extend(sums.information_vector().iter().map(|v| all(*v)));
    numbers.push(ZERO);
    Moments::new(dim - 1, numbers)
}

/// Where a centre is drawn from.
pub(super) struct CentrePrior {
    pub mean: Vec<f64>,
    /// 1/variance of every coordinate; zero where nothing is assumed.
    pub precision: Vec<f64>,
    /// Coordinates that users' rewards have, the level among them.
    used: f64,
}

impl CentrePrior {
    /// Cohorts: from the population at large.
    pub fn of_cohorts(population: &Population) -> Self {
        let precision = population.variances[0].iter().map(|v| 1.0 / v.max(LEAST_VARIANCE));
        let used = (population.used_features() + 1) as f64;
        let mean = population.components[0].mean.clone();
        Self { mean, precision: precision.collect(), used }
    }

    /// The population at large: θ around zero, and any level.
    pub fn of_population(population: &Population) -> Self {
        let dim = population.features() + 1;
        let mut precision = vec![1.0 / population.mean_prior_variance.max(LEAST_VARIANCE); dim];
        precision[dim - 1] = 0.0;
        let used = (population.used_features() + 1) as f64;
        Self { mean: vec![0.0; dim], precision, used }
    }

    /// The posterior of a centre from what its users say.
    pub fn settle(&self, component: &mut Component, sums: &Sums) {
        settle_all(std::slice::from_mut(component), &[sums], self);
    }

    /// KL(posterior of a centre ‖ its prior): the cost of a cohort.
    pub fn cost(&self, component: &Component) -> f64 {
        let mut total = 0.0;
        for (j, precision) in self.precision.iter().enumerate() {
            let far = component.mean[j] - self.mean[j];
            total += precision * (component.doubt.at(j, j) + far * far) - 1.0 - precision.ln();
        }
        let log_det = component.doubt.cholesky().map_or(0.0, |factor| factor.log_det());
        0.5 * (total - log_det)
    }

    /// The costs of cohorts of whose centres users say this.
    pub fn costs(&self, sums: &[Sums]) -> Vec<f64> {
        let blank = Component {
            weight: 1.0,
            mean: self.mean.clone(),
            doubt: Symmetric::zero(self.mean.len()),
        };
        let mut settled = vec![blank; sums.len()];
        let refs: Vec<&Sums> = sums.iter().collect();
        settle_all(&mut settled, &refs, self);
        settled.iter().map(|component| self.cost(component)).collect()
    }

    /// ln ∫ exp(⟨pull, μ⟩ − ½ μᵀ information μ) dN(μ) for eight sums at a time, the evidence of users
    /// whose centre is drawn from here, and the largest value of what is integrated.
    pub fn log_integrals(&self, sums: &[Sums]) -> Vec<(f64, f64)> {
        let dim = self.mean.len();
        let mut out = Vec::with_capacity(sums.len());
        for some in sums.chunks(LANES) {
            let mut matrix = vec![all(0.0); packed_len(dim)];
            let mut pull = vec![ZERO; dim];
            for (lane, sums) in some.iter().enumerate() {
                self.load(sums, lane, &mut matrix, &mut pull);
            }
            for lane in some.len()..LANES {
                (0..dim).for_each(|j| matrix[packed_len(j) + j][lane] = 1.0);
            }
            let mut log_det = ZERO;
            lanes::factor(&mut matrix, dim, &mut log_det);
            for (lane, _) in some.iter().enumerate() {
                // ‖L⁻¹ pull‖² by forward substitution.
                let mut solved = vec![0.0; dim];
                let mut square = 0.0;
                for i in 0..dim {
                    let row = &matrix[packed_len(i)..=packed_len(i) + i];
                    let known: f64 = (0..i).map(|j| row[j][lane] * solved[j]).sum();
                    solved[i] = (pull[i][lane] - known) * row[i][lane];
                    square += solved[i] * solved[i];
                }
                let (mut constant, mut logs) = (0.0, 0.0);
                for (m, p) in self.mean.iter().zip(&self.precision) {
                    constant += p * m * m;
                    logs += p.max(LEAST_VARIANCE).ln();
                }
                let largest = 0.5 * (square - constant);
                out.push((largest + 0.5 * (logs - log_det[lane]), largest));
            }
        }
        out
    }

    fn load(&self, sums: &Sums, lane: usize, matrix: &mut [F64x8], pull: &mut [F64x8]) {
        for (to, from) in matrix.iter_mut().zip(sums.information()) {
            to[lane] = *from;
        }
        for (j, (to, from)) in pull.iter_mut().zip(sums.information_vector()).enumerate() {
            to[lane] = from + self.precision[j] * self.mean[j];
            let diagonal = &mut matrix[packed_len(j) + j][lane];
            *diagonal = (*diagonal + self.precision[j]).max(1e-250);
        }
    }
}

/// The posteriors of several centres, eight at a time.
fn settle_all(components: &mut [Component], sums: &[&Sums], prior: &CentrePrior) {
    let dim = prior.mean.len();
    for (components, sums) in components.chunks_mut(LANES).zip(sums.chunks(LANES)) {
        let mut matrix = vec![ZERO; packed_len(dim)];
        let mut pull = vec![ZERO; dim];
        for lane in 0..LANES {
            // Lanes that are left over repeat the first.
            prior.load(sums.get(lane).unwrap_or(&sums[0]), lane, &mut matrix, &mut pull);
        }
        let mut log_det = ZERO;
        lanes::invert(&mut matrix, dim, &mut log_det);
        let mut mean = vec![ZERO; dim];
        lanes::times(&matrix, &pull, &mut mean);
        for (lane, component) in components.iter_mut().enumerate() {
            if mean.iter().any(|m| !m[lane].is_finite()) {
                continue;
            }
            component.mean = mean.iter().map(|m| m[lane]).collect();
            let doubt = matrix.iter().map(|v| v[lane]).collect();
            component.doubt = Symmetric::from_packed(dim, doubt);
        }
    }
}

/// Σ E (y − Xμ)ᵀK⁻¹(y − Xμ) over a component's users and the posterior of its centre.
fn residual_square(component: &Component, sums: &Sums, prior: &CentrePrior) -> f64 {
    let mu = &component.mean;
    let mut product = vec![0.0; mu.len()];
    sums.information_matrix().times(mu, &mut product);
    let along: f64 = mu
        .iter()
        .zip(&product)
        .zip(sums.information_vector())
        .map(|((m, p), b)| m * (p - 2.0 * b))
        .sum();
    let vague: f64 = (prior.precision.iter().enumerate())
        .map(|(j, precision)| (1.0 - precision * component.doubt.at(j, j)).max(0.0))
        .sum();
    (sums.square() + along + vague).max(0.0)
}

/// What the uncertainty of the centre adds to Σ g_j². With J the information of all users, P the prior precision and
/// C = (J + P)⁻¹ it is the diagonal of JCJ = J − P + PCP, divided by the number of users.
fn vague(component: &Component, sums: &Sums, prior: &CentrePrior, j: usize) -> f64 {
    let p = prior.precision[j];
    let seen = sums.information()[packed_len(j) + j];
    let all = (seen - p + p * p * component.doubt.at(j, j)).clamp(0.0, seen.max(0.0));
    // Users with fewer rewards than coordinates each know some of them well, not all of them a little.
    let rank = (prior.used * sums.users / sums.rewards.max(1.0)).max(1.0);
    all / sums.users.max(1.0) * rank.min(sums.users.max(1.0))
}

/// ν² by one step of scoring on where the population's centre is.
fn next_mean_prior_variance(before: &Population, at_large: &Sums, scales: &DataScales) -> f64 {
    let features = before.features();
    let users = as_user(at_large);
    let mut variances = vec![before.mean_prior_variance; features + 1];
    // The level may be anything.
    variances[features] = 1e6 * scales.noise() + 1e6 * before.components[0].mean[features].powi(2);
    let dim = features + 1;
    let mut message = vec![ZERO; message_len(dim)];
    write(&users, &MessagePrior::new(&variances, 1.0), &mut message);
    let mut score = FisherScore::new(1);
    for i in 0..features {
        let g = message[packed_len(dim) + i][0];
        score.slope[0] += 0.5 * (g * g - message[packed_len(i) + i][0]);
        for j in 0..features {
            let entry = message[packed_len(i.max(j)) + i.min(j)][0];
            score.bend(0, 0, 0.5 * entry * entry);
        }
    }
    score.keep_from_zero(0, before.mean_prior_variance, LARGEST_PART * scales.spread());
    score.step(&[before.mean_prior_variance], &[scales.spread()], &[true])[0]
}
