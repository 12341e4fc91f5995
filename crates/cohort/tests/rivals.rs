//! The algorithms of others choose the same arms as their plain versions, turn after turn, on tables
//! of contexts, users and noise. Scores within 1e-8 of each other count as ties.

#[path = "plain/club.rs"]
mod club;
#[path = "plain/clusterings.rs"]
mod clusterings;
#[path = "plain/gossip.rs"]
mod gossip;
#[path = "plain/rivals.rs"]
mod rivals;
#[path = "plain/subspaces.rs"]
mod subspaces;

use clusterings::{Cab, DynUcb, Locb, Rclumb, Robust, Rsclumb, Users};
use cohort::params::Value;
use cohort::policies::{dynucb, locb};
use cohort::{Contexts, Law, Problem, Truth};
use gossip::{Dccb, Osom, Round};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rivals::{GobLin, Hier, LinTs, Matrix, MixTs, Plain, Reward, SquareCb};
use subspaces::{AfterRandom, AlbDim, E2tc, MlinGreedy, PhaseUniClub, Subspace, TraceNorm};

const N: usize = 7;
const D: usize = 3;
const K: usize = 5;
const SIGMA: f64 = 0.2;

/// X, TH and E of one instance: contexts of every turn, users, noise.
struct Tables {
    contexts: Vec<Vec<f64>>,
    thetas: Matrix,
    noise: Vec<f64>,
    served: Vec<usize>,
}

impl Tables {
    fn new(seed: u64, turns: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        let centres: Matrix = (0..3).map(|_| (0..D).map(|_| normal()).collect()).collect();
        let thetas = (0..N).map(|user| centres[user % 3].clone()).collect();
        let noise = (0..turns).map(|_| SIGMA * normal()).collect();
        let mut contexts = Vec::new();
        for _ in 0..turns {
            contexts.push((0..K * D).map(|_| rng.random_range(-0.6..0.6)).collect());
        }
        // Everybody in turn, then some much more often than others.
        let served = (0..turns)
            .map(|turn| {
                if turn < turns / 2 {
                    turn % N
                } else {
                    (rng.random::<f64>().powi(2) * N as f64) as usize
                }
            })
            .collect();
        Self { contexts, thetas, noise, served }
    }
}

/// Plays both on the same tables; the library's arms decide what both learn.
fn same_arms(
    name: &str,
    params: &[(&str, &str)],
    problem: &Problem,
    plain: &mut dyn Plain,
    tables: &Tables,
) {
    let params = params.iter().map(|(name, value)| {
        let value =
            if value.contains(',') { Value::Text((*value).into()) } else { (*value).into() };
        ((*name).to_owned(), value)
    });
    let mut policy = cohort::registry::build(name, problem, params).unwrap();
    let online = policy.online().unwrap();
    for (turn, values) in tables.contexts.iter().enumerate() {
        let user = tables.served[turn];
        let contexts = Contexts::new(values, D).unwrap();
        let rows: Matrix = contexts.iter().map(<[f64]>::to_vec).collect();
        let arm = online.decide(user, &contexts);
        let scores = plain.scores(user, &rows);
        let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        assert!(scores[arm] > best - 1e-8, "{name}, turn {turn}: arm {arm} of {scores:?}");
        let x = rows[arm].clone();
        let y = rivals::dot(&x, &tables.thetas[user]) + tables.noise[turn];
        online.learn_one(user, &x, y);
        plain.learn(Reward { user, x, y });
    }
}

fn problem(seed: u64) -> Problem<'static> {
    Problem { sigma: SIGMA, seed, ..Problem::new(N, D) }
}

#[test]
fn lints() {
    for (seed, model) in [(1, "own"), (2, "common")] {
        let common = model == "common";
        let mut plain = LinTs { d: D, seed, v: 0.7, lambda: 0.5, common, history: Vec::new() };
        let params = [("v", "0.7"), ("lambda", "0.5"), ("model", model)];
        same_arms("lints", &params, &problem(seed), &mut plain, &Tables::new(seed, 300));
        // v is the noise where it is not set.
        let mut plain =
            LinTs { v: SIGMA, lambda: 1.0, common: false, history: Vec::new(), ..plain };
        same_arms("lints", &[], &problem(seed), &mut plain, &Tables::new(seed, 100));
    }
}

