//! An intercept for any policy: a constant 1 at the end of every context. Its coefficient is the
//! level of rewards, for which the paper's policies have no other place.

use crate::params::{Param, Settings};
use crate::registry::Build;
use crate::{Arm, Contexts, Error, OnlinePolicy, Order, Policy, Problem, Saved, Score};

/// The parameter that every policy with an intercept has.
pub const INTERCEPT: Param = Param::flag(
    "intercept",
    "append a constant 1 to every context, for rewards that have a level of their own",
);

/// A policy that works in one dimension more than its callers see.
struct WithIntercept {
    policy: Box<dyn Policy>,
    padded: Vec<f64>,
}

/// Makes a policy, wrapped with an intercept if that is set.
pub(crate) fn build(
    build: Build,
    problem: &Problem,
    settings: &Settings,
) -> Result<Box<dyn Policy>, Error> {
    if settings.text(INTERCEPT.name) != Some("true") {
        return build(problem, settings);
    }
    let policy = build(&Problem { dim: problem.dim + 1, ..*problem }, settings)?;
    Ok(Box::new(WithIntercept { policy, padded: Vec::new() }))
}

/// The contexts with a 1 appended to each.
fn with_ones<'a>(contexts: &Contexts, to: &'a mut Vec<f64>) -> Contexts<'a> {
    to.clear();
    contexts.iter().for_each(|x| to.extend(x.iter().chain(&[1.0])));
    Contexts::new(to, contexts.dim() + 1).expect("finite as they were")
}

fn online_of(policy: &mut Box<dyn Policy>) -> &mut dyn OnlinePolicy {
    policy.online().expect("only policies with an online form are asked for it")
}

impl Policy for WithIntercept {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        self.policy.choose(&with_ones(contexts, &mut self.padded), arms);
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.policy.learn(&with_ones(contexts, &mut self.padded), arms, rewards);
    }

    fn clusters(&self) -> Option<Vec<usize>> {
        self.policy.clusters()
    }

    fn online(&mut self) -> Option<&mut dyn OnlinePolicy> {
        if self.policy.online().is_some() { Some(self) } else { None }
    }

    fn saved(&mut self) -> Option<&mut dyn Saved> {
        self.policy.saved()
    }

    fn order(&self) -> Order {
        self.policy.order()
    }
}

/// Policies with an intercept have no refits.
impl OnlinePolicy for WithIntercept {
    fn decide(&mut self, user: usize, contexts: &Contexts) -> Arm {
        let contexts = with_ones(contexts, &mut self.padded);
        online_of(&mut self.policy).decide(user, &contexts)
    }

    fn score(&mut self, user: usize, contexts: &Contexts, scores: &mut [Score]) {
        let contexts = with_ones(contexts, &mut self.padded);
        online_of(&mut self.policy).score(user, &contexts, scores);
    }

    fn learn_one(&mut self, user: usize, context: &[f64], reward: f64) {
        self.padded.clear();
        self.padded.extend(context.iter().chain(&[1.0]));
        online_of(&mut self.policy).learn_one(user, &self.padded, reward);
    }

    fn chances(
        &mut self,
        user: usize,
        contexts: &Contexts,
        seed: u64,
        chances: &mut [f64],
    ) -> bool {
        let contexts = with_ones(contexts, &mut self.padded);
        online_of(&mut self.policy).chances(user, &contexts, seed, chances)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    /// The same arms as the policy that is given the 1 by its caller, in rounds and online.
    #[test]
    fn it_is_the_policy_on_contexts_with_a_one() {
        let has_it = |info: &&registry::PolicyInfo| {
            info.params.iter().copied().flatten().any(|param| param.name == INTERCEPT.name)
        };
        let with_it: Vec<_> = registry::POLICIES.iter().filter(has_it).collect();
        assert!(with_it.iter().any(|info| info.name == "linucb-ind"));
        for info in with_it {
            let problem = |dim| Problem {
                rounds: Some(60),
                truth: Some(crate::Truth::new(&[], &[0, 1, 0, 1])),
                ..Problem::new(4, dim)
            };
            let set = [(INTERCEPT.name.to_owned(), "true".into())];
            let policy = registry::build(info.name, &problem(2), set);
            // Some need inputs that this test does not have; both forms refuse alike.
            let (Ok(mut policy), Ok(mut given)) =
                (policy, registry::build(info.name, &problem(3), []))
            else {
                continue;
            };
            assert_eq!(policy.online().is_some(), given.online().is_some());
            let mut arms = [[0; 4]; 2];
            for round in 0..60 {
                let values: Vec<f64> =
                    (0..10).map(|i| ((round * 7 + i * 11) % 17) as f64 / 17.0 - 0.5).collect();
                let contexts = Contexts::new(&values, 2).unwrap();
                let mut padded = Vec::new();
                let longer = with_ones(&contexts, &mut padded);
                policy.choose(&contexts, &mut arms[0]);
                given.choose(&longer, &mut arms[1]);
                assert_eq!(arms[0], arms[1], "{}, round {round}", info.name);
                let rewards: Vec<f64> =
                    (0..4).map(|user| 2.0 + longer.arm(arms[0][user])[user % 2]).collect();
                policy.learn(&contexts, &arms[0], &rewards);
                given.learn(&longer, &arms[1], &rewards);
                let (Some(policy), Some(given)) = (policy.online(), given.online()) else {
                    continue;
                };
                assert_eq!(policy.decide(1, &contexts), given.decide(1, &longer));
                policy.learn_one(1, contexts.arm(0), 1.5);
                given.learn_one(1, longer.arm(0), 1.5);
            }
            assert_eq!(policy.clusters(), given.clusters());
        }
    }
}
