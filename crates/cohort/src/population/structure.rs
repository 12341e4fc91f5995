//! Structure search: cohorts are added, merged, split and removed only where the evidence
//! increases.

use super::candidates::CandidateSearch;
use super::constants;
use super::covariance;
use super::fit::Fitting;
use super::maximise::CentrePrior;
use super::model::Population;
use super::pass::Pass;
use super::proposal::propose_mixture;
use super::splits::split_loose;
use super::sums::Sums;

/// The variances that the first cohort is tried with, in parts of the population's.
const FIRST_SPREADS: [f64; 2] = [0.02, 0.15];

impl Population {
    /// Whether nearly all users certainly belong to a cohort.
    pub(crate) fn is_settled(&self) -> bool {
        self.components.len() > 1
            && self.components[0].weight < constants::settled_at_large()
            && self.certainty > constants::settled_certainty()
    }
}

/// Changes the number of cohorts while the evidence increases; returns whether there is any cohort afterwards.
pub(super) fn improve(fitting: &mut Fitting) -> bool {
    let (population, rewards) = (&mut fitting.population, fitting.scales.rewards);
    if rewards < constants::search_least_rewards() * fitting.scales.users
        || (population.is_settled() && rewards < constants::search_growth() * population.searched)
    {
        return false;
    }
    population.searched = rewards;
    let mut pass = merge_and_remove(fitting);
    if split_loose(fitting, &pass) {
        pass = merge_and_remove(fitting);
    }
    for variances in tried_variances(&fitting.population) {
        let mut search = CandidateSearch::new(fitting, &pass, variances);
        if search.add_cohorts(&mut fitting.population) {
            fitting.iterate(3);
            merge_and_remove(fitting);
            break;
        }
    }
    propose_mixture(fitting);
    fitting.population.components.len() > 1
}

/// A new cohort has the variances of the others, or smaller ones, since what looks like one loose
/// cohort may hide several tight ones; the first tries small and large ones.
fn tried_variances(population: &Population) -> Vec<Vec<f64>> {
    let [at_large, cohorts] = &population.variances;
    let features = population.features();
    let scaled = |of: &[f64], by: f64| {
        let mut variances: Vec<f64> = of.iter().map(|v| by * v).collect();
        variances[features] = of[features];
        variances
    };
    let total = |of: &[f64]| of[..features].iter().sum::<f64>();
    if population.components.len() == 1 {
        FIRST_SPREADS.map(|part| scaled(at_large, part)).to_vec()
    } else if total(cohorts) > FIRST_SPREADS[0] * total(at_large) {
        vec![cohorts.clone(), scaled(cohorts, constants::split_tighter())]
    } else {
        vec![cohorts.clone()]
    }
}

/// What the weight of one more component costs: ½ ln N, as in BIC.
pub(super) fn weight_cost(users: f64) -> f64 {
    0.5 * users.max(1.0).ln()
}

/// The least cost of one more cohort: one nat per parameter, as in AIC. The evidence alone demands a larger gain while
/// the assignment of users is uncertain.
fn least_cost(fitting: &Fitting) -> f64 {
    if fitting.by_evidence {
        f64::INFINITY
    } else {
        fitting.population.used_features() as f64 + 2.0
    }
}

/// The evidence less the costs of cohorts and directions.
pub(super) fn penalized_evidence(fitting: &Fitting, pass: &Pass) -> f64 {
    let prior = CentrePrior::of_cohorts(&fitting.population);
    let users = fitting.scales.users;
    let cost: f64 =
        prior.costs(&pass.sums.components[1..]).iter().map(|c| c + weight_cost(users)).sum();
    pass.sums.evidence - cost - covariance::cost(&fitting.population, users)
}

/// Merges and removes cohorts while that gains; returns the last pass.
pub(super) fn merge_and_remove(fitting: &mut Fitting) -> Pass {
    loop {
        let pass = fitting.pass();
        if !merge_or_remove(fitting, &pass) {
            return pass;
        }
    }
}

