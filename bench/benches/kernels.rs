//! Micro-benchmarks of the engine's kernels: `cargo bench -p cohort-bench`.

use cohort::Contexts;
use cohort::linear::{Bank, InstructionSet, Oful, Progress, Shape};
use divan::Bencher;
use divan::counter::ItemsCount;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const DIMS: [usize; 2] = [15, 25];
const ARMS: usize = 25;

fn main() {
    divan::main();
}

fn values(count: usize, dim: usize) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let bound = 1.0 / (dim as f64).sqrt();
    (0..count).map(|_| rng.random_range(-bound..bound)).collect()
}

fn radius(_learner: usize, progress: Progress) -> f64 {
    0.1 * (1.8 + progress.log_det).sqrt() + 1.0
}

/// Score, choose, learn: 4,096 users on every instruction set.
#[divan::bench(args = InstructionSet::available(), consts = DIMS)]
fn round<const DIM: usize>(bencher: Bencher, set: &InstructionSet) {
    let users = 4_096;
    let (contexts, rewards) = (values(ARMS * DIM, DIM), values(users, 1));
    let contexts = Contexts::new(&contexts, DIM).expect("whole and finite");
    let mut bank = Bank::new(users, DIM, 1.0).using(*set);
    let mut arms = vec![0; users];
    bencher.counter(ItemsCount::new(users)).bench_local(|| {
        bank.choose(&contexts, Shape::Ellipsoid, radius, None, &mut arms);
        bank.learn(&contexts, &arms, &rewards);
    });
}

/// Few learners: what a round costs however few there are.
#[divan::bench(args = [1, 10, 100])]
fn round_of_few(bencher: Bencher, users: usize) {
    const DIM: usize = 15;
    let (contexts, rewards) = (values(ARMS * DIM, DIM), values(users, 1));
    let contexts = Contexts::new(&contexts, DIM).expect("whole and finite");
    let mut bank = Bank::new(users, DIM, 1.0);
    let mut arms = vec![0; users];
    bencher.counter(ItemsCount::new(users)).bench_local(|| {
        bank.choose(&contexts, Shape::Ellipsoid, radius, None, &mut arms);
        bank.learn(&contexts, &arms, &rewards);
    });
}

/// One decision of one user, as a service makes it.
#[divan::bench(consts = DIMS)]
fn choose_one<const DIM: usize>(bencher: Bencher) {
    let contexts = values(ARMS * DIM, DIM);
    let contexts = Contexts::new(&contexts, DIM).expect("whole and finite");
    let bank = Bank::new(100, DIM, 1.0);
    bencher.bench_local(|| bank.choose_one(37, &contexts, Shape::Ellipsoid, 1.0));
}

/// One reward of one user.
#[divan::bench(consts = DIMS)]
fn learn_one<const DIM: usize>(bencher: Bencher) {
    let context = values(DIM, DIM);
    let mut bank = Bank::new(100, DIM, 1.0);
    bencher.bench_local(|| bank.learn_one(37, &context, 0.5));
}

/// A learner that keeps V beside V⁻¹: one turn.
#[divan::bench(consts = DIMS)]
fn single_learner<const DIM: usize>(bencher: Bencher) {
    let values = values(ARMS * DIM, DIM);
    let contexts = Contexts::new(&values, DIM).expect("whole and finite");
    let mut oful = Oful::new(DIM, 1.0);
    bencher.bench_local(|| {
        let arm = oful.best_arm(&contexts, 1.0);
        oful.learn(contexts.arm(arm), 0.5);
    });
}
