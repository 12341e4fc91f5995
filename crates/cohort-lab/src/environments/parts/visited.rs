//! A world with visitors: users who come once, and most of whom never answer.
//!
//! Inside, visitors come last, so that contexts, vectors and noise of the others are the same with
//! and without them; outside, they are numbered by [`When`].

use cohort::{Arm, Contexts, Law, Truth};

use crate::environment::{Feedback, Visitors, World};

/// The words of [`When`].
pub const VISITORS_WHEN: &[&str] = &["before", "between", "after"];

/// When visitors come, and their numbers.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// Before the first round; the lowest numbers.
    Before,
    /// Evenly spread over rounds, and over the numbers.
    Between,
    /// Evenly spread over rounds; the highest numbers.
    After,
}

impl When {
    /// From one of [`VISITORS_WHEN`].
    pub fn from_word(word: &str) -> Self {
        match word {
            "before" => When::Before,
            "between" => When::Between,
            _ => When::After,
        }
    }

    /// Whether the user of that number is a visitor.
    fn is_visitor(self, number: usize, ordinary: usize, visitors: usize) -> bool {
        let before = |number: usize| number * visitors / (ordinary + visitors);
        match self {
            When::Before => number < visitors,
            When::Between => before(number + 1) > before(number),
            When::After => number >= ordinary,
        }
    }
}

/// A world in which the last users are visitors.
pub struct Visited<W> {
    world: W,
    visitors: Visitors,
    ordinary: usize,
    /// The index in `world` of every user.
    places: Vec<usize>,
    /// The ground truth by outside number.
    thetas: Vec<f64>,
    clusters: Vec<usize>,
    sigmas: Option<Vec<f64>>,
}

impl<W: World> Visited<W> {
    /// `world` has `ordinary` users and then `visitors`, who answer `rewards` times.
    pub fn new(world: W, ordinary: usize, visitors: usize, rewards: usize, when: When) -> Self {
        let is_visitor = |number: &usize| when.is_visitor(*number, ordinary, visitors);
        let (mut next, mut next_visitor) = (0..ordinary, ordinary..ordinary + visitors);
        let place = |number| if is_visitor(&number) { next_visitor.next() } else { next.next() };
        let places: Vec<usize> = (0..ordinary + visitors).filter_map(place).collect();
        let users = (0..places.len()).filter(is_visitor).collect();
        let at_once = matches!(when, When::Before);
        let visitors = Visitors { users, rewards, at_once };

        let truth = world.truth().expect("users who were drawn are known");
        let dim = truth.thetas.len() / places.len();
        let theta = |place: &usize| &truth.thetas[place * dim..(place + 1) * dim];
        let thetas = places.iter().flat_map(theta).copied().collect();
        let clusters = places.iter().map(|place| truth.clusters[*place]).collect();
        let by_number = |sigmas: &[f64]| places.iter().map(|place| sigmas[*place]).collect();
        let sigmas = truth.law.and_then(|law| law.sigmas).map(by_number);
        Self { world, visitors, ordinary, places, thetas, clusters, sigmas }
    }
}

impl<W: World> World for Visited<W> {
    fn sigma(&self) -> f64 {
        self.world.sigma()
    }

    fn truth(&self) -> Option<Truth<'_>> {
        let law = self.world.truth()?.law;
        let law = law.map(|law| Law { sigmas: self.sigmas.as_deref(), ..law });
        Some(Truth { law, ..Truth::new(&self.thetas, &self.clusters) })
    }

    fn start_round(&mut self, round: usize) {
        self.world.start_round(round);
    }

    fn contexts(&self) -> Contexts<'_> {
        self.world.contexts()
    }

    fn visitors(&self) -> Option<&Visitors> {
        Some(&self.visitors)
    }

    fn absences(&self) -> bool {
        true
    }

    fn is_absent(&self, user: usize) -> bool {
        let place = self.places[user];
        place >= self.ordinary || self.world.is_absent(place)
    }

    fn play(&self, user: usize, arm: Arm) -> Feedback {
        self.world.play(self.places[user], arm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visitors_have_the_numbers_that_were_asked_for() {
        let numbers = |when: &str, ordinary, visitors| -> Vec<usize> {
            let when = When::from_word(when);
            let is_visitor = |number: &usize| when.is_visitor(*number, ordinary, visitors);
            (0..ordinary + visitors).filter(is_visitor).collect()
        };
        assert_eq!(numbers("before", 4, 2), [0, 1]);
        assert_eq!(numbers("after", 4, 2), [4, 5]);
        assert_eq!(numbers("between", 4, 2), [2, 5]);
        assert_eq!(numbers("between", 2, 6).len(), 6);
    }
}
