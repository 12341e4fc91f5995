//! Typed builders of policies, beside the registry: `cmlb::builder().alpha(0.2).build(&problem)?`.
//!
//! Every policy's file declares its builder with one line that lists the parameters of its `INFO`. A
//! parameter that is missing, misspelt or in another order does not compile; its range is checked
//! once, by [`build`], with the same sentence that the registry uses.
//!
//! [`build`]: crate::policies::cmlb::Builder::build

use crate::params::{Param, Value};

/// Declares `Builder` and `builder()` for the policy described by `INFO` in the same file.
///
/// `OFUL` stands for the parameters of [`OFUL_PARAMS`](crate::linear::OFUL_PARAMS).
macro_rules! builder {
    ($($before:ident: $kind:ident),*; OFUL) => {
        $crate::builder::builder! {
            $($before: $kind,)* delta: real, lambda: real, norm_bound: real, sigma: real,
            exploration: real, confidence: choice, rho_min: real, intercept: flag,
        }
    };
    (OFUL $(; $($after:ident: $kind:ident),*)?) => {
        $crate::builder::builder! {
            delta: real, lambda: real, norm_bound: real, sigma: real, exploration: real,
            confidence: choice, rho_min: real, intercept: flag, $($($after: $kind),*)?
        }
    };
    ($($param:ident: $kind:ident),* $(,)?) => {
        /// A typed builder of this policy. Parameters that are not set have their defaults.
        #[derive(Clone, Debug, Default)]
        pub struct Builder {
            set: Vec<(String, $crate::params::Value)>,
        }

        /// A builder of this policy with every parameter at its default.
        pub fn builder() -> Builder {
            Builder::default()
        }

        impl Builder {
            $($crate::builder::setter!($param: $kind);)*

            /// Checks the parameters and makes the policy for a problem.
            pub fn build(
                self,
                problem: &$crate::Problem,
            ) -> Result<Box<dyn $crate::Policy>, $crate::Error> {
                INFO.make(problem, &INFO.check(self.set)?)
            }
        }

        const _: () = assert!(
            $crate::builder::lists(INFO.params, &[$(stringify!($param)),*]),
            "a builder lists the parameters of its INFO, in their order"
        );
    };
}

/// One setter of a builder.
macro_rules! setter {
    ($param:ident: real) => { $crate::builder::setter!($param, f64); };
    ($param:ident: count) => { $crate::builder::setter!($param, usize); };
    ($param:ident: flag) => { $crate::builder::setter!($param, bool); };
    ($param:ident: choice) => { $crate::builder::setter!($param, &str); };
    // A number or one of the listed words.
    ($param:ident: real_or) => { $crate::builder::setter!($param, impl Into<$crate::params::Value>); };
    ($param:ident, $type:ty) => {
        #[doc = concat!("Sets `", stringify!($param), "`: its range, default and meaning are in [`INFO`].")]
        pub fn $param(mut self, value: $type) -> Self {
            self.set.push((stringify!($param).to_owned(), value.into()));
            self
        }
    };
}

pub(crate) use builder;
pub(crate) use setter;

/// Whether `names` are the names of the parameters, in their order.
pub(crate) const fn lists(params: &[&[Param]], names: &[&str]) -> bool {
    let (mut group, mut at) = (0, 0);
    while group < params.len() {
        let mut param = 0;
        while param < params[group].len() {
            if at >= names.len() || !equal(params[group][param].name, names[at]) {
                return false;
            }
            param += 1;
            at += 1;
        }
        group += 1;
    }
    at == names.len()
}

const fn equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Value::Real(count as f64)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Text(flag.to_string())
    }
}

#[cfg(test)]
mod tests {
    use crate::policies::{club, cmlb, cohort, linucb_ind};
    use crate::{Contexts, Problem, registry};

    #[test]
    fn a_builder_makes_what_the_registry_makes() {
        let problem = Problem { rounds: Some(40), ..Problem::new(6, 3) };
        let params = [("alpha".to_owned(), 0.3.into()), ("c".to_owned(), 0.1.into())];
        let mut policies = [
            cmlb::builder().alpha(0.3).c(0.1).build(&problem).unwrap(),
            registry::build("cmlb", &problem, params).unwrap(),
        ];
        for round in 0..40 {
            let values: Vec<f64> = (0..12).map(|at| ((at * 7 + round * 3) as f64).sin()).collect();
            let contexts = Contexts::new(&values, 3).unwrap();
            let mut arms = [[0; 6]; 2];
            for (policy, arms) in policies.iter_mut().zip(&mut arms) {
                policy.choose(&contexts, arms);
                let rewards: Vec<f64> = arms.iter().map(|arm| values[*arm]).collect();
                policy.learn(&contexts, arms, &rewards);
            }
            assert_eq!(arms[0], arms[1], "round {round}");
        }
    }

    #[test]
    fn a_value_out_of_range_is_refused_with_the_registrys_sentence() {
        let problem = Problem { rounds: Some(40), ..Problem::new(6, 3) };
        let why = cmlb::builder().alpha(0.9).build(&problem).err().unwrap();
        assert_eq!(why.to_string(), "cmlb.alpha = 0.9: expected a number in (0, 0.5]");
        assert!(linucb_ind::builder().intercept(true).build(&problem).is_ok());
        assert!(club::builder().graph("star").build(&problem).is_err());
        assert!(cohort::builder().half_life("auto").build(&problem).is_ok());
        assert!(cohort::builder().half_life(500.0).build(&problem).is_ok());
    }
}
