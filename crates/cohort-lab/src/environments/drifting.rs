//! `drifting`: users of a cluster start out the same and then change.
//!
//! `jump`: from one round on, every user belongs to a newly drawn cluster, with newly drawn
//! centres. `wander`: θ_i moves in every round, θ ← √(1 − d·s²)·θ + s·ξ with ξ standard normal: by
//! about s in every coordinate, and its length stays about 1. Oracles are told the truth of round
//! 0.

use cohort::params::{NOT_NEGATIVE, Param, Settings};
use cohort::{Arm, Contexts, Truth};
use rand::seq::SliceRandom;

use super::parts::centres::{CLUSTER_OPTIONS, Centres, cluster_of_every_user, shares};
use super::parts::laws::{DrawnRounds, LAW_OPTIONS, Laws, check_fits, normal};
use super::parts::linear::{LinearWorld, UserLaw, Users};
use crate::Error;
use crate::environment::{Environment, EnvironmentInfo, Feedback, Size, World};
use crate::seed::{Purpose, Seed};

/// Static metadata of the environment: name, summary, parameters.
pub(super) const INFO: EnvironmentInfo = EnvironmentInfo {
    name: "drifting",
    summary: "users of a cluster start the same and change, at once or slowly",
    params: &[LAW_OPTIONS, CLUSTER_OPTIONS, DRIFT_OPTIONS],
    build,
};

const DRIFT_OPTIONS: &[Param] = &[
    Param::choice(
        "drift",
        &["jump", "wander", "none"],
        "users are drawn anew in one round, move a little in every round, or stay as they are",
    ),
    Param::count("jump_round", 1, 500, "the first round of the new users (drift = jump)"),
    Param::real(
        "step",
        NOT_NEGATIVE,
        0.01,
        "by how much each coordinate moves in a round (drift = wander)",
    ),
];

struct Drifting {
    laws: Laws,
    clusters: Vec<usize>,
    count: usize,
    drift: Drift,
}

#[derive(Clone, Copy)]
enum Drift {
    Jump { round: usize },
    Wander { step: f64 },
    None,
}

fn build(settings: &Settings) -> Result<Box<dyn Environment>, Error> {
    let laws = Laws::from_settings(settings)?;
    let count = settings.count("clusters");
    check_fits("clusters", count, laws.dim)?;
    let clusters = cluster_of_every_user(laws.users, count, settings.real("imbalance"));
    let drift = match settings.choice("drift") {
        "jump" => Drift::Jump { round: settings.count("jump_round") },
        "wander" => Drift::Wander { step: settings.real("step") },
        _ => Drift::None,
    };
    if let Drift::Wander { step } = drift
        && laws.dim as f64 * step * step > 1.0
    {
        let expected = format!("at most 1/√dim = {:.3}", 1.0 / (laws.dim as f64).sqrt());
        return Err(Error::unexpected("step", step.to_string(), expected));
    }
    Ok(Box::new(Drifting { laws, clusters, count, drift }))
}

impl Environment for Drifting {
    fn size(&self) -> Size {
        self.laws.size()
    }

    fn world(&self, seed: Seed) -> Result<Box<dyn World>, Error> {
        let dim = self.laws.dim;
        let rng = &mut seed.stream(Purpose::Users, 0);
        let centres = Centres::Uniform.draw(self.count, dim, rng)?;
        let first = DrawnUsers::new(&centres, self.clusters.clone());
        let law = UserLaw {
            centres: centres.concat(),
            weights: shares(&self.clusters, self.count),
            ..UserLaw::default()
        };
        let users = Users {
            thetas: first.thetas.clone(),
            clusters: first.clusters.clone(),
            law: Some(law),
            ..Users::default()
        };
        let rng = &mut seed.stream(Purpose::Drift, 0);
        let mut clusters = self.clusters.clone();
        clusters.shuffle(rng);
        let second = DrawnUsers::new(&Centres::Uniform.draw(self.count, dim, rng)?, clusters);
        let world = LinearWorld::new(users, dim, self.laws.sigma(), self.laws.rounds(seed));
        Ok(Box::new(DriftingWorld { world, seed, dim, drift: self.drift, first, second, round: 0 }))
    }
}

/// The users at some time.
struct DrawnUsers {
    thetas: Vec<f64>,
    clusters: Vec<usize>,
}

impl DrawnUsers {
    fn new(centres: &[Vec<f64>], clusters: Vec<usize>) -> Self {
        let thetas = clusters.iter().flat_map(|cluster| centres[*cluster].clone()).collect();
        Self { thetas, clusters }
    }
}

