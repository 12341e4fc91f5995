//! `cohort`: clustering and personalization in one, told nothing.

use rayon::prelude::*;

use crate::linear::argmax;
use crate::params::{NOT_NEGATIVE, Param, Settings};
use crate::population::{Belief, Believer, Given, Ledger, Outlook, Population};
use crate::registry::PolicyInfo;
use crate::{Arm, Contexts, Error, Policy, Problem};

/// What is known of it before it is made.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "cohort",
    summary: "learns the population (cohorts, spreads, noise) and every user within it; told nothing",
    reference: "this project",
    params: &[&[
        Param::real("exploration", NOT_NEGATIVE, 1.0, "standard deviations of optimism"),
        Param::real("refit_ratio", NOT_NEGATIVE, 1.15, "refits are spaced by this ratio"),
    ]],
    build,
};

struct Cohort {
    ledger: Ledger,
    beliefs: Vec<Belief>,
    population: Option<Population>,
    next_refit: f64,
    exploration: f64,
    ratio: f64,
}

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    Ok(Box::new(Cohort {
        ledger: Ledger::new(problem.users, problem.dim, None),
        beliefs: Vec::new(),
        population: None,
        next_refit: 1.0,
        exploration: settings.real("exploration"),
        ratio: settings.real("refit_ratio"),
    }))
}

impl Policy for Cohort {
    fn choose(&mut self, contexts: &Contexts, arms: &mut [Arm]) {
        if self.beliefs.is_empty() {
            for (i, arm) in arms.iter_mut().enumerate() {
                *arm = i % contexts.arms();
            }
            return;
        }
        let exploration = self.exploration;
        self.beliefs.par_iter().zip(arms).with_min_len(64).for_each(|(belief, arm)| {
            *arm = argmax(contexts.iter().map(|x| {
                let (mean, sd) = belief.predict(x);
                mean + exploration * sd
            }));
        });
    }

    fn learn(&mut self, contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        self.ledger.learn(contexts, arms, rewards);
        if self.ledger.rewards() >= self.next_refit {
            self.next_refit = self.ledger.rewards() * self.ratio;
            if let Some(fit) =
                Population::fit(&self.ledger, self.population.as_ref(), &Given::default())
            {
                let believer = Believer::new(&fit.population, Outlook::default());
                self.beliefs =
                    fit.spectra.par_iter().flat_map_iter(|users| believer.believe(users)).collect();
                self.beliefs.truncate(self.ledger.users());
                self.population = Some(fit.population);
            }
            if std::env::var("COHORT_TRACE").is_ok()
                && let Some(p) = &self.population
            {
                eprintln!(
                    "{:8} n/user {:6.1} noise {:.4} spread0 {:.5} spread {:.5} cohorts {} weights {:?}",
                    self.ledger.rewards(),
                    self.ledger.rewards() / self.ledger.users() as f64,
                    p.noise.sqrt(),
                    p.components[0].spread,
                    p.components.get(1).map_or(-1.0, |c| c.spread),
                    p.components.len() - 1,
                    p.components.iter().map(|c| (c.weight * 100.0).round()).collect::<Vec<_>>()
                );
            }
        } else if let Some(population) = &self.population {
            self.beliefs.par_iter_mut().zip(arms).zip(rewards).with_min_len(64).for_each(
                |((belief, arm), y)| belief.learn(contexts.arm(*arm), *y, population.noise),
            );
        }
    }

    fn clusters(&self) -> Option<Vec<usize>> {
        if self.beliefs.is_empty() {
            return None;
        }
        let mut labels: Vec<usize> =
            self.beliefs.iter().map(|belief| belief.likeliest().component).collect();
        crate::cluster::partition::number_by_smallest_member(&mut labels);
        Some(labels)
    }
}
