//! Your own policy: implement [`Policy`], and every driver can run it.
//!
//! `cargo run -p cohort --example own_policy`; docs/add-a-policy.md goes on from here.

use cohort::linear::{Oful, argmax, dot};
use cohort::policies::random;
use cohort::{Arm, Contexts, Error, Policy, Problem};

/// One ridge regression for all users; explores in every tenth round, is greedy in all others.
struct EveryTenth {
    pooled: Oful,
    round: usize,
}

impl Policy for EveryTenth {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        let greedy = argmax(contexts.iter().map(|x| dot(x, self.pooled.estimate())));
        for (user, arm) in arms.iter_mut().enumerate() {
            let explores = self.round.is_multiple_of(10);
            *arm = if explores { (user + self.round / 10) % contexts.arms() } else { greedy };
        }
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        for (arm, reward) in arms.iter().zip(rewards) {
            self.pooled.learn(contexts.arm(*arm), *reward);
        }
        self.round += 1;
    }
}

/// The sum of rewards of all users, who like the second coordinate.
fn play(policy: &mut dyn Policy) -> Result<f64, Error> {
    let (users, dim, arms) = (5, 3, 4);
    let mut sum = 0.0;
    for round in 0..200 {
        let values: Vec<f64> =
            (0..arms * dim).map(|at| ((at * 29 + round * 17) as f64).sin()).collect();
        let contexts = Contexts::new(&values, dim)?;
        let mut chosen = vec![0; users];
        policy.choose(&contexts, &mut chosen);
        let rewards: Vec<f64> = chosen.iter().map(|arm| contexts.arm(*arm)[1]).collect();
        sum += rewards.iter().sum::<f64>();
        policy.learn(&contexts, &chosen, &rewards);
    }
    Ok(sum)
}

/// Prints its reward beside that of random arms.
pub fn main() -> Result<(), Error> {
    let own = play(&mut EveryTenth { pooled: Oful::new(3, 1.0), round: 0 })?;
    let at_random = play(random::builder().build(&Problem::new(5, 3))?.as_mut())?;
    println!("rewards: {own:.1} by the policy of your own, {at_random:.1} at random");
    assert!(own > at_random);
    Ok(())
}
