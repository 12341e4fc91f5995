//! The [message](super::message) of users who have far fewer rewards than there are features, from a root (X, y) of their
//! statistics: what is factored is n × n, not D × D.
//!
//! ```text
//! K/σ² = I + (XR)(XR)ᵀ = LLᵀ,   T = L⁻¹(X, y)/σ
//! TᵀT = (information, pull; pullᵀ, yᵀK⁻¹y)
//! ```

use super::gram_root::GramRoot;
use super::lanes::{F64x8, LANES, ZERO};
use super::message::MessagePrior;
use super::moments::Moments;
use crate::algebra::lanes::{InPlace, factor_from, rows_by_rows, solve_lower_each};
use crate::algebra::packed_len;
use crate::simd::{self, Kernel, Simd, with_scratch};

/// Writes the messages of eight users whose statistics have this root.
pub(super) fn write_from_root(
    users: &Moments,
    root: &GramRoot,
    prepared: &MessagePrior,
    out: &mut [F64x8],
) {
    let (dim, count) = (users.dim(), root.count());
    with_scratch(dim + count * dim + packed_len(count) + count * (dim + 1), |scratch| {
        let (roots, rest) = scratch.split_at_mut(dim);
        let (whitened, rest) = rest.split_at_mut(count * dim);
        let (factor, solved) = rest.split_at_mut(packed_len(count));
        prepared.roots(users.gram(), roots);
        let log_det = simd::run(WriteFromRoot {
            root,
            noise: prepared.noise(),
            roots,
            whitened,
            factor,
            solved,
            out: &mut *out,
        });
        let (n, last) = (users.rewards(), packed_len(dim) + dim);
        let square = out[last];
        out[last + 1] = square;
        for lane in 0..LANES {
            out[last][lane] =
                -0.5 * (square[lane] + log_det[lane] + n[lane] * prepared.noise().ln());
        }
    });
}

struct WriteFromRoot<'a> {
    root: &'a GramRoot,
    noise: f64,
    roots: &'a [F64x8],
    /// Room for XR, row by row, …
    whitened: &'a mut [F64x8],
    /// … L, packed, …
    factor: &'a mut [F64x8],
    /// … and T, column by column.
    solved: &'a mut [F64x8],
    out: &'a mut [F64x8],
}

impl Kernel for WriteFromRoot<'_> {
    type Output = F64x8;

    /// Returns ln det K/σ².
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> F64x8 {
        let Self { root, noise, roots, whitened, factor, solved, out } = self;
        let (dim, count) = (roots.len(), root.count());
        let over = simd.splat(1.0 / noise.sqrt());
        for (i, (row, whitened)) in root.rows().zip(whitened.chunks_exact_mut(dim)).enumerate() {
            for ((z, root), whitened) in row.iter().zip(roots).zip(whitened) {
                simd.store(simd.mul(simd.load(z), simd.load(root)), whitened);
            }
            for (z, column) in row.iter().zip(solved.chunks_exact_mut(count)) {
                simd.store(simd.mul(simd.load(z), over), &mut column[i]);
            }
        }
        let packed = |i: usize| (packed_len(i), i + 1);
        rows_by_rows(simd, [whitened, whitened], [count, dim], packed, factor);
        for i in 0..count {
            let diagonal = &mut factor[packed_len(i) + i];
            simd.store(simd.add(simd.load(diagonal), simd.splat(1.0)), diagonal);
        }
        let log_det = factor_from(simd, factor, count, InPlace);
        solve_lower_each(simd, factor, count, solved);
        rows_by_rows(simd, [solved, solved], [dim + 1, count], packed, out);
        let mut log = ZERO;
        simd.store(log_det, &mut log);
        log
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::Ledger;
    use super::super::message::{message_len, write};
    use super::super::model::Basis;
    use super::*;
    use proptest::prelude::*;

    /// Eight users with these numbers of rewards.
    fn users(counts: &[usize], d: usize, memory: f64) -> Moments {
        let mut ledger = Ledger::new(d, memory);
        for (user, count) in counts.iter().enumerate() {
            for turn in 0..*count {
                let at = (user * 31 + turn * 7) as f64;
                let x: Vec<f64> = (0..d).map(|j| (at + 3.0 * j as f64).sin()).collect();
                ledger.learn_one(user, &x, 2.0 + (at * 1.7).cos());
            }
        }
        ledger.settle();
        ledger.moments(&(0..counts.len()).collect::<Vec<_>>())
    }

    fn messages(users: &Moments, prepared: &MessagePrior) -> Vec<F64x8> {
        let mut out = vec![ZERO; message_len(users.dim())];
        write(users, prepared, &mut out);
        out
    }

    proptest! {
        #[test]
        fn a_root_says_what_the_statistics_say(
            counts in prop::collection::vec(1usize..5, 1..8),
            d in 14usize..21,
            memory in prop::sample::select(vec![1.0, 0.9]),
            variances in prop::collection::vec(0.001..2.0f64, 21),
            noise in 0.01..2.0f64,
            weight in 0.2..3.0f64,
        ) {
            let mut few = users(&counts, d, memory);
            prop_assert!(few.root().is_some());
            // All that a fit does to statistics is done to both.
            let turn = |at: usize| {
                let (i, j) = (at / d, at % d);
                match (i, j) {
                    (0, 0) | (1, 1) => 0.6,
                    (0, 1) => -0.8,
                    (1, 0) => 0.8,
                    _ => f64::from(i == j),
                }
            };
            few.raise(0.7);
            few.rotate(&Basis::new((0..d * d).map(turn).collect(), d));
            few.weigh(&F64x8(std::array::from_fn(|lane| weight + lane as f64)));
            let sums = few.clone().without_root();
            let prepared = MessagePrior::new(&variances[..=d], noise);
            for (a, b) in messages(&few, &prepared).iter().zip(messages(&sums, &prepared)) {
                for lane in 0..counts.len() {
                    let close = (a[lane] - b[lane]).abs() < 1e-8 * (1.0 + b[lane].abs());
                    prop_assert!(close, "{} against {}", a[lane], b[lane]);
                }
            }
            let none = (few.without_rewards(), sums.without_rewards());
            let last = message_len(d + 1) - 1;
            prop_assert_eq!(messages(&none.0, &prepared)[last], ZERO);
            prop_assert_eq!(messages(&none.1, &prepared)[last], ZERO);
        }
    }
}