struct DriftingWorld {
    world: LinearWorld<DrawnRounds>,
    seed: Seed,
    dim: usize,
    drift: Drift,
    /// The users of round 0, and those after a jump.
    first: DrawnUsers,
    second: DrawnUsers,
    /// The round that the users in `world` belong to.
    round: usize,
}

impl DriftingWorld {
    fn turn_to(&mut self, round: usize) {
        if round == self.round {
            return;
        }
        match self.drift {
            Drift::None => {}
            Drift::Jump { round: jump } => {
                if (round >= jump) != (self.round >= jump) {
                    let crowd = if round >= jump { &self.second } else { &self.first };
                    self.world.set_users(&crowd.thetas, &crowd.clusters);
                }
            }
            // Steps are drawn by round: going back means starting again.
            Drift::Wander { step } => {
                let (mut thetas, done) = if round < self.round {
                    (self.first.thetas.clone(), 0)
                } else {
                    (self.world.thetas().to_vec(), self.round)
                };
                let pull = (1.0 - self.dim as f64 * step * step).max(0.0).sqrt();
                for round in done + 1..=round {
                    let rng = &mut self.seed.stream(Purpose::Drift, round);
                    for theta in thetas.chunks_exact_mut(self.dim) {
                        let moves = normal(self.dim, rng);
                        theta.iter_mut().zip(moves).for_each(|(t, z)| *t = pull * *t + step * z);
                    }
                }
                self.world.set_users(&thetas, &self.first.clusters);
            }
        }
        self.round = round;
    }
}

impl World for DriftingWorld {
    fn sigma(&self) -> f64 {
        self.world.sigma()
    }

    /// Vectors and clusters are those of the current round; the distribution is that of round 0, in
    /// which policies are made.
    fn truth(&self) -> Option<Truth<'_>> {
        self.world.truth()
    }

    fn start_round(&mut self, round: usize) {
        self.turn_to(round);
        self.world.start_round(round);
    }

    fn contexts(&self) -> Contexts<'_> {
        self.world.contexts()
    }

    fn absences(&self) -> bool {
        self.world.absences()
    }

    fn is_absent(&self, user: usize) -> bool {
        self.world.is_absent(user)
    }

    fn play(&self, user: usize, arm: Arm) -> Feedback {
        self.world.play(user, arm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohort::linear::dot;
    use cohort::params::Value;

    fn world(options: &[(&str, &str)]) -> Box<dyn World> {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        let settings = INFO.check(options).unwrap();
        build(&settings).unwrap().world(Seed { seed: 5, repetition: 0 }).unwrap()
    }

    fn thetas_in(world: &mut dyn World, round: usize) -> Vec<f64> {
        world.start_round(round);
        world.truth().unwrap().thetas.to_vec()
    }

    #[test]
    fn a_jump_changes_everybody_once() {
        let mut world = world(&[("jump_round", "3")]);
        let before = thetas_in(world.as_mut(), 2);
        let after = thetas_in(world.as_mut(), 3);
        let same =
            |a: &[f64], b: &[f64]| a.chunks(15).zip(b.chunks(15)).filter(|(a, b)| a == b).count();
        assert_eq!(same(&before, &after), 0);
        assert!(after.chunks(15).all(|theta| (dot(theta, theta) - 1.0).abs() < 1e-12));
        let sizes = cohort::cluster::partition::sizes(world.truth().unwrap().clusters);
        assert_eq!(sizes, [10; 10]);
        assert_eq!(thetas_in(world.as_mut(), 900), after);
        assert_eq!(thetas_in(world.as_mut(), 0), before);
    }

    #[test]
    fn wandering_users_move_a_step_a_round_and_stay_as_long() {
        let options = [("drift", "wander"), ("step", "0.05"), ("users", "400")];
        let (mut there, mut back) = (world(&options), world(&options));
        let one = thetas_in(there.as_mut(), 40);
        let next = thetas_in(there.as_mut(), 41);
        let squares: f64 = one.iter().zip(&next).map(|(a, b)| (a - b) * (a - b)).sum();
        // Each coordinate moves by N(0, s²), and is pulled back by a little less.
        assert!((squares / one.len() as f64 / 0.0025 - 1.0).abs() < 0.1, "{squares}");
        let length = dot(&next, &next) / 400.0;
        assert!((length - 1.0).abs() < 0.1, "{length}");
        for round in [60, 3, 41] {
            back.start_round(round);
        }
        assert_eq!(next, back.truth().unwrap().thetas);
    }

    #[test]
    fn a_step_that_no_pull_holds_is_refused() {
        let options = [("drift".to_owned(), "wander".into()), ("step".to_owned(), 0.3.into())];
        let error = build(&INFO.check(options).unwrap()).err().unwrap().to_string();
        assert!(error.contains("step: found 0.3, expected at most 1/√dim = 0.258"), "{error}");
    }
}