#[test]
fn squarecb() {
    let mut plain = SquareCb { d: D, seed: 4, gamma0: 10.0, rho: 0.5, history: Vec::new() };
    same_arms("squarecb", &[], &problem(4), &mut plain, &Tables::new(4, 500));
    let mut plain = SquareCb { d: D, seed: 5, gamma0: 3.0, rho: 0.9, history: Vec::new() };
    let params = [("gamma0", "3"), ("rho", "0.9")];
    same_arms("squarecb", &params, &problem(5), &mut plain, &Tables::new(5, 200));
}

#[test]
fn hier_ts_and_hier_ucb() {
    for delta in [None, Some(0.1)] {
        let mut plain = Hier {
            d: D,
            n: N,
            seed: 6,
            sigma: SIGMA,
            sigma_0: 0.4,
            sigma_q: 0.8,
            delta,
            history: Vec::new(),
        };
        let mut params = vec![("sigma_0", "0.4"), ("sigma_q", "0.8")];
        let name = if delta.is_some() { "hier-ucb" } else { "hier-ts" };
        params.extend(delta.map(|_| ("delta", "0.1")));
        same_arms(name, &params, &problem(6), &mut plain, &Tables::new(6, 250));
    }
}

#[test]
fn mix_ts_told_by_parameters_and_by_the_environment() {
    let centres = vec![vec![1.0, 0.0, 0.5], vec![-0.5, 1.0, 0.0]];
    let (weights, spread) = (vec![0.25, 0.75], 0.3);
    let plain = || MixTs {
        d: D,
        seed: 7,
        centres: centres.clone(),
        weights: weights.clone(),
        spread,
        sigma: SIGMA,
        history: Vec::new(),
    };
    let tables = Tables::new(7, 250);
    let params = [("centres", "1,0,0.5; -0.5,1,0"), ("weights", "0.25,0.75"), ("spread", "0.3")];
    same_arms("mix-ts", &params, &problem(7), &mut plain(), &tables);

    let scatter: Vec<f64> =
        (0..D * D).map(|at| if at % (D + 1) == 0 { f64::sqrt(spread) } else { 0.0 }).collect();
    let law = Law {
        centres: &centres.concat(),
        weights: &weights,
        scatter: &scatter,
        level: 0.0,
        level_spread: 0.0,
        sigmas: None,
    };
    let truth = Truth { law: Some(law), ..Truth::new(&[], &[]) };
    let problem = Problem { truth: Some(truth), ..problem(7) };
    same_arms("mix-ts", &[], &problem, &mut plain(), &tables);
}

#[test]
fn mix_ts_says_what_is_wrong_with_its_prior() {
    for (centres, said) in [
        ("1,2", "as many coordinates"),
        ("1,2,x", "a finite number"),
        ("1,2,inf", "a finite number"),
    ] {
        let given = [("centres".to_owned(), Value::Text(centres.to_owned()))];
        let refused = cohort::registry::build("mix-ts", &problem(1), given).err().unwrap();
        assert!(refused.to_string().contains(said), "{refused}");
    }
    let refused = cohort::registry::build("mix-ts", &problem(1), []).err().unwrap();
    assert!(refused.to_string().contains("an environment tells or `centres` says"), "{refused}");
}

#[test]
fn gob_lin() {
    let edges = [(0, 1), (1, 2), (0, 2), (3, 4), (2, 5)];
    let mut plain = GobLin { d: D, n: N, alpha: 0.5, edges: edges.to_vec(), history: Vec::new() };
    let params = [("alpha", "0.5"), ("tolerance", "1e-13")];
    let problem = Problem { graph: Some(&edges), ..problem(8) };
    same_arms("gob-lin", &params, &problem, &mut plain, &Tables::new(8, 200));
}

#[test]
fn cab() {
    for (gamma, alpha) in [("0.2", "0.3"), ("2", "0.1")] {
        let users = Users::new(N, D);
        let mut plain = Cab { users, alpha: alpha.parse().unwrap(), gamma: gamma.parse().unwrap() };
        let params = [("alpha", alpha), ("gamma", gamma)];
        same_arms("cab", &params, &problem(9), &mut plain, &Tables::new(9, 250));
        // Large gaps let users learn from what others were served; small ones do not.
        let learned: usize = plain.users.of.iter().map(Vec::len).sum();
        assert_eq!(learned > 250, gamma == "2", "{learned}");
    }
}

#[test]
fn dynucb() {
    let homes = (0..N).map(|user| dynucb::first_cluster(10, user, 3)).collect();
    let mut plain = DynUcb { users: Users::new(N, D), alpha: 0.4, clusters: 3, homes };
    let params = [("alpha", "0.4"), ("clusters", "3")];
    same_arms("dynucb", &params, &problem(10), &mut plain, &Tables::new(10, 300));
}