/// Merges or removes cohorts, if any such change gains.
fn merge_or_remove(fitting: &mut Fitting, pass: &Pass) -> bool {
    let superfluous = superfluous(fitting, pass);
    if !superfluous.is_empty() {
        let components = &mut fitting.population.components;
        let mut at = 0;
        components.retain(|_| {
            at += 1;
            !superfluous.contains(&(at - 1))
        });
        let rest: f64 = components.iter().map(|component| component.weight).sum();
        for component in components.iter_mut() {
            component.weight /= rest;
        }
        fitting.iterate(1);
        return true;
    }
    let same = same(fitting, pass);
    if same.is_empty() {
        return false;
    }
    let prior = CentrePrior::of_cohorts(&fitting.population);
    let components = &mut fitting.population.components;
    for &(a, b) in &same {
        let mut both = pass.sums.components[a].clone();
        both.add(&pass.sums.components[b]);
        components[a].weight += components[b].weight;
        prior.settle(&mut components[a], &both);
    }
    let mut at = 0;
    components.retain(|_| {
        at += 1;
        same.iter().all(|(_, b)| *b != at - 1)
    });
    fitting.iterate(1);
    true
}

/// Cohorts whose users are better explained without them: the worst one, and others where there are
/// many.
fn superfluous(fitting: &Fitting, pass: &Pass) -> Vec<usize> {
    let (components, users) = (&fitting.population.components, fitting.scales.users);
    let prior = CentrePrior::of_cohorts(&fitting.population);
    let costs = prior.costs(&pass.sums.components);
    let gain = |c: usize| {
        // It stays if either criterion supports it: the evidence, or the predicted held-out
        // likelihood.
        let cost = (costs[c] + weight_cost(users)).min(least_cost(fitting));
        pass.absence[c] - users * (1.0 - components[c].weight).ln() + cost
    };
    let mut gains: Vec<(f64, usize)> =
        (1..components.len()).map(|c| (gain(c), c)).filter(|(gain, _)| *gain > 0.0).collect();
    gains.sort_by(|a, b| b.0.total_cmp(&a.0));
    // Users of a removed cohort may need another one that would have been removed as well.
    gains.truncate(components.len().div_ceil(constants::removed_at_once()));
    gains.into_iter().map(|(_, c)| c).collect()
}

/// Pairs of cohorts that are better explained as one, no cohort twice.
fn same(fitting: &Fitting, pass: &Pass) -> Vec<(usize, usize)> {
    let (components, users) = (&fitting.population.components, fitting.scales.users);
    let (count, sums) = (components.len(), &pass.sums.components);
    let prior = CentrePrior::of_cohorts(&fitting.population);
    let alone = prior.log_integrals(sums);
    let pairs: Vec<(usize, usize)> =
        (1..count).flat_map(|a| (a + 1..count).map(move |b| (a, b))).collect();
    let both: Vec<Sums> = (pairs.iter())
        .map(|&(a, b)| {
            let mut both = sums[a].clone();
            both.add(&sums[b]);
            both
        })
        .collect();
    let together = prior.log_integrals(&both);
    let mut found: Vec<(f64, usize, usize)> = Vec::new();
    for (&(a, b), together) in pairs.iter().zip(together) {
        let (pa, pb) = (components[a].weight, components[b].weight);
        let evidence = together.0 - alone[a].0 - alone[b].0 + weight_cost(users);
        let predictive = together.1 - alone[a].1 - alone[b].1 + least_cost(fitting);
        let mut gain = evidence.min(predictive)
            + sums[a].users * ((pa + pb) / pa).ln()
            + sums[b].users * ((pa + pb) / pb).ln();
        if gain > 0.0 {
            gain -= assignment_entropy(pass, count, a, b);
        }
        if gain > 0.0 {
            found.push((gain, a, b));
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut taken = vec![false; count];
    found.retain(|&(_, a, b)| {
        let free = !taken[a] && !taken[b];
        if free {
            (taken[a], taken[b]) = (true, true);
        }
        free
    });
    found.into_iter().map(|(_, a, b)| (a, b)).collect()
}

/// The entropy of users' assignments to two cohorts, which a merge of the two would remove.
fn assignment_entropy(pass: &Pass, count: usize, a: usize, b: usize) -> f64 {
    let p_ln_p = |p: f64| if p > 0.0 { p * p.ln() } else { 0.0 };
    pass.responsibilities
        .chunks_exact(count)
        .flat_map(|responsibilities| responsibilities[a].iter().zip(responsibilities[b].iter()))
        .map(|(a, b)| p_ln_p(a + b) - p_ln_p(*a) - p_ln_p(*b))
        .sum()
}
