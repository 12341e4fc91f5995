//! A small bench for iterating on the statistics of `cohort`.
use cohort::linear::{Confidence, Oful, Shape, dot};
use cohort::params::Value;
use cohort::{Contexts, Policy, Problem};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

fn arg(name: &str, default: &str) -> String {
    let args: Vec<String> = std::env::args().collect();
    args.iter()
        .position(|a| a == &format!("--{name}"))
        .map_or(default.to_string(), |i| args[i + 1].clone())
}

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(rng)
}
fn sphere(rng: &mut ChaCha8Rng, d: usize) -> Vec<f64> {
    let v: Vec<f64> = (0..d).map(|_| normal(rng)).collect();
    let l = dot(&v, &v).sqrt();
    v.into_iter().map(|x| x / l).collect()
}

struct Instance {
    thetas: Vec<Vec<f64>>,
    clusters: Vec<usize>,
}

fn instance(
    env: &str,
    n: usize,
    l: usize,
    z: f64,
    spread: f64,
    sep: f64,
    d: usize,
    rng: &mut ChaCha8Rng,
) -> Instance {
    match env {
        "sphere" => Instance {
            thetas: (0..n).map(|_| sphere(rng, d)).collect(),
            clusters: (0..n).collect(),
        },
        "gaussian" => {
            let mu: Vec<f64> = (0..d).map(|_| normal(rng)).collect();
            Instance {
                thetas: (0..n)
                    .map(|_| mu.iter().map(|m| m + spread.sqrt() * normal(rng)).collect())
                    .collect(),
                clusters: vec![0; n],
            }
        }
        _ => {
            let centres: Vec<Vec<f64>> = if sep > 0.0 {
                let base = sphere(rng, d);
                (0..l)
                    .map(|_| {
                        let v = sphere(rng, d);
                        let w: Vec<f64> =
                            base.iter().zip(v).map(|(b, v)| b + v * sep / 2f64.sqrt()).collect();
                        let len = dot(&w, &w).sqrt();
                        w.into_iter().map(|x| x / len).collect()
                    })
                    .collect()
            } else {
                (0..l).map(|_| sphere(rng, d)).collect()
            };
            let w: Vec<f64> = (1..=l).map(|i| (i as f64).powf(-z)).collect();
            let total: f64 = w.iter().sum();
            let clusters: Vec<usize> = (0..n)
                .map(|_| {
                    let mut u = rng.random::<f64>() * total;
                    let mut c = 0;
                    while c + 1 < l && u > w[c] {
                        u -= w[c];
                        c += 1;
                    }
                    c
                })
                .collect();
            let thetas = clusters
                .iter()
                .map(|&c| {
                    centres[c]
                        .iter()
                        .map(|m| m + if spread > 0.0 { spread * normal(rng) } else { 0.0 })
                        .collect()
                })
                .collect();
            Instance { thetas, clusters }
        }
    }
}

struct Oracle {
    learners: Vec<Oful>,
    confidence: Vec<Confidence>,
    clusters: Vec<usize>,
    sizes: Vec<usize>,
}
impl Policy for Oracle {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [usize]) {
        let picks: Vec<usize> = self
            .learners
            .iter()
            .zip(&self.confidence)
            .map(|(l, c)| l.choose(contexts, c))
            .collect();
        for (a, c) in arms.iter_mut().zip(&self.clusters) {
            *a = picks[*c];
        }
    }
    fn learn(&mut self, contexts: &Contexts, arms: &[usize], rewards: &[f64]) {
        let k = self.learners.len();
        let mut sum = vec![0.0; k];
        let mut arm = vec![0; k];
        for i in 0..arms.len() {
            let c = self.clusters[i];
            sum[c] += rewards[i];
            arm[c] = arms[i];
        }
        for c in 0..k {
            if self.sizes[c] > 0 {
                self.learners[c].learn(contexts.arm(arm[c]), sum[c] / self.sizes[c] as f64);
            }
        }
    }
}

