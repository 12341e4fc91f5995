//! Many OFUL learners at once: users as SIMD lanes.
//!
//! Learners are kept in blocks of [`LANES`], and inside a block every number of V⁻¹ (packed), of
//! θ̂ and of ln det V is an array of one value per learner. Scoring, choosing and the rank-one
//! update are then straight loops over lanes, and a block is worked on while it is in cache.
//! Blocks are independent, so they run on as many threads as the caller's rayon pool has and give
//! the same bits on any number.
//!
//! V itself is not kept: Sherman–Morrison contracts its own errors in every direction that is
//! being updated, so that V⁻¹ stays near 10⁻¹² of the direct inverse after 10⁶ updates (a test
//! below shows it). Only a single update that cancels many digits at once — a context far larger
//! than all before it — is done the long way.

use rayon::prelude::*;

use super::oful::LARGEST_STEP;
use super::symmetric::{pack_outer_doubled, packed_len};
use super::{Confidence, Oful, Progress, Shape, Symmetric, largest_norm};
use crate::{Arm, Contexts};

/// Learners per block: eight f64 fill a 512-bit register.
pub const LANES: usize = 8;

/// One number for each learner of a block.
type Lane = [f64; LANES];

/// Many learners of the same dimension and regulariser.
#[derive(Clone, Debug)]
pub struct Bank {
    dim: usize,
    learners: usize,
    lambda: f64,
    blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
struct Block {
    /// V⁻¹ packed: `inverse[c][lane]`.
    inverse: Vec<Lane>,
    /// θ̂: `estimate[k][lane]`.
    estimate: Vec<Lane>,
    log_det: Lane,
    updates: Lane,
}

impl Bank {
    /// Learners that have seen nothing.
    pub fn new(learners: usize, dim: usize, lambda: f64) -> Self {
        let mut bank = Self { dim, learners: 0, lambda, blocks: Vec::new() };
        bank.grow(learners);
        bank
    }

    /// Makes room for more learners, which have seen nothing.
    pub fn grow(&mut self, learners: usize) {
        self.learners = self.learners.max(learners);
        self.blocks
            .resize_with(self.learners.div_ceil(LANES), || Block::new(self.dim, self.lambda));
    }

    /// How many there are.
    pub fn learners(&self) -> usize {
        self.learners
    }

    /// An arm for every learner: `argmax_x ⟨x, θ̂⟩ + offset(x) + radius·‖x‖` in the norm of the
    /// confidence set. `radius` is asked once per learner; `offsets`, if any, are added to the
    /// arms' scores for everybody.
    pub fn choose(
        &self,
        contexts: &Contexts,
        shape: Shape,
        radius: impl Fn(usize, Progress) -> f64 + Sync,
        offsets: Option<&[f64]>,
        arms: &mut [Arm],
    ) {
        let offer = Offer::new(contexts, shape, offsets);
        (self.blocks.par_iter().zip(arms.par_chunks_mut(LANES)).enumerate())
            .with_min_len(MIN_BLOCKS_PER_TASK)
            .for_each(|(at, (block, arms))| {
                let mut radii = [0.0; LANES];
                for lane in 0..arms.len() {
                    radii[lane] = radius(at * LANES + lane, block.progress(lane));
                }
                block.choose(&offer, &radii, arms);
            });
    }

    /// One reward for every learner: `rewards[i]` for `arms[i]`.
    pub fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        let dim = self.dim;
        (self.blocks.par_iter_mut())
            .zip(arms.par_chunks(LANES))
            .zip(rewards.par_chunks(LANES))
            .with_min_len(MIN_BLOCKS_PER_TASK)
            .for_each(|((block, arms), rewards)| {
                let mut x = vec![[0.0; LANES]; dim];
                let mut y = [0.0; LANES];
                for lane in 0..arms.len() {
                    let context = contexts.arm(arms[lane]);
                    for k in 0..dim {
                        x[k][lane] = context[k];
                    }
                    y[lane] = rewards[lane];
                }
                block.learn(&x, &y, arms.len());
            });
    }

