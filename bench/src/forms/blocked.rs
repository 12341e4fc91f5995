//! Blocks of 128 users, one row of 128 numbers per coefficient: a library's matrix product scores a
//! block, auto-vectorised loops choose and learn while it is in cache.

use cohort::Arm;
use cohort::linear::symmetric::pack_outer_doubled;
use faer::{Accum, MatMut, MatRef, Par};

use super::{DIM, Form, PACKED, radius};

/// Users per block.
const USERS: usize = 128;

/// One number for each user of a block.
type Row = [f64; USERS];

/// One LinUCB per user.
pub struct Blocked {
    blocks: Vec<Block>,
}

struct Block {
    inverse: Vec<Row>,
    estimate: Vec<Row>,
    log_det: Row,
}

impl Blocked {
    /// Fresh users.
    pub fn new(users: usize) -> Self {
        let mut inverse = vec![[0.0; USERS]; PACKED];
        for k in 0..DIM {
            inverse[k * (k + 1) / 2 + k] = [1.0; USERS];
        }
        let block = || Block {
            inverse: inverse.clone(),
            estimate: vec![[0.0; USERS]; DIM],
            log_det: [0.0; USERS],
        };
        Self { blocks: std::iter::repeat_with(block).take(users.div_ceil(USERS)).collect() }
    }
}

impl Form for Blocked {
    fn round(&mut self, contexts: &[f64], rewards: &[f64], arms: &mut [Arm]) {
        let offered = contexts.len() / DIM;
        let mut outer = vec![0.0; PACKED * offered];
        for (context, outer) in contexts.chunks_exact(DIM).zip(outer.chunks_exact_mut(PACKED)) {
            pack_outer_doubled(context, outer);
        }
        let (mut squares, mut means) = (vec![[0.0; USERS]; offered], vec![[0.0; USERS]; offered]);
        let users = arms.chunks_mut(USERS).zip(rewards.chunks(USERS));
        for (block, (arms, rewards)) in self.blocks.iter_mut().zip(users) {
            product(&block.inverse, &outer, &mut squares);
            product(&block.estimate, contexts, &mut means);
            pulp::Arch::new().dispatch(
                #[inline(always)]
                || {
                    choose(&squares, &means, &block.log_det, arms);
                    block.learn(contexts, arms, rewards);
                },
            );
        }
    }
}

/// sums[arm] = Σ_c weights[arm][c]·coefficients[c]: column-major (users × c)(c × arms).
fn product(coefficients: &[Row], weights: &[f64], sums: &mut [Row]) {
    let (inner, arms) = (coefficients.len(), sums.len());
    faer::linalg::matmul::matmul(
        MatMut::from_column_major_slice_mut(sums.as_flattened_mut(), USERS, arms),
        Accum::Replace,
        MatRef::from_column_major_slice(coefficients.as_flattened(), USERS, inner),
        MatRef::from_column_major_slice(weights, inner, arms),
        1.0,
        Par::Seq,
    );
}

#[inline(always)]
fn choose(squares: &[Row], means: &[Row], log_det: &Row, arms: &mut [Arm]) {
    let mut radii = [0.0; USERS];
    for u in 0..USERS {
        radii[u] = radius(log_det[u]);
    }
    let (mut best, mut chosen) = ([f64::NEG_INFINITY; USERS], [0.0; USERS]);
    for (arm, (square, mean)) in squares.iter().zip(means).enumerate() {
        for u in 0..USERS {
            let score = mean[u] + radii[u] * square[u].max(0.0).sqrt();
            let better = score > best[u];
            best[u] = if better { score } else { best[u] };
            chosen[u] = if better { arm as f64 } else { chosen[u] };
        }
    }
    for (arm, chosen) in arms.iter_mut().zip(chosen) {
        *arm = chosen as Arm;
    }
}

impl Block {
    #[inline(always)]
    fn learn(&mut self, contexts: &[f64], arms: &[Arm], rewards: &[f64]) {
        let mut x = [[0.0; USERS]; DIM];
        let mut surprise = [0.0; USERS];
        for (u, (arm, reward)) in arms.iter().zip(rewards).enumerate() {
            for k in 0..DIM {
                x[k][u] = contexts[arm * DIM + k];
            }
            surprise[u] = *reward;
        }
        let mut gain = [[0.0; USERS]; DIM];
        let mut at = 0;
        for i in 0..DIM {
            for j in 0..i {
                for u in 0..USERS {
                    gain[i][u] += self.inverse[at][u] * x[j][u];
                    gain[j][u] += self.inverse[at][u] * x[i][u];
                }
                at += 1;
            }
            for u in 0..USERS {
                gain[i][u] += self.inverse[at][u] * x[i][u];
            }
            at += 1;
        }
        let mut step = [0.0; USERS];
        for k in 0..DIM {
            for u in 0..USERS {
                step[u] += x[k][u] * gain[k][u];
                surprise[u] -= x[k][u] * self.estimate[k][u];
            }
        }
        let mut shrink = [0.0; USERS];
        for u in 0..USERS {
            shrink[u] = 1.0 / (1.0 + step[u]);
            surprise[u] *= shrink[u];
        }
        let mut at = 0;
        for i in 0..DIM {
            let mut scaled = [0.0; USERS];
            for u in 0..USERS {
                self.estimate[i][u] += gain[i][u] * surprise[u];
                scaled[u] = gain[i][u] * shrink[u];
            }
            for j in 0..=i {
                for u in 0..USERS {
                    self.inverse[at][u] -= scaled[u] * gain[j][u];
                }
                at += 1;
            }
        }
        for u in 0..USERS {
            self.log_det[u] += step[u].ln_1p();
        }
    }
}
