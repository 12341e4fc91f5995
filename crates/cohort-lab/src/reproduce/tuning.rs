//! Tuning of policy parameters, by successive halving.
//!
//! All candidates of all policies are tried in the same worlds, none of them those of the figures.
//! After every rung the better half stays; the last rung decides. Every policy has as many
//! candidates, so that all have the same budget.
//!
//! | rung | rounds | repetitions | candidates that stay |
//! | --- | --- | --- | --- |
//! | 1 | half of those that decide | the first | half |
//! | 2 | all | the second | half of those |
//! | 3 | all | the rest | the best of all whole runs |
//!
//! Halving is Karnin, Koren and Somekh's (ICML 2013).

use std::ops::Range;

use super::study::Tuning;

/// Parameters and their values.
pub type Params = Vec<(String, f64)>;

/// One step of tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct TuningStep {
    /// How many rounds are played.
    pub rounds: usize,
    /// In which of the repetitions for tuning.
    pub repetitions: Range<usize>,
    /// Whether its regret is added to that of rungs before: they played as many rounds.
    adds: bool,
    /// Whether only one candidate stays.
    last: bool,
}

/// The steps of tuning; none where nothing is tuned.
pub fn rungs(tuning: Option<&Tuning>) -> Vec<TuningStep> {
    let Some(Tuning { rounds, reps, .. }) = tuning else { return Vec::new() };
    let whole = |repetitions, adds, last| TuningStep { rounds: *rounds, repetitions, adds, last };
    let half =
        TuningStep { rounds: rounds.div_ceil(2), repetitions: 0..1, adds: false, last: false };
    match *reps {
        0 => Vec::new(),
        1 => vec![whole(0..1, false, true)],
        2 => vec![half, whole(1..2, false, true)],
        reps => vec![half, whole(1..2, false, false), whole(2..reps, true, true)],
    }
}

/// How much work tuning is: `whole` is that of one run of all `rounds`.
pub fn work(rungs: &[TuningStep], candidates: usize, whole: u64, rounds: usize) -> u64 {
    if candidates < 2 {
        return 0;
    }
    let (mut left, mut work) = (candidates, 0);
    for rung in rungs {
        let played = rung.rounds.min(rounds) * rung.repetitions.len() * left;
        work += whole * played as u64 / rounds.max(1) as u64;
        left = left.div_ceil(2);
    }
    work
}

/// What may be chosen, and how it has done so far.
pub struct Candidates {
    all: Vec<(Params, f64)>,
}

impl Candidates {
    /// All candidates, at least one.
    pub fn new(params: Vec<Params>) -> Self {
        Self { all: params.into_iter().map(|params| (params, 0.0)).collect() }
    }

    /// Those that are still to be tried: none where there is nothing to choose.
    pub fn left(&self) -> impl Iterator<Item = &Params> {
        let tried = if self.all.len() > 1 { &self.all[..] } else { &[] };
        tried.iter().map(|(params, _)| params)
    }

    /// The best so far, the first of equals; none where tuning was given up.
    pub fn first(&self) -> Option<&Params> {
        self.all.first().map(|(params, _)| params)
    }

    /// What would decide is not known.
    pub fn give_up(&mut self) {
        self.all.clear();
    }
}

/// Takes the regrets of a rung, candidate by candidate, and keeps the better half.
pub fn choose(
    candidates: &mut Candidates,
    rung: &TuningStep,
    regrets: &mut dyn Iterator<Item = f64>,
) {
    if candidates.all.len() < 2 {
        return;
    }
    for (_, score) in &mut candidates.all {
        let here: f64 = regrets.take(rung.repetitions.len()).sum();
        *score = if rung.adds { *score + here } else { here };
    }
    let stay = if rung.last { 1 } else { candidates.all.len().div_ceil(2) };
    // A stable sort: of equals the first stays first.
    candidates.all.sort_by(|a, b| a.1.total_cmp(&b.1));
    candidates.all.truncate(stay);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sixteen candidates whose regret is known: the best is found, and it costs what is said.
    #[test]
    fn the_best_is_found_at_a_quarter_of_the_cost() {
        let tuning = Tuning { rounds: 500, reps: 4, widths: Vec::new() };
        let rungs = rungs(Some(&tuning));
        let worth = |k: usize| ((k as f64) - 10.2).abs();
        let mut candidates =
            Candidates::new((0..16).map(|k| vec![("k".to_owned(), k as f64)]).collect());
        let mut rounds = 0;
        for rung in &rungs {
            let regrets: Vec<f64> = (candidates.left())
                .flat_map(|params| {
                    let k = params[0].1 as usize;
                    rung.repetitions.clone().map(move |rep| worth(k) + 0.3 * rep as f64)
                })
                .collect();
            rounds += regrets.len() * rung.rounds;
            choose(&mut candidates, rung, &mut regrets.into_iter());
        }
        assert_eq!(candidates.first().unwrap()[0].1, 10.0);
        assert_eq!(candidates.left().count(), 0);
        // 16·250 + 8·500 + 4·2·500, where the whole grid would be 16·4·500.
        assert_eq!(rounds, 12_000);
        assert_eq!(work(&rungs, 16, 1000, 1000), 12_000);
        assert_eq!(work(&rungs, 1, 1000, 1000), 0);
    }

    #[test]
    fn one_repetition_is_one_rung() {
        let tuning = |reps| Tuning { rounds: 500, reps, widths: Vec::new() };
        assert!(rungs(Some(&tuning(0))).is_empty());
        assert_eq!(rungs(Some(&tuning(1))).len(), 1);
        assert_eq!(rungs(Some(&tuning(2))).len(), 2);
        assert!(rungs(None).is_empty());
    }
}
