//! The round against the machine's peak, against other implementations, and with more threads and
//! users.

use cohort::Contexts;
use serde::{Deserialize, Serialize};

use super::{Effort, build};
use crate::forms::{self, DIM};
use crate::machine::multiply_add_in_registers;
use crate::race::{Contestant, race, seconds};
use crate::world::World;

/// The name of the section in the store.
pub const NAME: &str = "limit";

/// N of the comparison.
pub const USERS: usize = 4_096;

/// Rounds per repetition, prepared beforehand, so that a repetition is much longer than a wake-up.
const ROUNDS: usize = 4;

/// The large N that is compared with it.
pub const MANY_USERS: usize = 100_000;

/// All measurements.
#[derive(Serialize, Deserialize)]
pub struct Measured {
    /// The peak rates: floating-point operations per second of loops that do nothing else.
    pub peaks: Vec<Rate>,
    /// User-rounds per second of every form, one thread, N = [`USERS`].
    pub forms: Vec<Rate>,
    /// User-rounds per second of `linucb-ind`.
    pub scaling: Vec<Scaling>,
}

/// A rate.
#[derive(Serialize, Deserialize)]
pub struct Rate {
    /// Its name.
    pub name: String,
    /// The amount per second.
    pub per_second: f64,
}

/// `linucb-ind` at some size.
#[derive(Serialize, Deserialize)]
pub struct Scaling {
    /// N.
    pub users: usize,
    /// The number of threads.
    pub threads: usize,
    /// User-rounds per second.
    pub per_second: f64,
}

/// Measures all in turn; the best of each counts.
pub fn measure(effort: &Effort) -> Measured {
    let turns = effort.or(5, 60);
    let mut peaks = peaks();
    let mut forms: Vec<Contestant> =
        forms::all(USERS).into_iter().map(|(name, form)| form_contestant(name, form)).collect();
    let sizes = [(USERS, 1), (USERS, 2), (MANY_USERS, 1), (MANY_USERS, 2)];
    let mut scaling: Vec<Contestant> =
        sizes.iter().map(|(users, threads)| linucb_ind(*users, *threads)).collect();
    for _ in 0..turns {
        race(&mut peaks, 1, 3);
        race(&mut forms, 1, 5);
        race(&mut scaling, 1, 5);
    }
    let rates = |contestants: &[Contestant]| -> Vec<Rate> {
        let rate = |c: &Contestant| Rate { name: c.name.clone(), per_second: c.rate() };
        contestants.iter().map(rate).collect()
    };
    let scaling = (sizes.iter().zip(&scaling))
        .map(|(&(users, threads), contestant)| Scaling {
            users,
            threads,
            per_second: contestant.rate(),
        })
        .collect();
    Measured { peaks: rates(&peaks), forms: rates(&forms), scaling }
}

fn peaks() -> Vec<Contestant<'static>> {
    let operations = multiply_add_in_registers();
    let in_registers = Contestant::new("fused multiply-adds in registers", operations, || {
        seconds(|| {
            multiply_add_in_registers();
        })
    });
    vec![
        in_registers,
        #[cfg(feature = "peers")]
        large_gemm(),
    ]
}

#[cfg(feature = "peers")]
fn large_gemm() -> Contestant<'static> {
    use faer::{Accum, Mat, Par, linalg::matmul::matmul};
    const N: usize = 1024;
    let a = Mat::from_fn(N, N, |i, j| (i + j) as f64);
    let b = Mat::from_fn(N, N, |i, j| (i * j) as f64);
    let mut c = Mat::zeros(N, N);
    Contestant::new("large GEMM (1,024³, faer)", 2.0 * (N as f64).powi(3), move || {
        seconds(|| matmul(&mut c, Accum::Replace, &a, &b, 1.0, Par::Seq))
    })
}

/// An implementation at [`USERS`] users on one thread.
pub fn form_contestant(name: String, mut form: Box<dyn forms::Form>) -> Contestant<'static> {
    let mut world = World::new(USERS, DIM, 10, 1);
    let mut arms = vec![0; USERS];
    Contestant::new(name, (USERS * ROUNDS) as f64, move || {
        let rounds = prepared(&mut world);
        seconds(|| {
            for (contexts, rewards) in &rounds {
                form.round(contexts, rewards, &mut arms);
            }
        })
    })
}

/// The policy itself.
pub fn linucb_ind(users: usize, threads: usize) -> Contestant<'static> {
    let mut world = World::new(users, DIM, 10, 1);
    let mut policy = build("linucb-ind", &world, 1_000, &[]).expect("it is in the registry");
    let mut arms = vec![0; users];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.expect("a few threads can be had");
    let name = format!("linucb-ind, N = {users}, {threads} threads");
    Contestant::new(name, (users * ROUNDS) as f64, move || {
        let rounds = prepared(&mut world);
        pool.install(|| {
            seconds(|| {
                for (values, rewards) in &rounds {
                    let contexts = Contexts::new(values, DIM).expect("whole and finite");
                    policy.choose(&contexts, &mut arms);
                    policy.learn(&contexts, &arms, rewards);
                }
            })
        })
    })
}

/// Contexts and rewards of some rounds.
fn prepared(world: &mut World) -> Vec<(Vec<f64>, Vec<f64>)> {
    (0..ROUNDS).map(|_| (world.contexts(), world.any_rewards())).collect()
}
