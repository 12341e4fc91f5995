//! The registry of environments. A new one is one file here and one line in [`ENVIRONMENTS`]; the
//! command line, TOML and error messages read its options from there.

mod affine;
mod catalogue;
mod clustered;
mod drifting;
mod gaussian;
mod mixture;
mod parts;
mod table;

pub use table::table;

use cohort::nearest;
use cohort::params::{Settings, Value};

use crate::Error;
use crate::environment::EnvironmentInfo;

/// All environments; the first is the default.
pub const ENVIRONMENTS: &[EnvironmentInfo] = &[
    clustered::INFO,
    gaussian::INFO,
    mixture::INFO,
    drifting::INFO,
    table::INFO,
    affine::INFO,
    catalogue::LASTFM,
    catalogue::MOVIELENS,
    catalogue::YELP,
];

/// Looks an environment up by name.
pub fn info(name: &str) -> Result<&'static EnvironmentInfo, Error> {
    let names = || ENVIRONMENTS.iter().map(|info| info.name);
    ENVIRONMENTS.iter().find(|info| info.name == name).ok_or_else(|| Error::UnknownEnvironment {
        name: name.to_owned(),
        nearest: nearest(name, names()),
        known: names().collect::<Vec<_>>().join(", "),
    })
}

impl EnvironmentInfo {
    /// Checks options without making the environment.
    pub fn check(
        &self,
        options: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Settings, Error> {
        let refused = |error| match Error::of(format!("environment `{}`", self.name), error) {
            // Spelt right, but an option of another environment: no similar name is suggested.
            Error::UnknownKey { of, name, known, .. } if is_option_of_any(&name) => {
                Error::UnknownKey { of, name, known, nearest: None }
            }
            error => error,
        };
        Settings::check(self.name, self.params, options).map_err(refused)
    }
}

fn is_option_of_any(name: &str) -> bool {
    ENVIRONMENTS.iter().flat_map(EnvironmentInfo::options).any(|option| option.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::{Feedback, World};
    use crate::seed::Seed;
    use cohort::linear::dot;

    const SEED: Seed = Seed { seed: 5, repetition: 2 };

    fn world(name: &str, options: &[(&str, &str)]) -> Box<dyn World> {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value)));
        let info = info(name).unwrap();
        (info.build)(&info.check(options).unwrap()).unwrap().world(SEED).unwrap()
    }

    fn thetas(world: &dyn World, dim: usize) -> Vec<Vec<f64>> {
        world.truth().unwrap().thetas.chunks(dim).map(<[f64]>::to_vec).collect()
    }

    /// The feedback of the first `users` users for arm 1 in round 4.
    fn answers(world: &mut dyn World, users: usize) -> Vec<Feedback> {
        world.start_round(4);
        (0..users).map(|user| world.play(user, 1)).collect()
    }

    #[test]
    fn a_world_is_the_same_for_the_same_seed_and_rounds_come_in_any_order() {
        for name in ["clustered", "gaussian", "mixture", "drifting"] {
            let (mut one, mut other) = (world(name, &[]), world(name, &[]));
            for round in 0..4 {
                other.start_round(round);
            }
            assert_eq!(answers(one.as_mut(), 100), answers(other.as_mut(), 100), "{name}");
        }
    }

    #[test]
    fn more_users_leave_the_first_ones_as_they_were() {
        let mut few = world("gaussian", &[("users", "10")]);
        let mut many = world("gaussian", &[("users", "1000")]);
        assert_eq!(answers(few.as_mut(), 10), answers(many.as_mut(), 10));
    }

    #[test]
    fn regret_is_zero_for_one_arm_at_least_and_does_not_depend_on_noise() {
        let mut quiet = world("clustered", &[("noise", "0")]);
        let mut noisy = world("clustered", &[("noise", "3")]);
        quiet.start_round(1);
        noisy.start_round(1);
        for user in [0, 57, 99] {
            let regrets: Vec<f64> = (0..25).map(|arm| quiet.play(user, arm).regret).collect();
            assert!(regrets.contains(&0.0) && regrets.iter().all(|regret| *regret >= 0.0));
            for (arm, regret) in regrets.into_iter().enumerate() {
                assert_eq!(noisy.play(user, arm).regret, regret);
                assert_ne!(noisy.play(user, arm).reward, quiet.play(user, arm).reward);
            }
        }
    }

    #[test]
    fn users_of_a_cluster_are_the_same_and_on_the_unit_sphere() {
        let world = world("clustered", &[("users", "7"), ("clusters", "3"), ("imbalance", "1")]);
        let thetas = thetas(world.as_ref(), 15);
        let clusters = world.truth().unwrap().clusters;
        assert_eq!(clusters, [0, 0, 0, 0, 1, 1, 2]);
        for (i, j) in (0..7).flat_map(|i| (0..7).map(move |j| (i, j))) {
            assert_eq!(thetas[i] == thetas[j], clusters[i] == clusters[j]);
        }
        assert!(thetas.iter().all(|theta| (dot(theta, theta) - 1.0).abs() < 1e-12));
    }

    #[test]
    fn spread_is_the_variance_of_every_coordinate() {
        for name in ["gaussian", "mixture"] {
            let options = [("users", "4000"), ("clusters", "1"), ("spread", "0.25")];
            let known = info(name).unwrap();
            let options: Vec<_> = (options.iter().copied())
                .filter(|(option, _)| known.options().any(|other| other.name == *option))
                .collect();
            let thetas = thetas(world(name, &options).as_ref(), 15);
            for k in 0..15 {
                let mean = thetas.iter().map(|theta| theta[k]).sum::<f64>() / 4000.0;
                let squares = thetas.iter().map(|theta| (theta[k] - mean).powi(2));
                let variance = squares.sum::<f64>() / 4000.0;
                assert!((variance / 0.25 - 1.0).abs() < 0.1, "{name}: {variance}");
            }
        }
    }

    #[test]
    fn the_unit_ball_is_reached_by_one_common_factor() {
        let free = thetas(world("gaussian", &[]).as_ref(), 15);
        let scaled = thetas(world("gaussian", &[("unit_ball", "true")]).as_ref(), 15);
        let longest = scaled.iter().map(|theta| dot(theta, theta).sqrt()).fold(0.0, f64::max);
        assert!((longest - 1.0).abs() < 1e-12);
        let factor = scaled[0][0] / free[0][0];
        for (free, scaled) in free.concat().iter().zip(scaled.concat()) {
            assert!((free * factor - scaled).abs() < 1e-12);
        }
    }

    #[test]
    fn levels_are_added_to_rewards_and_change_nothing_else() {
        let rewards = |options: &[(&str, &str)], round: usize| -> Vec<Feedback> {
            let mut world = world("clustered", options);
            world.start_round(round);
            (0..100).map(|user| world.play(user, 3)).collect()
        };
        let added = |options: &[(&str, &str)], round: usize| -> Vec<f64> {
            let (with, without) = (rewards(options, round), rewards(&[], round));
            assert!(with.iter().zip(&without).all(|(with, without)| with.regret == without.regret));
            with.iter().zip(without).map(|(with, without)| with.reward - without.reward).collect()
        };
        assert!(added(&[("level", "-2.5")], 0).iter().all(|added| (added + 2.5).abs() < 1e-12));
        let own = added(&[("level_spread", "0.5")], 0);
        let again = added(&[("level_spread", "0.5")], 1);
        assert!(own.iter().zip(again).all(|(own, again)| (own - again).abs() < 1e-12));
        let variance = own.iter().map(|own| own * own).sum::<f64>() / 100.0;
        assert!((0.15..0.4).contains(&variance), "{variance}");
        let world = world("clustered", &[("level", "1"), ("level_spread", "0.5")]);
        let law = world.truth().unwrap().law.unwrap();
        assert_eq!((law.level, law.level_spread), (1.0, 0.5));
    }

    #[test]
    fn users_with_odd_numbers_have_their_own_noise() {
        let both = world("clustered", &[("noise_odd", "0.7")]);
        assert!((both.sigma() - 0.5).abs() < 1e-12);
        assert_eq!(both.truth().unwrap().law.unwrap().sigmas.unwrap()[..3], [0.1, 0.7, 0.1]);
        let rewards = |options: &[(&str, &str)]| {
            let answers = answers(world("clustered", options).as_mut(), 6);
            answers.into_iter().map(|answer| answer.reward).collect::<Vec<_>>()
        };
        let (expected, same) = (rewards(&[("noise", "0")]), rewards(&[]));
        for (user, reward) in rewards(&[("noise_odd", "0.7")]).into_iter().enumerate() {
            let ratio = (reward - expected[user]) / (same[user] - expected[user]);
            let factor = if user % 2 == 0 { 1.0 } else { 7.0 };
            assert!((ratio / factor - 1.0).abs() < 1e-6, "{user}: {ratio}");
        }
    }

    /// The dimension of the span of vectors, by Gram–Schmidt.
    fn rank(vectors: &[Vec<f64>]) -> usize {
        let mut basis: Vec<Vec<f64>> = Vec::new();
        for vector in vectors {
            let mut rest = vector.clone();
            for axis in basis.iter().chain(&basis) {
                let along = dot(&rest, axis);
                rest.iter_mut().zip(axis).for_each(|(rest, axis)| *rest -= along * axis);
            }
            let length = dot(&rest, &rest).sqrt();
            if length > 1e-9 {
                basis.push(rest.iter().map(|value| value / length).collect());
            }
        }
        basis.len()
    }

    #[test]
    fn vectors_of_low_rank_are_as_long_as_others() {
        for name in ["clustered", "gaussian", "mixture"] {
            let low = world(name, &[("users", "1000"), ("rank", "4")]);
            let low = thetas(low.as_ref(), 15);
            assert_eq!(rank(&low), 4, "{name}");
            // The mean of `gaussian` is one draw; deviations from it are many.
            let mean: Vec<f64> =
                (0..15).map(|k| low.iter().map(|theta| theta[k]).sum::<f64>() / 1000.0).collect();
            let square = |theta: &Vec<f64>| {
                let differences = theta.iter().zip(&mean).map(|(theta, mean)| theta - mean);
                differences.map(|difference| difference * difference).sum::<f64>()
            };
            let squares = low.iter().map(square).sum::<f64>() / 1000.0;
            match name {
                "clustered" => assert!(low.iter().all(|v| (dot(v, v) - 1.0).abs() < 1e-12)),
                "gaussian" => assert!((squares / 0.15 - 1.0).abs() < 0.1, "{squares}"),
                _ => {}
            }
        }
        let settings = info("clustered").unwrap().check([("rank".to_owned(), 16.0.into())]);
        let error = (info("clustered").unwrap().build)(&settings.unwrap()).err().unwrap();
        assert!(error.to_string().contains("at most dim = 15"), "{error}");
    }

    #[test]
    fn visitors_leave_the_others_as_they_were() {
        for name in ["clustered", "gaussian", "mixture"] {
            let mut alone = world(name, &[("users", "20"), ("noise_odd", "0.5")]);
            for when in ["before", "between", "after"] {
                let options = [
                    ("users", "20"),
                    ("noise_odd", "0.5"),
                    ("visitors", "30"),
                    ("visitors_when", when),
                ];
                let mut world = world(name, &options);
                let visitors = world.visitors().unwrap().users.clone();
                assert_eq!(visitors.len(), 30);
                let others: Vec<usize> = (0..50).filter(|user| !visitors.contains(user)).collect();
                for round in [3, 0] {
                    world.start_round(round);
                    alone.start_round(round);
                    assert!(world.is_absent(visitors[0]) && !world.is_absent(others[0]));
                    for (number, user) in others.iter().enumerate() {
                        assert_eq!(world.play(*user, 2), alone.play(number, 2), "{name} {when}");
                    }
                }
                let (truth, of_alone) = (world.truth().unwrap(), alone.truth().unwrap());
                let (law, of_alone_law) = (truth.law.unwrap(), of_alone.law.unwrap());
                assert_eq!(law.weights, of_alone_law.weights);
                assert_eq!(truth.thetas.len(), 50 * 15);
                for (number, user) in others.iter().enumerate() {
                    assert_eq!(truth.clusters[*user] == 0, of_alone.clusters[number] == 0);
                    assert_eq!(law.sigmas.unwrap()[*user], of_alone_law.sigmas.unwrap()[number]);
                    assert_eq!(truth.thetas[user * 15], of_alone.thetas[number * 15]);
                }
            }
        }
    }

    #[test]
    fn an_option_of_another_environment_is_refused_without_a_wild_guess() {
        let refused = |name: &str| {
            let option = (name.to_owned(), Value::Real(3.0));
            info("gaussian").unwrap().check([option]).unwrap_err().to_string()
        };
        assert!(!refused("clusters").contains("did you mean"));
        assert!(refused("sprea").contains("did you mean `spread`?"));
    }

    /// The command line has one flag per option name, so a name must mean one kind of value.
    #[test]
    fn options_of_the_same_name_take_the_same_kind_of_value() {
        let all = || ENVIRONMENTS.iter().flat_map(EnvironmentInfo::options);
        for (a, b) in all().flat_map(|a| all().map(move |b| (a, b))) {
            if a.name == b.name {
                assert_eq!(a.kind.to_string(), b.kind.to_string(), "{}", a.name);
            }
        }
    }
}