    /// An arm for one learner.
    pub fn choose_one(
        &self,
        learner: usize,
        contexts: &Contexts,
        shape: Shape,
        radius: f64,
    ) -> Arm {
        let (block, lane) = self.place(learner);
        let estimate: Vec<f64> = block.estimate.iter().map(|lanes| lanes[lane]).collect();
        let inverse = block.inverse_of(self.dim, lane);
        super::argmax(contexts.iter().map(|x| {
            let length = match shape {
                Shape::Ellipsoid => inverse.quadratic(x),
                Shape::Ball { .. } => super::dot(x, x),
            };
            super::dot(x, &estimate) + radius * length.max(0.0).sqrt()
        }))
    }

    /// One reward for one learner.
    pub fn learn_one(&mut self, learner: usize, x: &[f64], y: f64) {
        let lane = learner % LANES;
        let mut xs = vec![[0.0; LANES]; self.dim];
        for (xs, x) in xs.iter_mut().zip(x) {
            xs[lane] = *x;
        }
        let mut ys = [0.0; LANES];
        ys[lane] = y;
        self.blocks[learner / LANES].learn_lanes(&xs, &ys, lane..lane + 1);
    }

    /// Puts one learner where its estimate, its V⁻¹ and its number of updates are these.
    pub fn set_state(&mut self, learner: usize, estimate: &[f64], inverse: &Symmetric, updates: f64) {
        let (block, lane) = (&mut self.blocks[learner / LANES], learner % LANES);
        for (lanes, value) in block.estimate.iter_mut().zip(estimate) {
            lanes[lane] = *value;
        }
        for (lanes, value) in block.inverse.iter_mut().zip(inverse.packed()) {
            lanes[lane] = *value;
        }
        block.log_det[lane] = 0.0;
        block.updates[lane] = updates;
    }

    /// θ̂ of one learner.
    pub fn estimate(&self, learner: usize) -> Vec<f64> {
        let (block, lane) = self.place(learner);
        block.estimate.iter().map(|lanes| lanes[lane]).collect()
    }

    /// How far one learner has come.
    pub fn progress(&self, learner: usize) -> Progress {
        let (block, lane) = self.place(learner);
        block.progress(lane)
    }

    /// θ̂ of every learner, row by row.
    pub fn estimates(&self) -> Vec<f64> {
        let mut estimates = Vec::with_capacity(self.learners * self.dim);
        for learner in 0..self.learners {
            let (block, lane) = self.place(learner);
            estimates.extend(block.estimate.iter().map(|lanes| lanes[lane]));
        }
        estimates
    }

    /// V⁻¹ of one learner.
    pub fn inverse(&self, learner: usize) -> Symmetric {
        let (block, lane) = self.place(learner);
        block.inverse_of(self.dim, lane)
    }

    /// Makes one learner know what a single one does.
    pub fn set(&mut self, learner: usize, oful: &Oful) {
        let lane = learner % LANES;
        let block = &mut self.blocks[learner / LANES];
        for (lanes, value) in block.inverse.iter_mut().zip(oful.inverse().packed()) {
            lanes[lane] = *value;
        }
        for (lanes, value) in block.estimate.iter_mut().zip(oful.estimate()) {
            lanes[lane] = *value;
        }
        let progress = oful.progress();
        block.log_det[lane] = progress.log_det;
        block.updates[lane] = progress.updates;
    }

    /// Moves the prior mean of every learner by `step`: ridge regression towards m + step instead
    /// of m is θ̂ + λV⁻¹·step.
    pub fn shift_prior(&mut self, step: &[f64]) {
        let mut moved = vec![0.0; self.dim];
        for learner in 0..self.learners {
            self.inverse(learner).times(step, &mut moved);
            let block = &mut self.blocks[learner / LANES];
            for (lanes, moved) in block.estimate.iter_mut().zip(&moved) {
                lanes[learner % LANES] += self.lambda * moved;
            }
        }
    }