#[test]
fn locb() {
    for gamma in ["0.2", "1.4"] {
        let all = || vec![true; N];
        let seeds: Vec<_> =
            locb::draw_seeds(11, N, 3).into_iter().map(|seed| (seed, all(), false)).collect();
        assert!(seeds[0].0 != seeds[1].0 && seeds[1].0 != seeds[2].0 && seeds[0].0 != seeds[2].0);
        let (users, gamma_is) = (Users::new(N, D), gamma.parse().unwrap());
        let mut plain = Locb { users, alpha: 0.4, gamma: gamma_is, seeds };
        let params = [("alpha", "0.4"), ("seeds", "3"), ("gamma", gamma)];
        same_arms("locb", &params, &problem(11), &mut plain, &Tables::new(11, 300));
        let left =
            plain.seeds.iter().flat_map(|(_, members, _)| members).filter(|member| !**member);
        assert!(left.count() > 2, "some users have left some clusters");
        assert_eq!(plain.seeds.iter().any(|(_, _, finished)| *finished), gamma == "1.4");
    }
}

fn robust() -> Robust {
    Robust { alpha1: 0.4, alpha2: 1.5, epsilon: 0.05, delta: 0.2 }
}

const ROBUST: [(&str, &str); 3] = [("alpha1", "0.4"), ("epsilon", "0.05"), ("delta", "0.2")];

#[test]
fn rclumb() {
    let users = Users::new(N, D);
    let mut plain = Rclumb { users, robust: robust(), edges: vec![vec![true; N]; N] };
    same_arms("rclumb", &ROBUST, &problem(12), &mut plain, &Tables::new(12, 300));
    let cut = plain.edges.iter().flatten().filter(|edge| !**edge).count();
    assert!((2..N * N - N).contains(&cut), "{cut} edges are cut");
}

#[test]
fn rsclumb() {
    let mut plain = Rsclumb::new(N, D, robust());
    same_arms("rsclumb", &ROBUST, &problem(13), &mut plain, &Tables::new(13, 300));
    assert!(plain.numbers > plain.sets.len() && plain.sets.len() > 1, "sets split and merged");
}

#[test]
fn uniclub() {
    let edges = (0..N).map(|user| (0..N).map(|other| user != other).collect()).collect();
    let plain = club::PlainClub::new(D, 0.5, 0.6, edges);
    let mut plain = AfterRandom { plain: ClubScores(plain), seed: 14, explore: 60, turns: 0 };
    let params = [("alpha", "0.5"), ("alpha2", "0.6"), ("explore", "60")];
    same_arms("uniclub", &params, &problem(14), &mut plain, &Tables::new(14, 300));
    assert!(plain.plain.0.clusters().iter().max() > Some(&0), "users were parted");
}

/// CLUB's own plain version, which other tests use.
struct ClubScores(club::PlainClub);

impl Plain for ClubScores {
    fn scores(&mut self, user: usize, arms: &[Vec<f64>]) -> Vec<f64> {
        self.0.scores(user, &Contexts::new(&arms.concat(), D).unwrap())
    }

    fn learn(&mut self, Reward { user, x, y }: Reward) {
        self.0.learn_one(user, &x, y);
    }
}

#[test]
fn phase_uniclub() {
    let robust = Robust { alpha1: 0.4, alpha2: 0.0, epsilon: 0.5, delta: 0.1 };
    let rclumb = Rclumb { users: Users::new(N, D), robust, edges: vec![vec![true; N]; N] };
    // T₀ for a gap of 1: 0.001·(7 ln 70 + 7·3/(1/9)·ln 70) = 0.83, so 1.
    let mut plain = PhaseUniClub { rclumb, unit: 1.0, seed: 15, turns: 0, committed: 0 };
    let params = [("alpha1", "0.4"), ("scale", "0.001")];
    same_arms("phase-uniclub", &params, &problem(15), &mut plain, &Tables::new(15, 300));
    // 4 + 8, 16 + 64, then 64 and what is left of 512.
    assert_eq!(plain.committed, 8 + 64 + 144);
}

#[test]
fn trace_norm() {
    let w = vec![vec![0.0; D]; N];
    let mut plain =
        TraceNorm { n: N, d: D, c: 0.5, sigma: SIGMA, steps: 10, history: Vec::new(), w };
    same_arms("trace-norm", &[("c", "0.5")], &problem(16), &mut plain, &Tables::new(16, 140));
}

fn subspace() -> Subspace {
    Subspace { n: N, d: D, k: 2, ridge: 0.1, history: Vec::new() }
}