fn main() {
    let n: usize = arg("users", "60").parse().unwrap();
    let l: usize = arg("clusters", "6").parse().unwrap();
    let z: f64 = arg("imbalance", "0").parse().unwrap();
    let spread: f64 = arg("spread", "0").parse().unwrap();
    let sep: f64 = arg("separation", "0").parse().unwrap();
    let d: usize = arg("dim", "15").parse().unwrap();
    let k: usize = arg("arms", "25").parse().unwrap();
    let t: usize = arg("rounds", "1000").parse().unwrap();
    let sigma: f64 = arg("noise", "0.1").parse().unwrap();
    let reps: u64 = arg("reps", "2").parse().unwrap();
    let env = arg("env", "clustered");
    let policies = arg(
        "policy",
        "linucb-ind:1,linucb-ind:0.3,linucb-ind:0.1,linucb-ind:0.03,oracle:1,oracle:0.3,oracle:0.1,oracle:0.03,cohort:1",
    );
    let curve = arg("curve", "0") == "1";
    let fixed = arg("fixed", "0") == "1";
    let shift: f64 = arg("shift", "0").parse().unwrap();
    let tail: f64 = arg("tail", "0").parse().unwrap();
    let binary = arg("binary", "0") == "1";
    let zipf: f64 = arg("zipf", "0").parse().unwrap();
    let vary = arg("vary", "0") == "1";
    for policy in policies.split(',') {
        let (name, set) = policy.split_once(':').unwrap_or((policy, "1"));
        let (set, extra) = set.split_once(':').unwrap_or((set, ""));
        let exploration: f64 = set.parse().unwrap();
        let start = std::time::Instant::now();
        let results: Vec<(f64, f64, Vec<f64>, usize, f64)> = (0..reps)
            .into_par_iter()
            .map(|rep| {
                let mut rng = ChaCha8Rng::seed_from_u64(1000 + rep);
                let inst = instance(&env, n, l, z, spread, sep, d, &mut rng);
                let problem = Problem { sigma, rounds: Some(t), seed: rep, ..Problem::new(n, d) };
                let mut policy: Box<dyn Policy> = if name == "oracle" {
                    let kk = inst.clusters.iter().max().unwrap() + 1;
                    let mut sizes = vec![0; kk];
                    for c in &inst.clusters {
                        sizes[*c] += 1;
                    }
                    let base = Confidence {
                        delta: 0.4,
                        lambda: 1.0,
                        norm_bound: 1.0,
                        sigma,
                        exploration,
                        shape: Shape::Ellipsoid,
                    };
                    Box::new(Oracle {
                        learners: vec![Oful::new(d, 1.0); kk],
                        confidence: sizes.iter().map(|m| base.averaged_over((*m).max(1))).collect(),
                        clusters: inst.clusters.clone(),
                        sizes,
                    })
                } else {
                    cohort::registry::build(
                        name,
                        &problem,
                        std::iter::once(("exploration".to_string(), Value::Real(exploration)))
                            .chain(extra.split(';').filter(|e| !e.is_empty()).map(|e| {
                                let (k, v) = e.split_once('=').unwrap();
                                (k.to_string(), Value::from(v))
                            })),
                    )
                    .unwrap()
                };
                let mut values = vec![0.0; k * d];
                let mut arms = vec![0; n];
                let mut rewards = vec![0.0; n];
                let mut regret = 0.0;
                let mut curve = Vec::new();
                let bound = 1.0 / (d as f64).sqrt();
                let mut ari200 = f64::NAN;
                for round in 0..t {
                    if round == 0 || !fixed {
                        for v in &mut values {
                            *v = rng.random_range(-bound..bound) + shift * bound;
                        }
                    }
                    let shown = if vary { 2 + round * 7 % (k - 1) } else { k };
                    let contexts = Contexts::new(&values[..shown * d], d).unwrap();
                    if zipf > 0.0 {
                        let turns = policy.turns().unwrap();
                        for i in 0..n {
                            if rng.random::<f64>() < (i as f64 + 1.0).powf(-zipf) {
                                let a = turns.decide(i, &contexts);
                                let means: Vec<f64> =
                                    contexts.iter().map(|x| dot(x, &inst.thetas[i])).collect();
                                regret += means.iter().copied().fold(f64::NEG_INFINITY, f64::max)
                                    - means[a];
                                turns.learn_one(
                                    i,
                                    contexts.arm(a),
                                    means[a] + sigma * normal(&mut rng),
                                );
                            }
                        }
                        continue;
                    }
                    policy.choose(&contexts, &mut arms);
                    for i in 0..n {
                        let means: Vec<f64> =
                            contexts.iter().map(|x| dot(x, &inst.thetas[i])).collect();
                        let best = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                        regret += best - means[arms[i]];
                        let noise = if tail > 0.0 {
                            let c: f64 = (0..tail as usize).map(|_| normal(&mut rng).powi(2)).sum();
                            normal(&mut rng) / (c / tail).sqrt()
                        } else {
                            normal(&mut rng)
                        };
                        rewards[i] = if binary {
                            f64::from(rng.random::<f64>() < 0.5 + 0.5 * means[arms[i]])
                        } else {
                            means[arms[i]] + sigma * noise
                        };
                    }
                    policy.learn(&contexts, &arms, &rewards);
                    if [10, 20, 50, 100, 200, 400, 700, 1000].contains(&(round + 1)) {
                        curve.push(regret / n as f64);
                    }
                    if round + 1 == 200 {
                        if let Some(c) = policy.clusters() {
                            ari200 = cohort::cluster::partition::adjusted_rand(&c, &inst.clusters);
                        }
                    }
                }
                let (found, ari) = policy.clusters().map_or((0, f64::NAN), |c| {
                    (
                        c.iter().max().unwrap() + 1,
                        cohort::cluster::partition::adjusted_rand(&c, &inst.clusters),
                    )
                });
                (regret / n as f64, ari, curve, found, ari200)
            })
            .collect();
        let mean = results.iter().map(|r| r.0).sum::<f64>() / reps as f64;
        let ari = results.iter().map(|r| r.1).sum::<f64>() / reps as f64;
        let ari200 = results.iter().map(|r| r.4).sum::<f64>() / reps as f64;
        print!(
            "{policy:32} {mean:8.2}  ari200 {ari200:.3} ari {ari:.3} found {:?} {:.1}s",
            results.iter().map(|r| r.3).collect::<Vec<_>>(),
            start.elapsed().as_secs_f64()
        );
        if curve {
            let m = results[0].2.len();
            print!(
                "  {:?}",
                (0..m)
                    .map(|j| (results.iter().map(|r| r.2[j]).sum::<f64>() / reps as f64 * 100.0)
                        .round()
                        / 100.0)
                    .collect::<Vec<_>>()
            );
        }
        println!();
    }
}