    /// `max ‖θ‖` over one learner's confidence set with norm bound S = `norm_bound`, exactly.
    pub fn largest_norm(&self, learner: usize, confidence: &Confidence, norm_bound: f64) -> f64 {
        self.largest_distance(learner, &vec![0.0; self.dim], confidence, norm_bound)
    }

    /// `max ‖θ − from‖` over one learner's confidence set with norm bound S = `norm_bound`.
    pub fn largest_distance(
        &self,
        learner: usize,
        from: &[f64],
        confidence: &Confidence,
        norm_bound: f64,
    ) -> f64 {
        let (block, lane) = self.place(learner);
        let radius = confidence.radius_for(norm_bound, block.progress(lane));
        let centre: Vec<f64> =
            block.estimate.iter().zip(from).map(|(lanes, from)| lanes[lane] - from).collect();
        match confidence.shape {
            Shape::Ellipsoid => {
                largest_norm(&self.inverse(learner).eigen().inverse(), &centre, radius)
            }
            Shape::Ball { .. } => super::dot(&centre, &centre).sqrt() + radius,
        }
    }

    fn place(&self, learner: usize) -> (&Block, usize) {
        (&self.blocks[learner / LANES], learner % LANES)
    }
}

/// Fewer blocks than this are not worth a thread.
const MIN_BLOCKS_PER_TASK: usize = 16;

/// What a round offers, prepared once for all learners.
struct Offer {
    dim: usize,
    arms: usize,
    /// The contexts, row by row.
    x: Vec<f64>,
    /// packed(xxᵀ) of every arm, off-diagonals doubled; empty for balls.
    outer: Vec<f64>,
    /// ‖x‖ of every arm; empty for ellipsoids.
    length: Vec<f64>,
    offsets: Vec<f64>,
}

impl Offer {
    fn new(contexts: &Contexts, shape: Shape, offsets: Option<&[f64]>) -> Self {
        let (dim, arms) = (contexts.dim(), contexts.arms());
        let mut offer = Self {
            dim,
            arms,
            x: contexts.iter().flatten().copied().collect(),
            outer: Vec::new(),
            length: Vec::new(),
            offsets: offsets.map_or_else(|| vec![0.0; arms], <[f64]>::to_vec),
        };
        match shape {
            Shape::Ellipsoid => {
                offer.outer = vec![0.0; arms * packed_len(dim)];
                for (x, outer) in contexts.iter().zip(offer.outer.chunks_exact_mut(packed_len(dim)))
                {
                    pack_outer_doubled(x, outer);
                }
            }
            Shape::Ball { .. } => {
                offer.length = contexts.iter().map(|x| super::dot(x, x).sqrt()).collect();
            }
        }
        offer
    }
}

impl Block {
    fn new(dim: usize, lambda: f64) -> Self {
        let mut inverse = vec![[0.0; LANES]; packed_len(dim)];
        for k in 0..dim {
            inverse[packed_len(k) + k] = [1.0 / lambda; LANES];
        }
        Self {
            inverse,
            estimate: vec![[0.0; LANES]; dim],
            log_det: [0.0; LANES],
            updates: [0.0; LANES],
        }
    }

    fn progress(&self, lane: usize) -> Progress {
        Progress { log_det: self.log_det[lane], updates: self.updates[lane] }
    }

    fn inverse_of(&self, dim: usize, lane: usize) -> Symmetric {
        Symmetric::from_packed(dim, self.inverse.iter().map(|lanes| lanes[lane]).collect())
    }

    fn choose(&self, offer: &Offer, radii: &Lane, arms: &mut [Arm]) {
        let mut best = [f64::NEG_INFINITY; LANES];
        let mut chosen = [0; LANES];
        for arm in 0..offer.arms {
            let mut length = [0.0; LANES];
            if offer.length.is_empty() {
                let outer = &offer.outer[arm * self.inverse.len()..][..self.inverse.len()];
                for (inverse, outer) in self.inverse.iter().zip(outer) {
                    for lane in 0..LANES {
                        length[lane] += inverse[lane] * outer;
                    }
                }
                length = length.map(|square| square.max(0.0).sqrt());
            } else {
                length = [offer.length[arm]; LANES];
            }
            let mut score = [offer.offsets[arm]; LANES];
            for (estimate, x) in self.estimate.iter().zip(&offer.x[arm * offer.dim..]) {
                for lane in 0..LANES {
                    score[lane] += estimate[lane] * x;
                }
            }
            for lane in 0..LANES {
                let score = score[lane] + radii[lane] * length[lane];
                if score > best[lane] {
                    (best[lane], chosen[lane]) = (score, arm);
                }
            }
        }
        arms.copy_from_slice(&chosen[..arms.len()]);
    }

