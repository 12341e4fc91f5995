//! Every environment by name. A new one is one file here and one line in [`ENVIRONMENTS`]; the
//! command line, TOML and error messages know its options from there.

mod catalogue;
mod clustered;
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
    table::INFO,
    catalogue::LASTFM,
    catalogue::MOVIELENS,
];

/// The environment of that name.
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
            // Well spelt, but of another environment: nothing else was meant.
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
    use crate::environment::{Outcome, World};
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

    /// What the first `users` users answer to arm 1 in round 4.
    fn answers(world: &mut dyn World, users: usize) -> Vec<Outcome> {
        world.start_round(4);
        (0..users).map(|user| world.play(user, 1)).collect()
    }

    #[test]
    fn a_world_is_the_same_for_the_same_seed_and_rounds_come_in_any_order() {
        for name in ["clustered", "gaussian", "mixture"] {
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
    fn an_option_of_another_environment_is_refused_without_a_wild_guess() {
        let refused = |name: &str| {
            let option = (name.to_owned(), Value::Real(3.0));
            info("gaussian").unwrap().check([option]).unwrap_err().to_string()
        };
        assert!(!refused("clusters").contains("did you mean"));
        assert!(refused("sprea").contains("did you mean `spread`?"));
    }

    /// Flags are made from options, one flag for each name: so a name must mean one kind of value.
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