#[test]
fn mlin_greedy() {
    let w = vec![vec![0.0; D]; N];
    let mut plain = MlinGreedy { known: subspace(), sweeps: 10, w, due: N };
    same_arms("mlin-greedy", &[("rank", "2")], &problem(17), &mut plain, &Tables::new(17, 300));
}

#[test]
fn e2tc() {
    // N₁ = ⌈0.1·3^{3/2}·2·√(40/7)⌉ = 3, N₂ = ⌈2·√40⌉ = 13.
    let (basis, w) = (Vec::new(), vec![vec![0.0; D]; N]);
    let (first, second) = (N * 3, N * 16);
    let mut plain = E2tc { known: subspace(), seed: 18, first, second, basis, w };
    let problem = Problem { rounds: Some(40), ..problem(18) };
    same_arms("e2tc", &[("rank", "2")], &problem, &mut plain, &Tables::new(18, 280));
}

#[test]
fn alb_dim() {
    let (t0, history) = (2.0, Vec::new());
    let mut plain = AlbDim { d: D, seed: 19, t0, sigma: SIGMA, history };
    // The most active user passes 2 + 2 and 72 + 12 turns and is then in its third phase.
    let tables = Tables::new(19, 500);
    same_arms("alb-dim", &[("t0", "2")], &problem(19), &mut plain, &tables);
    let most = (0..N).map(|user| tables.served.iter().filter(|u| **u == user).count()).max();
    assert!(most > Some(95), "{most:?}");
}

#[test]
fn dccb() {
    for (seed, buffer) in [(20, "0.3"), (21, "1")] {
        let mut plain = Dccb::new(N, D, seed, (0.4, 0.6, buffer.parse().unwrap()));
        let params = [("alpha", "0.4"), ("alpha2", "0.6"), ("buffer", buffer)];
        same_arms("dccb", &params, &problem(seed), &mut plain, &Tables::new(seed, 300));
        let parted = plain.parted.iter().map(|parted| parted.len()).sum::<usize>();
        assert!((2..N * (N - 1)).contains(&parted), "{parted} were parted");
        // Weights of a reward over all peers sum to no more than 1 unless a peer began again with it.
        let shared = plain.active.iter().flatten().filter(|(_, weight)| **weight < 1.0).count();
        assert!(shared > 20, "{shared} rewards are known in part by others");
    }
}

/// In rounds: places of an offer mean something, and every user is served.
#[test]
fn osom() {
    // Fixed arms, for which contexts say nothing that places do not say; and new ones in every round,
    // with a threshold that is passed soon.
    for (seed, fixed, threshold) in [(22, true, "1"), (23, false, "0.2")] {
        let tables = Tables::new(seed, 110);
        let params = [("threshold", threshold), ("delta", "0.3")];
        let params = params.map(|(name, value)| (name.to_owned(), Value::from(value)));
        let mut policy = cohort::registry::build("osom", &problem(seed), params).unwrap();
        assert!(policy.online().is_none());
        let (sigma, delta, threshold) = (SIGMA, 0.3, threshold.parse().unwrap());
        let user = || Osom { d: D, sigma, delta, threshold, rounds: Vec::new(), complex: false };
        let (mut plain, mut arms): (Vec<Osom>, _) = ((0..N).map(|_| user()).collect(), [0; N]);
        for (turn, values) in tables.contexts.iter().enumerate() {
            let values = if fixed { &tables.contexts[0] } else { values };
            // Later offers have fewer places.
            let values = if turn % 5 == 4 { &values[..3 * D] } else { values };
            let contexts = Contexts::new(values, D).unwrap();
            let offer: Matrix = contexts.iter().map(<[f64]>::to_vec).collect();
            policy.choose(&contexts, &mut arms);
            let mut rewards = Vec::new();
            for (user, plain) in plain.iter_mut().enumerate() {
                let (scores, arm) = (plain.scores(&offer), arms[user]);
                let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                assert!(scores[arm] > best - 1e-8, "turn {turn}, user {user}: {arm} of {scores:?}");
                let y = rivals::dot(&offer[arm], &tables.thetas[user]) + tables.noise[turn];
                plain.learn(Round { offer: offer.clone(), arm, y });
                rewards.push(y);
            }
            policy.learn(&contexts, &arms, &rewards);
        }
        let complex = plain.iter().filter(|plain| plain.complex).count();
        assert_eq!(complex > N / 2, !fixed, "{complex} of {N} use contexts");
        assert!(!fixed || complex == 0);
    }
}