    fn learn(&mut self, x: &[Lane], y: &Lane, learners: usize) {
        self.learn_lanes(x, y, 0..learners);
    }

    /// The rank-one update of the lanes in `active`; x and y of all others must be zero.
    fn learn_lanes(&mut self, x: &[Lane], y: &Lane, active: std::ops::Range<usize>) {
        let dim = x.len();
        // gain = V⁻¹x
        let mut gain = vec![[0.0; LANES]; dim];
        let mut at = 0;
        for i in 0..dim {
            for j in 0..i {
                for lane in 0..LANES {
                    gain[i][lane] += self.inverse[at][lane] * x[j][lane];
                    gain[j][lane] += self.inverse[at][lane] * x[i][lane];
                }
                at += 1;
            }
            for lane in 0..LANES {
                gain[i][lane] += self.inverse[at][lane] * x[i][lane];
            }
            at += 1;
        }
        // step = xᵀV⁻¹x, surprise = (y − ⟨x, θ̂⟩)/(1 + step)
        let mut step = [0.0; LANES];
        let mut surprise = *y;
        for k in 0..dim {
            for lane in 0..LANES {
                step[lane] += x[k][lane] * gain[k][lane];
                surprise[lane] -= x[k][lane] * self.estimate[k][lane];
            }
        }
        if step.iter().any(|step| *step > LARGEST_STEP) {
            for lane in active {
                self.learn_the_long_way(x, y, lane);
            }
            return;
        }
        let shrink = step.map(|step| 1.0 / (1.0 + step));
        for lane in 0..LANES {
            surprise[lane] *= shrink[lane];
        }
        // θ̂ += gain·surprise, V⁻¹ −= gain·gainᵀ/(1 + step)
        let mut at = 0;
        for i in 0..dim {
            let mut scaled = [0.0; LANES];
            for lane in 0..LANES {
                self.estimate[i][lane] += gain[i][lane] * surprise[lane];
                scaled[lane] = gain[i][lane] * shrink[lane];
            }
            for j in 0..=i {
                for lane in 0..LANES {
                    self.inverse[at][lane] -= scaled[lane] * gain[j][lane];
                }
                at += 1;
            }
        }
        for lane in active {
            self.log_det[lane] += step[lane].ln_1p();
            self.updates[lane] += 1.0;
        }
    }

    /// The same update for one lane by way of V: exact where Sherman–Morrison would cancel.
    fn learn_the_long_way(&mut self, x: &[Lane], y: &Lane, lane: usize) {
        let dim = x.len();
        let x: Vec<f64> = x.iter().map(|lanes| lanes[lane]).collect();
        let inverse = self.inverse_of(dim, lane);
        self.log_det[lane] += inverse.quadratic(&x).ln_1p();
        self.updates[lane] += 1.0;
        let Some(mut precision) = inverse.cholesky().map(|factor| factor.inverse()) else { return };
        let mut moment = vec![0.0; dim];
        let estimate: Vec<f64> = self.estimate.iter().map(|lanes| lanes[lane]).collect();
        precision.times(&estimate, &mut moment);
        precision.add_outer(1.0, &x);
        for k in 0..dim {
            moment[k] += x[k] * y[lane];
        }
        let Some(factor) = precision.cholesky() else { return };
        factor.solve(&mut moment);
        for (lanes, value) in self.inverse.iter_mut().zip(factor.inverse().packed()) {
            lanes[lane] = *value;
        }
        for (lanes, value) in self.estimate.iter_mut().zip(moment) {
            lanes[lane] = value;
        }
    }
}
